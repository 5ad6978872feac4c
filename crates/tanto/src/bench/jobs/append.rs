//! `--append`: a text file to which each run is added, also those of later experiments.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::experiment::{Run, Setup};
use super::file::text;
use crate::bench::output::refused;

/// A larger file is no file of timings.
const MOST: u64 = 64 << 20;

/// Such a file, open for adding.
pub struct Appended {
    file: File,
    name: Vec<u8>,
}

impl Appended {
    /// Opens the file, or makes it, with the comments above the first run. Fails if it has timings of another command, or
    /// something else than timings. An error is a text for the user.
    pub fn open(path: &Path, setup: &Setup) -> Result<Appended, Vec<u8>> {
        let name = path.as_os_str().as_encoded_bytes().to_vec();
        let failed = |error| refused(path, &error);
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(failed)?;
        let mut before = Vec::new();
        (&file).take(MOST + 1).read_to_end(&mut before).map_err(failed)?;
        if before.len() as u64 > MOST {
            return Err(blame(&name, "it is too large for a file of timings; name another one"));
        }
        // A line that a crash has cut short could be read as another number.
        let whole = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        before.truncate(whole);
        if before.is_empty() {
            file.set_len(0).and_then(|()| file.write_all(text::head(setup, path).as_bytes())).map_err(failed)?;
        } else {
            same(&before, setup).map_err(|why| blame(&name, &why))?;
            file.set_len(whole as u64).and_then(|()| file.seek(SeekFrom::End(0))).map_err(failed)?;
        }
        Ok(Appended { file, name })
    }

    /// Adds a run. An error is a text for the user.
    pub fn add(&mut self, run: &Run) -> Result<(), Vec<u8>> {
        let written = self.file.write_all(text::appended(run).as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| refused(Path::new(&*String::from_utf8_lossy(&self.name)), &error))
    }
}

/// May runs of this setup be added to these?
fn same(before: &[u8], setup: &Setup) -> Result<(), String> {
    let lines = String::from_utf8_lossy(before);
    let title = lines.lines().find_map(|line| line.strip_prefix("# Timings of ")).map(str::trim);
    let ours = setup.command.replace(['\n', '\r'], " ");
    match title {
        Some(title) if title == ours.trim() => Ok(()),
        Some(title) => Err(format!("it has timings of '{title}', not of '{ours}'; name another file")),
        None => Err("it has no line '# Timings of ...', so it is no file of timings; name another one".into()),
    }
}

fn blame(name: &[u8], why: &str) -> Vec<u8> {
    [b"--append ", name, b": ", why.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::jobs::experiment::tests::experiment;
    use crate::bench::jobs::file::Timings;
    use tanto_testing::Scratch;

    #[test]
    fn runs_of_several_experiments_are_added_and_drawn() {
        let dir = Scratch::new("bench-append");
        let path = dir.at("t.txt");
        for times in [[(1, 20.0), (4, 6.5)], [(1, 21.0), (4, 7.5)]] {
            let it = experiment(&times);
            let mut file = Appended::open(&path, &it.setup).expect("it is ours");
            it.runs.iter().for_each(|run| file.add(run).expect("added"));
        }
        let text = std::fs::read_to_string(&path).expect("a file");
        assert_eq!(text.matches("# Timings of make -j{jobs}\n").count(), 1, "{text}");
        assert!(text.contains("\n# Compiling with 1 simultaneous job\n1  20.000\n"), "{text}");
        assert!(text.ends_with("\n# Compiling with 4 simultaneous jobs\n4  7.500\n"), "{text}");
        let read = Timings::read(text.as_bytes()).expect("its own");
        assert_eq!(read.points, [(1, vec![20.0, 21.0]), (4, vec![6.5, 7.5])]);
    }

    #[test]
    fn a_torn_line_is_dropped_and_other_files_are_refused() {
        let dir = Scratch::new("bench-append-other");
        let it = experiment(&[(2, 3.0)]);
        dir.write("torn", "# Timings of make -j{jobs}\n1  20.000\n4  12");
        Appended::open(&dir.at("torn"), &it.setup).and_then(|mut file| file.add(&it.runs[0])).expect("added");
        let text = std::fs::read_to_string(dir.at("torn")).expect("a file");
        assert_eq!(text, "# Timings of make -j{jobs}\n1  20.000\n# Compiling with 2 simultaneous jobs\n2  3.000\n");
        dir.write("other", "# Timings of ninja\n1 2\n");
        dir.write("prose", "Dear diary\n");
        for (name, expected) in
            [("other", "it has timings of 'ninja', not of 'make -j{jobs}'"), ("prose", "it has no line")]
        {
            let before = std::fs::read(dir.at(name)).expect("a file");
            let why = Appended::open(&dir.at(name), &it.setup).err().expect("refused");
            let why = String::from_utf8_lossy(&why).into_owned();
            assert!(why.starts_with("--append ") && why.contains(expected), "{why}");
            assert_eq!(std::fs::read(dir.at(name)).expect("a file"), before);
        }
        assert!(Appended::open(&dir.at("no/x"), &it.setup).is_err());
    }
}
