//! Tests of layers, combined as an overlay mount would. `tests/bulk/layers.py` tests real mounts.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use tanto_testing::{Random, Scratch};

use super::*;
use crate::package::archive::tests::{ended, file, link};

struct Tree {
    place: Scratch,
    root: InstallRoot,
}

impl Tree {
    fn new(pkgdb: &str) -> Tree {
        let place = Scratch::new("layers");
        for dir in ["packages", "slots", "kit"] {
            fs::create_dir(place.at(dir)).unwrap();
        }
        let root = InstallRoot { prefix: "/pkg".into(), pkgdb: pkgdb.into(), as_user: false };
        let tree = Tree { place, root };
        tree.store().begin().unwrap();
        tree
    }

    fn store(&self) -> LayerStore {
        LayerStore::new(self.place.at("layers"), self.root.clone(), 0)
    }

    /// Adds a package with these lines in its packing list and these members.
    fn add(&self, name: &str, lines: &str, members: Vec<Vec<u8>>) {
        let contents = format!("@name {name}\n@cwd /pkg\n{lines}");
        let meta = [file("+CONTENTS", contents.as_bytes()), file("+COMMENT", b"a package\n")];
        let archive = ended(meta.into_iter().chain(members).flatten().collect());
        self.place.write(&format!("packages/{name}.tgz"), archive);
    }

    fn lowest(&self) -> (PathBuf, PathBuf) {
        let kit = self.place.at("kit");
        (kit.join("pkg"), kit.join(self.root.pkgdb.strip_prefix("/").unwrap()))
    }

    fn compose(&self, direct: &[&str], indirect: &[&str]) -> Result<LayerStack, LayerError> {
        let private = self.place.at(&format!("slots/{}", direct.join("-").len()));
        let _ = fs::remove_dir_all(&private);
        fs::create_dir(&private).unwrap();
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let dependencies = Dependencies {
            direct: owned(direct),
            indirect: owned(indirect),
            packages: self.place.at("packages"),
            suffix: ".tgz".into(),
            pkg_add: String::new(),
        };
        let (prefix, db) = self.lowest();
        compose(&self.store(), &dependencies, (&prefix, &db), &private)
    }

