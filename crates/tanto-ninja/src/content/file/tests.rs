//! Tests of the file: damage, the future, appending and rewriting.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use tanto_cas::{ContentDigest, FileDigest};
use tanto_sys::fs::fingerprint::FileState;
use tanto_sys::fs::stat::{FileKind, Stat};
use tanto_testing::Scratch;

use super::*;

const NOW: i64 = 1_000;

fn digest(content: &[u8], fingerprint: u64, trust: Trust) -> FileDigest {
    let state = FileState { mtime: 1, fingerprint: Fingerprint(fingerprint) };
    let stat = Stat { kind: FileKind::File, size: 1, mtime: 1, ctime: 1, device: 1, inode: 1, is_executable: false };
    FileDigest { digest: ContentDigest::of(content), state, stat, trust }
}

fn record(number: u8) -> CommandRecord {
    CommandRecord {
        log: LoggedCommand { command_hash: 7, mtime: -8 },
        inputs: ContentId([number; 16]),
        outputs: ContentId([number + 1; 16]),
        side_effects: SideEffects::Possible,
        made: 9,
    }
}

fn key(name: &str) -> PathKey {
    PathKey::of(name.as_bytes())
}

/// A saved table with two files, a command and a sum.
fn saved(dir: &Scratch) -> PathBuf {
    let path = dir.at("contents");
    let (mut table, mut file) = load(std::slice::from_ref(&path), NOW);
    table.note_file(key("a"), &digest(b"a", 1, Trust::Known));
    table.note_file(key("b"), &digest(b"b", 2, Trust::Racy));
    table.note_command(key("out"), record(3));
    table.note_clean_sum(5);
    file.save(&path, &mut table, NOW).unwrap();
    path
}

#[test]
fn a_table_survives_its_file() {
    let dir = Scratch::new("contents");
    let path = saved(&dir);
    let (table, file) = load(std::slice::from_ref(&path), NOW);
    let a = table.file(key("a")).unwrap();
    assert_eq!(
        (a.fingerprint, a.trust, a.digest, a.changed),
        (Fingerprint(1), Trust::Known, ContentDigest::of(b"a"), 1)
    );
    assert_eq!(table.file(key("b")).unwrap().trust, Trust::Racy);
    assert_eq!(table.command(key("out")), Some(&record(3)));
    assert_eq!((table.file(key("c")), table.command(key("a"))), (None, None));
    assert_eq!((table.build(), table.clean_sums(), file.entries), (2, &[5][..], 3));
    assert_eq!(clean_sums(&[dir.at("none"), path], NOW), [5]);
}

#[test]
fn entries_are_appended_and_the_last_one_counts() {
    let dir = Scratch::new("contents-append");
    let path = saved(&dir);
    let before = fs::read(&path).unwrap();
    let (mut table, mut file) = load(std::slice::from_ref(&path), NOW);
    assert_eq!(table.note_file(key("a"), &digest(b"a", 10, Trust::Known)).0.changed, 1, "the content is the same");
    assert_eq!(table.note_file(key("b"), &digest(b"new", 11, Trust::Known)).0.changed, 2);
    table.note_command(key("out"), record(4));
    table.note_clean_sum(6);
    file.save(&path, &mut table, NOW).unwrap();
    assert!(fs::read(&path).unwrap().starts_with(&before));
    let (table, file) = load(std::slice::from_ref(&path), NOW);
    assert_eq!(table.file(key("a")).unwrap().fingerprint, Fingerprint(10));
    assert_eq!(table.file(key("b")).unwrap().digest, ContentDigest::of(b"new"));
    assert_eq!((table.command(key("out")), file.entries, table.clean_sums()), (Some(&record(4)), 6, &[6, 5][..]));
}

#[test]
fn only_files_that_were_known_become_known_again() {
    let settled = |before: Trust, fingerprint| {
        let mut table = ContentTable::default();
        table.note_file(key("f"), &digest(b"a", 1, before));
        table.retime_file(key("f"), Fingerprint(2));
        assert_ne!(table.file(key("f")).unwrap().trust, Trust::Known);
        table.settle_file(key("f"), fingerprint);
        table.file(key("f")).unwrap().trust
    };
    for trust in [Trust::Known, Trust::Racy, Trust::Never] {
        assert_eq!(settled(trust, Fingerprint(2)), trust);
    }
    assert_eq!(settled(Trust::Known, Fingerprint(3)), Trust::Racy, "it has changed again");
}

