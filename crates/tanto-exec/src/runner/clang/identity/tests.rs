//! Tests of finding clang, on made-up files.

use super::*;
use std::os::unix::fs::{PermissionsExt, symlink};
use tanto_testing::Scratch;

/// A file that looks like a program.
fn program(dir: &Scratch, name: &str, content: &str) -> PathBuf {
    dir.write(name, content);
    let path = dir.at(name);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.canonicalize().unwrap()
}

fn real_path(name: &[u8], path: &[u8]) -> Option<PathBuf> {
    find(name, path).map(|found| found.real)
}

#[test]
fn names_of_compilers_and_linkers_are_recognized() {
    for name in
        ["clang", "clang++", "clang-19", "clang-19.1", "aarch64-linux-gnu-clang", "x-clang++-16", "lld", "ld.lld"]
    {
        assert!(is_compiler_or_linker(name.as_bytes()), "{name}");
    }
    for name in ["clang-format", "clang-tidy-19", "gcc", "lldb", "myclang", "clang-cl.exe", ""] {
        assert!(!is_compiler_or_linker(name.as_bytes()), "{name}");
    }
}

#[test]
fn programs_are_found_in_path() {
    let dir = Scratch::new("identity");
    let real = program(&dir, "llvm/bin/clang", "\x7fELF");
    program(&dir, "ccache/bin/ccache", "\x7fELF");
    fs::create_dir_all(dir.at("bin")).unwrap();
    symlink("../llvm/bin/clang", dir.at("bin/clang++-19")).unwrap();
    symlink("../ccache/bin/ccache", dir.at("bin/clang")).unwrap();
    let path = format!("/nowhere:{0}/bin:{0}/llvm/bin", dir.text());
    assert_eq!(real_path(b"clang++-19", path.as_bytes()), Some(real.clone()));
    assert_eq!(real_path(b"clang", path.as_bytes()), None, "a link to another program comes first");
    assert_eq!(real_path(format!("{}/llvm/bin/clang", dir.text()).as_bytes(), b""), Some(real));
    assert_eq!(real_path(b"clang-18", path.as_bytes()), None);
}

#[test]
fn scripts_and_other_files_are_not_clang() {
    let dir = Scratch::new("identity-odd");
    let script = program(&dir, "clang", "#!/bin/sh\nexec /usr/bin/clang \"$@\"\n");
    assert_eq!(real_path(script.as_os_str().as_bytes(), b""), None);
    let not_executable = program(&dir, "clang-1", "\x7fELF");
    fs::set_permissions(&not_executable, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(real_path(not_executable.as_os_str().as_bytes(), b""), None);
    let another = program(&dir, "gcc", "\x7fELF");
    assert_eq!(real_path(another.as_os_str().as_bytes(), b""), None);
}

#[test]
fn changes_shortly_before_a_time_are_not_older() {
    let dir = Scratch::new("identity-age");
    let before = SystemTime::now();
    dir.write("clang", "x");
    let stamp = Stamp::of(&dir.at("clang")).unwrap();
    assert!(!stamp.is_older(before) && !stamp.is_older(UNIX_EPOCH));
    let after = SystemTime::now();
    assert!(stamp.is_older(after + MIN_AGE + Duration::from_secs(1)));
}

#[test]
fn changed_programs_are_detected() {
    let dir = Scratch::new("identity-stamp");
    let path = program(&dir, "clang", "\x7fELF");
    let files = vec![(path.clone(), Stamp::of(&path).unwrap())];
    let identity = Identity { program: path.clone(), is_replaced: true, lld: None, files, builds: Vec::new() };
    assert!(identity.is_unchanged());
    // Same size and mtime, but another ctime.
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::write(&path, "\x7fELG").unwrap();
    File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    assert!(!identity.is_unchanged());
    fs::remove_file(&path).unwrap();
    assert!(!identity.is_unchanged());
}

#[test]
fn variables_that_change_clang_are_detected() {
    let with = |name: &str, value: &str| {
        let environment = Environment::inherit_with(&[(name.into(), value.into())]);
        checkpoint_variable(&environment).is_some()
    };
    assert!(!with("CFLAGS", "-O2"));
    assert!(with("CLANG_SPAWN_CC1", "1"));
    assert!(!with("CLANG_SPAWN_CC1", "0"));
    assert!(with("CCC_OVERRIDE_OPTIONS", "") && with("CC_PRINT_HEADERS", "1"));
}

#[test]
fn versions_match_whole_words() {
    assert!(has_words(b"Debian LLD 19.1.7 (compatible with GNU linkers)\n", b"Debian LLD 19.1.7"));
    assert!(has_words(b"Debian LLD 19.1.7", b"Debian LLD 19.1.7"));
    assert!(!has_words(b"Debian LLD 19.1.70", b"Debian LLD 19.1.7"));
}