    fn unsupported(&self, direct: &[&str]) -> String {
        match self.compose(direct, &[]) {
            Err(LayerError::Unsupported(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    fn needs_pkg_add(&self, name: &str) -> Option<String> {
        let composed = self.compose(&[name], &[]).unwrap();
        let layer = fs::read_dir(self.place.at("layers/layers")).unwrap().map(|entry| entry.unwrap().path());
        let layer =
            layer.into_iter().find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(name)).unwrap();
        let info = PackageInfo::read(&fs::read(layer.join("info")).unwrap()).unwrap();
        assert_eq!(info.needs_pkg_add.is_some(), composed.needs_pkg_add.iter().any(|it| it.name == name));
        assert!(info.needs_pkg_add.is_none() || fs::read_dir(&layer).unwrap().count() == 1, "its layer is empty");
        info.needs_pkg_add
    }
}

/// Returns modes, and contents or link targets, by path. The first directory is uppermost.
fn overlay(lowers: &[PathBuf]) -> BTreeMap<String, (u32, String)> {
    let mut all = BTreeMap::new();
    lowers.iter().rev().for_each(|lower| add_entries(lower, "", &mut all));
    all
}

fn add_entries(dir: &Path, at: &str, all: &mut BTreeMap<String, (u32, String)>) {
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let entry = entry.unwrap();
        let data = entry.metadata().unwrap();
        let name = format!("{at}{}", entry.file_name().to_str().unwrap());
        let mode = data.permissions().mode() & 0o7777;
        if data.is_dir() {
            add_entries(&entry.path(), &format!("{name}/"), all);
            all.insert(name, (mode, String::new()));
        } else if data.is_symlink() {
            all.insert(name, (0, fs::read_link(entry.path()).unwrap().to_str().unwrap().into()));
        } else {
            all.insert(name, (mode, String::from_utf8_lossy(&fs::read(entry.path()).unwrap()).into_owned()));
        }
    }
}

#[test]
fn layers_match_an_installation_by_pkg_add() {
    for (pkgdb, at) in [("/db", ""), ("/pkg/lib/db", "lib/db/")] {
        let tree = Tree::new(pkgdb);
        tree.add(
            "lib-1",
            "lib/a\nlib/b\nlib/c\n@pkgdir var/own\n",
            vec![file("lib/a", b"text"), link("lib/b", 1, "lib/a"), link("lib/c", 2, "a")],
        );
        tree.add("app-2", "@pkgdep lib>=1\n@pkgdep kit\nbin/app\n@pkgdir var/own\n", vec![file("bin/app", b"run")]);
        let kit = format!("kit{pkgdb}");
        tree.place.write(&format!("{kit}/kit-1/+CONTENTS"), "@name kit-1\n@cwd /pkg\nbin/kit\n");
        tree.place.write(&format!("{kit}/kit-1/+REQUIRED_BY"), "other-1\n");
        tree.place.write(&format!("{kit}/pkgdb.byfile.db"), "");
        let composed = tree.compose(&["app-2"], &["lib-1"]).unwrap();
        assert_eq!(composed.needs_pkg_add, []);
        assert_eq!(composed.pkgdb.is_empty(), !at.is_empty());
        let prefix = overlay(&composed.prefix);
        let db = if at.is_empty() { overlay(&composed.pkgdb) } else { prefix.clone() };
        let of = |map: &BTreeMap<String, (u32, String)>, name: &str| map.get(name).cloned().unwrap_or_default();
        let text = |text: &str| text.to_owned();
        assert_eq!(of(&prefix, "lib/a"), (0o644, text("text")));
        assert_eq!((of(&prefix, "lib/c"), of(&prefix, "var/own")), ((0, text("a")), (0o755, text(""))));
        let inode = |name: &str| {
            let mut found = composed.prefix.iter().filter_map(|dir| fs::metadata(dir.join(name)).ok());
            found.next().unwrap().ino()
        };
        assert_eq!(inode("lib/a"), inode("lib/b"));
        let in_db = |name: &str| of(&db, &format!("{at}{name}"));
        assert_eq!(in_db("lib-1/+REQUIRED_BY"), (0o644, text("app-2\n")));
        assert_eq!(in_db("lib-1/+INSTALLED_INFO"), (0o644, text("automatic=yes\n")));
        assert_eq!(in_db("app-2/+INSTALLED_INFO"), (0, text("")));
        assert_eq!(in_db("app-2/+COMMENT"), (0o444, text("a package\n")));
        assert_eq!(in_db("app-2/+CONTENTS").0, 0o644);
        assert_eq!(in_db("kit-1/+REQUIRED_BY"), (0o644, text("other-1\napp-2\n")));
        let lowers = if at.is_empty() { &composed.pkgdb } else { &composed.prefix };
        let byfile = lowers.iter().find_map(|dir| fs::read(dir.join(at).join("pkgdb.byfile.db")).ok()).unwrap();
        let expected = [
            ("/pkg/bin/app", "app-2"),
            ("/pkg/bin/kit", "kit-1"),
            ("/pkg/lib/a", "lib-1"),
            ("/pkg/lib/b", "lib-1"),
            ("/pkg/lib/c", "lib-1"),
            ("/pkg/var/own", "@pkgdir lib-1 app-2"),
        ];
        assert!(btree::tests::entries(&byfile).iter().map(|(key, value)| (&**key, &**value)).eq(expected));
    }
}

#[test]
fn packages_with_scripts_need_pkg_add() {
    let tree = Tree::new("/db");
    tree.add("lib-1", "lib/a\n", vec![file("lib/a", b"")]);
    tree.add("scripted-1", "@pkgdep lib\nbin/x\n", vec![file("+INSTALL", b"#!/bin/sh\n"), file("bin/x", b"")]);
    tree.add("user-1", "@pkgdep scripted\nbin/y\n", vec![file("bin/y", b"")]);
    let composed = tree.compose(&["user-1"], &["lib-1", "scripted-1"]).unwrap();
    let needs_pkg_add = NeedsPkgAdd { name: "scripted-1".into(), automatic: true, needed_by: vec!["user-1".into()] };
    assert_eq!(composed.needs_pkg_add, [needs_pkg_add]);
    let (prefix, db) = (overlay(&composed.prefix), overlay(&composed.pkgdb));
    assert!(prefix.contains_key("bin/y") && !prefix.contains_key("bin/x"));
    assert!(!db.keys().any(|name| name.starts_with("scripted")), "pkg_add would consider it installed");
    assert!(!db.contains_key("lib-1/+REQUIRED_BY"), "pkg_add adds that line");
}

#[test]
fn unusual_packages_need_pkg_add_and_write_nowhere() {
    let tree = Tree::new("/db");
    fs::create_dir(tree.place.at("outside")).unwrap();
    let outside = tree.place.at("outside").to_str().unwrap().to_owned();
    let x = |path: &str| file(path, b"x");
    let packages = [
        ("up-1", "../x\n".into(), vec![x("../x")], "it has a malformed path"),
        ("abs-1", format!("{outside}/x\n"), vec![x(&format!("{outside}/x"))], "it has a malformed path"),
        ("dots-1", "a/./x\n".into(), vec![x("a/./x")], "it has a malformed path"),
        ("through-1", "a\na/x\n".into(), vec![link("a", 2, &outside), x("a/x")], "conflicting entries in the package"),
        ("twice-1", "x\nx\n".into(), vec![x("x"), x("x")], "conflicting entries in the package"),
        ("hard-1", "x\n".into(), vec![link("x", 1, "/etc/passwd")], "it has a hard link to another package's file"),
        ("other-1", "y\n".into(), vec![x("x")], "its files differ from its packing list"),
        ("more-1", "x\n".into(), vec![x("x"), x("y")], "it has files outside its packing list"),
        ("less-1", "x\ny\n".into(), vec![x("x")], "its files differ from its packing list"),
        ("dir-1", "@pkgdir ../x\n".into(), vec![], "it has a malformed path"),
        ("mode-1", "@mode 0444\nx\n".into(), vec![x("x")], "it sets modes or owners of files"),
        ("exec-1", "x\n@exec true\n".into(), vec![x("x")], "it has an install script"),
        ("cwd-1", "@cwd /other\nx\n".into(), vec![x("x")], "it has another prefix"),
    ];
    for (name, lines, members, why) in packages {
        tree.add(name, &lines, members);
        assert_eq!(tree.needs_pkg_add(name).as_deref(), Some(why), "{name}");
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    tree.add("even-1", "@mode\nx\n", vec![x("x")]);
    assert_eq!(tree.needs_pkg_add("even-1"), None);
}

#[test]
fn conflicting_packages_are_unsupported() {
    let tree = Tree::new("/db");
    tree.add("one-1", "lib\n", vec![link("lib", 2, "lib64")]);
    tree.add("two-1", "lib/x\n", vec![file("lib/x", b"")]);
    tree.add("three-1", "lib/x\n", vec![file("lib/x", b"")]);
    assert_eq!(tree.unsupported(&["one-1", "two-1"]), "lib is a directory, and also a file of one-1");
    assert_eq!(tree.unsupported(&["two-1", "three-1"]), "two-1 and three-1 both contain lib/x");
    assert_eq!(tree.unsupported(&["four-1"]), "no binary package of four-1");
    fs::create_dir(tree.place.at("kit/pkg")).unwrap();
    std::os::unix::fs::symlink("x", tree.place.at("kit/pkg/lib")).unwrap();
    assert_eq!(tree.unsupported(&["two-1"]), "lib is not a directory in the bootstrap kit");
    tree.place.write("packages/bad-1.tgz", "no package at all");
    assert!(tree.unsupported(&["bad-1"]).ends_with("bad-1.tgz: the package is truncated"));
}

#[test]
fn similar_sets_share_groups_of_layers() {
    let tree = Tree::new("/pkg/db");
    let mut random = Random::new(1);
    let names: Vec<String> = (0..60).map(|number| format!("p{number}-1")).collect();
    for (number, name) in names.iter().enumerate() {
        let needed = if number > 3 { format!("@pkgdep p{}-[0-9]*\n", random.below(number)) } else { String::new() };
        tree.add(
            name,
            &format!("{needed}d{}/{name}\n", number % 7),
            vec![file(&format!("d{}/{name}", number % 7), b"")],
        );
    }
    let direct: Vec<&str> = names.iter().map(String::as_str).collect();
    let composed = tree.compose(&direct, &[]).unwrap();
    assert!((4..=groups::MAX_GROUPS + 1).contains(&composed.prefix.len()), "{}", composed.prefix.len());
    let files = overlay(&composed.prefix);
    assert!((0..60).all(|it| files.contains_key(&format!("d{}/p{it}-1", it % 7))
        && files.contains_key(&format!("db/p{it}-1/+CONTENTS"))));
    // Without one package, most groups are the same.
    let fewer = tree.compose(&direct[..59], &[]).unwrap();
    let other = fewer.prefix.iter().skip(1).filter(|layer| !composed.prefix.contains(layer)).count();
    assert!(other <= 1, "{other} of {}", fewer.prefix.len());
    assert_eq!(overlay(&fewer.prefix).keys().filter(|name| name.ends_with("-1")).count(), 2 * 59);
}
