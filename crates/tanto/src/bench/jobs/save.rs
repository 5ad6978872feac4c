//! The recommended number of jobs as the default of a tree: a line of its `.tanto/config`. Does not know how it was
//! found.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use tanto_sys::fs::private_files;

use crate::bench::output::{Form, Output, refused, replace};

/// What stands above a line of ours.
const NOTE: &str = "# measured by tanto bench jobs";

/// Says in this config file that so many jobs run at a time; what else is in it stays. Returns what it said before. An
/// error is a text for the user.
pub fn save(config: &Path, jobs: u32) -> Result<Option<String>, Vec<u8>> {
    save_to(config, jobs).map_err(|error| refused(config, &error))
}

/// Could `save` write it? Leaves at most the directory behind. An error is a text for the user.
pub fn check(config: &Path) -> Result<(), Vec<u8>> {
    let made = config.parent().map_or(Ok(()), private_files::create_state_dir);
    made.map_err(|error| refused(config, &error))?;
    Output { path: config.into(), form: Form::Text }.check()
}

fn save_to(config: &Path, jobs: u32) -> io::Result<Option<String>> {
    if let Some(top) = config.parent() {
        private_files::create_state_dir(top)?;
    }
    // Through a link: it stays one.
    let place = fs::canonicalize(config).unwrap_or_else(|_| config.to_owned());
    let text = match fs::read_to_string(&place) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        read => read?,
    };
    let (text, before) = with_jobs(&text, jobs);
    replace(&place, text.as_bytes())?;
    Ok(before)
}

/// The config with that number, and the one that it had. The last line counts that names it.
fn with_jobs(text: &str, jobs: u32) -> (String, Option<String>) {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let value = |line: &str| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "jobs").then(|| value.trim().to_owned())
    };
    let found = lines.iter().rposition(|line| value(line).is_some());
    let before = found.and_then(|at| value(&lines[at]));
    let line = format!("jobs = {jobs}");
    match found {
        Some(at) => {
            lines[at] = line;
            if at == 0 || lines[at - 1] != NOTE {
                lines.insert(at, NOTE.to_owned());
            }
        }
        None => lines.extend([NOTE.to_owned(), line]),
    }
    (lines.join("\n") + "\n", before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn what_else_is_in_it_stays() {
        let table = [
            ("", "# measured by tanto bench jobs\njobs = 4\n", None),
            ("quiet = yes", "quiet = yes\n# measured by tanto bench jobs\njobs = 4\n", None),
            ("a = 1\n jobs=9\n#end\n", "a = 1\n# measured by tanto bench jobs\njobs = 4\n#end\n", Some("9")),
            ("# measured by tanto bench jobs\njobs = 7\n", "# measured by tanto bench jobs\njobs = 4\n", Some("7")),
            ("#jobs = 3\n", "#jobs = 3\n# measured by tanto bench jobs\njobs = 4\n", None),
        ];
        for (before, after, had) in table {
            assert_eq!(with_jobs(before, 4), (after.to_owned(), had.map(str::to_owned)), "{before}");
        }
    }

    #[test]
    fn the_file_is_made_or_changed() {
        let dir = Scratch::new("bench-save");
        let config = dir.at(".tanto/config");
        assert_eq!(save(&config, 4), Ok(None));
        assert_eq!(save(&config, 6), Ok(Some("4".into())));
        assert!(fs::read_to_string(&config).expect("a file").ends_with("\njobs = 6\n"));
        dir.write("file", "");
        assert_eq!(check(&config), Ok(()));
        for why in [save(&dir.at("file/config"), 1).err(), check(&dir.at("file/config")).err()] {
            assert!(why.is_some_and(|why| why.starts_with(b"writing ")));
        }
    }
}
