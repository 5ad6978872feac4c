//! The authorities that a client trusts. The server announces another one long before it signs.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tanto_protocol::JoinFile;

use super::membership::{MembershipError, failed, file_id, read};
use crate::files::replace_private;

/// Between two requests for the list.
const INTERVAL: Duration = Duration::from_secs(24 * 3_600);
/// The same after a failure.
const RETRY: Duration = Duration::from_secs(3_600);
/// Longest list, in bytes.
pub(super) const MAX_LIST: usize = 64 << 10;

/// The list that the server has sent last.
pub(super) struct StoredAuthorities {
    path: PathBuf,
    /// When the next request is due; `None`: with the next connection.
    due: Mutex<Option<Instant>>,
}

impl StoredAuthorities {
    /// Returns the list in a client's directory, or that of the join file, as PEM. Those that the system trusts are not
    /// stored: then nothing is.
    pub(super) fn open(file: &JoinFile, dir: &Path) -> Result<(String, Option<StoredAuthorities>), MembershipError> {
        if file.authority.is_empty() {
            return Ok((String::new(), None));
        }
        let path = dir.join(format!("authority-{}.pem", file_id(file)));
        let list = match read(&path)? {
            Some(text) => String::from_utf8(text).map_err(|error| failed(&path)(std::io::Error::other(error)))?,
            None => file.authority.clone(),
        };
        // Empty would stand for the authorities of the system.
        if list.is_empty() {
            return Err(failed(&path)(std::io::Error::other("it has no certificate")));
        }
        Ok((list, Some(StoredAuthorities { path, due: Mutex::default() })))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the list is to be requested now. The next request is due later.
    pub(super) fn take_due(&self, now: Instant) -> bool {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = due.is_none_or(|due| now >= due);
        if is_due {
            *due = Some(now + RETRY);
        }
        is_due
    }

    pub(super) fn received(&self, now: Instant) {
        *self.due.lock().unwrap_or_else(PoisonError::into_inner) = Some(now + INTERVAL);
    }

    pub(super) fn store(&self, list: &str) -> std::io::Result<()> {
        replace_private(&self.path, list.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn list_is_requested_daily_and_hourly_after_failures() {
        let stored = StoredAuthorities { path: PathBuf::new(), due: Mutex::default() };
        let begin = Instant::now();
        assert!(stored.take_due(begin) && !stored.take_due(begin + RETRY - Duration::from_secs(1)));
        assert!(stored.take_due(begin + RETRY));
        stored.received(begin + RETRY);
        assert!(!stored.take_due(begin + INTERVAL) && stored.take_due(begin + INTERVAL + RETRY));
    }

    #[test]
    fn stored_list_replaces_that_of_the_join_file() {
        let place = Scratch::new("client-authorities");
        let [url, build, name] = ["", "", ""].map(str::to_owned);
        let (secret, authority) = ("abc.def".to_owned(), "first".to_owned());
        let mut file = JoinFile { url, build, name, secret, authority };
        let open = |file: &JoinFile| {
            StoredAuthorities::open(file, place.path()).map(|(list, stored)| (list, stored.is_some()))
        };
        assert_eq!(open(&file).unwrap(), ("first".to_owned(), true));
        let (_, stored) = StoredAuthorities::open(&file, place.path()).unwrap();
        stored.unwrap().store("second").unwrap();
        assert_eq!(open(&file).unwrap(), ("second".to_owned(), true));
        file.secret = "other.def".to_owned();
        assert_eq!(open(&file).unwrap(), ("first".to_owned(), true), "another join file");
        file.authority.clear();
        assert_eq!(open(&file).unwrap(), (String::new(), false));
    }
}
