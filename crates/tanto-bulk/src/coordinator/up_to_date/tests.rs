//! Freshness of real package files.

use std::path::Path;
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use tanto_testing::Scratch;

use super::*;
use crate::package::archive::tests::{gzip, tar};
use crate::package::records;

const MAKEFILE: &str = "# $NetBSD: Makefile,v 1.7 2017/01/01 00:00:00 test Exp $\nX=\n";
const IDENT: &str = "$NetBSD: Makefile,v 1.7 2017/01/01 00:00:00 test Exp $";

struct World {
    scratch: Scratch,
}

impl World {
    fn new(name: &str) -> World {
        let scratch = Scratch::new(name);
        scratch.write("tree/a/lib/Makefile", MAKEFILE);
        scratch.write("tree/a/lib/plain", "no ident\n");
        World { scratch }
    }

    /// Writes a package file with an mtime in seconds.
    fn package(&self, name: &str, build_version: &str, built_with: &[&str], second: u64) {
        let needs: String = built_with.iter().map(|name| format!("@blddep {name}\n")).collect();
        let contents = format!("@name {name}\n@cwd /usr/pkg\n{needs}bin/x\n");
        let members: [(&str, &[u8]); 3] =
            [("+CONTENTS", contents.as_bytes()), ("+BUILD_VERSION", build_version.as_bytes()), ("bin/x", b"x")];
        let path = format!("packages/All/{name}.tgz");
        self.scratch.write(&path, "");
        std::fs::write(self.scratch.at(&path), gzip(&tar(&members))).unwrap();
        let file = std::fs::File::options().write(true).open(self.scratch.at(&path)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + second)).unwrap();
    }

    fn plan(packages: &[(&str, &[PackageId])]) -> Plan {
        let text: String = packages.iter().map(|(name, _)| format!("PKGNAME={name}\nPKG_LOCATION=a/b\n")).collect();
        let records = records::read(text.as_bytes()).unwrap();
        Plan::new(&records, &packages.iter().map(|(_, depends)| depends.to_vec()).collect::<Vec<_>>()).unwrap()
    }

    fn inspect(&self, plan: &Plan) -> Vec<Inspection> {
        let path = |path: &str| self.scratch.at(path).to_string_lossy().into_owned();
        let (pkgsrc, packages) = (path("tree"), path("packages"));
        inspect(plan, PackageFiles { pkgsrc: &pkgsrc, packages: &packages, suffix: ".tgz", contents: false })
    }

    fn settled(&self, mut plan: Plan, ages: bool) -> Plan {
        let found = self.inspect(&plan);
        settle(&mut plan, found, if ages { &Ages::Files } else { &Ages::Ignored }).unwrap();
        plan
    }

    fn why(&self, name: &str, depends: &[(&str, &[PackageId])]) -> String {
        let mut all = depends.to_vec();
        let needs: Vec<PackageId> = (0..depends.len() as PackageId).collect();
        all.push((name, &needs));
        self.inspect(&Self::plan(&all)).pop().unwrap().verdict.err().unwrap_or_default()
    }
}

#[test]
fn changed_source_file_makes_package_stale() {
    let world = World::new("check-files");
    let digest: String = Sha256::digest("no ident\n").iter().map(|byte| format!("{byte:02x}")).collect();
    let makefile = format!("a/lib/Makefile:\t{IDENT}\n");
    for (build_version, why) in [
        ("", ""),
        (&*makefile, ""),
        (&*format!("{makefile}a/lib/plain: {digest}\n"), ""),
        (&*makefile.replace("1.7", "1.6"), "a/lib/Makefile has changed"),
        (&*format!("{makefile}a/lib/gone: $NetBSD: gone,v 1$\n"), "a/lib/gone is gone"),
        ("a/lib: $NetBSD: x$\n", "a/lib is gone"),
        ("a/lib/plain: $NetBSD: x$\n", "a/lib/plain has changed"),
        (&*format!("a/lib/plain: {}\n", "0".repeat(64)), "a/lib/plain has changed"),
        ("a/lib/plain: \n", "a/lib/plain has changed"),
        ("what", "its +BUILD_VERSION is malformed"),
    ] {
        world.package("lib-1.0", build_version, &[], 0);
        assert_eq!(world.why("lib-1.0", &[]), why, "{build_version}");
    }
}

