//! `tanto bulk resolve`.

use std::collections::HashSet;
use std::io::{self, IoSlice, Write};

use tanto_bulk::error::BulkError;
use tanto_bulk::package::input_file::InputFile;
use tanto_bulk::package::records::Record;
use tanto_bulk::resolve::messages::describe;
use tanto_bulk::resolve::{Finding, PackageId, Resolution, resolve};
use tanto_sys::fs::file;

use super::args::ResolveArgs;
use super::failed;
use crate::output::CommandOutput;

/// Resolves scans. Exits with 1 if a dependency is missing, and then writes no output unless `--partial` or `--missing` is
/// given.
pub fn run(args: &ResolveArgs) -> CommandOutput {
    resolve_scans(args).unwrap_or_else(|error| failed(&error))
}

fn resolve_scans(args: &ResolveArgs) -> Result<CommandOutput, BulkError> {
    let files = args.scans.iter().map(|path| InputFile::open(path)).collect::<Result<Vec<InputFile>, _>>()?;
    let mut records = Vec::new();
    let mut wanted = 0;
    for file in &files {
        records.extend(file.records()?);
        wanted = if wanted == 0 { records.len() } else { wanted };
    }
    let resolution = resolve(&records, wanted);
    let broken = resolution.packages().any(|(_, package)| package.wanted && package.broken);
    let is_partial = args.partial || args.missing.is_some();
    if !broken || is_partial {
        write(args, &records, &resolution)?;
    }
    files.iter().try_for_each(InputFile::check)?;
    let err = describe(&resolution, &records).into_bytes();
    Ok(CommandOutput { out: Vec::new(), err, code: u8::from(broken && !is_partial) })
}

fn write(args: &ResolveArgs, records: &[Record<'_>], resolution: &Resolution<'_>) -> Result<(), BulkError> {
    if let Some(path) = &args.missing {
        let missing = missing(&resolution.findings);
        file::write_atomically(path, |file| file.write_all(&missing)).map_err(BulkError::io("writing ", path))?;
    }
    let text = |out: &mut dyn Write| write_records(out, records, resolution);
    match &args.output {
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
