//! Whole scans with a closure in place of `make`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use tanto_exec::clock::FakeClock;
use tanto_exec::event::{Event, View};
use tanto_exec::job::Command;
use tanto_exec::runner::fake::{Effect, FakeRunner};
use tanto_testing::Scratch;

use super::files::GRAIN_NS;
use super::*;

struct NoView;

impl View for NoView {
    fn event(&mut self, _: Event<'_>) {}
}

/// A tree, its scan state, and the output of `make` in each directory.
struct World {
    place: Scratch,
    says: RefCell<HashMap<String, Effect>>,
    config: Config,
    verify: f64,
}

impl World {
    fn new(name: &str) -> World {
        let place = Scratch::new(name);
        let text = |name: &str| place.at(name).to_string_lossy().into_owned();
        let config = Config { pkgsrc: text("tree"), state: text("state"), prefix: text("pkg"), ..Config::default() };
        let world = World { config, says: RefCell::default(), verify: 0.0, place };
        world.says("", "a b\nMakefile\n");
        world.says("a", "one two\nMakefile ../mk/all.mk\n");
        world.says("b", "far\nMakefile ../mk/all.mk\n");
        world.package("a/one", "one-1", "");
        world.package("a/two", "two-1", "one>=1:../../a/one far-[0-9]*:../../b/far");
        world.package("b/far", "far-2", "");
        ["mk/all.mk", "Makefile", "a/Makefile", "b/Makefile"].iter().for_each(|it| world.write(it, it));
        ["a/one", "a/two", "b/far"].iter().for_each(|it| world.write(&format!("{it}/Makefile"), it));
        world
    }

    fn write(&self, name: &str, content: &str) {
        self.place.write(&format!("tree/{name}"), content);
    }

    fn says(&self, location: &str, output: &str) {
        self.says.borrow_mut().insert(location.into(), Effect::ends(0, output.as_bytes()));
    }

    fn package(&self, location: &str, name: &str, needs: &str) {
        let record = format!("PKGNAME={name}\nALL_DEPENDS={needs}\nSCAN_DEPENDS=Makefile ../../mk/all.mk\n");
        self.says(location, &record);
    }

    /// Scans; returns the report and the directories that ran.
    fn scan(&self) -> (std::result::Result<ScanReport, String>, Vec<String>) {
        // Wait until changes are distinguishable.
        std::thread::sleep(Duration::from_nanos(2 * GRAIN_NS.unsigned_abs()));
        std::fs::create_dir_all(&self.config.state).unwrap();
        let store = Database::open(&self.place.at("state/db")).unwrap();
        let mut asked = Vec::new();
        let mut runner = FakeRunner::new(1, |command: &Command| {
            let line = String::from_utf8(command.line.clone()).unwrap();
            let begin = format!("cd {}/", self.config.pkgsrc);
            let location = line.split_once(&begin).map_or("script", |(_, rest)| rest.split_once(' ').unwrap().0);
            asked.push(location.to_owned() + if line.ends_with(" 'A=b c'") { ", told" } else { "" });
            self.says.borrow()[location].clone()
        });
        let (config, clock, verify) = (&self.config, &FakeClock::default(), self.verify);
        let before = Scan {
            config,
            runner: &mut runner,
            view: &mut NoView,
            clock,
            facts: &|| vec!["A=b c".into()],
            verify,
            seed: 7,
            remote: None,
        };
        let run = before.script(store).and_then(|store| {
            Scan {
                config,
                runner: &mut runner,
                view: &mut NoView,
                clock,
                facts: &|| vec!["A=b c".into()],
                verify,
                seed: 7,
                remote: None,
            }
            .run(store)
        });
        let report = run.map(|(report, _)| report).map_err(|bad| bad.to_string());
        (report, asked)
    }

