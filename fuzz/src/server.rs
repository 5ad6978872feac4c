//! The fuzz target of the server: bytes that a client sends.

use std::path::Path;
use std::sync::OnceLock;

use tanto_serve::{HttpFuzzer, fuzz_route};

/// The server answers with HTTP or not at all, and paths, queries and ranges are within their limits.
pub(crate) fn http(input: &[u8], scratch: &Path) {
    static SERVER: OnceLock<HttpFuzzer> = OnceLock::new();
    let server = SERVER.get_or_init(|| {
        let dir = scratch.with_extension("server");
        let _ = std::fs::remove_dir_all(&dir);
        HttpFuzzer::new(&dir).unwrap()
    });
    let answer = server.run(input);
    // An HTTP/2 connection begins with a frame of settings (type 4).
    let is_http = answer.starts_with(b"HTTP/1.") || answer.get(3) == Some(&4);
    assert!(answer.is_empty() || is_http, "{:?}", String::from_utf8_lossy(&answer));
    let text = String::from_utf8_lossy(input);
    let mut words = text.split([' ', '?', '\n']);
    let mut word = || words.next().unwrap_or_default();
    let (method, path, query) = (word(), word(), word());
    let range = text.split("Range: ").nth(1).and_then(|rest| rest.lines().next()).unwrap_or_default();
    fuzz_route(method.as_bytes(), path, query, range, input.len() as u64);
}
