//! The list of published package files: a digest and a summary entry for each. Entries are kept and reused as long as a
//! file's stamp is unchanged.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;

use super::summary;
use crate::package::archive::{self, ArchiveError, Metadata};
use crate::package::digest::sha512;

/// A file to be listed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Its name, without its directory.
    pub file: String,
    /// Whether its content is compared with the digests that the package carries. For packages of which no other digest
    /// is known.
    pub verify: bool,
}

/// A package's file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Its name, without its directory.
    pub file: String,
    /// As it was when it was read.
    pub stamp: Stamp,
    /// SHA512 of it, in hex.
    pub digest: String,
    /// What `pkg_summary` says of it.
    pub summary: Vec<u8>,
}

/// What tells a file that is another without reading it: inode, size, and both times in nanoseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    inode: u64,
    /// How long it is.
    pub bytes: u64,
    modified_ns: i128,
    changed_ns: i128,
}

impl Stamp {
    /// Of a file that is open.
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

/// Fewer files are not worth a thread.
const FEWEST: usize = 16;

/// Lists these files of a directory, in their order; `known` holds earlier entries. An error names the file.
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
        return Err(ArchiveError::Io(io::Error::other("it was changed while it was read")));
    }
    Ok(Listed { file: name.to_owned(), stamp, digest, summary })
}

/// Version 1 has entries of packages that were never verified.
const HEAD: &[u8] = b"tanto list 2\n";

/// What is known, to be kept in a file.
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

/// What such a file says. One that is torn says what stands before the tear, and what is none says nothing: then it is
/// found out again.
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
    fn what_is_kept_is_known_again() {
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
    fn what_is_as_it_was_is_not_read_again() {
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
