//! Resolves scans and writes the records with their dependencies.

use std::collections::HashSet;
use std::io::{self, IoSlice, Write};
use std::path::{Path, PathBuf};

use tanto_exec::command_output::CommandOutput;
use tanto_sys::fs::file;

use super::messages::describe;
use super::{Finding, PackageId, Resolution, resolve};
use crate::error::BulkError;
use crate::package::input_file::InputFile;
use crate::package::records::Record;

/// Scans to resolve, and the files to write.
#[derive(Clone, Copy)]
pub struct ResolveRequest<'a> {
    /// The first one is wanted; the others provide what it needs.
    pub scans: &'a [PathBuf],
    /// `None` for standard output.
    pub output: Option<&'a Path>,
    /// The file for the directories of missing dependencies.
    pub missing: Option<&'a Path>,
    /// Writes packages with missing dependencies too.
    pub partial: bool,
}

/// Resolves scans. The exit code is 1 if a dependency is missing; then writes no output unless `partial` or `missing` is
/// given.
pub fn resolve_scans(request: ResolveRequest<'_>) -> Result<CommandOutput, BulkError> {
    let files = request.scans.iter().map(|path| InputFile::open(path)).collect::<Result<Vec<InputFile>, _>>()?;
    let mut records = Vec::new();
    let mut wanted = 0;
    for file in &files {
        records.extend(file.records()?);
        wanted = if wanted == 0 { records.len() } else { wanted };
    }
    let resolution = resolve(&records, wanted);
    let broken = resolution.packages().any(|(_, package)| package.wanted && package.broken);
    let is_partial = request.partial || request.missing.is_some();
    if !broken || is_partial {
        write(request, &records, &resolution)?;
    }
    files.iter().try_for_each(InputFile::check)?;
    let err = describe(&resolution, &records).into_bytes();
    Ok(CommandOutput { out: Vec::new(), err, code: u8::from(broken && !is_partial) })
}

fn write(request: ResolveRequest<'_>, records: &[Record<'_>], resolution: &Resolution<'_>) -> Result<(), BulkError> {
    if let Some(path) = request.missing {
        let missing = missing(&resolution.findings);
        file::write_atomically(path, |file| file.write_all(&missing)).map_err(BulkError::io("writing ", path))?;
    }
    let text = |out: &mut dyn Write| write_records(out, records, resolution);
    match request.output {
        Some(path) => file::write_atomically(path, |file| text(file)).map_err(BulkError::io("writing ", path)),
        None => match text(&mut io::stdout().lock()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written.map_err(BulkError::of("writing the output")),
        },
    }
}

/// Lists the directories of missing dependencies, each once.
fn missing(findings: &[Finding<'_>]) -> Vec<u8> {
    let mut seen = HashSet::new();
    let locations = findings.iter().filter_map(|finding| match *finding {
        Finding::NoMatch { location, .. } => Some(location),
        _ => None,
    });
    locations.filter(|it| seen.insert(*it)).flat_map(|it| [it, b"\n"].concat()).collect()
}

/// The pieces of one system call.
const PIECES: usize = 512;

/// Writes the wanted records, each followed by its DEPENDS line.
fn write_records(out: &mut dyn Write, records: &[Record<'_>], resolution: &Resolution<'_>) -> io::Result<()> {
    let lines: Vec<Vec<u8>> = resolution.packages().map(|(_, it)| depends_line(&it.depends, resolution)).collect();
    let wanted = resolution.packages().filter(|(_, package)| package.wanted);
    let pieces = wanted.flat_map(|(package, _)| [records[package as usize].text, &lines[package as usize]]);
    let mut pieces: Vec<IoSlice<'_>> = pieces.filter(|piece| !piece.is_empty()).map(IoSlice::new).collect();
    for pieces in pieces.chunks_mut(PIECES) {
        write_all(out, pieces)?;
    }
    out.flush()
}

fn write_all(out: &mut dyn Write, mut pieces: &mut [IoSlice<'_>]) -> io::Result<()> {
    while !pieces.is_empty() {
        match out.write_vectored(pieces) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut pieces, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn depends_line(depends: &[PackageId], resolution: &Resolution<'_>) -> Vec<u8> {
    if depends.is_empty() {
        return Vec::new();
    }
    let names: Vec<&[u8]> = depends.iter().map(|&package| resolution.name(package).text()).collect();
    [b"DEPENDS=", &names.join(&b' ')[..], b"\n"].concat()
}
