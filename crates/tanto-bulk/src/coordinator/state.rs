//! Where a package stands in a bulk build; pbulk's states. Does not know how it came there.

/// The outcome of an attempt that ended for no fault of the package.
pub const MACHINE: &str = "machine";

/// A package's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It is to be built.
    Open,
    /// It is being built.
    Running,
    /// It is there.
    Done,
    /// It was built, and that failed.
    Failed,
    /// It was tried as often as may be, and each time the machine was at fault. The next build tries it again.
    MachineFailed,
    /// It says itself that it cannot be built, or something it needs does not exist.
    Prefailed,
    /// Something that it needs has failed.
    IndirectFailed,
    /// Something that it needs cannot be built.
    IndirectPrefailed,
    /// It wants to be several users, and there is but one: root can build it.
    NeedsRoot,
}

impl State {
    /// Why a package is done that was not built.
    pub const UP_TO_DATE: &str = "it was up to date";

    /// Why a package needs root of which that is known before it is built.
    pub const OTHER_USERS: &str = "it wants users of its own (USERGROUP_PHASE), and there is but one here";

    /// All of them, in the order in which they are counted.
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

    /// As it stands in the database, and in reports.
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

    /// It is not there, and will not be in this run, for a reason of its own.
    pub fn is_lost(self) -> bool {
        matches!(self, State::Failed | State::MachineFailed | State::Prefailed | State::NeedsRoot)
    }

    /// The state of this name.
    pub fn named(name: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.name() == name)
    }
}
