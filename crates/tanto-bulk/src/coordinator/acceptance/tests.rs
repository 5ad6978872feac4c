//! Results of hostile clients, and processes that end or hang.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tanto_protocol::Digest;
use tanto_testing::Scratch;

use super::acceptor::Acceptor;
use super::copies::LogLimits;
use super::inspect::{ArchiveLimits, ExpectedPackage, inspect};
use super::inspector::{Inspector, answer_requests};
use super::messages::{self, CompareAnswer, InspectAnswer, InspectRequest, InspectorRequest};
use super::{
    AcceptAnswer, AcceptRequest, Acceptance, AcceptedPackage, AcceptorRequest, CompareRequest, Destination,
    IncomingFile, IncomingPackage, StoredPackage, Taken,
};
use crate::package::archive::tests::{ended, file, gzip, link};
use crate::package::digest::sha512;

const CONTENTS: &str = "@name lib-1.0\n@cwd /usr/pkg\n@blddep base-2.1\n@pkgdep base>=2\nlib/a\n";

fn metadata(contents: &str) -> Vec<Vec<u8>> {
    let all = [("+CONTENTS", contents), ("+COMMENT", "A library\n"), ("+DESC", "It is a library.\n")];
    all.into_iter().chain([("+BUILD_INFO", "OPSYS=Linux\n")]).map(|(name, text)| file(name, text.as_bytes())).collect()
}

/// A package with more members.
fn package(more: &[Vec<u8>]) -> Vec<u8> {
    let members = [metadata(CONTENTS), vec![file("lib/a", b"text\n")], more.to_vec()].concat();
    gzip(&ended(members.concat()))
}

fn limits() -> ArchiveLimits {
    ArchiveLimits { members: 100, least: 1 << 20, ..ArchiveLimits::default() }
}

fn verdict(bytes: &[u8]) -> String {
    let dependencies = ["base-2.1".to_owned(), "tool-7".to_owned()];
    let expected = ExpectedPackage { name: "lib-1.0", size: bytes.len() as u64, dependencies: &dependencies };
    inspect(bytes, expected, limits()).map_or_else(|why| why.to_string(), |()| "accepted".into())
}

#[test]
fn packages_with_usual_links_are_accepted() {
    let links = [
        link("bin/a", 2, "../lib/a"),
        link("etc/certs", 2, "/etc/ssl/certs"),
        link("lib/libc", 2, "../../../lib/libc.so"),
        link("lib/b", 1, "lib/a"),
        file("./share//doc/b", b"b"),
        // `pkg_create` adds a file below two prefixes twice.
        file("lib/a", b"text\n"),
    ];
    assert_eq!(verdict(&package(&links)), "accepted");
}

#[test]
fn hostile_members_are_refused() {
    let refused = |members: &[Vec<u8>]| verdict(&package(members));
    assert_eq!(refused(&[file("lib/../../etc/passwd", b"")]), "the member lib/../../etc/passwd has '..' in its path");
    assert_eq!(refused(&[file("/etc/passwd", b"")]), "the member /etc/passwd has an absolute path");
    let through = [link("lib/etc", 2, "/etc"), file("lib//./etc/passwd", b"")];
    assert_eq!(refused(&through), "the member lib//./etc/passwd is below lib/etc, which is no directory");
    assert_eq!(
        refused(&[link("lib/x", 2, "/etc/passwd"), file("lib/x", b"")]),
        "the member lib/x is there twice, once as a symbolic link"
    );
    let out = "the member lib/x is a hard link to something that is no file before it";
    assert_eq!(refused(&[link("lib/x", 1, "/etc/passwd")]), out);
    assert_eq!(refused(&[link("lib/x", 1, "../lib/a")]), out);
    assert_eq!(refused(&[link("lib/link", 2, "/etc/passwd"), link("lib/x", 1, "lib/link")]), out);
    assert_eq!(refused(&[link("dev/sda", 3, "")]), "the member dev/sda is a device or a pipe");
    assert_eq!(refused(&[link("dev/fifo", 6, "")]), "the member dev/fifo is a device or a pipe");
    let many: Vec<Vec<u8>> = (0..101).map(|number| file(&format!("lib/{number}"), b"")).collect();
    assert_eq!(refused(&many), "the package has more than 100 members");
}

#[test]
fn bombs_are_refused() {
    let bomb = gzip(&ended([metadata(CONTENTS).concat(), file("lib/a", &vec![0; 4 << 20])].concat()));
    assert!(bomb.len() < 40_000, "{}", bomb.len());
    let limit = (bomb.len() as u64 * limits().ratio).max(limits().least);
    let text = format!("the package unpacks to more than {limit} bytes, the limit for its size");
    assert_eq!(verdict(&bomb), text);
    // Zeros after the archive's end count too.
    let mut padded = [metadata(CONTENTS).concat(), file("lib/a", b"text\n")].concat();
    padded.resize(4 << 20, 0);
    let padded = gzip(&padded);
    assert!(verdict(&padded).starts_with("the package unpacks to more than"), "{}", verdict(&padded));
}

