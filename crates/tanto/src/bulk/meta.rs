//! The directory `meta` beside the logs: what a bulk build knows and says of itself, in files as pbulk has them. Does not
//! know what stands in them.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use tanto_bulk::config::Config;
use tanto_bulk::package::records::Record;
use tanto_bulk::resolve::Package;
use tanto_sys::fs::file;
use tanto_sys::memory::map::Map;

use super::files::{failed, open};

/// The resolved scan that is built.
pub(super) const PRESOLVE: &str = "presolve";

/// The directory.
pub(super) fn dir(config: &Config) -> PathBuf {
    PathBuf::from(&config.bulklog).join("meta")
}

/// Writes a file there, whole or not at all.
pub(super) fn write(
    config: &Config,
    name: &str,
    fill: impl FnOnce(&mut fs::File) -> io::Result<()>,
) -> Result<(), Vec<u8>> {
    let path = dir(config).join(name);
    let written = fs::create_dir_all(dir(config)).and_then(|()| file::write_atomically(&path, fill));
    written.map_err(|error| failed("writing ", path.as_os_str().as_encoded_bytes(), &error))
}

/// Keeps the records of what is to be built, and what each needs, for the reports.
pub(super) fn keep(config: &Config, records: &[Record<'_>], depends: &[Vec<Package>]) -> Result<(), Vec<u8>> {
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

/// What `keep` has kept; empty if there is nothing.
pub(super) fn kept(config: &Config) -> Result<Option<(Vec<u8>, Map)>, Vec<u8>> {
    let path = dir(config).join(PRESOLVE);
    let name = path.as_os_str().as_encoded_bytes();
    if path.exists() { Ok(Some((name.to_vec(), open(name)?))) } else { Ok(None) }
}
