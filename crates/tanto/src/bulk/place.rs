//! The place of a bulk build: its configuration and its state. Does not know what is built.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tanto_bulk::config::{Config, Why, Wrong};
use tanto_record::database::{Database, DatabaseError};
use tanto_sys::fs::lock;
use tanto_sys::process::pid_identity::{self, ProcessId};

use crate::flags::modes;
use crate::settings;

/// What `--config` says if nobody says it.
pub(super) const CONFIG: &str = "bulk.toml";

/// The configuration in this file. An error is a text for the user.
pub(super) fn config(path: &Path) -> Result<Config, Vec<u8>> {
    let failed = |error: io::Error| super::files::failed("reading ", path.as_os_str().as_encoded_bytes(), &error);
    let missing = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => [&failed(error)[..], b"; 'tanto bulk init' writes one"].concat(),
        _ => failed(error),
    };
    let text = fs::read_to_string(path).map_err(missing)?;
    let dir = std::path::absolute(path).map_err(failed)?.parent().map(Path::to_owned).unwrap_or_default();
    Config::read(&text, &dir).map_err(|wrong| pointed(path, &text, &wrong))
}

fn pointed(path: &Path, text: &str, wrong: &Wrong) -> Vec<u8> {
    let at = wrong.at.min(text.len());
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let line = text[start..].lines().next().unwrap_or_default();
    let number = u32::try_from(text[..at].matches('\n').count() + 1).unwrap_or(u32::MAX);
    let message = match &wrong.why {
        Why::Unknown { what, name, known } => modes::unknown(what, name.as_bytes(), known.iter().copied()),
        why => why.told().into_bytes(),
    };
    let wrong = settings::config::Wrong { message, at: at - start };
    wrong.pointing(path.as_os_str().as_encoded_bytes(), number, line.as_bytes())
}

/// The state of a bulk build, which nobody else changes while this lives.
pub(super) struct State {
    /// The database.
    pub(super) store: Database,
    /// Keeps others away.
    pub(super) lock: Lock,
}

/// The lock of a state. It says who has it and could leave something; if that was killed, it still does.
pub(super) struct Lock {
    file: File,
    is_ours: bool,
}

impl Lock {
    /// Who that was, if it was since the machine was started.
    pub(super) fn owner(&self) -> Option<ProcessId> {
        let mut text = [0; LONGEST_OWNER];
        let length = self.file.read_at(&mut text, 0).ok()?;
        let (process, boot) = std::str::from_utf8(&text[..length]).ok()?.trim_end().split_once(' ')?;
        ProcessId::parse(process.as_bytes()).filter(|_| boot == pid_identity::boot_id())
    }

    /// From now on we may leave something.
    pub(super) fn own(&mut self) -> io::Result<()> {
        let text = format!("{} {}\n", ProcessId::current()?, pid_identity::boot_id());
        self.is_ours = true;
        self.file.set_len(0)?;
        self.file.write_all_at(text.as_bytes(), 0)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.is_ours {
            // Whoever is told of us in vain finds nothing.
            let _ = self.file.set_len(0);
        }
    }
}

/// Two numbers, and what the machine's run is told by.
const LONGEST_OWNER: usize = 128;

/// Takes the state for ourselves; makes it if there is none yet.
pub(super) fn take(config: &Config) -> Result<State, Vec<u8>> {
    try_take(config)?.ok_or_else(|| b"another bulk build is using this state: wait for it".to_vec())
}

/// The same; nothing if somebody else has it.
pub(super) fn try_take(config: &Config) -> Result<Option<State>, Vec<u8>> {
    let dir = Path::new(&config.state);
    let failed = |error: io::Error| super::files::failed("opening ", dir.as_os_str().as_encoded_bytes(), &error);
    fs::create_dir_all(dir.parent().unwrap_or(dir)).map_err(failed)?;
    tanto_sys::fs::private_files::create_dir(dir).map_err(failed)?;
    let file = lock::open_lock_file(&dir.join("lock")).map_err(failed)?;
    if !lock::try_lock_exclusive(&file).map_err(failed)? {
        return Ok(None);
    }
    let store = Database::open(&database(config)).map_err(|error| unusable(&error))?;
    Ok(Some(State { store, lock: Lock { file, is_ours: false } }))
}

/// The state as it is now, to be asked only.
pub(super) fn look(config: &Config) -> Result<Database, Vec<u8>> {
    let path = database(config);
    let nothing = || [b"nothing was built yet: there is no ", path.as_os_str().as_encoded_bytes()].concat();
    if !path.exists() {
        return Err(nothing());
    }
    Database::open_read_only(&path).map_err(|error| match error {
        // It is just being made.
        DatabaseError::Version(0) => nothing(),
        error => unusable(&error),
    })
}

fn database(config: &Config) -> PathBuf {
    Path::new(&config.state).join("db")
}

/// What a user is told of a database that does not do what it should.
pub(super) fn unusable(error: &DatabaseError) -> Vec<u8> {
    format!("the database: {error}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn a_lock_says_who_was_killed_and_only_in_this_run_of_the_machine() {
        let place = Scratch::new("bulk-lock");
        let take = || Lock { file: lock::open_lock_file(&place.at("lock")).unwrap(), is_ours: false };
        assert_eq!(take().owner(), None);
        let mut ours = take();
        ours.own().unwrap();
        assert_eq!(take().owner(), Some(ProcessId::current().unwrap()), "so it is if we are killed now");
        drop(ours);
        assert_eq!(take().owner(), None, "it was given back");
        for text in ["7.9 another-run-of-the-machine\n", "7.9", "7", "\0\0\0"] {
            place.write("lock", text);
            assert_eq!(take().owner(), None, "{text:?}");
        }
    }

    #[test]
    fn a_missing_configuration_names_the_command_that_writes_one() {
        let why = String::from_utf8(config(Path::new("/nonexistent/bulk.toml")).unwrap_err()).unwrap();
        assert!(why.ends_with("No such file or directory; 'tanto bulk init' writes one"), "{why}");
    }
}
