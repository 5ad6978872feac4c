//! Commands whose system calls are traced, and their keys.

use std::fs;

use tanto_exec::job::{Command, CommandFiles};
use tanto_sys::fs::file;
use tanto_sys::machine::system::SystemName;
use tanto_sys::user;

use super::{Action, ActionKind, KeyText, NotCacheable, Surroundings};
use crate::places::Places;
use crate::variables;

/// Changes when a key or an entry gets another meaning.
const VERSION: &[u8] = b"tanto traced action 2";

impl Action {
    /// Examines a command of a rule whose commands may be traced. Its result may contain any path, so it is not shared
    /// with other checkouts.
    pub(super) fn traced(
        command: &Command,
        files: &CommandFiles,
        around: &Surroundings,
    ) -> Result<Action, NotCacheable> {
        if command.console {
            return Err(NotCacheable::Console);
        }
        if files.outputs.is_empty() {
            return Err(NotCacheable::NoOutputs);
        }
        let optional = |path: &Vec<u8>| (!path.is_empty()).then(|| path.clone());
        let (depfile, rspfile) = (optional(&files.depfile), optional(&files.rspfile));
        let response = rspfile.as_ref().map_or(Ok(Vec::new()), |path| fs::read(file::path(path)));
        let response = response.map_err(|_| NotCacheable::NoResponseFile)?;
        let mut key = KeyText::default();
        for field in [VERSION, &command.line, &around.cwd, &files.depfile, &files.rspfile, &response] {
            key.put(field);
        }
        files.outputs.iter().for_each(|output| key.put(output));
        key.put(b"");
        key.put(around.whole_environment.get_or_init(|| whole_environment(around)));
        Ok(Action {
            key: key.digest(),
            places: Places::NONE,
            outputs: files.outputs.clone(),
            returns_depfile: files.reads_depfile && depfile.is_some(),
            depfile,
            kind: ActionKind::Traced { rspfile },
            fallbacks: Vec::new(),
            depends_on_root: false,
        })
    }

    /// The response file of a traced command.
    pub(crate) fn rspfile(&self) -> Option<&Vec<u8>> {
        match &self.kind {
            ActionKind::Traced { rspfile } => rspfile.as_ref(),
            ActionKind::Compile(_) => None,
        }
    }

    pub(crate) fn is_traced(&self) -> bool {
        matches!(self.kind, ActionKind::Traced { .. })
    }
}

/// Describes the variables, the machine and the user.
fn whole_environment(around: &Surroundings) -> Vec<u8> {
    let SystemName { system, release, host, architecture } = SystemName::query();
    let machine = format!("{system} {release} {host} {architecture}\n{}", user::credentials());
    [machine.as_bytes(), &variables::of_commands(&around.environment)].join(&0)
}
