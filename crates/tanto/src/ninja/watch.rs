//! `--watch`: builds again whenever a file changes that the targets depend on.
//!
//! Each build is a whole run, which decides by itself what is out of date: an event without a real change only costs a dirty
//! check. Between two builds only the inotify watches are kept: no lock, no file of the tree, and no current directory in it.

mod places;
mod watcher;

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tanto_ninja::disk::RealDisk;
use tanto_ninja::frontend::NinjaFrontend;
use tanto_ninja::ids::NodeId;
use tanto_ninja::targets::{LookupOptions, collect_targets};
use tanto_ninja::{builddir, load, sources};
use tanto_record::views::ninja::Verbosity;

use self::watcher::{Changed, Watcher, Woken};
use super::{End, Invocation, Step};
use crate::flags::Options;

/// The exit code of an interrupted build.
const INTERRUPTED: i32 = 130;

/// Builds until a signal ends it; the program's exit code.
pub(super) fn run(options: &Options, first: Invocation<'_>) -> i32 {
    match Rounds::begin(options, first) {
        Ok(rounds) => rounds.all(),
        Err(End(code)) => code,
    }
}

/// One build after the other.
struct Rounds<'o> {
    options: &'o Options,
    next: Invocation<'o>,
    watcher: Watcher,
    /// The files that the last build depended on.
    sources: Vec<Vec<u8>>,
    /// The directory of the build.
    home: PathBuf,
}

impl<'o> Rounds<'o> {
    fn begin(options: &'o Options, mut first: Invocation<'o>) -> Step<Rounds<'o>> {
        let watcher = Watcher::new().map_err(|why| first.fatal(&why))?;
        let home = std::env::current_dir().map_err(|error| first.fatal(&tanto_sys::error::text(&error)))?;
        Ok(Rounds { options, next: first, watcher, sources: Vec::new(), home })
    }

    fn all(mut self) -> i32 {
        loop {
            if let Err(End(code)) = self.one() {
                return code;
            }
        }
    }

    /// One build, and the wait for the next.
    fn one(&mut self) -> Step<()> {
        let since = SystemTime::now();
        // It says itself how it ended.
        let _ = self.next.whole();
        if self.next.was_interrupted {
            return Err(End(INTERRUPTED));
        }
        // A build that failed before it knew its sources depends on those of the last one, or on the manifests.
        if self.next.sources.is_empty() && self.sources.is_empty() {
            self.next.note_manifests();
        }
        if !self.next.sources.is_empty() {
            self.sources = std::mem::take(&mut self.next.sources);
        }
        // All that a build holds goes with it.
        self.next = Invocation::new(self.options).map_err(End)?;
        let mut changed = self.watcher.watch(&self.sources, since).map_err(|why| self.next.fatal(&why))?;
        let meanwhile = self.watcher.changed().map_err(|error| self.next.fatal(&tanto_sys::error::text(&error)))?;
        let is_changed = !changed.is_empty() || meanwhile.is_some();
        changed.extend(meanwhile.unwrap_or_default());
        let changed = self.wait(is_changed.then_some(changed))?;
        self.say(&what_changed(&changed));
        Ok(())
    }

    /// Waits for changes, and for the end of those that have begun.
    fn wait(&mut self, begun: Option<Changed>) -> Step<Changed> {
        let is_idle = begun.is_none();
        if is_idle {
            self.say_watching();
            self.enter(Path::new("/"))?;
        }
        let woken = self.watcher.wait(begun).map_err(|error| self.next.fatal(&tanto_sys::error::text(&error)))?;
        if is_idle {
            self.enter(&self.home.clone())?;
        }
        match woken {
            Woken::Changed(changed) => Ok(changed),
            Woken::Interrupted => Err(End(INTERRUPTED)),
        }
    }

    fn enter(&mut self, dir: &Path) -> Step<()> {
        std::env::set_current_dir(dir).map_err(|error| {
            let why = tanto_sys::error::text(&error);
            self.next.fatal(&[b"chdir to '", dir.as_os_str().as_bytes(), b"' - ", &why].concat())
        })
    }

    fn say_watching(&mut self) {
        let count = self.watcher.count();
        let directories = if count == 1 { "directory" } else { "directories" };
        self.say(format!("watching {count} {directories} for changes; Ctrl-C ends it").as_bytes());
    }

    fn say(&mut self, text: &[u8]) {
        if self.options.verbosity != Verbosity::Quiet {
            self.next.info(text);
        }
    }
}

fn what_changed(changed: &Changed) -> Vec<u8> {
    match (changed.first(), changed.len()) {
        (None, _) => b"looking at all files: the kernel could not say which have changed".to_vec(),
        (Some(one), 1) => [b"'", &one[..], b"' changed"].concat(),
        (Some(one), count) => {
            let others = if count == 2 { "file" } else { "files" };
            [b"'", &one[..], format!("' and {} more {others} changed", count - 1).as_bytes()].concat()
        }
    }
}

impl Invocation<'_> {
    /// Notes which files the build depends on, as far as it has come.
    pub(super) fn note_sources(&mut self, frontend: &mut NinjaFrontend<'_, '_>) {
        if !self.options.watch {
            return;
        }
        let scan = &mut frontend.scan;
        let hints = LookupOptions {
            builddir: builddir::path(scan.graph),
            deps_log: Some(scan.deps_log),
            names: self.target_names(),
        };
        // What names no target is said by the build.
        let mut nodes: Vec<NodeId> = collect_targets(scan.graph, hints, &self.options.targets).unwrap_or_default();
        nodes.extend(self.manifest_node(scan.graph));
        let manifests: Vec<Vec<u8>> = scan.graph.manifests().map(<[u8]>::to_vec).collect();
        self.sources = sources::source_files(scan.graph, scan.deps_log, &RealDisk, nodes);
        self.sources.extend(manifests);
    }

    /// Notes the manifests alone, because there is no graph.
    pub(super) fn note_manifests(&mut self) {
        if self.options.watch {
            self.sources = load::manifest_paths(&RealDisk, &self.options.manifest, self.load_options());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_said_in_a_line() {
        let said = |files: &[&str]| {
            let changed: Changed = files.iter().map(|file| file.as_bytes().to_vec()).collect();
            String::from_utf8(what_changed(&changed)).unwrap()
        };
        assert_eq!(said(&["a.c"]), "'a.c' changed");
        assert_eq!(said(&["b.c", "a.c"]), "'a.c' and 1 more file changed");
        assert_eq!(said(&["a", "b", "c"]), "'a' and 2 more files changed");
        assert_eq!(said(&[]), "looking at all files: the kernel could not say which have changed");
    }
}
