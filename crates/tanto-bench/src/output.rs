//! Result files: their formats, written atomically.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tanto_sys::fs::file;

use crate::Error;

/// The format of a result file, chosen by its extension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// For people and gnuplot.
    Text,
    /// Everything that was measured.
    Json,
    Csv,
    Svg,
    Png,
}

impl Format {
    pub const ALL: &'static [Format] = &[Format::Text, Format::Json, Format::Csv, Format::Svg, Format::Png];
    pub const IMAGES: &'static [Format] = &[Format::Svg, Format::Png];

    fn extension(self) -> &'static str {
        match self {
            Format::Text => "txt",
            Format::Json => "json",
            Format::Csv => "csv",
            Format::Svg => "svg",
            Format::Png => "png",
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutputFile {
    pub path: PathBuf,
    pub format: Format,
}

impl OutputFile {
    /// Derives the format from the extension, which must be one of `formats`.
    pub fn new(path: PathBuf, formats: &[Format]) -> Result<OutputFile, Error> {
        let extension = path.extension().unwrap_or_default();
        match formats.iter().find(|format| format.extension() == extension) {
            Some(&format) => Ok(OutputFile { path, format }),
            None => {
                let known: Vec<String> = formats.iter().map(|format| format!(".{}", format.extension())).collect();
                Err(Error::UnknownFormat { path, expected: known.join(" or ") })
            }
        }
    }

    /// Checks that the file can be written. Leaves nothing behind.
    pub fn check(&self) -> Result<(), Error> {
        file::check_replaceable(&self.path).map_err(|error| Error::write(&self.path, &error))
    }

    /// Replaces the content atomically.
    pub fn write(&self, content: &[u8]) -> Result<(), Error> {
        replace(&self.path, content).map_err(|error| Error::write(&self.path, &error))
    }
}

/// Writes each file with the content that `render` returns for its format. Returns a line for each file.
pub fn write_all(outputs: &[OutputFile], render: impl Fn(Format) -> Vec<u8>) -> Result<String, Error> {
    let mut written = String::new();
    for output in outputs {
        output.write(&render(output.format))?;
        let _ = writeln!(written, "Written: {}", output.path.display());
    }
    Ok(written)
}

/// Replaces a file's content atomically and durably.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    file::write_atomically(path, |file| {
        file.write_all(content)?;
        file.sync_data()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tanto_testing::Scratch;

    #[test]
    fn the_extension_chooses_the_format() {
        let format =
            |path: &str| OutputFile::new(path.into(), &[Format::Json, Format::Svg]).map(|output| output.format);
        assert_eq!((format("a/b.json"), format("x.svg")), (Ok(Format::Json), Ok(Format::Svg)));
        let error = format("x.txt").expect_err("not one of them");
        assert_eq!(error.to_string(), "--output x.txt: unknown format; the name must end in .json or .svg");
        assert!(format("json").is_err());
    }

    #[test]
    fn files_are_replaced_atomically() {
        let dir = Scratch::new("bench-output");
        let output = OutputFile::new(dir.at("x.csv"), &[Format::Csv]).expect("a format");
        output.check().expect("writable");
        assert!(!output.path.exists());
        output.write(b"one").expect("written");
        output.write(b"two").expect("written again");
        assert_eq!(fs::read(&output.path).expect("a file"), b"two");
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 1);
        let missing = OutputFile::new(dir.at("no/x.csv"), &[Format::Csv]).expect("a format");
        let error = missing.check().expect_err("no directory").to_string();
        assert!(error.starts_with("writing ") && error.ends_with("x.csv: No such file or directory"), "{error}");
    }
}
