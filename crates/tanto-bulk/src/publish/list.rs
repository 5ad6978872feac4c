//! The list of published package files, with digests and summary entries. Entries are reused while the stamp of the
//! file is unchanged.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;

use super::summary;
use crate::package::archive::{self, ArchiveError, Metadata};
use crate::package::digest::sha512;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The file name.
    pub file: String,
    /// Whether to verify the digests in the package, for packages without a recorded digest.
    pub verify: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// The file name.
    pub file: String,
    pub stamp: Stamp,
    /// SHA512 in hex.
    pub digest: String,
    /// The entry of `pkg_summary`.
    pub summary: Vec<u8>,
}

/// Identifies a version of a file: inode, size, and times in nanoseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    inode: u64,
    pub bytes: u64,
    modified_ns: i128,
    changed_ns: i128,
}

impl Stamp {
    pub fn of(file: &File) -> io::Result<Stamp> {
        let data = file.metadata()?;
        let ns = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Ok(Stamp {
            inode: data.ino(),
            bytes: data.size(),
            modified_ns: ns(data.mtime(), data.mtime_nsec()),
            changed_ns: ns(data.ctime(), data.ctime_nsec()),
        })
    }
}

/// The number of files that justifies a thread.
const FEWEST: usize = 16;

/// Lists files of a directory; `known` has earlier entries. An error names the file.
pub fn list(
    dir: &Path,
    files: &[Wanted],
    known: &[Listed],
    threads: usize,
) -> Result<Vec<Listed>, (String, ArchiveError)> {
    let known: HashMap<&str, &Listed> = known.iter().map(|it| (it.file.as_str(), it)).collect();
    let slice = files.len().div_ceil(threads.max(1)).max(FEWEST);
    let one = |it: &Wanted| look(dir, it, known.get(it.file.as_str()).copied()).map_err(|bad| (it.file.clone(), bad));
    let some = |files: &[Wanted]| files.iter().map(one).collect::<Result<Vec<Listed>, _>>();
    let mut parts = thread::scope(|scope| {
        let begun: Vec<_> = files.chunks(slice).map(|files| scope.spawn(move || some(files))).collect();
        begun.into_iter().map(|it| it.join().expect("it does not panic")).collect::<Vec<_>>()
    });
    let mut listed = Vec::with_capacity(files.len());
    for part in parts.drain(..) {
        listed.extend(part?);
    }
    Ok(listed)
}

fn look(dir: &Path, wanted: &Wanted, known: Option<&Listed>) -> Result<Listed, ArchiveError> {
    let name = wanted.file.as_str();
    let path = dir.join(name);
    let mut file = File::open(&path)?;
    let stamp = Stamp::of(&file)?;
    if let Some(known) = known.filter(|known| known.stamp == stamp) {
        return Ok(known.clone());
    }
    let summary = summary::entry(&Metadata::of(&path)?, name, stamp.bytes);
    if wanted.verify {
        archive::verify(&file)?;
        file.rewind()?;
    }
    let digest = sha512(&mut file)?;
    if Stamp::of(&file)? != stamp {
        return Err(ArchiveError::Io(io::Error::other("it changed while it was being read")));
    }
    Ok(Listed { file: name.to_owned(), stamp, digest, summary })
}

/// Version 1 has entries of unverified packages.
const HEAD: &[u8] = b"tanto list 2\n";

/// Serializes entries.
pub fn kept(listed: &[Listed]) -> Vec<u8> {
    let mut text = HEAD.to_vec();
    for it in listed {
        let Stamp { inode, bytes, modified_ns, changed_ns } = it.stamp;
        let (digest, file, length) = (&it.digest, &it.file, it.summary.len());
        text.extend(format!("{inode} {bytes} {modified_ns} {changed_ns} {digest} {length} {file}\n").into_bytes());
        text.extend_from_slice(&it.summary);
    }
    text
}

/// Parses entries up to the first malformed one.
pub fn known(text: &[u8]) -> Vec<Listed> {
    let mut known = Vec::new();
    let Some(mut rest) = text.strip_prefix(HEAD) else { return known };
    while let Some((one, behind)) = next(rest) {
        known.push(one);
        rest = behind;
    }
    known
}

fn next(text: &[u8]) -> Option<(Listed, &[u8])> {
    let end = memchr::memchr(b'\n', text)?;
    let mut words = std::str::from_utf8(&text[..end]).ok()?.splitn(7, ' ');
    let stamp = Stamp {
        inode: words.next()?.parse().ok()?,
        bytes: words.next()?.parse().ok()?,
        modified_ns: words.next()?.parse().ok()?,
        changed_ns: words.next()?.parse().ok()?,
    };
    let (digest, length) = (words.next()?.to_owned(), words.next()?.parse::<usize>().ok()?);
    let (summary, rest) = text[end + 1..].split_at_checked(length)?;
    Some((Listed { file: words.next()?.to_owned(), stamp, digest, summary: summary.to_vec() }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn entries_round_trip() {
        let stamp = Stamp { inode: 1, bytes: 2, modified_ns: -3, changed_ns: 4 };
        let one = Listed { file: "a b-1.tgz".into(), stamp, digest: "ff".into(), summary: b"X=\n\xff\n\n".to_vec() };
        let all = [one.clone(), Listed { file: "c".into(), ..one.clone() }];
        let text = kept(&all);
        assert_eq!(known(&text), all);
        assert_eq!(known(&text[..text.len() - 1]), all[..1]);
        for other in
            [&b""[..], b"tanto list 1\n", b"tanto list 2\nx\n", b"tanto list 2\n1 1 1 1 f 99999999999999999999 x\n"]
        {
            assert!(known(other).is_empty());
        }
    }

    #[test]
    fn unchanged_file_is_not_read_again() {
        let place = Scratch::new("publish-list");
        place.write("p-1.tgz", "no package");
        let files = [Wanted { file: "p-1.tgz".into(), verify: true }];
        assert!(matches!(list(&place.at(""), &files, &[], 2), Err((file, _)) if file == "p-1.tgz"));
        let stamp = Stamp::of(&File::open(place.at("p-1.tgz")).unwrap()).unwrap();
        let known = Listed { file: "p-1.tgz".into(), stamp, digest: "ff".into(), summary: Vec::new() };
        let known = [known];
        assert_eq!(list(&place.at(""), &files, &known, 2).unwrap(), known);
        let [known] = known;
        let other = Listed { stamp: Stamp { bytes: 9, ..stamp }, ..known };
        assert!(list(&place.at(""), &files, &[other], 2).is_err());
    }
}
