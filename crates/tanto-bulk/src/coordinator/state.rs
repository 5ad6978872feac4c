//! The state of each package in a bulk build, with its data and its legal transitions.

use std::collections::BTreeMap;

use tanto_record::database::{Change, PackageRow};

use super::dispatch::ClientIndex;
use crate::resolve::PackageId;

/// The outcome in the database of an attempt with a machine failure.
pub const MACHINE: &str = "machine";
/// The outcome in the database of an attempt that a killed or interrupted build left.
pub const INTERRUPTED: &str = "interrupted";

/// pbulk's names of a package's state, without its data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum State {
    /// Waits for its dependencies or its turn.
    Open,
    /// An attempt is running.
    Running,
    /// The binary package exists.
    Done,
    /// The build failed.
    Failed,
    /// The last permitted attempt had a machine failure. The next build tries again.
    MachineFailed,
    /// Its makefile excludes it, a dependency does not exist, or the user has skipped it.
    Prefailed,
    /// A dependency has failed.
    IndirectFailed,
    /// A dependency cannot be built.
    IndirectPrefailed,
    /// It needs several users; only a build as root has them.
    NeedsRoot,
}

impl State {
    /// All states, in the order of counts.
    pub const ALL: [State; 9] = [
        State::Done,
        State::Running,
        State::Open,
        State::Failed,
        State::MachineFailed,
        State::IndirectFailed,
        State::NeedsRoot,
        State::Prefailed,
        State::IndirectPrefailed,
    ];

    /// The `why` of a package that needs several users.
    pub const OTHER_USERS: &str = "it needs its own users (USERGROUP_PHASE), and this build has only one";

    /// Returns the name in the database and in reports.
    pub fn name(self) -> &'static str {
        match self {
            State::Open => "open",
            State::Running => "running",
            State::Done => "done",
            State::Failed => "failed",
            State::MachineFailed => "machine-failed",
            State::Prefailed => "prefailed",
            State::IndirectFailed => "indirect-failed",
            State::IndirectPrefailed => "indirect-prefailed",
            State::NeedsRoot => "needs-root",
        }
    }

    pub fn named(name: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Whether the package cannot exist, for a reason other than a dependency. Its dependents are excluded.
    pub fn is_lost(self) -> bool {
        matches!(self, State::Failed | State::MachineFailed | State::Prefailed | State::NeedsRoot)
    }

    /// The states that may follow this one.
    fn successors(self) -> &'static [State] {
        use State::{
            Done, Failed, IndirectFailed, IndirectPrefailed, MachineFailed, NeedsRoot, Open, Prefailed, Running,
        };
        match self {
            // `Done` if it is up to date; `Failed` only from the earlier build that this one resumes.
            Open => &[Open, Running, Done, Failed, NeedsRoot, Prefailed, IndirectFailed, IndirectPrefailed],
            // `Running` again: the next attempt, or a request to rebuild.
            Running => &[Running, Open, Done, Failed, MachineFailed, NeedsRoot],
            Done | Failed | MachineFailed | NeedsRoot => &[Open, Prefailed],
            Prefailed => &[Open, Prefailed],
            IndirectFailed | IndirectPrefailed => &[Open, Prefailed, IndirectFailed, IndirectPrefailed],
        }
    }
}

/// The case of a state, where the database has to distinguish several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detail {
    /// The only case, or the usual one.
    Usual,
    /// Done: it was not built.
    UpToDate,
    /// Open: by `tanto bulk retry`. Running: to be built again after that.
    Requested,
    /// Open: interrupted when its file may have been replaced without a record.
    Interrupted,
    /// Prefailed: by `tanto bulk skip`.
    Skipped,
}

impl Detail {
    const ALL: [Detail; 5] = [Detail::Usual, Detail::UpToDate, Detail::Requested, Detail::Interrupted, Detail::Skipped];

    /// Returns the code in the database.
    pub fn name(self) -> &'static str {
        match self {
            Detail::Usual => "",
            Detail::UpToDate => "up-to-date",
            Detail::Requested => "requested",
            Detail::Interrupted => "interrupted",
            Detail::Skipped => "skipped",
        }
    }

    fn named(name: &str) -> Detail {
        Detail::ALL.into_iter().find(|detail| detail.name() == name).unwrap_or(Detail::Usual)
    }
}

/// The state of a package, with its data. Texts are reasons.
///
/// The database stores only the name, the detail and the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PackageState {
    Open(Pending),
    Running(Current),
    Done(Success),
    Failed(String),
    MachineFailed(String),
    Prefailed(Exclusion),
    IndirectFailed(String),
    IndirectPrefailed(String),
    NeedsRoot(String),
}

