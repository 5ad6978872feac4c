//! Finds the program that a command names.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Returns the program that a command of this name runs in `dir`: the first executable file in the directories of `path`,
/// a value of `PATH`. A name with a slash is a path, which need not exist.
pub fn find_program(name: &[u8], path: &[u8], dir: &Path) -> Option<PathBuf> {
    if name.contains(&b'/') {
        return Some(dir.join(OsStr::from_bytes(name)));
    }
    // An empty directory is the current one, which `join` makes of it.
    let files =
        path.split(|&byte| byte == b':').map(|place| dir.join(OsStr::from_bytes(place)).join(OsStr::from_bytes(name)));
    files.into_iter().find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.is_file() && data.mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn the_first_executable_file_is_found() {
        let place = Scratch::new("program-search");
        place.program("b/cc", "");
        place.program("c/cc", "");
        place.program("here", "");
        place.write("a/cc", "not executable");
        std::fs::create_dir_all(place.at("d/cc")).unwrap();
        let find = |name: &str, path: &str| find_program(name.as_bytes(), path.as_bytes(), place.path());
        let all = format!("/nowhere:{0}/a:{0}/d:{0}/b:{0}/c", place.text());
        assert_eq!(find("cc", &all), Some(place.at("b/cc")));
        assert_eq!(find("cc", "a:c:b"), Some(place.at("c/cc")), "relative directories");
        assert_eq!(find("here", "/nowhere:"), Some(place.at("here")));
        assert_eq!(find("none", &all), None);
        assert_eq!(find("x/none", &all), Some(place.at("x/none")));
        assert_eq!(find("/bin/sh", ""), Some("/bin/sh".into()));
    }
}
