//! Selects built packages that may be redistributed (NO_BIN_ON_FTP, RESTRICTED), with all dependencies.

use std::collections::HashMap;

use crate::coordinator::state::State;
use crate::package::records::Record;
use crate::report::RunRows;
use crate::report::dependents::Lists;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selection {
    pub published: Vec<u32>,
    /// Built packages that are withheld, with the reason.
    pub withheld: Vec<(u32, String)>,
}

/// Variables that forbid publishing.
const RESTRICTIONS: [&str; 2] = ["NO_BIN_ON_FTP", "RESTRICTED"];

/// Selects built packages. An error is the name of a package without a record.
pub fn select(rows: &RunRows, records: &[Record<'_>]) -> Result<Selection, String> {
    let by_name: HashMap<&[u8], &Record<'_>> = records.iter().map(|record| (record.name, record)).collect();
    let is_done = |package: u32| rows.packages[package as usize].state == State::Done.name();
    let mut why: Vec<Option<String>> = Vec::with_capacity(rows.packages.len());
    for it in &rows.packages {
        match by_name.get(it.name.as_bytes()) {
            Some(record) => why.push(restriction(record)),
            None if is_done(it.package) => return Err(it.name.clone()),
            None => why.push(None),
        }
    }
    spread(rows, &mut why);
    let mut selection = Selection::default();
    for (package, why) in (0..).zip(why).filter(|&(package, _)| is_done(package)) {
        match why {
            Some(why) => selection.withheld.push((package, why)),
            None => selection.published.push(package),
        }
    }
    Ok(selection)
}

fn restriction(record: &Record<'_>) -> Option<String> {
    RESTRICTIONS.iter().find_map(|variable| {
        let value = String::from_utf8_lossy(record.value(variable)?.trim_ascii()).into_owned();
        (!value.is_empty()).then(|| format!("{variable}: {value}"))
    })
}

/// Withholds dependents of withheld packages.
fn spread(rows: &RunRows, why: &mut [Option<String>]) {
    let users = Lists::new(rows.packages.len(), rows.edges.iter().map(|&(package, needs)| (needs, package)));
    let mut open: Vec<u32> = (0..).zip(&*why).filter(|(_, why)| why.is_some()).map(|(package, _)| package).collect();
    while let Some(package) = open.pop() {
        for &user in users.of(package) {
            if why[user as usize].is_none() {
                why[user as usize] = Some(format!("it needs {}", rows.packages[package as usize].name));
                open.push(user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::records;
    use tanto_record::database::{PackageRow, RunRow};

    fn rows(names: &[(&str, &str)], edges: &[(u32, u32)]) -> RunRows {
        let package = |(package, &(name, state)): (u32, &(&str, &str))| PackageRow {
            package,
            job: package,
            name: name.into(),
            location: "a/b".into(),
            state: state.into(),
            detail: String::new(),
            why: String::new(),
        };
        RunRows {
            run: RunRow { run: 1, began_ms: 0, ended_ms: None },
            packages: (0..).zip(names).map(package).collect(),
            edges: edges.to_vec(),
            attempts: vec![],
            stages: vec![],
            expected: vec![],
            verifications: vec![],
            earlier: None,
        }
    }

    #[test]
    fn restricted_packages_and_dependents_are_withheld() {
        let rows = rows(
            &[("free-1", "done"), ("shut-1", "done"), ("mid-1", "done"), ("top-1", "done"), ("lost-1", "failed")],
            &[(1, 0), (2, 1), (3, 2), (3, 0)],
        );
        let text = "PKGNAME=free-1\nPKG_LOCATION=a/b\nNO_BIN_ON_FTP=\nRESTRICTED= \nPKGNAME=shut-1\nPKG_LOCATION=a/b\n\
            NO_BIN_ON_FTP=\nRESTRICTED=no money\nPKGNAME=mid-1\nPKG_LOCATION=a/b\nPKGNAME=top-1\nPKG_LOCATION=a/b\n";
        let records = records::read(text.as_bytes()).unwrap();
        let selection = select(&rows, &records).unwrap();
        let withheld =
            [(1, "RESTRICTED: no money".into()), (2, "it needs shut-1".into()), (3, "it needs mid-1".into())];
        assert_eq!(selection, Selection { published: vec![0], withheld: withheld.to_vec() });
        assert_eq!(select(&rows, &records[..2]), Err("mid-1".into()));
    }
}
