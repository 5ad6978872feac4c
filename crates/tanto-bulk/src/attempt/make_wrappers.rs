//! Writes wrapper scripts of make through which all packages share one pool of job tokens. pkgsrc and many packages pass
//! `-jN`, and a make with its own number shares no tokens: the scripts replace that argument by the pool.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::shell::quoted;

/// The paths of the scripts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MakeWrappers {
    /// Replaces GNU make.
    pub gmake: String,
    /// Replaces the tree's make.
    pub bmake: String,
}

const SCRIPT: &str = include_str!("make_wrappers/make.sh");

impl MakeWrappers {
    /// Writes the scripts. `make` is the tree's. Programs without a slash are searched in `path`; GNU make later in the
    /// package's PATH too.
    pub fn write(dir: &Path, make: &str, path: &OsString) -> io::Result<MakeWrappers> {
        fs::create_dir_all(dir)?;
        let gnu = ["gmake", "make"].into_iter().find_map(|name| find(name, path));
        let gnu = gnu.map_or("gmake".to_owned(), |path| path.to_string_lossy().into_owned());
        let find_gnu = format!("kind=gnu\nreal=$(command -v gmake) || real={}\n", quoted(&gnu));
        let tree = find(make, path).map_or(make.to_owned(), |path| path.to_string_lossy().into_owned());
        let find_tree = format!("kind=bsd\nreal={}\n", quoted(&tree));
        let write = |name: &str, find: &str| {
            let text =
                format!("#!/bin/sh\n# Written by Tanto: all packages share one pool of job tokens.\n{find}{SCRIPT}");
            let path = dir.join(name);
            fs::write(&path, text)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
            Ok::<_, io::Error>(path.to_string_lossy().into_owned())
        };
        Ok(MakeWrappers { gmake: write("gmake", &find_gnu)?, bmake: write("bmake", &find_tree)? })
    }
}

fn find(name: &str, path: &OsString) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name));
    }
    std::env::split_paths(path).map(|dir| dir.join(name)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::Command;
    use tanto_testing::Scratch;

    /// Returns the arguments that the scripts pass to the real programs. Descriptor 0 is a pipe with these tokens.
    fn called(place: &Scratch, tokens: &[u8], environment: &[(&str, &str)], words: &[&str]) -> [String; 2] {
        for name in ["bin/gmake", "bin/tree-make"] {
            place.program(name, "#!/bin/sh\necho \"$@\"\n");
        }
        let path = format!("{}/bin:/usr/bin:/bin", place.text());
        let wrappers = MakeWrappers::write(&place.at("scripts"), "tree-make", &OsString::from(&path)).unwrap();
        [wrappers.gmake, wrappers.bmake].map(|script| {
            let (reader, mut writer) = io::pipe().unwrap();
            writer.write_all(tokens).unwrap();
            // A file just written cannot be executed while a child of another test has it open.
            let mut command = Command::new("/bin/sh");
            command.arg(script).args(words).env("PATH", &path).env("MAKEFLAGS", "").env("TANTO_TOKENS", "");
            command.envs(environment.iter().copied()).stdin(reader);
            String::from_utf8(command.output().unwrap().stdout).unwrap().trim_end_matches('\n').to_owned()
        })
    }

    #[test]
    fn without_tokens_the_number_of_jobs_is_kept() {
        let place = Scratch::new("makes-without");
        let both = |words: &[&str]| {
            let [gnu, bsd] = called(&place, b"", &[], words);
            assert_eq!(gnu, bsd);
            gnu
        };
        assert_eq!(both(&["-j4", "-f", "Makefile", "all"]), "-j4 -f Makefile all");
        assert_eq!(both(&["all", "--jobs=4", "-k"]), "-j4 all -k");
        assert_eq!(both(&["-j", "4", "all"]), "-j4 all");
        assert_eq!(both(&["-j", "all"]), "-j all");
        assert_eq!(both(&["all", "-j"]), "-j all");
        assert_eq!(both(&["-j1", "A=-j4"]), "-j1 A=-j4");
        assert_eq!(both(&["a b", ""]), "a b ");
        // A malformed number is passed on.
        assert_eq!(both(&["-jx"]), "-jx");
        let closed = called(&place, b"", &[("TANTO_TOKENS", "999,998")], &["-j4"]);
        assert_eq!(closed, ["-j4", "-j4"], "the descriptors were closed");
    }

    #[test]
    fn with_tokens_the_pool_is_passed() {
        let place = Scratch::new("makes-with");
        let shared = ("TANTO_TOKENS", "0,0");
        let both = |tokens: &[u8], words| called(&place, tokens, &[shared], words);
        assert_eq!(both(b"+++", &["-j8", "all"]), ["--jobserver-auth=0,0 all", "-J 8,9 -j8 all"]);
        assert_eq!(both(b"", &["-j", "all"]), ["--jobserver-auth=0,0 all", "-J 8,9 -j4096 all"]);
        assert_eq!(both(b"+++", &["-j1", "all"]), ["-j1 all", "-j1 all"]);
        assert_eq!(both(b"+++", &["all"]), ["all", "all"], "a sequential package uses no tokens");
        let below = [shared, ("MAKEFLAGS", " -j8 --jobserver-auth=50,51")];
        assert_eq!(called(&place, b"", &below, &["-j8", "all"])[0], "all");
    }

    #[test]
    fn bmake_has_one_job_without_a_nonblocking_pipe() {
        let place = Scratch::new("makes-blocking");
        place.program("bin/dd", "#!/bin/sh\nexit 1\n");
        let called = called(&place, b"+++", &[("TANTO_TOKENS", "0,0")], &["-j8", "all"]);
        assert_eq!(called, ["--jobserver-auth=0,0 all", "-j1 all"]);
    }
}