#[test]
fn damaged_and_other_files_are_refused() {
    let whole = package(&[]);
    assert_eq!(verdict(&whole), "accepted");
    assert_eq!(verdict(&whole[..whole.len() - 9]), "the package is truncated");
    assert_eq!(verdict(b"#!/bin/sh\n"), "the package is truncated");
    assert_eq!(verdict(&[b'x'; 2048]), "not a binary package");
    let zstd = [&b"\x28\xb5\x2f\xfd"[..], &[0; 100]].concat();
    assert_eq!(verdict(&zstd), "the package is compressed with zstd; only gzip is supported");
    let with =
        |contents: &str| verdict(&gzip(&ended([metadata(contents).concat(), file("lib/a", b"text\n")].concat())));
    assert_eq!(with(&CONTENTS.replace("lib-1.0", "lib-1.1")), "its name in the archive is lib-1.1");
    assert_eq!(with(&CONTENTS.replace("base-2.1", "evil-1")), "it was built with evil-1, which it does not need");
    assert_eq!(
        with(&CONTENTS.replace("base>=2", "base>=3")),
        "it needs base>=3, which none of its dependencies provides"
    );
    let digest = "lib/a\n@comment MD5:5d41402abc4b2a76b9719d911017c592\n";
    assert_eq!(
        with(&CONTENTS.replace("lib/a\n", digest)),
        "the package is damaged: lib/a does not match its MD5 in +CONTENTS"
    );
    let bare = gzip(&ended([file("+CONTENTS", CONTENTS.as_bytes()), file("lib/a", b"")].concat()));
    assert_eq!(verdict(&bare), "the package has no +COMMENT");
}

#[test]
fn inspector_answers_after_a_refusal() {
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    let served = std::thread::spawn(move || answer_requests(&mut theirs, limits()).unwrap());
    let mut ask = |bytes: &[u8]| {
        let dependencies = vec!["base-2.1".into()];
        let request = InspectRequest { name: "lib-1.0".into(), size: bytes.len() as u64, dependencies };
        messages::write(&mut ours, &InspectorRequest::Inspect(request)).unwrap();
        std::io::Write::write_all(&mut ours, bytes).unwrap();
        messages::read::<InspectAnswer>(&mut ours).unwrap().unwrap()
    };
    assert_eq!(ask(&vec![7; 1 << 20]), Err("not a binary package".into()));
    assert_eq!(ask(b""), Err("the package is truncated".into()));
    assert_eq!(ask(&package(&[])), Ok(()));
    let mut compare = |bytes: [&[u8]; 2]| {
        let sizes = bytes.map(|it| it.len() as u64);
        messages::write(&mut ours, &InspectorRequest::Compare(sizes)).unwrap();
        bytes.into_iter().for_each(|it| std::io::Write::write_all(&mut ours, it).unwrap());
        messages::read::<CompareAnswer>(&mut ours).unwrap().unwrap()
    };
    let (whole, more) = (package(&[]), package(&[file("lib/b", b"")]));
    assert_eq!(compare([&vec![7; 1 << 20], &whole]), ["the archive (not a binary package)"]);
    assert_eq!(compare([&whole, &more]), ["lib/b (missing in one)"]);
    assert_eq!(compare([&whole, &whole]), [""; 0]);
    drop(ours);
    served.join().unwrap();
}

/// An acceptor whose inspector is a shell command, after the greeting of an inspector.
fn acceptor(line: &'static str) -> Acceptor {
    let greeting = r#"printf '\013\0\0\0{"Ok":null}' >&0; "#;
    let shell = move || {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(format!("{greeting}{line}"));
        shell
    };
    let logs = LogLimits { log: 1_000, all: 3_000 };
    Acceptor { inspector: Inspector::new(shell), logs, least_time: Duration::from_secs(300) }
}

fn request(place: &Scratch, logs: &[&str]) -> AcceptRequest {
    let bytes = package(&[]);
    place.write("blob", &bytes);
    let package = IncomingPackage {
        blob: place.at("blob"),
        digest: Digest(tanto_cas::Digest::of(&bytes).0),
        size: bytes.len() as u64,
        name: "lib-1.0".into(),
        dependencies: vec!["base-2.1".into()],
        destination: Destination::Attempt("lib-1.0.tgz".into()),
    };
    let logs = logs.iter().map(|name| IncomingFile { name: (*name).to_owned(), blob: place.at(name) }).collect();
    AcceptRequest { number: 7, dir: place.at("attempt"), logs, package: Some(package) }
}