    fn asked(&self) -> Vec<String> {
        self.scan().1
    }
}

#[test]
fn unchanged_directories_are_not_scanned_again() {
    let world = World::new("scan-again");
    let (first, asked) = world.scan();
    assert_eq!(asked, ["", "a", "b", "a/one", "a/two", "b/far"]);
    let (again, asked) = world.scan();
    assert!(asked.is_empty(), "{asked:?}");
    let (first, again) = (first.unwrap(), again.unwrap());
    assert_eq!((first.scanned, again.scanned, again.reused, again.started), (3, 0, 3, 0));
    assert_eq!(first.records, again.records);
    let names: Vec<&[u8]> = records::read(&again.records).unwrap().iter().map(|it| it.name).collect();
    assert_eq!(names, [&b"one-1"[..], b"two-1", b"far-2"]);
}

#[test]
fn many_directories_get_platform_variables() {
    let world = World::new("scan-told");
    let names: Vec<String> = (10..26).map(|number| format!("p{number}")).collect();
    world.says("a", &format!("{}\nMakefile ../mk/all.mk\n", names.join(" ")));
    for name in &names {
        world.package(&format!("a/{name}"), &format!("{name}-1"), "");
        world.write(&format!("a/{name}/Makefile"), name);
    }
    let all = world.asked();
    assert!(all.contains(&"a".to_owned()) && all.contains(&"b/far, told".to_owned()), "{all:?}");
    assert!(names.iter().all(|name| all.contains(&format!("a/{name}, told"))), "{all:?}");
    world.write("b/far/Makefile", "other");
    assert_eq!(world.asked(), ["b/far"], "for one that does not pay");
}

#[test]
fn only_changed_directories_are_scanned_again() {
    let world = World::new("scan-changed");
    world.scan().0.unwrap();
    world.write("a/one/Makefile", "new");
    assert_eq!(world.asked(), ["a/one"]);
    world.write("b/far/options.mk", "new");
    assert_eq!(world.asked(), ["b/far"]);
    world.write("a/Makefile", "new");
    world.says("a", "one two new\nMakefile ../mk/all.mk\n");
    world.package("a/new", "new-1", "");
    world.write("a/new/Makefile", "new");
    assert_eq!(world.asked(), ["a", "a/new"]);
    // Slow and often used directories run first.
    world.write("mk/all.mk", "new");
    assert_eq!(world.asked()[..2], ["a", "b"]);
    assert!(world.asked().is_empty());
}

#[test]
fn reuse_can_be_turned_off() {
    let mut world = World::new("scan-off");
    world.scan().0.unwrap();
    world.config.reuse_scan_results = false;
    assert_eq!(world.asked().len(), 6);
}

#[test]
fn failed_directory_is_reported_and_scanned_again() {
    let world = World::new("scan-fails");
    world.says.borrow_mut().insert("a/one".into(), Effect::ends(2, b"no rule\n"));
    world.says("b/far", "garbage\n");
    let (report, _) = world.scan();
    let report = report.unwrap();
    let failed: Vec<&str> = report.failed.iter().map(|(location, _)| &**location).collect();
    assert_eq!(failed, ["a/one", "b/far"]);
    assert_eq!(report.failed[0].1, "no rule\nit exited with 2\n");
    assert_eq!(records::read(&report.records).unwrap().len(), 1);
    world.package("b/far", "far-2", "");
    let (report, asked) = world.scan();
    assert_eq!((asked, report.unwrap().failed.len()), (vec!["a/one".to_owned(), "b/far".into()], 1));
}

#[test]
fn limited_scan_includes_dependencies() {
    let mut world = World::new("scan-limited");
    world.package("b/far", "far-2", "deep>=1:../../c/deep");
    world.package("c/deep", "deep-1", "none>=1:../../c/none");
    world.write("c/deep/Makefile", "");
    world.says.borrow_mut().insert("c/none".into(), Effect::ends(1, b""));
    world.place.write("list", "a/two # and what it needs\n");
    world.config.limited_list = world.place.at("list").to_string_lossy().into_owned();
    let (report, asked) = world.scan();
    assert_eq!(asked, ["a/two", "a/one", "b/far", "c/deep", "c/none"]);
    let report = report.unwrap();
    assert_eq!((records::read(&report.records).unwrap().len(), report.failed.len()), (4, 1));
    assert_eq!(world.asked(), ["c/none"]);
    world.place.write("list", "a/two\n../x\n");
    let told = world.scan().0.unwrap_err();
    assert!(told.ends_with("list:2: expected category/directory: ../x"), "{told}");
}

#[test]
fn sample_is_compared() {
    let mut world = World::new("scan-verify");
    world.scan().0.unwrap();
    world.verify = 100.0;
    let (report, asked) = world.scan();
    let report = report.unwrap();
    assert_eq!((asked.len(), report.verified, report.reused, report.differing.len()), (3, 3, 3, 0));
    // An unobserved input.
    world.package("a/two", "two-2", "");
    let (report, _) = world.scan();
    let report = report.unwrap();
    assert_eq!(report.differing, ["a/two"]);
    assert!(memchr::memmem::find(&report.records, b"two-2").is_some(), "the new answer is taken");
}

#[test]
fn interrupt_keeps_results() {
    let world = World::new("scan-interrupt");
    world.says.borrow_mut().insert("a/two".into(), Effect::Interrupts(2));
    assert_eq!(world.scan().0.unwrap_err(), "interrupted by user");
    world.package("a/two", "two-1", "");
    assert_eq!(world.asked(), ["a/two", "b/far"]);
}

#[test]
fn script_runs_first_and_may_fail() {
    let mut world = World::new("scan-script");
    world.config.script_phase_scan = "update-tree".into();
    world.says("script", "");
    assert_eq!(world.asked()[..2], ["script", ""]);
    world.says.borrow_mut().insert("script".into(), Effect::ends(1, b"no network\n"));
    let (report, asked) = world.scan();
    assert_eq!((report.unwrap_err(), asked.len()), ("script_phase_scan failed:\nno network".into(), 1));
}

#[test]
fn failing_tree_is_reported() {
    let world = World::new("scan-tree");
    world.says.borrow_mut().insert(String::new(), Effect::ends(2, b"no such target\n"));
    let told = world.scan().0.unwrap_err();
    assert!(
        told.starts_with("cannot list the directories of ") && told.ends_with(":\nno such target\nit exited with 2"),
        "{told}"
    );
}

#[test]
fn known_results_run_nothing() {
    let mut world = World::new("scan-known");
    let known = |world: &World| {
        std::fs::create_dir_all(&world.config.state).unwrap();
        super::known(&world.config, &Database::open(&world.place.at("state/db")).unwrap())
    };
    assert!(matches!(known(&world), Err(ScanError::Tree { .. })));
    let (scanned, _) = world.scan();
    let same = |world: &World, report: ScanReport| {
        let known = known(world).unwrap();
        assert_eq!((known.records, known.wanted), (report.records, report.wanted));
    };
    same(&world, scanned.unwrap());
    world.place.write("list", "a/two\n");
    world.config.limited_list = world.place.at("list").to_string_lossy().into_owned();
    let (scanned, _) = world.scan();
    let report = scanned.unwrap();
    assert_eq!((report.wanted, report.reused), (1, 3));
    same(&world, report);
}

#[test]
fn imported_scan_is_valid_while_inputs_are_unchanged() {
    let (one, other) = (World::new("scan-export"), World::new("scan-import"));
    let records = one.scan().0.unwrap().records;
    std::thread::sleep(Duration::from_nanos(2 * GRAIN_NS.unsigned_abs()));
    std::fs::create_dir_all(&other.config.state).unwrap();
    let mut store = Database::open(&other.place.at("state/db")).unwrap();
    let made_ns = super::files::now_ns();
    std::thread::sleep(Duration::from_nanos(2 * GRAIN_NS.unsigned_abs()));
    other.write("a/two/Makefile", "later");
    let read = crate::package::records::read(&records).unwrap();
    let imported = import(&other.config, &mut store, &read, made_ns).unwrap();
    assert_eq!(imported, Imported { directories: 3, stand: 2 });
    drop(store);
    assert_eq!(other.asked(), ["", "a", "b", "a/two"], "only the lists of directories, and what has changed");
    let bad = crate::package::records::read(b"PKGNAME=evil-1\nPKG_LOCATION=../../x\n").unwrap();
    let mut store = Database::open(&other.place.at("state/db")).unwrap();
    let refused = import(&other.config, &mut store, &bad, made_ns).map_err(|bad| bad.to_string());
    assert_eq!(refused, Err("../../x is not a directory".into()));
}