#[test]
fn file_with_several_idents_matches_each() {
    let world = World::new("check-idents");
    world
        .scratch
        .write("tree/a/lib/patch-aa", "$NetBSD: patch-aa,v 1$\n+ # $NetBSD: x$ $NetBSD: other,v 2$ more\n$NetBSD\n");
    for (build_version, why) in [
        ("a/lib/patch-aa: $NetBSD: other,v 2$\na/lib/patch-aa: $NetBSD: patch-aa,v 1$\n", ""),
        ("a/lib/patch-aa: $NetBSD: x$\n", "a/lib/patch-aa has changed"),
        ("a/lib/patch-aa: $NetBSD\n", "a/lib/patch-aa has changed"),
    ] {
        world.package("lib-1.0", build_version, &[], 0);
        assert_eq!(world.why("lib-1.0", &[]), why, "{build_version}");
    }
}

#[test]
fn changed_dependency_makes_package_stale() {
    let world = World::new("check-needs");
    let depends: [(&str, &[PackageId]); 2] = [("lib-1.3", &[]), ("new-1", &[])];
    for (built_with, why) in [
        (&["lib-1.3"][..], ""),
        (&[], ""),
        (&["lib-1.2"], "it needs lib-1.3 instead of lib-1.2"),
        (&["lib-1.3", "old-1"], "it was built with old-1, which it no longer needs"),
    ] {
        world.package("user-1.0", "", built_with, 0);
        assert_eq!(world.why("user-1.0", &depends), why);
    }
}

#[test]
fn missing_and_foreign_files_are_stale() {
    let world = World::new("check-bad");
    assert_eq!(world.why("lib-1.0", &[]), "it was not built yet");
    world.package("other-1", "", &[], 0);
    std::fs::rename(world.scratch.at("packages/All/other-1.tgz"), world.scratch.at("packages/All/lib-1.0.tgz"))
        .unwrap();
    assert_eq!(world.why("lib-1.0", &[]), "its package file contains other-1");
    world.scratch.write("packages/All/lib-1.0.tgz", "no package at all");
    assert_eq!(world.why("lib-1.0", &[]), "the package is truncated");
    let path = world.scratch.at("packages/All/lib-1.0.tgz");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(world.why("lib-1.0", &[]), "its file: is a directory");
}

fn states(plan: &Plan) -> Vec<(State, Freshness)> {
    plan.packages.iter().map(|it| (it.state(), it.freshness.clone())).collect()
}

#[test]
fn up_to_date_package_with_done_dependencies_is_done() {
    let world = World::new("check-settle");
    world.package("lib-1.0", "a/lib/Makefile: $NetBSD: old$\n", &[], 1);
    world.package("good-1.0", "", &[], 1);
    world.package("user-1.0", "", &["lib-1.0"], 2);
    world.package("both-1.0", "", &["good-1.0"], 2);
    world.package("fine-1.0", "", &["good-1.0"], 2);
    world.package("late-1.0", "", &["good-1.0"], 1);
    let packages: [(&str, &[PackageId]); 6] = [
        ("lib-1.0", &[]),
        ("good-1.0", &[]),
        ("user-1.0", &[0]),
        ("both-1.0", &[0, 1]),
        ("fine-1.0", &[1]),
        ("late-1.0", &[1]),
    ];
    let changed = Freshness::Stale("a/lib/Makefile has changed".into());
    let newer = Freshness::Stale("good-1.0, which it was built with, is newer".into());
    use Freshness::UpToDate;
    use State::{Done, Open};
    let plan = world.settled(World::plan(&packages), true);
    assert_eq!(*plan.package(1).package_state(), PackageState::Done(Success::UpToDate));
    let expected = [
        (Open, changed.clone()),
        (Done, UpToDate(vec![])),
        (Open, UpToDate(vec![0])),
        (Open, UpToDate(vec![1])),
        (Done, UpToDate(vec![1])),
        (Open, newer),
    ];
    assert_eq!(states(&plan), expected);
    let plan = world.settled(World::plan(&packages), false);
    let [open, done] = [Open, Done].map(|state| (state, UpToDate(vec![])));
    assert_eq!(states(&plan), [(Open, changed), done.clone(), open.clone(), open, done.clone(), done]);
}