fn refusal(answer: AcceptAnswer) -> String {
    assert_eq!(answer.number, 7);
    answer.result.unwrap_err()
}

/// Reads a request with a short package, and accepts it.
const ACCEPTING: &str = r#"dd bs=1 count=100 >/dev/null 2>&1; printf '\013\0\0\0{"Ok":null}' >&0; cat >/dev/null"#;

#[test]
fn inspectors_that_end_or_hang_are_replaced() {
    let place = Scratch::new("acceptance-inspectors");
    let request = request(&place, &[]);
    let mut killed = acceptor("kill -9 $$");
    let ended = "lib-1.0: the process that opens packages ended: signal: 9 (SIGKILL)";
    assert_eq!(refusal(killed.accept(&request)), ended);
    assert_eq!(refusal(killed.accept(&request)), ended, "it was started again");
    let mut hung = acceptor("sleep 1000");
    hung.least_time = Duration::from_millis(500);
    assert_eq!(refusal(hung.accept(&request)), "lib-1.0: opening it takes longer than 0.5 s");
    let mut working = acceptor(ACCEPTING);
    let answer = working.accept(&request);
    let digest = request.package.as_ref().unwrap().digest;
    assert_eq!(answer.result, Ok(Taken::Package(AcceptedPackage { digest, installed: None })));
    let copied = std::fs::read(place.at("attempt/lib-1.0.tgz")).unwrap();
    assert_eq!(copied, std::fs::read(place.at("blob")).unwrap());
}

#[test]
fn files_with_other_digests_or_sizes_are_refused() {
    let place = Scratch::new("acceptance-digests");
    let whole = request(&place, &[]);
    let with = |change: &dyn Fn(&mut IncomingPackage)| {
        let mut request = whole.clone();
        request.package.as_mut().map(change).unwrap();
        refusal(acceptor(ACCEPTING).accept(&request))
    };
    let digest = whole.package.as_ref().unwrap().digest;
    let other = Digest([7; 32]);
    assert_eq!(with(&|it| it.digest = other), format!("lib-1.0: its digest is {digest}, not {other}"));
    let size = whole.package.as_ref().unwrap().size;
    assert_eq!(with(&|it| it.size += 1), format!("lib-1.0: it has {size} bytes, not {}", size + 1));
    assert!(with(&|it| it.blob = "/nonexistent".into()).starts_with("lib-1.0: it cannot be copied: "));
}

#[test]
fn accepted_packages_are_installed_without_files_elsewhere() {
    let place = Scratch::new("acceptance-install");
    let mut request = request(&place, &[]);
    let (new, installed) = (place.at("packages/All/.new"), place.at("packages/All/lib-1.0.tgz"));
    let package = request.package.as_mut().unwrap();
    package.destination = Destination::Packages { new: new.clone(), place: installed.clone() };
    let blob = std::fs::read(place.at("blob")).unwrap();
    let sha512 = sha512(&mut &blob[..]).unwrap();
    let digest = package.digest;
    place.write("attempt/old.log", "of another attempt");
    let answer = acceptor(ACCEPTING).accept(&request);
    assert_eq!(answer.result, Ok(Taken::Package(AcceptedPackage { digest, installed: Some(sha512) })));
    assert_eq!(std::fs::read(&installed).unwrap(), blob);
    assert!(!new.exists() && !place.at("attempt").exists());

    // What is there stays if the next one is refused.
    request.package.as_mut().unwrap().digest = Digest([7; 32]);
    assert!(refusal(acceptor(ACCEPTING).accept(&request)).contains("its digest is"));
    assert_eq!(std::fs::read(&installed).unwrap(), blob);
    assert!(!new.exists() && place.at("attempt").is_dir(), "logs of the coordinator's steps may come");
    let refusing = r#"dd bs=1 count=100 >/dev/null 2>&1; printf '\016\0\0\0{"Err":"evil"}' >&0; cat >/dev/null"#;
    request.package.as_mut().unwrap().digest = digest;
    assert_eq!(refusal(acceptor(refusing).accept(&request)), "lib-1.0: evil");
    assert!(installed.exists() && !new.exists());
}

