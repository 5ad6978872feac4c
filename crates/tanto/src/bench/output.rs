//! Files that measurements are written to: in which form, and so that none is ever half there. Does not know what is
//! written.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tanto_sys::fs::file;

use super::args::Flag;

/// `-o`
pub const OUTPUT: Flag = Flag {
    letter: Some(b'o'),
    name: "output",
    value: Some("FILE"),
    doc: "write the result to FILE, in the form that its ending names; may be given several times",
};

/// How a result is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// For people, and for gnuplot.
    Text,
    /// All that was measured.
    Json,
    /// A table for other programs.
    Csv,
    /// A picture.
    Svg,
    /// The same picture in pixels.
    Png,
}

/// A file for a result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// Where.
    pub path: PathBuf,
    /// By its ending.
    pub form: Form,
}

impl Output {
    /// The file of this name, in one of the forms that there are. An error is a text for the user.
    pub fn new(path: &[u8], forms: &[Form]) -> Result<Output, Vec<u8>> {
        let path = PathBuf::from(OsStr::from_bytes(path));
        let ending = path.extension().unwrap_or_default().as_bytes();
        let form = forms.iter().copied().find(|form| form.ending().as_bytes() == ending);
        match form {
            Some(form) => Ok(Output { path, form }),
            None => {
                let known: Vec<String> = forms.iter().map(|form| format!(".{}", form.ending())).collect();
                let path = path.display();
                Err(format!("--output {path}: the form is not known; its name has to end with {}", known.join(" or "))
                    .into())
            }
        }
    }

    /// Can it be written? Leaves nothing behind. An error is a text for the user.
    pub fn check(&self) -> Result<(), Vec<u8>> {
        file::check_replaceable(&self.path).map_err(|error| refused(&self.path, &error))
    }

    /// Replaces what is in it, wholly or not at all. An error is a text for the user.
    pub fn write(&self, content: &[u8]) -> Result<(), Vec<u8>> {
        replace(&self.path, content).map_err(|error| refused(&self.path, &error))
    }
}

impl Form {
    fn ending(self) -> &'static str {
        match self {
            Form::Text => "txt",
            Form::Json => "json",
            Form::Csv => "csv",
            Form::Svg => "svg",
            Form::Png => "png",
        }
    }
}

/// That a file could not be written, as a user is told.
pub fn refused(path: &Path, error: &io::Error) -> Vec<u8> {
    [b"writing ", path.as_os_str().as_bytes(), b": ", &tanto_sys::error::text(error)[..]].concat()
}

/// Gives a file this content, wholly or not at all, also where the power fails.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    file::write_atomically(path, |file| {
        file.write_all(content)?;
        file.sync_data()
    })
}

/// A cell of CSV.
pub fn csv(cell: &str) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tanto_testing::Scratch;

    #[test]
    fn the_ending_is_the_form() {
        let form = |path: &str| Output::new(path.as_bytes(), &[Form::Json, Form::Svg]).map(|output| output.form);
        assert_eq!((form("a/b.json"), form("x.svg")), (Ok(Form::Json), Ok(Form::Svg)));
        let why = form("x.txt").expect_err("not one of them");
        assert!(why.ends_with(b"its name has to end with .json or .svg"), "{}", String::from_utf8_lossy(&why));
        assert!(form("json").is_err());
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let dir = Scratch::new("bench-output");
        let output = Output::new(&dir.bytes("x.csv"), &[Form::Csv]).expect("a form");
        output.check().expect("it can be written");
        assert!(!output.path.exists());
        output.write(b"one").expect("written");
        output.write(b"two").expect("written again");
        assert_eq!(fs::read(&output.path).expect("a file"), b"two");
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 1);
        let nowhere = Output::new(&dir.bytes("no/x.csv"), &[Form::Csv]).expect("a form");
        let why = nowhere.check().expect_err("no directory");
        assert!(why.starts_with(b"writing ") && why.ends_with(b"x.csv: No such file or directory"));
    }

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        assert_eq!([csv("a b"), csv("a,b"), csv("\"a\"")], ["a b", "\"a,b\"", "\"\"\"a\"\"\""]);
    }
}
