//! Saves the recommended number of jobs as the default of a build directory.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use tanto_sys::fs::private_files;

use crate::Error;
use crate::output::{Format, OutputFile, replace};

/// The comment above the setting.
const NOTE: &str = "# measured by tanto bench jobs";

/// Sets `jobs` in a config file and keeps the rest. Returns the previous value.
pub fn save(config: &Path, jobs: u32) -> Result<Option<String>, Error> {
    save_to(config, jobs).map_err(|error| Error::write(config, &error))
}

/// Checks that the file can be written. May create its directory.
pub fn check(config: &Path) -> Result<(), Error> {
    let created = config.parent().map_or(Ok(()), private_files::create_state_dir);
    created.map_err(|error| Error::write(config, &error))?;
    OutputFile { path: config.into(), format: Format::Text }.check()
}

fn save_to(config: &Path, jobs: u32) -> io::Result<Option<String>> {
    if let Some(state_dir) = config.parent() {
        private_files::create_state_dir(state_dir)?;
    }
    // A symbolic link is kept.
    let path = fs::canonicalize(config).unwrap_or_else(|_| config.to_owned());
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        read => read?,
    };
    let (text, before) = with_jobs(&text, jobs);
    replace(&path, text.as_bytes())?;
    Ok(before)
}

/// Returns the new text and the previous value. The last setting takes effect; a new one precedes the first table.
fn with_jobs(text: &str, jobs: u32) -> (String, Option<String>) {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let value = |line: &str| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "jobs").then(|| value.trim().to_owned())
    };
    let top_level = lines.iter().position(|line| line.trim_start().starts_with('[')).unwrap_or(lines.len());
    let found = lines[..top_level].iter().rposition(|line| value(line).is_some());
    let before = found.and_then(|at| value(&lines[at]));
    let line = format!("jobs = {jobs}");
    match found {
        Some(at) => {
            lines[at] = line;
            if at == 0 || lines[at - 1] != NOTE {
                lines.insert(at, NOTE.to_owned());
            }
        }
        None => drop(lines.splice(top_level..top_level, [NOTE.to_owned(), line])),
    }
    (lines.join("\n") + "\n", before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn other_lines_are_kept() {
        let table = [
            ("", "# measured by tanto bench jobs\njobs = 4\n", None),
            ("quiet = yes", "quiet = yes\n# measured by tanto bench jobs\njobs = 4\n", None),
            ("a = 1\n jobs=9\n#end\n", "a = 1\n# measured by tanto bench jobs\njobs = 4\n#end\n", Some("9")),
            ("# measured by tanto bench jobs\njobs = 7\n", "# measured by tanto bench jobs\njobs = 4\n", Some("7")),
            ("#jobs = 3\n", "#jobs = 3\n# measured by tanto bench jobs\njobs = 4\n", None),
            ("[x]\njobs = 3\n", "# measured by tanto bench jobs\njobs = 4\n[x]\njobs = 3\n", None),
        ];
        for (before, after, had) in table {
            assert_eq!(with_jobs(before, 4), (after.to_owned(), had.map(str::to_owned)), "{before}");
        }
    }

    #[test]
    fn the_file_is_created_or_changed() {
        let dir = Scratch::new("bench-save");
        let config = dir.at(".tanto/config");
        assert_eq!(save(&config, 4), Ok(None));
        assert_eq!(save(&config, 6), Ok(Some("4".into())));
        assert!(fs::read_to_string(&config).expect("a file").ends_with("\njobs = 6\n"));
        dir.write("file", "");
        assert_eq!(check(&config), Ok(()));
        for why in [save(&dir.at("file/config"), 1).err(), check(&dir.at("file/config")).err()] {
            assert!(why.is_some_and(|error| matches!(error, Error::Write { .. })));
        }
    }
}
