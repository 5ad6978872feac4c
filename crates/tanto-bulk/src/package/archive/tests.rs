//! Packages made by hand and by the system's `tar`.

use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha512};
use std::io::Write;
use tanto_testing::{Random, Scratch};

use super::*;

pub(crate) fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
    ended(members.iter().flat_map(|(path, content)| file(path, content)).collect())
}

pub(crate) fn file(path: &str, content: &[u8]) -> Vec<u8> {
    let mut member = head(path, b'0', content.len()).to_vec();
    member.extend_from_slice(content);
    member.resize(member.len().next_multiple_of(512), 0);
    member
}

/// A link: type 1 is hard, 2 symbolic.
pub(crate) fn link(path: &str, kind: u8, target: &str) -> Vec<u8> {
    let mut head = head(path, b'0' + kind, 0);
    head[157..157 + target.len()].copy_from_slice(target.as_bytes());
    sum_up(&mut head);
    head.to_vec()
}

pub(crate) fn ended(mut members: Vec<u8>) -> Vec<u8> {
    members.resize(members.len() + 1024, 0);
    members
}

fn head(path: &str, kind: u8, size: usize) -> [u8; 512] {
    let mut head = [0; 512];
    head[..path.len()].copy_from_slice(path.as_bytes());
    for (at, field) in [(100, "0000644\0"), (108, "0000000\0"), (116, "0000000\0"), (136, "00000000012\0")] {
        head[at..at + field.len()].copy_from_slice(field.as_bytes());
    }
    head[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
    head[156] = kind;
    head[257..265].copy_from_slice(b"ustar\x0000");
    sum_up(&mut head);
    head
}

fn sum_up(head: &mut [u8; 512]) {
    head[148..156].fill(b' ');
    let sum: u32 = head.iter().map(|&byte| u32::from(byte)).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

pub(crate) fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

const CONTENTS: &[u8] = b"@name lib-1.0\n@cwd /pkg\nlib/a\n@comment MD5:0\n";

fn lib() -> Vec<u8> {
    tar(&[("+CONTENTS", CONTENTS), ("+BUILD_INFO", b"OPSYS=Linux\nPKGPATH=a/lib\n"), ("lib/a", b"text\n")])
}

type Named = (Vec<u8>, Vec<u8>);

/// Reads all files, or the first error.
fn files(package: &[u8]) -> Result<Vec<Named>, ArchiveError> {
    let mut package = Package::read(package)?;
    let mut files = Vec::new();
    while let Some(member) = package.next_file()? {
        let mut content = Vec::new();
        package.content().read_to_end(&mut content)?;
        files.push((member.path, content));
    }
    Ok(files)
}

fn message(package: &[u8]) -> String {
    files(package).err().map(|bad| bad.to_string()).unwrap_or_default()
}

#[test]
fn metadata_precedes_files() {
    for package in [lib(), gzip(&lib()), signed(&gzip(&lib()), "lib-1.0")] {
        assert_eq!(files(&package).unwrap(), [(b"lib/a".to_vec(), b"text\n".to_vec())]);
        let package = Package::read(&package[..]).unwrap();
        let metadata = package.metadata();
        assert_eq!((metadata.name(), metadata.build_info("PKGPATH")), (&b"lib-1.0"[..], Some(&b"a/lib"[..])));
        assert_eq!((metadata.get("+CONTENTS"), metadata.get("+DESC")), (Some(CONTENTS), None));
        assert_eq!(metadata.members().count(), 2);
    }
}

#[test]
fn metadata_is_read_without_the_rest() {
    let mut package = lib();
    // The checksum of the next member is wrong.
    let at = package.len() - 1024;
    package[at..].fill(b'x');
    assert!(Package::read(&package[..]).is_ok());
    assert_eq!(message(&package), "the package's archive is damaged: wrong checksum in the header of a member");
}

#[test]
fn file_may_be_named_like_metadata() {
    let package = tar(&[("+CONTENTS", CONTENTS), ("+x", b"1"), ("+DESC", b"2")]);
    let names: Vec<_> = files(&package).unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, [b"+x".to_vec(), b"+DESC".to_vec()]);
}

#[test]
fn errors_describe_the_damage() {
    let twice = tar(&[("+CONTENTS", CONTENTS), ("+DESC", b""), ("+DESC", b"")]);
    let huge = [&head("+CONTENTS", b'0', (MAX_METADATA + 1) as usize)[..], &[0; 512]].concat();
    let names = head("././@LongLink", b'L', 2 << 20);
    let chain: Vec<u8> = (0..20).flat_map(|_| head("x", b'x', 0)).collect();
    let damaged = {
        let mut package = gzip(&lib());
        let at = package.len() / 2;
        package[at] ^= 0x55;
        package
    };
    for (package, why) in [
        (&b""[..], "the package is truncated"),
        (&[b'x'; 600], "not a binary package"),
        (&tar(&[("x", b"")]), "the package has no +CONTENTS with a @name"),
        (&tar(&[("+CONTENTS", b"@cwd /pkg\n")]), "the package has no +CONTENTS with a @name"),
        (&twice, "the package has two +DESC"),
        (&huge, "package metadata exceeds the limit of 128 MiB"),
        (&names, "the package's archive is damaged: a name is too long"),
        (&chain, "the package's archive is damaged: the extensions of a member are too large"),
        (b"BZh91AY&SY", "the package is compressed with bzip2; only gzip is supported"),
        (b"\xfd7zXZ\0\0", "the package is compressed with xz; only gzip is supported"),
        (&head("+CONTENTS", b'S', 0), "the package's archive is damaged: a member is of an unknown type"),
    ] {
        assert_eq!(message(package), why);
    }
    assert!(files(&damaged).is_err());
}

#[test]
fn every_truncation_is_detected() {
    for whole in [lib(), gzip(&lib()), signed(&lib(), "lib-1.0")] {
        // A plain archive ends with the first zero block.
        let bare = whole.starts_with(b"+");
        let enough = if bare { whole.len() - 512 } else { whole.len() };
        for length in 0..enough {
            assert!(files(&whole[..length]).is_err(), "{length} of {}", whole.len());
        }
        assert!(files(&whole).is_ok());
    }
}

/// A signed package with blocks of 1 KiB.
fn signed(package: &[u8], name: &str) -> Vec<u8> {
    let size = package.len();
    let mut hash = format!(
        "pkgsrc signature\n\nversion: 1\npkgname: {name}\nalgorithm: SHA512\nblock size: 1024\nfile size: {size}\n\n"
    );
    for block in package.chunks(1024) {
        Sha512::digest(block).iter().for_each(|byte| hash += &format!("{byte:02x}"));
        hash.push('\n');
    }
    hash += "end pkgsrc signature\n";
    let mut archive = b"!<arch>\n".to_vec();
    for (name, content) in
        [("+PKG_HASH", hash.as_bytes()), ("+PKG_GPG_SIGNATURE", b"good"), ("lib-1.0-long-names.tgz", package)]
    {
        let long = if name.len() > 16 { name } else { "" };
        let field = if long.is_empty() { name.to_owned() } else { format!("#1/{}", name.len()) };
        let length = long.len() + content.len();
        writeln!(archive, "{field:<16}{:<12}{:<6}{:<6}{:<8}{length:<10}`", 0, 0, 0, "100644").unwrap();
        archive.extend([long.as_bytes(), content].concat());
        archive.resize(archive.len().next_multiple_of(2), b'\n');
    }
    archive
}

#[test]
fn signed_package_is_compared_with_its_text() {
    let package = lib();
    let good = signed(&package, "lib-1.0");
    let read = Package::read(&good[..]).unwrap();
    let parsed = read.metadata().signed().unwrap();
    assert_eq!(
        (&parsed.name[..], parsed.form, &parsed.signature[..]),
        (&b"lib-1.0"[..], "+PKG_GPG_SIGNATURE", &b"good"[..])
    );
    assert!(parsed.text.starts_with(b"pkgsrc signature\n"));
    let bad = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut package = good.clone();
        change(&mut package);
        message(&package)
    };
    let last = good.len() - 1;
    let why = |what: &str| format!("the package does not match its signature: {what}");
    assert_eq!(message(&signed(&package, "lib-1.1")), why("it has another name"));
    assert_eq!(bad(&|it| it[last - package.len() + 600] ^= 1), why("a block has a different digest"));
    assert_eq!(bad(&|it| it[70] ^= 1), why("malformed +PKG_HASH"));
    let size = format!("file size: {}", package.len());
    let at = memchr::memmem::find(&good, size.as_bytes()).unwrap() + size.len() - 1;
    assert_eq!(bad(&|it| it[at] -= 1), why("it has a different size"));
}

