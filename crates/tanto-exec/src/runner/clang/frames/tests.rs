//! Frames of both protocols: the golden ones, those at the limits, and mutated ones.

use super::*;
use std::collections::BTreeMap;
use std::path::Path;
use tanto_testing::{Material, Random};

/// Frames that the tests of the other side read and write, too.
fn golden() -> BTreeMap<String, Vec<u8>> {
    read_frames("clang-worker")
}

fn read_frames(of: &str) -> BTreeMap<String, Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(of).join("golden/frames.txt");
    let text = std::fs::read_to_string(path).expect("the golden frames are there");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut cells = line.split(' ');
            let name = cells.next().expect("a name");
            (name.to_string(), cells.map(|byte| u8::from_str_radix(byte, 16).expect("a byte")).collect())
        })
        .collect()
}

fn words(texts: &[&[u8]]) -> Argv {
    let mut words = Argv::default();
    for text in texts {
        words.begin();
        text.iter().for_each(|&byte| words.push(byte));
        words.end();
    }
    words
}

fn declined(length: usize) -> Vec<u8> {
    let mut bytes = (u32::try_from(length).unwrap() + 13).to_le_bytes().to_vec();
    bytes.push(4);
    bytes.extend(1_u64.to_le_bytes());
    bytes.extend(u32::try_from(length).unwrap().to_le_bytes());
    bytes.resize(bytes.len() + length, b'x');
    bytes
}

/// A state with these numbers of empty file names.
fn holding(files: usize, without: usize) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes.push(8);
    bytes.resize(bytes.len() + 16, 0);
    for (count, texts) in [(files, files), (without, 2 * without)] {
        bytes.extend(u32::try_from(count).unwrap().to_le_bytes());
        bytes.resize(bytes.len() + 4 * texts, 0);
    }
    let length = u32::try_from(bytes.len() - 4).unwrap();
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes
}

fn golden_run<'a>(clang: &'a [u8], words: &'a Argv) -> Run<'a> {
    const ENVIRONMENT: &[&[u8]] = &[b"PATH=/usr/bin", b"LANG=\xc3\xa9"];
    Run { id: 0x0102_0304_0506_0708, umask: 0o22, clang, lld: b"", words, environment: ENVIRONMENT }
}

#[test]
fn commands_match_the_golden_frames() {
    let words = words(&[b"clang++", b"-c", b"a b.cc", b""]);
    let run = golden_run(b"/usr/lib/llvm-19/bin/clang", &words);
    assert_eq!(encode(&run).as_ref(), golden().get("run"));
    let nothing = Run { id: 0, umask: 0, clang: b"", lld: b"", words: &Argv::default(), environment: &[] };
    assert_eq!(encode(&nothing).as_ref(), golden().get("run-nothing"));
}

#[test]
fn frames_of_the_fork_server_match_the_golden_ones() {
    let golden = read_frames("preload");
    let words = words(&[b"clang++", b"-c", b"a b.cc", b""]);
    let run = golden_run(b"/usr/bin/clang++", &words);
    assert_eq!(encode(&run).as_ref(), golden.get("run"));
    let used = Used { user_us: 1000, system_us: 1001, max_rss_kib: 1002, read_bytes: 1003, written_bytes: 1004 };
    let replies = [
        ("declined", Reply::Declined { id: 8, why: b"the fork server cannot fork".to_vec() }),
        ("ended", Reply::Ended { id: 7, status: 256, used }),
        ("gone", Reply::Gone { id: 9 }),
        (
            "ready",
            Reply::Ready {
                version: PROTOCOL,
                unusable: Vec::new(),
                startup_us: 25_000,
                fork_us: 900,
                files: vec![b"/lib/libc.so.6".to_vec(), b"/lib/libLLVM.so".to_vec()],
                dirs: vec![b"/usr/lib".to_vec()],
            },
        ),
        ("started", Reply::Started { id: 7, pid: 4242 }),
    ];
    assert_eq!(golden.len(), replies.len() + 1);
    for (name, reply) in replies {
        assert_eq!(decode(&golden[name]), Some(reply), "{name}");
    }
}

#[test]
fn requests_and_ends_match_the_golden_frames() {
    let words = words(&[b"clang", b"-c", b"a.c"]);
    let kept =
        Run { id: 10, umask: 0o22, clang: b"/usr/bin/clang", lld: b"", words: &words, environment: &[b"PATH=/bin"] };
    assert_eq!(encode_keep(&kept, 8).as_ref(), golden().get("keep"));
    assert_eq!(Some(&STOP.to_vec()), golden().get("stop"));
}

#[test]
fn replies_match_the_golden_frames() {
    let used =
        Used { user_us: 1_500_000, system_us: 20_000, max_rss_kib: 65536, read_bytes: 512, written_bytes: 1 << 40 };
    let expected = [
        (
            "hello",
            Reply::Hello {
                version: PROTOCOL,
                clang: b"Debian clang version 19.1.7 (3~deb12u1)".to_vec(),
                lld: b"Debian LLD 19.1.7".to_vec(),
                builds: vec![b"f29c6d9c".to_vec(), b"99af4b93".to_vec()],
            },
        ),
        ("started", Reply::Started { id: 7, pid: 4242 }),
        ("ended", Reply::Ended { id: 7, status: 256, used }),
        ("declined", Reply::Declined { id: 8, why: b"its jobs are not one".to_vec() }),
        ("gone", Reply::Gone { id: 9 }),
        (
            "holding",
            Reply::Holding {
                most: 8,
                wanted: 1,
                memory_kib: 123_456,
                files: vec![b"a.c".to_vec(), b"b/c.cc".to_vec()],
                without: vec![Without { file: b"c.cc".to_vec(), why: b"its includes print warnings".to_vec() }],
            },
        ),
    ];
    let golden = golden();
    assert_eq!(
        golden.len(),
        expected.len() + 5,
        "with two commands, a request, an end, and a frame from the daemon to others"
    );
    for (name, receive) in expected {
        assert_eq!(decode(&golden[name]), Some(receive), "{name}");
    }
}

#[test]
fn limits_match_the_worker() {
    assert!(decode(&declined(MOST_BYTES - 17)).is_some());
    assert!(decode(&declined(MOST_BYTES - 16)).is_none());
    let all = words(&vec![b"".as_slice(); MOST_TEXTS]);
    let run = |words| Run { id: 1, umask: 0, clang: b"", lld: b"", words, environment: &[] };
    assert!(encode(&run(&all)).is_some());
    let more = words(&vec![b"".as_slice(); MOST_TEXTS + 1]);
    assert!(encode(&run(&more)).is_none());
    assert!(decode(&holding(MOST_FILES, MOST_WITHOUT)).is_some());
    assert!(decode(&holding(MOST_FILES + 1, 0)).is_none() && decode(&holding(0, MOST_WITHOUT + 1)).is_none());
    let long = words(&[&vec![b'x'; MOST_BYTES]]);
    assert!(encode(&run(&long)).is_none());
}

#[test]
fn arbitrary_frames_never_panic() {
    let tokens: &[&[u8]] = &[b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x01\0\0\0", b"text"];
    let material = Material { seeds: golden().into_values().collect(), tokens, head: 5 };
    let mut random = Random::new(1);
    for _ in 0..20_000 {
        let mut bytes = material.input(&mut random);
        if bytes.len() >= 4 && random.below(2) == 0 {
            let length = u32::try_from(bytes.len() - 4).unwrap();
            bytes[..4].copy_from_slice(&length.to_le_bytes());
        }
        let _ = decode(&bytes);
    }
}