#[test]
fn rebuilt_package_makes_dependents_stale() {
    let world = World::new("check-due");
    world.package("user-1.0", "", &["lib-1.0"], 2);
    world.package("loose-1.0", "", &[], 2);
    let mut plan =
        world.settled(World::plan(&[("lib-1.0", &[]), ("user-1.0", &[0]), ("loose-1.0", &[0]), ("skip-1", &[])]), true);
    let whys = |plan: &Plan| plan.all().map(|it| plan.build_reason(it)).collect::<Vec<_>>();
    let missing = || Some("it was not built yet".to_owned());
    assert_eq!(whys(&plan), [missing(), None, None, missing()]);
    plan.mark_rebuilt(0);
    let rebuilt = Some("lib-1.0, which it was built with, was built again".to_owned());
    assert_eq!(whys(&plan), [missing(), rebuilt, None, missing()]);
}

#[test]
fn predict_names_the_reason_of_each_build() {
    let world = World::new("check-foretold");
    world.package("user-1.0", "", &["lib-1.0"], 2);
    world.package("deep-1.0", "", &["user-1.0"], 3);
    world.package("loose-1.0", "", &[], 2);
    let plan = world
        .settled(World::plan(&[("lib-1.0", &[]), ("user-1.0", &[0]), ("deep-1.0", &[1]), ("loose-1.0", &[0])]), true);
    let by = |name: &str| Some(format!("{name}, which it was built with, has to be built"));
    assert_eq!(predict(&plan).unwrap(), [Some("it was not built yet".into()), by("lib-1.0"), by("user-1.0"), None]);
}

#[test]
fn age_counts_since_last_change_of_content() {
    let world = World::new("check-contents");
    world.package("lib-1.0", "", &[], 9);
    world.package("user-1.0", "", &["lib-1.0"], 2);
    let seconds = |second: i64| (1_000_000 + second) * 1_000_000_000;
    let state = |known: &[(&str, i64, i64)]| {
        let of = |&(name, written, since): &(&str, i64, i64)| (name.to_owned(), (seconds(written), seconds(since)));
        let ages = Ages::Contents(known.iter().map(of).collect());
        let mut plan = World::plan(&[("lib-1.0", &[]), ("user-1.0", &[0])]);
        let found = world.inspect(&plan);
        settle(&mut plan, found, &ages).unwrap();
        let since = plan.package(0).content.as_ref().map(|it| it.since_ns);
        (plan.package(1).state(), since)
    };
    assert_eq!(state(&[]), (State::Open, Some(seconds(9))));
    assert_eq!(state(&[("lib-1.0", 9, 1)]), (State::Done, Some(seconds(1))));
    assert_eq!(state(&[("lib-1.0", 8, 1)]), (State::Open, Some(seconds(9))), "another mtime is another file");
    assert_eq!(state(&[("lib-1.0", 9, 3)]), (State::Open, Some(seconds(3))), "newer content");
}

#[test]
fn parallel_inspection_keeps_the_order() {
    let world = World::new("check-many");
    let names: Vec<String> = (0..2000).map(|number| format!("many-{number}")).collect();
    for name in names.iter().step_by(7) {
        world.package(name, "", &[], 0);
    }
    let plan = World::plan(&names.iter().map(|name| (&**name, &[][..])).collect::<Vec<_>>());
    let found: Vec<bool> = world.inspect(&plan).iter().map(|it| it.verdict.is_ok()).collect();
    assert_eq!(found, (0..2000).map(|number| number % 7 == 0).collect::<Vec<_>>());
    assert!(Path::new(&world.scratch.at("packages")).exists());
}
