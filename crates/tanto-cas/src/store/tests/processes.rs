//! Tests with several processes: kills, limits, and concurrent use.
//!
//! The other process is this test program, which runs `child` alone.

use std::env;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;

use tanto_testing::{Random, seeds};

use super::*;

/// More would take minutes.
const MAX_SEEDS: usize = 150;
/// The variable with the role of a child.
const ROLE: &str = "TANTO_CAS_TEST_ROLE";
/// The variable with the store of a child.
const STORE: &str = "TANTO_CAS_TEST_STORE";

fn command(role: &str, place: &Scratch) -> Command {
    // The limit is set by a shell, in units of 512 bytes.
    let script = if role == "limited" { "ulimit -f 16 && exec \"$@\"" } else { "exec \"$@\"" };
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(env::current_exe().unwrap());
    command.args(["--exact", "store::tests::processes::child", "--nocapture"]);
    command.env(ROLE, role).env(STORE, place.at("store")).stdout(Stdio::null()).stderr(Stdio::inherit());
    command
}

fn spawn(role: &str, place: &Scratch) -> Child {
    command(role, place).spawn().unwrap()
}

#[test]
fn child() {
    let (Ok(role), Ok(store)) = (env::var(ROLE), env::var(STORE)) else { return };
    let store = Store::open(Path::new(&store), limits()).unwrap();
    match role.as_str() {
        "limited" => fill(&store),
        "endless" => (0..100_000).for_each(|round| use_store(&store, round)),
        _ => (0..40).for_each(|round| use_store(&store, round)),
    }
}

fn use_store(store: &Store, round: u64) {
    let mut random = Random::new(round);
    let content = vec![random.below(20) as u8; random.below(100_000)];
    let digest = put(store, &content);
    store.pin(&[digest], std::time::SystemTime::now() + Duration::from_secs(100)).unwrap();
    // The other process may upload the same blob.
    if let Ok(mut upload) = store.upload(&[1; 16], &digest, content.len() as u64) {
        let at = upload.length() as usize;
        if at < content.len() {
            upload.append(at as u64, &mut &content[at..=at]).unwrap();
        }
    }
    let epoch = store.begin_epoch().unwrap();
    let kept = put(store, &content);
    store.collect(epoch, [], 500_000).unwrap();
    assert_eq!(get(store, &kept).unwrap(), content);
}

fn fill(store: &Store) {
    let large = vec![1; 100_000];
    let add = |content: &[u8]| store.add(&mut &content[..], u64::MAX, Durability::Process);
    assert!(matches!(add(&large), Err(StoreError::NoSpace(_))));
    assert!(!store.contains(&Digest::of(&large)).unwrap());
    add(b"small").unwrap();
    let mut upload = store.upload(&[1; 16], &Digest::of(&large), 100_000).unwrap();
    assert!(matches!(upload.append(0, &mut &large[..]), Err(StoreError::NoSpace(_))));
    check_clean(store);
}

#[test]
fn a_file_that_cannot_grow_is_reported() {
    let place = Scratch::new("cas-limited");
    assert!(spawn("limited", &place).wait().unwrap().success());
    check_clean(&open(&place));
}

#[test]
fn two_processes_share_a_store() {
    let place = Scratch::new("cas-two");
    let children = [(); 2].map(|()| spawn("some", &place));
    let store = open(&place);
    (0..40).for_each(|round| use_store(&store, round));
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    check_clean(&open(&place));
}

#[test]
fn killed_processes_leave_whole_blobs() {
    let place = Scratch::new("cas-kill");
    for seed in seeds(15).take(MAX_SEEDS) {
        let mut child = spawn("endless", &place);
        sleep(Duration::from_millis(Random::new(seed).below(60) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        // A new store removes what was left, and every blob is whole.
        let store = open(&place);
        check_clean(&store);
        assert_eq!(store.bad.names().unwrap().len(), 0, "seed {seed}");
    }
}