#[test]
fn nothing_is_written_if_nothing_is_new() {
    let dir = Scratch::new("contents-same");
    let path = saved(&dir);
    let (mut table, mut file) = load(std::slice::from_ref(&path), NOW);
    table.note_file(key("a"), &digest(b"a", 1, Trust::Known));
    table.note_command(key("out"), record(3));
    table.note_clean_sum(5);
    fs::remove_file(&path).unwrap();
    file.save(&path, &mut table, NOW).unwrap();
    assert!(!path.exists());
}

#[test]
fn superseded_entries_are_dropped() {
    let dir = Scratch::new("contents-rewrite");
    let path = saved(&dir);
    let (mut table, mut file) = load(std::slice::from_ref(&path), NOW);
    file.entries = 2 * MIN_SUPERSEDED;
    table.note_file(key("a"), &digest(b"a", 10, Trust::Known));
    file.save(&path, &mut table, NOW).unwrap();
    assert!(fs::metadata(&path).unwrap().len() < 1000);
    let (table, file) = load(std::slice::from_ref(&path), NOW);
    assert_eq!((table.len(), file.entries), (3, 3));
}

#[test]
fn every_damage_is_noticed() {
    let dir = Scratch::new("contents-damage");
    let path = saved(&dir);
    let content = fs::read(&path).unwrap();
    let whole = parse(&content, NOW).unwrap();
    assert_eq!((whole.1, whole.2), (content.len(), 3));
    for at in 0..content.len() {
        for bit in 0..8 {
            let mut damaged = content.clone();
            damaged[at] ^= 1 << bit;
            let (table, length, entries) = parse(&damaged, NOW).unwrap();
            assert!(length < content.len(), "byte {at}, bit {bit}");
            assert_eq!(table.len(), entries, "either the entries or the sums are lost");
        }
        let (table, length, _) = parse(&content[..at], NOW).unwrap();
        assert!(length <= at && [0, 3].contains(&table.len()), "cut at {at}");
    }
}

#[test]
fn a_void_record_is_gone_at_once() {
    let dir = Scratch::new("contents-void");
    let path = saved(&dir);
    let (mut table, mut file) = load(std::slice::from_ref(&path), NOW);
    assert!(table.forget_command(key("out")) && !table.forget_command(key("none")));
    file.void(key("out"), table.build(), NOW);
    // As if the build was killed now.
    assert_eq!(load(std::slice::from_ref(&path), NOW).0.command(key("out")), None);
    table.note_command(key("out"), record(5));
    file.save(&path, &mut table, NOW).unwrap();
    assert_eq!(load(std::slice::from_ref(&path), NOW).0.command(key("out")), Some(&record(5)));
    // Without a way to note it, there are no records at all.
    let (table, mut file) = load(std::slice::from_ref(&path), NOW);
    fs::write(&path, "short").unwrap();
    file.void(key("out"), table.build(), NOW);
    assert!(!path.exists());
}

#[test]
fn a_torn_end_is_overwritten() {
    let dir = Scratch::new("contents-torn");
    let path = saved(&dir);
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"TCT2 torn").unwrap();
    assert_eq!(clean_sums(std::slice::from_ref(&path), NOW), [0; 0]);
    let (mut table, mut file) = load(std::slice::from_ref(&path), NOW);
    table.note_command(key("other"), record(1));
    file.save(&path, &mut table, NOW).unwrap();
    let (table, _) = load(std::slice::from_ref(&path), NOW);
    assert_eq!((table.len(), table.command(key("other"))), (4, Some(&record(1))));
    assert_eq!(clean_sums(&[path], NOW), [5]);
}

#[test]
fn a_table_from_the_future_is_not_used() {
    let dir = Scratch::new("contents-future");
    let path = saved(&dir);
    let (table, file) = load(std::slice::from_ref(&path), NOW - 1);
    assert_eq!((table.len(), file.path), (0, None));
    assert_eq!(clean_sums(&[path], NOW - 1), [0; 0]);
}

#[test]
fn files_of_others_are_not_used() {
    let dir = Scratch::new("contents-others");
    let path = saved(&dir);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let (mut table, mut file) = load(std::slice::from_ref(&path), NOW);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o622)).unwrap();
    assert_eq!(load(std::slice::from_ref(&path), NOW).0.len(), 0);
    table.note_command(key("other"), record(1));
    file.save(&path, &mut table, NOW).unwrap();
    assert_eq!(load(&[path], NOW).0.len(), 4, "it was replaced");
}