/// Why a package is open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pending {
    New,
    /// By `tanto bulk retry`.
    Requested,
    /// By `tanto bulk retry` during an attempt. New records of its directory; empty if unchanged.
    Rebuild(Vec<u8>),
    /// The build stopped while it ran. `publishing`: the package file may have been replaced.
    Interrupted {
        publishing: bool,
    },
    /// An attempt was killed, perhaps because memory ran out. It starts again when there is memory for it.
    OutOfMemory {
        /// Failed attempts in a row.
        failures: u32,
        /// The client of the last attempt.
        client: ClientIndex,
    },
}

/// The attempt that is running.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Current {
    /// Its number within the run, from 1.
    pub attempt: u32,
    pub client: ClientIndex,
    /// Machine failures in a row before it.
    pub failures: u32,
    /// `tanto bulk retry` requested another build: the records of the directory; empty if unchanged.
    pub rebuild: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Success {
    UpToDate,
    /// A remark, such as processes that outlived their stage; usually empty.
    Built(String),
}

/// Why a package is not built at all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Exclusion {
    /// By `tanto bulk skip`.
    Skipped,
    /// The reason in its makefile, or a missing dependency.
    Because(String),
}

/// The reason for building a package that `tanto bulk retry` reopened.
pub const REQUESTED: &str = "the user requested a rebuild";

impl PackageState {
    pub const NEW: PackageState = PackageState::Open(Pending::New);
    pub const SKIPPED: PackageState = PackageState::Prefailed(Exclusion::Skipped);

    /// Restores the state of a row in the database; `None` if there is no such state.
    pub fn of_row(row: &PackageRow) -> Option<PackageState> {
        Some(PackageState::restore(State::named(&row.state)?, &row.detail, &row.why))
    }

    /// Restores a state from its name, detail and reason in the database.
    pub fn restore(state: State, detail: &str, why: &str) -> PackageState {
        match (state, Detail::named(detail)) {
            (State::Open, Detail::Requested) => PackageState::Open(Pending::Requested),
            (State::Running, Detail::Requested) => {
                PackageState::Running(Current { rebuild: Some(Vec::new()), ..Current::default() })
            }
            (State::Open, Detail::Interrupted) => PackageState::Open(Pending::Interrupted { publishing: true }),
            (State::Done, Detail::UpToDate) => PackageState::Done(Success::UpToDate),
            (State::Prefailed, Detail::Skipped) => PackageState::SKIPPED,
            (state, _) => PackageState::of(state, why.to_owned()),
        }
    }

    /// Returns the usual case of a state.
    pub fn of(state: State, why: String) -> PackageState {
        match state {
            State::Open => PackageState::NEW,
            State::Running => PackageState::Running(Current::default()),
            State::Done => PackageState::Done(Success::Built(why)),
            State::Failed => PackageState::Failed(why),
            State::MachineFailed => PackageState::MachineFailed(why),
            State::Prefailed => PackageState::Prefailed(Exclusion::Because(why)),
            State::IndirectFailed => PackageState::IndirectFailed(why),
            State::IndirectPrefailed => PackageState::IndirectPrefailed(why),
            State::NeedsRoot => PackageState::NeedsRoot(why),
        }
    }

    /// Returns the state without its data.
    pub fn kind(&self) -> State {
        match self {
            PackageState::Open(_) => State::Open,
            PackageState::Running(_) => State::Running,
            PackageState::Done(_) => State::Done,
            PackageState::Failed(_) => State::Failed,
            PackageState::MachineFailed(_) => State::MachineFailed,
            PackageState::Prefailed(_) => State::Prefailed,
            PackageState::IndirectFailed(_) => State::IndirectFailed,
            PackageState::IndirectPrefailed(_) => State::IndirectPrefailed,
            PackageState::NeedsRoot(_) => State::NeedsRoot,
        }
    }

    pub fn detail(&self) -> Detail {
        match self {
            PackageState::Open(Pending::Requested | Pending::Rebuild(_))
            | PackageState::Running(Current { rebuild: Some(_), .. }) => Detail::Requested,
            PackageState::Open(Pending::Interrupted { publishing: true }) => Detail::Interrupted,
            PackageState::Done(Success::UpToDate) => Detail::UpToDate,
            PackageState::Prefailed(Exclusion::Skipped) => Detail::Skipped,
            _ => Detail::Usual,
        }
    }

