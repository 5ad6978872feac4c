//! Tests: all calls give the same answers, and many paths at once the same as one by one.

use super::*;
use crate::error::text;
use crate::fs::file::SHORT;
use crate::fs::fingerprint::{FileState, FileSystems};
use crate::threads::ThreadLimit;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;
use tanto_testing::Scratch;

fn touch(path: &Path, time: SystemTime) {
    fs::File::create(path).unwrap().set_modified(time).unwrap();
}

/// The common answer of all calls.
fn all(path: &[u8]) -> Option<Stat> {
    let [first, others @ ..] = StatCall::ALL.map(|way| way.stat(path).unwrap());
    for other in others {
        assert_eq!(other, first);
    }
    assert_eq!(mtime(path).unwrap(), first.map_or(0, |stat| stat.mtime));
    first
}

/// The common error of all calls.
fn complaint(path: &[u8]) -> io::Error {
    let [first, others @ ..] = StatCall::ALL.map(|way| way.stat(path).unwrap_err());
    for other in others {
        assert_eq!((other.kind(), other.raw_os_error()), (first.kind(), first.raw_os_error()));
    }
    first
}

#[test]
fn kind_size_and_time_are_reported() {
    let dir = Scratch::new("stat");
    dir.write("f", "four");
    fs::File::open(dir.at("f")).unwrap().set_modified(UNIX_EPOCH + Duration::new(5, 7)).unwrap();
    let file = all(&dir.bytes("f")).unwrap();
    assert_eq!((file.kind, file.size, file.mtime), (FileKind::File, 4, 5_000_000_007));
    assert!(file.ctime > file.mtime && file.inode > 0);
    assert_eq!(Stat::of(&fs::File::open(dir.at("f")).unwrap()).unwrap(), file);
    symlink("f", dir.at("link")).unwrap();
    assert_eq!(all(&dir.bytes("link")), Some(file));
    assert_eq!(all(&dir.bytes(".")).unwrap().kind, FileKind::Directory);
    assert_eq!(all(b"/dev/null").unwrap().kind, FileKind::Other);
}

#[test]
fn a_missing_file_is_none() {
    let dir = Scratch::new("stat-none");
    dir.write("f", "");
    symlink("nowhere", dir.at("link")).unwrap();
    for missing in ["none", "none/x", "f/x", "link"] {
        assert_eq!(all(&dir.bytes(missing)), None, "{missing}");
    }
    assert_eq!(all(b""), None);
}

#[test]
fn the_first_second_is_1_and_earlier_ones_are_negative() {
    let dir = Scratch::new("stat-time");
    let mtime = |time| {
        touch(&dir.at("f"), time);
        all(&dir.bytes("f")).unwrap().mtime
    };
    assert_eq!(mtime(UNIX_EPOCH), 1);
    assert_eq!(mtime(UNIX_EPOCH + Duration::new(0, 9)), 1);
    assert_eq!(mtime(UNIX_EPOCH + Duration::new(1, 0)), 1_000_000_000);
    assert_eq!(mtime(UNIX_EPOCH - Duration::new(0, 9)), -9);
    assert_eq!(mtime(UNIX_EPOCH - Duration::new(1, 9)), -1_000_000_009);
}

#[test]
fn years_that_do_not_fit_wrap() {
    assert_eq!(nanoseconds(-1, 5), -999_999_995);
    assert_eq!(nanoseconds(i64::MAX, 1), (-1_000_000_000_i64) + 1);
}

#[test]
fn short_and_long_paths_work() {
    let dir = Scratch::new("stat-long");
    touch(&dir.at("f"), UNIX_EPOCH + Duration::new(5, 0));
    let base = dir.bytes(".");
    for length in SHORT - 3..SHORT + 3 {
        let mut path = base.clone();
        path.resize(length - 1, b'/');
        path.push(b'f');
        assert_eq!(all(&path).unwrap().mtime, 5_000_000_000);
    }
    assert_eq!(text(&complaint(&[b'x'; 300])), b"File name too long");
    assert_eq!(complaint(b"a\0b").kind(), io::ErrorKind::InvalidInput);
    assert_eq!(complaint(&[0; 600]).kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn many_paths_give_the_same_as_one_by_one() {
    let dir = Scratch::new("stat-many");
    let names: Vec<Vec<u8>> = (0..5000).map(|number| dir.bytes(&format!("f{number}"))).collect();
    for (number, name) in names.iter().enumerate().filter(|(number, _)| number % 10 == 3) {
        touch(path(name), UNIX_EPOCH + Duration::new(1 + number as u64, 0));
    }
    let mut paths: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    paths[777] = b"a\0b";
    let expected: Vec<_> = paths.iter().map(|path| mtime(path).ok()).collect();
    assert_eq!((expected[3], expected[4], expected[777]), (Some(4_000_000_000), Some(0), None));
    let ended: Vec<Vec<u8>> = paths.iter().map(|path| [path, &b"\0"[..]].concat()).collect();
    let three = ThreadLimit::AtMost(3.try_into().unwrap());
    for count in [0, 1, 63, 64, 65, 511, 1025, 5000] {
        for threads in [ThreadLimit::ONE, three, ThreadLimit::Auto] {
            let mut found = vec![FileState::default(); count];
            observe(|index| &ended[index], &FileSystems::default(), &mut found, threads);
            let mut pairs = found.iter().zip(&expected);
            assert!(pairs.all(|(found, expected)| found.mtime == expected.unwrap_or(UNKNOWN_MTIME)));
        }
        for (way, threads) in StatCall::ALL.into_iter().zip([0, 1, 40]) {
            assert_eq!(mtimes_by(way, &paths[..count], threads), expected[..count]);
        }
    }
}

#[test]
fn touch_returns_the_time_of_the_file_system() {
    let dir = Scratch::new("touch");
    let path = dir.at("file");
    let file = File::create(&path).unwrap();
    file.set_modified(UNIX_EPOCH).unwrap();
    let first = super::touch(&file).unwrap();
    assert_eq!(first, mtime(path.as_os_str().as_encoded_bytes()).unwrap());
    assert!(first > 1_000_000_000_000_000_000 && super::touch(&file).unwrap() >= first);
}
