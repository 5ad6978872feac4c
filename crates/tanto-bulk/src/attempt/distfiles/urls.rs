//! Records the URL that each distfile was fetched from. make is given a small script as POST_FETCH_HOOK, which pkgsrc runs
//! with the file's path below DISTDIR and its URL; the script appends both to a list.

use std::collections::HashMap;
use std::fs::{self, Permissions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tanto_sys::fs::file;

/// The script, in the directory that files are fetched into.
const SCRIPT: &str = ".tanto-fetched";
/// The list, beside it.
const LIST: &str = ".tanto-fetched.list";
/// Maximum number of bytes read from the list, because the package can write to it.
const MAX_LIST: u64 = 1 << 20;

/// Returns the argument that makes pkgsrc run the script in `dir`.
pub(crate) fn argument(dir: &str) -> String {
    format!("POST_FETCH_HOOK={dir}/{SCRIPT}")
}

/// Writes the script into `dir`.
pub(super) fn prepare(dir: &Path) -> io::Result<()> {
    let script = dir.join(SCRIPT);
    fs::write(&script, format!("#!/bin/sh\nprintf '%s %s\\n' \"$1\" \"$2\" >>\"${{0%/*}}/{LIST}\"\n"))?;
    fs::set_permissions(script, Permissions::from_mode(0o755))
}

/// Returns the URL of each file in the list in `dir`. Empty for trees without POST_FETCH_HOOK, and for a list that is not a
/// regular file.
pub(super) fn read(dir: &Path) -> HashMap<PathBuf, String> {
    let mut text = Vec::new();
    let opened =
        file::open_no_follow(&dir.join(LIST)).ok().filter(|file| file.metadata().is_ok_and(|data| data.is_file()));
    if let Some(file) = opened {
        // On a read error, uses what was read so far.
        let _ = file.take(MAX_LIST).read_to_end(&mut text);
    }
    parse(&text)
}

/// Returns whether a path relative to the directory is the script or the list.
pub(super) fn is_script_or_list(name: &Path) -> bool {
    name == Path::new(SCRIPT) || name == Path::new(LIST)
}

/// Lines of a path and a URL. The last line of a file counts.
fn parse(text: &[u8]) -> HashMap<PathBuf, String> {
    let lines = text.split(|&byte| byte == b'\n');
    lines
        .filter_map(|line| {
            let at = line.iter().position(|&byte| byte == b' ')?;
            let path = Path::new(std::ffi::OsStr::from_bytes(&line[..at]));
            let url = String::from_utf8_lossy(&line[at + 1..]).into_owned();
            Some((path.strip_prefix(".").unwrap_or(path).to_owned(), url))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn script_records_urls() {
        let place = Scratch::new("distfiles-urls");
        prepare(place.path()).unwrap();
        let argument = argument(place.text());
        let hook = argument.strip_prefix("POST_FETCH_HOOK=").unwrap();
        for (path, url) in
            [("./a.tgz", "http://x/a.tgz"), ("sub/b.tgz", "http://x/old"), ("sub/b.tgz", "http://x/?f=b&v=1")]
        {
            let status = std::process::Command::new(hook).args([path, url]).status().unwrap();
            assert!(status.success());
        }
        let urls = read(place.path());
        let url = |name: &str| urls.get(Path::new(name)).map(String::as_str);
        assert_eq!(
            (url("a.tgz"), url("sub/b.tgz"), urls.len()),
            (Some("http://x/a.tgz"), Some("http://x/?f=b&v=1"), 2)
        );
        assert!(
            crate::attempt::distfiles::atomic_move::files(place.path()).unwrap().is_empty(),
            "neither is a distfile"
        );
    }

    #[test]
    fn linked_list_is_not_read() {
        let place = Scratch::new("distfiles-odd-urls");
        place.write("secret", "a http://x/\n");
        std::os::unix::fs::symlink(place.at("secret"), place.at(LIST)).unwrap();
        assert!(read(place.path()).is_empty());
    }
}