#[test]
fn differing_block_is_never_returned() {
    let package = lib();
    let mut archive = signed(&package, "lib-1.0");
    // In the second block, with the content of the first file.
    let at = archive.len() - package.len() + 1024 + 600;
    archive[at] ^= 1;
    let mut read = Package::read(&archive[..]);
    let seen = read.as_mut().map(|package| package.next_file().map(|file| file.map(|file| file.path)));
    assert!(matches!(seen, Err(_) | Ok(Err(_))), "{seen:?}");
}

/// Archives of the system's `tar` in each format.
#[test]
fn archives_of_other_programs_are_read() {
    for format in ["v7", "ustar", "gnu", "oldgnu", "posix"] {
        for seed in 0..8 {
            packed_elsewhere(format, &mut Random::new(seed));
        }
    }
}

fn packed_elsewhere(format: &str, random: &mut Random) {
    let place = Scratch::new("archive-tar");
    place.write("meta/+CONTENTS", CONTENTS);
    let longest = if matches!(format, "v7" | "ustar") { 60 } else { 230 };
    let mut expected = Vec::new();
    for number in 0..5 {
        let dir = "d".repeat(1 + random.below(longest));
        let name = format!("files/{dir}/{number}{}", "f".repeat(random.below(longest / 2)));
        let content = vec![b'x'; random.below(2000)];
        place.write(&name, &content);
        expected.push((name.as_bytes()["files/".len()..].to_vec(), content));
    }
    let link = format!("link{}", "l".repeat(random.below(longest)));
    std::os::unix::fs::symlink("t".repeat(1 + random.below(longest)), place.at("files").join(&link)).unwrap();
    let out = place.at("package.tgz");
    let mut tar = Command::new("tar");
    tar.arg(format!("--format={format}")).arg("-czf").arg(&out).arg("-C").arg(place.at("meta")).arg("+CONTENTS");
    tar.arg("-C").arg(place.at("files"));
    tar.args(expected.iter().map(|(name, _)| std::str::from_utf8(name).unwrap()));
    assert!(tar.arg(&link).status().unwrap().success());
    let mut package = Package::open(&out).unwrap();
    for (name, content) in &expected {
        let member = package.next_file().unwrap().unwrap();
        let mut read = Vec::new();
        // Skip the content of some files.
        if random.below(4) > 0 {
            package.content().read_to_end(&mut read).unwrap();
            assert_eq!(&read, content);
        }
        assert_eq!(
            (&member.path, member.kind, member.size),
            (name, MemberKind::File, content.len() as u64),
            "{format}"
        );
        assert_eq!(member.mtime.0, mtime(&place.at("files").join(std::str::from_utf8(name).unwrap())));
    }
    let member = package.next_file().unwrap().unwrap();
    let target = std::fs::read_link(place.at("files").join(&link)).unwrap();
    assert_eq!(
        (member.kind, member.path, member.link),
        (MemberKind::Symlink, link.into_bytes(), target.into_os_string().into_encoded_bytes())
    );
    assert_eq!(package.next_file().unwrap(), None);
}

fn mtime(path: &Path) -> i64 {
    std::os::unix::fs::MetadataExt::mtime(&path.symlink_metadata().unwrap())
}
