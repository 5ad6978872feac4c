//! What follows for packages from what is there of them and of what they need. Does not know how that was found out.

use std::collections::HashMap;

use super::{Content, Found};
use crate::coordinator::plan::{Bad, Plan, Planned};
use crate::coordinator::state::{PackageState, State, Success};
use crate::resolve::Package;

/// What is known of the binary package that is there.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Nobody has looked.
    #[default]
    Unknown,
    /// It has to be built, and why.
    Due(String),
    /// It is what the tree would make, as long as none of these is built again.
    Stands(Vec<Package>),
}

/// What makes a package due besides what it says itself.
#[derive(Clone, Debug)]
pub enum Ages {
    /// Nothing.
    Ignored,
    /// That a package that it was built with is not older.
    Files,
    /// That the content of such a package is not older. With what is known of contents: for the file of a package that
    /// was written then, since when it has been what it is; nanoseconds since 1970.
    Contents(HashMap<String, (i64, i64)>),
}

/// Packages of which nothing is known yet and that are up to date are done, if all that they need is. The others are due,
/// or wait for what they need.
pub fn settle(plan: &mut Plan, found: Vec<Found>, ages: &Ages) -> Result<(), Bad> {
    let since = |(found, it): (&Found, &Planned)| Some(ages.since(&it.name, found.written_ns?));
    let since: Vec<Option<i64>> = found.iter().zip(&plan.packages).map(since).collect();
    if matches!(ages, Ages::Contents(_)) {
        for (package, it) in (0..).zip(&found) {
            let times = it.written_ns.zip(since[package as usize]);
            let content = times.map(|(written_ns, since_ns)| Content { written_ns, since_ns, print: it.print });
            plan.holds(package, content);
        }
    }
    let ages = !matches!(ages, Ages::Ignored);
    for (package, it) in (0..).zip(found) {
        if plan.package(package).state() != State::Open || plan.package(package).standing != Standing::Unknown {
            continue;
        }
        let is_newer = |needed: &&Package| ages && since[**needed as usize] >= it.written_ns;
        let standing = match it.said {
            Err(why) => Standing::Due(why),
            Ok(built_with) => match built_with.iter().find(is_newer) {
                Some(&newer) => {
                    Standing::Due(format!("{}, which it was built with, is newer", plan.package(newer).name))
                }
                None => Standing::Stands(if ages { built_with } else { Vec::new() }),
            },
        };
        plan.stands(package, standing);
    }
    for package in plan.chain()? {
        let it = plan.package(package);
        let is_done = |&needed: &Package| plan.package(needed).state() == State::Done;
        if it.state() == State::Open && matches!(it.standing, Standing::Stands(_)) && it.depends.iter().all(is_done) {
            plan.set(package, PackageState::Done(Success::UpToDate));
        }
    }
    Ok(())
}

impl Ages {
    /// Since when the package has been what it is that was written then.
    fn since(&self, name: &str, written_ns: i64) -> i64 {
        let Ages::Contents(known) = self else { return written_ns };
        let since = known.get(name).filter(|(written, _)| *written == written_ns).map(|(_, since)| *since);
        since.unwrap_or(written_ns)
    }
}

/// Why packages that are open will be built; nothing for those that are up to date, though something that they need is
/// not.
pub fn foretell(plan: &Plan) -> Result<Vec<Option<String>>, Bad> {
    let mut all: Vec<Option<String>> = vec![None; plan.packages.len()];
    for package in plan.chain()? {
        let it = plan.package(package);
        all[package as usize] = match &it.standing {
            _ if it.state() != State::Open => None,
            Standing::Stands(built_with) => {
                let first = built_with.iter().find(|&&needed| all[needed as usize].is_some());
                let why = |&needed| format!("{}, which it was built with, has to be built", plan.package(needed).name);
                first.map(why)
            }
            Standing::Due(why) => Some(why.clone()),
            Standing::Unknown => Some(String::new()),
        };
    }
    Ok(all)
}
