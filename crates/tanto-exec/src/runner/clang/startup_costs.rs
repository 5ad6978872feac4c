//! Remembers what it costs to start each compiler, and to fork it, in a file.
//!
//! If the file is damaged or missing, the costs are measured again.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use tanto_sys::fs::file;

use super::identity::Stamp;

/// First line, with the version of the format.
const HEAD: &str = "fork servers 1";
/// Longer files are invalid.
const MAX_BYTES: u64 = 64 << 10;
/// Number of programs, the most recent ones.
const MAX_PROGRAMS: usize = 16;
/// A fork copies pages when it writes to them, which is not part of its measured cost.
const MIN_SAVING_US: u64 = 2000;

/// CPU time of one version of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartupCost {
    pub program: PathBuf,
    pub(super) stamp: Stamp,
    /// From `exec` to `main`.
    pub startup_us: u64,
    /// A fork before `main` that ends at once.
    pub fork_us: u64,
}

impl StartupCost {
    /// Returns whether a fork is cheaper than a process.
    pub fn is_fork_cheaper(&self) -> bool {
        self.startup_us >= self.fork_us.saturating_add(MIN_SAVING_US)
    }
}

/// Reads the costs of programs that have not changed.
pub fn read(file: &Path) -> Vec<StartupCost> {
    let costs = read_file(file).ok().and_then(|text| parse(&text)).unwrap_or_default();
    costs.into_iter().filter(|it| Stamp::of(&it.program) == Some(it.stamp)).collect()
}

fn read_file(file: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(file)?.take(MAX_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

/// Replaces the file.
pub(super) fn write(path: &Path, costs: &[StartupCost]) -> io::Result<()> {
    let mut text = format!("{HEAD}\n").into_bytes();
    for cost in &costs[costs.len().saturating_sub(MAX_PROGRAMS)..] {
        let mut line = format!("{} {}", cost.startup_us, cost.fork_us);
        for number in cost.stamp.0 {
            let _ = write!(line, " {number}");
        }
        text.extend_from_slice(&[line.as_bytes(), b" ", cost.program.as_os_str().as_bytes(), b"\n"].concat());
    }
    if let Some(dir) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    file::write_atomically(path, |file| file.write_all(&text))
}

fn parse(text: &[u8]) -> Option<Vec<StartupCost>> {
    // An incomplete last line is torn.
    let mut lines = text.strip_suffix(b"\n")?.split(|&byte| byte == b'\n');
    (lines.next()? == HEAD.as_bytes()).then_some(())?;
    lines.map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<StartupCost> {
    let mut words = line.splitn(8, |&byte| byte == b' ');
    let mut number = || -> Option<i128> { std::str::from_utf8(words.next()?).ok()?.parse().ok() };
    let (startup_us, fork_us) = (number()?.try_into().ok()?, number()?.try_into().ok()?);
    let stamp = Stamp([number()?, number()?, number()?, number()?, number()?]);
    let program = PathBuf::from(OsStr::from_bytes(words.next()?));
    Some(StartupCost { program, stamp, startup_us, fork_us })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    fn cost(dir: &Scratch, name: &str) -> StartupCost {
        dir.write(name, "x");
        let program = dir.at(name);
        let stamp = Stamp::of(&program).unwrap();
        StartupCost { program, stamp, startup_us: 25_000, fork_us: 900 }
    }

    #[test]
    fn costs_are_kept_until_the_program_changes() {
        let dir = Scratch::new("startup-costs");
        let costs = [cost(&dir, "a b"), cost(&dir, "c")];
        write(&dir.at("costs"), &costs).unwrap();
        assert_eq!(read(&dir.at("costs")), costs);
        dir.write("c", "xy");
        assert_eq!(read(&dir.at("costs")), costs[..1]);
    }

    #[test]
    fn damaged_files_have_no_costs() {
        let dir = Scratch::new("startup-costs-damaged");
        let file = dir.at("costs");
        write(&file, &[cost(&dir, "a")]).unwrap();
        let whole = fs::read(&file).unwrap();
        for length in 0..whole.len() {
            fs::write(&file, &whole[..length]).unwrap();
            // A shorter path is another program.
            assert!(read(&file).is_empty(), "{length}");
        }
        assert!(read(&dir.at("none")).is_empty());
    }

    #[test]
    fn small_savings_do_not_count() {
        let dir = Scratch::new("startup-costs-small");
        let mut cost = cost(&dir, "a");
        assert!(cost.is_fork_cheaper());
        cost.startup_us = 2_000;
        assert!(!cost.is_fork_cheaper());
        cost.fork_us = u64::MAX;
        assert!(!cost.is_fork_cheaper());
    }
}
