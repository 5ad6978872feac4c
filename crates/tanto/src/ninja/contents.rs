//! The content of files as a reason to run commands, or not to.

use tanto_exec::event::Level;
use tanto_exec::text::units::grouped;
use tanto_ninja::content::Contents;
use tanto_ninja::frontend::NinjaFrontend;
use tanto_ninja::graph::Graph;
use tanto_ninja::ids::{EdgeId, NodeId};

use super::{BuildRun, RunResult};

/// The file in Tanto's own state directory.
const FILE: &str = "contents";

impl BuildRun<'_> {
    /// Returns what is known about the content of files, unless only times decide.
    pub(super) fn contents(&self) -> Option<Contents> {
        let files = self.state.verified_dirs().map(|dir| dir.join(FILE)).collect();
        self.options.settings.content.value.then(|| Contents::new(files))
    }

    /// Makes commands that are up to date by content up to date by times too.
    pub(super) fn renew(&mut self, frontend: &mut NinjaFrontend<'_, '_>) -> RunResult<()> {
        if self.options.dry_run || !frontend.has_renewals() {
            return Ok(());
        }
        self.check_all()?;
        self.renewed_commands += frontend.renew().map_err(|error| self.failed(&error))?;
        Ok(())
    }

    /// Tells and records that commands need not run although files have new timestamps.
    pub(super) fn report_renewed(&mut self, frontend: &mut NinjaFrontend<'_, '_>) {
        let commands = std::mem::take(&mut self.renewed_commands);
        let Some(contents) = &mut frontend.scan.contents else { return };
        if let Some(files) = retimed_files(std::mem::take(&mut contents.retimed)).filter(|_| commands > 0) {
            let count =
                if commands == 1 { "1 command".into() } else { format!("{} commands", grouped(commands as u64)) };
            self.say(Level::Info, format!("{files}; {count} need not run").as_bytes());
        }
    }

    /// Notes that no command has to run, and returns the message.
    pub(super) fn note_up_to_date(&mut self, frontend: &mut NinjaFrontend<'_, '_>) -> Vec<u8> {
        let Some(contents) = &mut frontend.scan.contents else { return b"no work to do.".into() };
        contents.note_clean();
        let files = retimed_files(std::mem::take(&mut contents.retimed));
        self.save_contents(frontend);
        files.map_or(b"no work to do.".into(), |files| {
            format!("{files}; 0 commands needed (to run one: --again TARGET).").into_bytes()
        })
    }

    /// Records what the commands of a build were run with.
    pub(super) fn record_contents(&mut self, frontend: &mut NinjaFrontend<'_, '_>) {
        // The next build runs the commands again if it must decide by times.
        if let Err(error) = frontend.record_contents(self.options.settings.threads.value) {
            self.say(Level::Warning, &error.text());
        }
        self.save_contents(frontend);
    }

    fn save_contents(&mut self, frontend: &mut NinjaFrontend<'_, '_>) {
        let Some(contents) = &mut frontend.scan.contents else { return };
        if self.options.dry_run {
            return;
        }
        let saved = self.state.make().and_then(|dir| contents.save(&dir.join(FILE)));
        if let Err(error) = saved
            && !self.state.is_best_effort()
            && !std::mem::replace(&mut self.reported_content_error, true)
        {
            let why = tanto_sys::error::text(&error);
            self.say(Level::Warning, &[b"no record of file contents in .tanto: ", &why[..]].concat());
        }
    }

    /// Makes the commands of these targets run even if they are up to date.
    pub(super) fn force_targets(&mut self, frontend: &mut NinjaFrontend<'_, '_>, targets: &[NodeId]) -> RunResult<()> {
        if !self.options.again {
            return Ok(());
        }
        if self.options.targets.is_empty() {
            return Err(self.error(b"--again: name the targets to build again"));
        }
        let edges = commands_of(frontend.scan.graph, targets);
        if edges.is_empty() {
            self.say(Level::Warning, b"--again: no command makes these targets");
        }
        edges.into_iter().for_each(|edge| frontend.scan.force(edge));
        Ok(())
    }
}

/// Describes files with new timestamps; `None` if there are none.
fn retimed_files(count: usize) -> Option<String> {
    match count {
        0 => None,
        1 => Some("1 file has a new timestamp but the same content".into()),
        count => Some(format!("{} files have new timestamps but the same content", grouped(count as u64))),
    }
}

/// The commands that make these nodes, or the members of these groups.
fn commands_of(graph: &Graph<'_>, nodes: &[NodeId]) -> Vec<EdgeId> {
    let mut nodes = nodes.to_vec();
    let mut seen = tanto_ninja::hash::Set::default();
    let mut commands = Vec::new();
    while let Some(node) = nodes.pop() {
        let Some(id) = graph.in_edge(node).filter(|&edge| seen.insert(edge)) else { continue };
        let edge = graph.edge(id);
        if edge.is_phony() { nodes.extend(edge.ins) } else { commands.push(id) }
    }
    commands
}
