//! Where a package stands in a bulk build; pbulk's states. Does not know how it came there.

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
    /// It says itself that it cannot be built, or something it needs does not exist.
    Prefailed,
    /// Something that it needs has failed.
    IndirectFailed,
    /// Something that it needs cannot be built.
    IndirectPrefailed,
}

impl State {
    /// Why a package is done that was not built.
    pub const UP_TO_DATE: &str = "it was up to date";

    /// All of them, in the order in which they are counted.
    pub const ALL: [State; 7] = [
        State::Done,
        State::Running,
        State::Open,
        State::Failed,
        State::IndirectFailed,
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
            State::Prefailed => "prefailed",
            State::IndirectFailed => "indirect-failed",
            State::IndirectPrefailed => "indirect-prefailed",
        }
    }

    /// The state of this name.
    pub fn named(name: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.name() == name)
    }
}
