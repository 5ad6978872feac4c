//! Resolutions of a few records.

use super::*;
use crate::package::records;

/// Makes records from name, location and ALL_DEPENDS.
fn scan(packages: &[(&str, &str, &str)]) -> Vec<u8> {
    let record = |(name, location, depends): &(&str, &str, &str)| {
        format!("PKGNAME={name}\nPKG_LOCATION={location}\nALL_DEPENDS={depends}\nSCAN_DEPENDS=x\n")
    };
    packages.iter().map(record).collect::<String>().into_bytes()
}

/// Returns the dependencies of each package, and the findings.
fn resolved(text: &[u8], wanted: usize) -> (Vec<(bool, String)>, Vec<Finding<'_>>) {
    let records = records::read(text).unwrap();
    let resolution = resolve(&records, wanted);
    let name = |package: &PackageId| String::from_utf8_lossy(resolution.name(*package).text()).into_owned();
    let row = |package: &Resolved| (package.wanted, package.depends.iter().map(name).collect::<Vec<_>>().join(" "));
    let all = resolution.packages().map(|(_, package)| row(package)).collect();
    (all, resolution.findings)
}

fn needs(text: &[u8]) -> Vec<String> {
    resolved(text, records::read(text).unwrap().len()).0.into_iter().map(|(_, needs)| needs).collect()
}

#[test]
fn highest_version_is_chosen() {
    let text = scan(&[
        ("user-1", "a/user", "lib>=1:../../a/lib1"),
        ("lib-1.9", "a/lib1", ""),
        ("lib-1.10", "a/lib2", ""),
        ("lib-1.10rc1", "a/lib3", ""),
    ]);
    let (all, findings) = resolved(&text, 4);
    assert_eq!(all[0], (true, "lib-1.10".into()));
    assert_eq!(findings, [Finding::Elsewhere { package: 0, pattern: b"lib>=1", location: b"a/lib1", best: 2 }]);
    assert!(!findings[0].is_error());
}

#[test]
fn later_name_wins_for_equal_versions() {
    let text = scan(&[
        ("user-1", "a/user", "{mysql,maria}-client-[0-9]*:../../a/mysql"),
        ("mysql-client-5.0", "a/mysql", ""),
        ("maria-client-5", "a/maria", ""),
    ]);
    assert_eq!(needs(&text)[0], "mysql-client-5.0");
}

#[test]
fn earlier_choice_is_reused() {
    let text = scan(&[
        ("user-1", "a/user", "  lib<2:../../a/lib\tlib>=1:../../a/lib lib-[0-9]*:../../a/lib"),
        ("lib-1.5", "a/lib", ""),
        ("lib-2.5", "a/lib", ""),
    ]);
    assert_eq!(needs(&text)[0], "lib-1.5");
}

#[test]
fn missing_dependency_lists_similar_packages() {
    let text = scan(&[
        ("user-1", "a/user", "lib>=3:../../a/lib libb-[0-9]*:../../a/libb far-[0-9]*:../../b/far"),
        ("lib-1.5", "a/lib", ""),
        ("lib-2.5", "a/lib2", ""),
        ("nothing-2.5", "c/nothing", ""),
    ]);
    let (all, findings) = resolved(&text, 4);
    assert_eq!(all[0].1, "");
    let nearest = |finding: &Finding<'_>| match finding {
        Finding::NoMatch { nearest, .. } => nearest.clone(),
        _ => panic!("{finding:?}"),
    };
    assert_eq!(findings.iter().map(nearest).collect::<Vec<_>>(), [vec![2, 1], vec![2], vec![]]);
    assert!(findings[0].is_error());
}

#[test]
fn unwanted_packages_are_not_resolved() {
    let text = scan(&[
        ("user-1", "a/user", "lib-[0-9]*:../../a/lib"),
        ("deep-1", "a/deep", ""),
        ("other-1", "a/other", "missing-[0-9]*:../../a/missing"),
        ("lib-1.5", "a/lib", "deep-[0-9]*:../../a/deep"),
    ]);
    let (all, findings) = resolved(&text, 1);
    let expected = [(true, "lib-1.5"), (true, ""), (false, ""), (true, "deep-1")];
    assert_eq!(all, expected.map(|(wanted, needs)| (wanted, needs.to_owned())));
    assert_eq!(findings, []);
}

#[test]
fn first_duplicate_is_used() {
    let text = scan(&[
        ("twin-1", "a/first", ""),
        ("twin-1", "a/second", ""),
        ("user-1", "a/user", "twin-[0-9]*:../../a/first"),
    ]);
    let records = records::read(&text).unwrap();
    let resolution = resolve(&records, 3);
    assert_eq!(resolution.package(2).depends, [0]);
    assert_eq!(resolution.findings, [Finding::Duplicate { first: 0, second: 1 }]);
}

#[test]
fn chosen_packages_are_renumbered() {
    let text = scan(&[
        ("twin-1", "a/first", ""),
        ("twin-1", "a/second", ""),
        ("user-1", "a/user", "lib-[0-9]*:../../a/lib twin-[0-9]*:../../a/first"),
        ("other-1", "a/other", ""),
        ("lib-1.5", "a/lib", ""),
    ]);
    let records = records::read(&text).unwrap();
    let (chosen, kept, depends) = resolve(&records, 3).chosen(&records);
    assert_eq!(chosen, [0, 2, 4]);
    assert_eq!(kept.iter().map(|it| it.location).collect::<Vec<_>>(), [&b"a/first"[..], b"a/user", b"a/lib"]);
    assert_eq!(depends, [vec![], vec![2, 0], vec![]]);
}

#[test]
fn cycle_is_reported_as_a_path() {
    let text = scan(&[
        ("user-1", "a/user", "aaaa-[0-9]*:../../a/a"),
        ("aaaa-1", "a/a", "bbbb-[0-9]*:../../a/b"),
        ("bbbb-1", "a/b", "user-[0-9]*:../../a/user cccc-[0-9]*:../../a/c"),
        ("cccc-1", "a/c", ""),
    ]);
    let (_, findings) = resolved(&text, 4);
    assert_eq!(findings, [Finding::Cycle(vec![0, 1, 2])]);
    let text = scan(&[("self-1", "a/self", "self-[0-9]*:../../a/self")]);
    assert_eq!(resolved(&text, 1).1, [Finding::Cycle(vec![0])]);
}

#[test]
fn malformed_dependencies_are_reported() {
    for bad in ["lib", "lib:../a/lib", "lib{:../../a/lib"] {
        let text = scan(&[("user-1", "a/user", bad)]);
        assert_eq!(resolved(&text, 1).1, [Finding::NoDependency { package: 0, text: bad.as_bytes() }]);
    }
    let text = b"PKGNAME=user-1\nPKG_LOCATION=a/user\n";
    assert_eq!(resolved(text, 1).1, [Finding::NoList(0)]);
}
