//! The directory `meta` beside the logs, with files as pbulk names them.

use std::fs::{self, File};
use std::io::{self, Write};

use tanto_sys::fs::file;

use super::{PackageId, depends_of};
use crate::config::Config;
use crate::error::BulkError;
use crate::package::input_file::InputFile;
use crate::package::records::Record;

/// The resolved scan that is built.
pub const PRESOLVE: &str = "presolve";

/// Writes a file of the directory atomically.
pub fn write(config: &Config, name: &str, fill: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), BulkError> {
    let path = config.meta_dir().join(name);
    let written = fs::create_dir_all(config.meta_dir()).and_then(|()| file::write_atomically(&path, fill));
    written.map_err(BulkError::io("writing ", path))
}

/// Saves the records of the packages to build, with their dependencies, for reports.
pub fn write_presolve(config: &Config, records: &[Record<'_>], depends: &[Vec<PackageId>]) -> Result<(), BulkError> {
    write(config, PRESOLVE, |file| {
        let mut out = io::BufWriter::new(file);
        for (record, depends) in records.iter().zip(depends) {
            out.write_all(record.text)?;
            if record.value("DEPENDS").is_none() && !depends.is_empty() {
                let names: Vec<&[u8]> = depends.iter().map(|&it| records[it as usize].name).collect();
                out.write_all(&[b"DEPENDS=", &names.join(&b' ')[..], b"\n"].concat())?;
            }
        }
        out.flush()
    })
}

/// Opens the saved records, if there are any.
pub fn presolve(config: &Config) -> Result<Option<InputFile>, BulkError> {
    let path = config.meta_dir().join(PRESOLVE);
    if path.exists() { InputFile::open(&path).map(Some) } else { Ok(None) }
}

/// Calls a function with the saved records; with none if they were not saved.
pub fn with_presolve<T>(
    config: &Config,
    use_records: impl FnOnce(&[Record<'_>]) -> Result<T, BulkError>,
) -> Result<T, BulkError> {
    match presolve(config)? {
        None => use_records(&[]),
        Some(file) => use_records(&file.records()?),
    }
}

/// Reads the dependencies of a resolved scan.
pub fn resolved_depends(file: &InputFile, records: &[Record<'_>]) -> Result<Vec<Vec<PackageId>>, BulkError> {
    depends_of(records).map_err(|error| format!("{}: {error}", file.path.display()).into())
}
