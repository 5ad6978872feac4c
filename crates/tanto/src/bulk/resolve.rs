//! `tanto bulk resolve`: from scan files to one that says what each package needs. Does not know how that is found.

use std::io::{self, IoSlice, Write};

use tanto_bulk::package::records::{self, Record};
use tanto_bulk::resolve::{Finding, Package, Resolution, resolve};
use tanto_sys::fs::file;
use tanto_sys::memory::map::Map;

use super::files::{check, failed, open};
use super::findings;
use crate::command_line::bulk::ResolveArgs;
use crate::flags::door::Door;
use crate::flags::stop::Stop;

/// What `tanto bulk resolve` prints. It exits with 1 if a package lacks something, and then writes no output, unless it
/// was asked for what is missing, or to go on without.
pub(crate) fn run(args: &ResolveArgs) -> Stop {
    match obey(args) {
        Ok(stop) => stop,
        Err(message) => Stop::failed(Door::Tanto, "error", &message),
    }
}

fn obey(args: &ResolveArgs) -> Result<Stop, Vec<u8>> {
    let scans: Vec<&[u8]> = args.scans.iter().map(|path| path.as_os_str().as_encoded_bytes()).collect();
    let maps = scans.iter().map(|path| open(path)).collect::<Result<Vec<Map>, _>>()?;
    let mut records = Vec::new();
    let mut wanted = 0;
    for (path, map) in scans.iter().zip(&maps) {
        records.extend(records::read(map).map_err(|bad| findings::bad_scan(path, bad))?);
        wanted = if wanted == 0 { records.len() } else { wanted };
    }
    let resolution = resolve(&records, wanted);
    let broken = resolution.packages().any(|(_, package)| package.wanted && package.broken);
    let goes_on = args.partial || args.missing.is_some();
    if !broken || goes_on {
        write(args, &records, &resolution)?;
    }
    scans.iter().zip(&maps).try_for_each(|(path, map)| check(path, map))?;
    let err = findings::told(&resolution, &records);
    Ok(Stop { out: Vec::new(), err, code: u8::from(broken && !goes_on) })
}

fn write(args: &ResolveArgs, records: &[Record<'_>], resolution: &Resolution<'_>) -> Result<(), Vec<u8>> {
    if let Some(path) = &args.missing {
        let missing = missing(&resolution.findings);
        file::write_atomically(path, |file| file.write_all(&missing))
            .map_err(|error| failed("writing ", path.as_os_str().as_encoded_bytes(), &error))?;
    }
    let text = |out: &mut dyn Write| write_records(out, records, resolution);
    match &args.output {
        Some(path) => file::write_atomically(path, |file| text(file))
            .map_err(|error| failed("writing ", path.as_os_str().as_encoded_bytes(), &error)),
        None => match text(&mut io::stdout().lock()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written.map_err(|error| failed("writing ", b"the output", &error)),
        },
    }
}

/// The directories of what is missing, each once, in the order in which it is missed.
fn missing(findings: &[Finding<'_>]) -> Vec<u8> {
    let mut seen = std::collections::HashSet::new();
    let location = |finding: &Finding<'_>| match *finding {
        Finding::NoMatch { location, .. } => Some(location.to_vec()),
        _ => None,
    };
    findings
        .iter()
        .filter_map(location)
        .filter(|it| seen.insert(it.clone()))
        .flat_map(|it| [it, b"\n".into()].concat())
        .collect()
}

/// So many pieces go to the kernel at a time.
const PIECES: usize = 512;

/// The records of what is wanted, as they were read, each with what it needs behind it.
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

fn depends_line(depends: &[Package], resolution: &Resolution<'_>) -> Vec<u8> {
    if depends.is_empty() {
        return Vec::new();
    }
    let names: Vec<&[u8]> = depends.iter().map(|&package| resolution.name(package).text()).collect();
    [b"DEPENDS=", &names.join(&b' ')[..], b"\n"].concat()
}
