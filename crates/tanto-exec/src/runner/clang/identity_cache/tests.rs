//! Whole and torn cache files.

use super::*;
use tanto_testing::Scratch;

fn identity(name: &str, is_replaced: bool) -> Identity {
    let lld = is_replaced.then(|| PathBuf::from("/bin/a b/lld"));
    let files = vec![(PathBuf::from(name), Stamp([1, 2, 3, -4, 5])), (PathBuf::from("/lib/x"), Stamp([0; 5]))];
    let builds = if is_replaced { vec![(PathBuf::from(name), b"01ab".to_vec())] } else { Vec::new() };
    Identity { program: PathBuf::from(name), is_replaced, lld, files, builds }
}

#[test]
fn entries_round_trip() {
    let dir = Scratch::new("known");
    let file = dir.at("sub/known");
    let cache = [identity("/bin/clang", true), identity("/opt/a b/clang", false)];
    write(&file, "here", &cache).unwrap();
    assert_eq!(read(&file, "here"), cache);
    assert_eq!(read(&file, "elsewhere"), []);
    assert_eq!(read(&dir.at("none"), "here"), []);
    let met = [("/bin/clang".into(), true), ("/opt/a b/clang".into(), false)];
    assert_eq!(programs(&file), met);
    assert_eq!(programs(&dir.at("none")), []);
}

#[test]
fn the_oldest_entries_are_dropped() {
    let dir = Scratch::new("known-last");
    let file = dir.at("known");
    let cache: Vec<_> = (0..MOST + 2).map(|i| identity(&format!("/bin/{i}"), true)).collect();
    write(&file, "", &cache).unwrap();
    assert_eq!(read(&file, ""), cache[2..]);
}

#[test]
fn a_torn_file_yields_no_wrong_entry() {
    let dir = Scratch::new("known-torn");
    let file = dir.at("known");
    let cache = [identity("/bin/clang", true), identity("/opt/clang", false)];
    write(&file, "here", &cache).unwrap();
    let whole = fs::read(&file).unwrap();
    for length in 0..whole.len() {
        fs::write(&file, &whole[..length]).unwrap();
        // If it is cut before one of the files of the last program, that file is not checked.
        let read = read(&file, "here");
        assert!(
            read.iter()
                .zip(&cache)
                .all(|(one, other)| one.program == other.program && one.is_replaced == other.is_replaced)
        );
    }
}