    /// Returns the reason; empty if there is none.
    pub fn why(&self) -> &str {
        match self {
            PackageState::Open(Pending::Requested | Pending::Rebuild(_)) => REQUESTED,
            PackageState::Open(Pending::Interrupted { publishing: true }) => {
                "it was interrupted during the installation of its package file"
            }
            PackageState::Open(_) | PackageState::Running(_) => "",
            PackageState::Done(Success::UpToDate) => "it was up to date",
            PackageState::Prefailed(Exclusion::Skipped) => "skipped by the user",
            PackageState::Done(Success::Built(why))
            | PackageState::Failed(why)
            | PackageState::MachineFailed(why)
            | PackageState::Prefailed(Exclusion::Because(why))
            | PackageState::IndirectFailed(why)
            | PackageState::IndirectPrefailed(why)
            | PackageState::NeedsRoot(why) => why,
        }
    }

    /// Changes the state; `None` if it is the same. This is the only way to change one.
    ///
    /// Panics on a transition that `State::successors` does not allow: the database must never hold one.
    pub fn set(&mut self, package: PackageId, state: PackageState) -> Option<StateRecord> {
        let (from, to) = (self.kind(), state.kind());
        assert!(from.successors().contains(&to), "package {package}: {} cannot become {}", from.name(), to.name());
        if *self == state {
            return None;
        }
        *self = state.clone();
        Some(StateRecord { package, from, state })
    }
}

/// One change of a package's state: a row of the journal, and an event of the build.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateRecord {
    pub package: PackageId,
    pub from: State,
    pub state: PackageState,
}

impl StateRecord {
    /// Merges all records of each package into one, in the order of packages.
    pub fn merged(records: Vec<StateRecord>) -> Vec<StateRecord> {
        let mut merged: BTreeMap<PackageId, StateRecord> = BTreeMap::new();
        for record in records {
            let from = merged.get(&record.package).map_or(record.from, |first| first.from);
            merged.insert(record.package, StateRecord { from, ..record });
        }
        merged.into_values().collect()
    }

    /// Returns the row of the journal.
    pub fn change(&self) -> Change {
        let (state, why) = (self.state.kind().name(), self.state.why().to_owned());
        Change::State { package: self.package, state, detail: self.state.detail().name(), why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::{Random, seeds};

    /// Returns a random state of a kind.
    fn any(kind: State, random: &mut Random) -> PackageState {
        let why = ["", "it hung", "it was up to date", REQUESTED][random.below(4)];
        let detail = Detail::ALL[random.below(5)].name();
        let rebuild = (random.below(2) == 0).then(|| b"PKGNAME=a-1\n".to_vec());
        match kind {
            State::Running => PackageState::Running(Current {
                attempt: random.below(4) as u32,
                client: ClientIndex::Remote(1),
                failures: 2,
                rebuild,
            }),
            State::Open => PackageState::Open(match random.below(3) {
                0 => Pending::OutOfMemory { failures: 1, client: ClientIndex::Local(0) },
                1 => rebuild.map_or(Pending::Interrupted { publishing: false }, Pending::Rebuild),
                _ => return PackageState::restore(kind, detail, why),
            }),
            _ => PackageState::restore(kind, detail, why),
        }
    }

    #[test]
    fn rows_and_events_restore_the_same_states() {
        const PACKAGES: usize = 5;
        for seed in seeds(50) {
            let mut random = Random::new(seed);
            let mut states = vec![PackageState::NEW; PACKAGES];
            let mut rows = vec![PackageState::NEW; PACKAGES];
            let mut events = rows.clone();
            for _ in 0..100 {
                let package = random.below(PACKAGES);
                let next = states[package].kind().successors();
                let state = any(next[random.below(next.len())], &mut random);
                let Some(record) = states[package].set(package as PackageId, state) else { continue };
                assert_eq!(record.from, events[package].kind(), "seed {seed}");
                events[package] = record.state.clone();
                let Change::State { package, state, detail, why } = record.change() else { unreachable!() };
                rows[package as usize] = PackageState::restore(State::named(state).unwrap(), detail, &why);
            }
            assert_eq!(events, states, "seed {seed}");
            let kept = |states: &[PackageState]| -> Vec<(State, Detail, String)> {
                states.iter().map(|it| (it.kind(), it.detail(), it.why().to_owned())).collect()
            };
            assert_eq!(kept(&rows), kept(&states), "seed {seed}");
        }
    }

    #[test]
    #[should_panic(expected = "package 7: done cannot become running")]
    fn done_package_cannot_run() {
        PackageState::Done(Success::UpToDate).set(7, PackageState::Running(Current::default()));
    }

    #[test]
    fn records_of_one_package_are_merged() {
        let mut state = PackageState::NEW;
        let states = [PackageState::SKIPPED, PackageState::Open(Pending::Requested)];
        let records: Vec<StateRecord> = states.into_iter().filter_map(|next| state.set(3, next)).collect();
        let requested = PackageState::Open(Pending::Requested);
        assert_eq!(StateRecord::merged(records), [StateRecord { package: 3, from: State::Open, state: requested }]);
    }
}
