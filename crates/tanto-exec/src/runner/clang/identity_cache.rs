//! Caches which programs the checkpoint program replaces, in a file.
//!
//! If the file is damaged, programs are asked again.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::identity::{Identity, Stamp};

/// First line, with the version of the format.
const HEAD: &str = "checkpointed programs 3";
/// Longer files are invalid.
const LARGEST: u64 = 64 << 10;
/// Number of cached programs, the most recent ones.
const MOST: usize = 8;

/// Reads the programs that were cached in the same surroundings: this checkpoint program and this library path.
pub(super) fn read(file: &Path, cache_key: &str) -> Vec<Identity> {
    read_file(file).ok().and_then(|text| parse(&text, cache_key)).unwrap_or_default()
}

/// Returns the clangs in the cache, the most recent last, and whether each of them has checkpoints.
pub fn programs(file: &Path) -> Vec<(PathBuf, bool)> {
    let text = read_file(file).unwrap_or_default();
    let cache_key = text.split(|&byte| byte == b'\n').nth(1).and_then(|line| std::str::from_utf8(line).ok());
    let cache = cache_key.and_then(|cache_key| parse(&text, cache_key)).unwrap_or_default();
    cache.into_iter().map(|it| (it.program, it.is_replaced)).collect()
}

fn read_file(file: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(file)?.take(LARGEST).read_to_end(&mut text)?;
    Ok(text)
}

/// Replaces the file. Errors only lose the cache.
pub(super) fn write(file: &Path, cache_key: &str, cache: &[Identity]) -> io::Result<()> {
    let mut text = format!("{HEAD}\n{cache_key}\n").into_bytes();
    for identity in &cache[cache.len().saturating_sub(MOST)..] {
        put(&mut text, if identity.is_replaced { "ours" } else { "other" }, &identity.program);
        if let Some(lld) = &identity.lld {
            put(&mut text, "lld", lld);
        }
        for (path, Stamp(numbers)) in &identity.files {
            let mut words = String::from("file");
            for number in numbers {
                let _ = write!(words, " {number}");
            }
            put(&mut text, &words, path);
        }
        for (path, build) in &identity.builds {
            put(&mut text, &format!("build {}", build.escape_ascii()), path);
        }
    }
    if let Some(dir) = file.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let new = file.with_extension(format!("{}.new", std::process::id()));
    fs::write(&new, text).and_then(|()| fs::rename(&new, file)).inspect_err(|_| drop(fs::remove_file(&new)))
}

fn put(text: &mut Vec<u8>, words: &str, path: &Path) {
    text.extend_from_slice(words.as_bytes());
    text.push(b' ');
    text.extend_from_slice(path.as_os_str().as_bytes());
    text.push(b'\n');
}

fn parse(text: &[u8], cache_key: &str) -> Option<Vec<Identity>> {
    // An incomplete last line is torn.
    let mut lines = text.strip_suffix(b"\n")?.split(|&byte| byte == b'\n');
    if lines.next()? != HEAD.as_bytes() || lines.next()? != cache_key.as_bytes() {
        return None;
    }
    let mut cache: Vec<Identity> = Vec::new();
    for line in lines {
        let (word, rest) = split_word(line)?;
        match word {
            b"ours" | b"other" => {
                let (program, is_replaced) = (path(rest), word == b"ours");
                cache.push(Identity { program, is_replaced, lld: None, files: Vec::new(), builds: Vec::new() });
            }
            b"lld" => cache.last_mut()?.lld = Some(path(rest)),
            b"file" => cache.last_mut()?.files.push(parse_stamped(rest)?),
            b"build" => {
                let (build, rest) = split_word(rest)?;
                cache.last_mut()?.builds.push((path(rest), build.to_vec()));
            }
            _ => return None,
        }
    }
    cache.iter().all(|it| !it.files.is_empty() && it.is_replaced <= !it.builds.is_empty()).then_some(cache)
}

fn parse_stamped(mut rest: &[u8]) -> Option<(PathBuf, Stamp)> {
    let mut numbers = [0; 5];
    for number in &mut numbers {
        let (word, behind) = split_word(rest)?;
        *number = std::str::from_utf8(word).ok()?.parse().ok()?;
        rest = behind;
    }
    Some((path(rest), Stamp(numbers)))
}

fn split_word(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = line.iter().position(|&byte| byte == b' ')?;
    Some((&line[..at], &line[at + 1..]))
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests;
