//! An HTTP cache from which a client reads blobs in place of the server, as long as it works. All of them are verified.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tanto_protocol::{Digest, RefusalCode};

use super::ClientError;
use super::blobs::read_blob;
use super::transport::CacheTransport;

/// After so many blobs in a row that it does not have, the cache counts as broken.
const MAX_MISSES: u32 = 8;
/// A broken cache is not asked for this time, and twice as long each time it fails again.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
const LAST_PAUSE: Duration = Duration::from_secs(960);

pub(super) struct BlobCache {
    url: String,
    /// `None` if the URL cannot be used.
    transport: Option<CacheTransport>,
    state: Mutex<State>,
}

struct State {
    /// Blobs since the last one that it had.
    misses: u32,
    /// The length of the next pause.
    pause: Duration,
    broken_until: Option<Instant>,
    warning: Warning,
}

/// The user is told once that the cache does not work.
enum Warning {
    None,
    Due(String),
    Given,
}

impl BlobCache {
    pub(super) fn new(url: &str) -> BlobCache {
        let state = State { misses: 0, pause: FIRST_PAUSE, broken_until: None, warning: Warning::None };
        let transport = CacheTransport::new(url);
        let error = transport.as_ref().err().map(why);
        let cache = BlobCache { url: url.to_owned(), transport: transport.ok(), state: Mutex::new(state) };
        if let Some(why) = error {
            cache.warn(&mut cache.lock(), &why);
        }
        cache
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Whether the cache should be asked.
    pub(super) fn is_ready(&self, now: Instant) -> bool {
        self.transport.is_some() && self.lock().broken_until.is_none_or(|until| now >= until)
    }

    /// Returns what the user has to know of it and was not told.
    pub(super) fn take_warning(&self) -> Option<String> {
        let mut state = self.lock();
        match std::mem::replace(&mut state.warning, Warning::Given) {
            Warning::Due(text) => Some(text),
            other => {
                state.warning = other;
                None
            }
        }
    }

    /// Reads a blob of a size into a file, which may have its begin. Returns `None` if the server has to be asked. Fails only
    /// if the file cannot be written.
    pub(super) fn get(&self, digest: &Digest, size: u64, path: &Path) -> io::Result<Option<u64>> {
        let Some(transport) = &self.transport else { return Ok(None) };
        let read = || read_blob(digest, path, size, |from| transport.get(digest, size, from));
        let had_begin = fs::metadata(path).is_ok_and(|data| data.len() > 0);
        let result = match read() {
            // The begin may be that of another blob. The file is empty now.
            Err(ClientError::Mismatch(_)) if had_begin => read(),
            result => result,
        };
        match result {
            Ok(length) => {
                self.succeeded();
                Ok(Some(length))
            }
            Err(ClientError::File(error)) => Err(error),
            Err(error) => {
                self.failed(&error, Instant::now());
                Ok(None)
            }
        }
    }

    fn succeeded(&self) {
        let mut state = self.lock();
        (state.misses, state.pause) = (0, FIRST_PAUSE);
    }

    fn failed(&self, error: &ClientError, now: Instant) {
        let mut state = self.lock();
        let why = match is_missing(error) {
            true if state.misses + 1 < MAX_MISSES => {
                state.misses += 1;
                return;
            }
            true => format!("it has none of the last {MAX_MISSES} files"),
            false => why(error),
        };
        // Other threads may have noticed the same.
        if state.broken_until.is_some_and(|until| now < until) {
            return;
        }
        state.misses = 0;
        state.broken_until = Some(now + state.pause);
        state.pause = (state.pause * 2).min(LAST_PAUSE);
        self.warn(&mut state, &why);
    }

    fn warn(&self, state: &mut State, why: &str) {
        if matches!(state.warning, Warning::None) {
            let text = format!("{} does not work: {why}; its files are read from the server", self.url);
            state.warning = Warning::Due(text);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_missing(error: &ClientError) -> bool {
    match error {
        ClientError::Refused(refusal) => refusal.code == RefusalCode::NotFound,
        _ => false,
    }
}

/// Describes a failure of the cache.
fn why(error: &ClientError) -> String {
    match error {
        ClientError::JoinFile(why) | ClientError::Unreachable(why) | ClientError::Protocol(why) => why.clone(),
        ClientError::Certificate(why) => format!("its certificate is not valid: {why}"),
        ClientError::Refused(refusal) => refusal.message.clone(),
        ClientError::Mismatch(digest) => format!("it sent something else than the blob {digest}"),
        ClientError::File(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_protocol::Refusal;

    fn missing() -> ClientError {
        ClientError::Refused(Refusal { code: RefusalCode::NotFound, message: "no".to_owned() })
    }

    #[test]
    fn a_broken_cache_rests_and_is_reported_once() {
        let (cache, now) = (BlobCache::new("http://127.0.0.1:1/cas/"), Instant::now());
        assert!(cache.is_ready(now) && cache.take_warning().is_none());
        cache.failed(&ClientError::Unreachable("refused".to_owned()), now);
        assert!(!cache.is_ready(now + FIRST_PAUSE / 2));
        let warning = cache.take_warning().unwrap();
        assert!(warning.starts_with("http://127.0.0.1:1/cas/ does not work: refused; "), "{warning}");
        let later = now + FIRST_PAUSE;
        assert!(cache.is_ready(later));
        cache.failed(&ClientError::Mismatch(Digest([1; 32])), later);
        assert!(!cache.is_ready(later + FIRST_PAUSE) && cache.is_ready(later + FIRST_PAUSE * 2));
        assert!(cache.take_warning().is_none());
        cache.succeeded();
        cache.failed(&missing(), later + FIRST_PAUSE * 2);
        assert!(cache.is_ready(later + FIRST_PAUSE * 2), "one blob may be missing");
    }

    #[test]
    fn a_cache_that_has_nothing_is_broken() {
        let (cache, now) = (BlobCache::new("http://127.0.0.1:1/cas"), Instant::now());
        for _ in 1..MAX_MISSES {
            cache.failed(&missing(), now);
        }
        assert!(cache.is_ready(now) && cache.take_warning().is_none());
        cache.failed(&missing(), now);
        assert!(!cache.is_ready(now));
        assert!(cache.take_warning().unwrap().contains("none of the last 8 files"));
    }

    #[test]
    fn a_url_that_cannot_be_used_is_reported() {
        let cache = BlobCache::new("http://");
        assert!(cache.is_ready(Instant::now()), "the first request fails");
        let path = tanto_testing::Scratch::new("blob-cache");
        assert!(cache.get(&Digest([1; 32]), 1, &path.at("to")).unwrap().is_none());
        assert!(cache.take_warning().is_some() && !cache.is_ready(Instant::now()));
    }
}