#[test]
fn endless_logs_are_shortened() {
    let place = Scratch::new("acceptance-logs");
    place.write("build.log", format!("begin{}the error", "x".repeat(5_000)));
    place.write("fetch.log", "short\n");
    place.write("wrkdir.tar.gz", "y".repeat(2_500));
    let mut request = request(&place, &["build.log", "fetch.log", "wrkdir.tar.gz"]);
    request.package = None;
    let answer = acceptor("exit").accept(&request);
    assert_eq!(answer.result, Ok(Taken::Logs));
    assert_eq!(answer.notes, ["build.log of 5014 bytes was shortened", "wrkdir.tar.gz of 2500 bytes was left out"]);
    let text = std::fs::read_to_string(place.at("attempt/build.log")).unwrap();
    assert!(text.starts_with("begin") && text.ends_with("the error") && text.len() < 1_100, "{}", text.len());
    assert!(text.contains("[tanto: 4014 bytes are left out here]"));
    assert_eq!(std::fs::read_to_string(place.at("attempt/fetch.log")).unwrap(), "short\n");
    assert!(!place.at("attempt/wrkdir.tar.gz").exists());
}

/// Waits for all answers.
fn answers(acceptance: &mut Acceptance, count: usize) -> Vec<AcceptAnswer> {
    let mut all = Vec::new();
    while all.len() < count {
        all.extend(acceptance.answers());
        std::thread::sleep(Duration::from_millis(1));
    }
    all
}

#[test]
fn result_at_which_the_process_ended_is_refused() {
    let place = Scratch::new("acceptance-process");
    let first = AcceptorRequest::Accept(Box::new(request(&place, &[])));
    let second = AcceptorRequest::Accept(Box::new(AcceptRequest { number: 8, ..request(&place, &[]) }));
    let line = r#"if test -e "$0"; then printf '\056\0\0\0{"number":8,"notes":[],"result":{"Ok":"Logs"}}' >&0; cat >/dev/null; fi
        touch "$0"; exit 3"#;
    let once = place.at("once").to_string_lossy().into_owned();
    let mut acceptance = Acceptance::new(move || {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(line).arg(&once);
        shell
    })
    .unwrap();
    acceptance.submit(&first);
    acceptance.submit(&second);
    let all = answers(&mut acceptance, 2);
    assert_eq!(all.iter().map(|answer| answer.number).collect::<Vec<_>>(), [7, 8]);
    assert!(all[0].result.as_ref().unwrap_err().starts_with("the process that accepts results ended (exit status: 3)"));
    assert_eq!(all[1].result, Ok(Taken::Logs));
    let changes: Vec<bool> = acceptance.take_changes().into_iter().map(|(_, runs)| runs).collect();
    assert_eq!(changes, [true, false, true]);
}

#[test]
fn result_without_a_process_is_refused() {
    let mut acceptance = Acceptance::new(|| Command::new(Path::new("/nonexistent"))).unwrap();
    let place = Scratch::new("acceptance-none");
    acceptance.submit(&AcceptorRequest::Accept(Box::new(request(&place, &[]))));
    let why = refusal(answers(&mut acceptance, 1).remove(0));
    assert!(why.starts_with("the process that accepts results cannot be started: "), "{why}");
}

#[test]
fn packages_to_compare_are_verified() {
    let place = Scratch::new("acceptance-compare");
    let (whole, longer) = (package(&[]), package(&[file("lib/b", b"b")]));
    place.write("whole", &whole);
    place.write("longer", &longer);
    let stored = |name: &str, bytes: &[u8]| StoredPackage {
        path: place.at(name),
        digest: Digest(tanto_cas::Digest::of(bytes).0),
        size: bytes.len() as u64,
    };
    let others = vec![stored("whole", &whole), stored("longer", &longer)];
    let request = CompareRequest { number: 7, package: stored("whole", &whole), others };
    // Both are read to their ends.
    let line = r#"exec dd bs=65536 count=1 of=/dev/null 2>/dev/null"#;
    let why = acceptor(line).compare(&request).unwrap_err();
    assert_eq!(why, "the process that opens packages ended: exit status: 0");
    let answering = r#"dd bs=1 count=100 >/dev/null 2>&1; printf '\003\0\0\0[7]' >&0; cat >/dev/null"#;
    assert!(acceptor(answering).compare(&request).is_err(), "no names");
    let answering = r#"dd bs=1 count=100 >/dev/null 2>&1; printf '\005\0\0\0["x"]\005\0\0\0["x"]' >&0; cat >/dev/null"#;
    assert_eq!(acceptor(answering).compare(&request), Ok(vec![vec!["x".to_owned()]; 2]));
    let changed = |change: &dyn Fn(&mut StoredPackage)| {
        let mut request = request.clone();
        change(&mut request.others[1]);
        acceptor(answering).compare(&request).unwrap_err()
    };
    let path = place.at("longer").display().to_string();
    assert_eq!(changed(&|it| it.size += 1), format!("{path} has changed"));
    assert_eq!(changed(&|it| it.digest = Digest([7; 32])), format!("{path} has changed"));
    assert!(changed(&|it| it.path = place.at("none")).contains("cannot be read"));
}
