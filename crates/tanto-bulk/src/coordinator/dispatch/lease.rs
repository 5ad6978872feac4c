//! The state of a lease, with its data and its legal transitions.

use tanto_protocol::{Digest, LeaseId};

use crate::coordinator::needs::ResourceNeeds;
use crate::coordinator::state::INTERRUPTED;
use crate::resolve::PackageId;

/// The state of a lease. Times are those of the link's clock.
///
/// Until a lease to build a package has ended, no other such lease of the package may exist. An ended lease stays ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LeaseState {
    /// It is on its way to the client. Without an end: it is unknown whether the client has it, until it says hello.
    Offered { until_ms: Option<i64> },
    /// The client has it.
    Running,
    /// The client is silent.
    Missing { until_ms: i64 },
    /// The user has stopped the attempt; its result is awaited.
    Stopped,
    /// Its result is being accepted.
    Reported,
    /// Its result is durable.
    Settled,
    /// The client may still have it, and has to end it.
    Superseded(Cause),
    /// The client does not have it.
    Returned(Cause),
}

/// Why a lease ended without a result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cause {
    /// The client did not confirm it.
    Unconfirmed,
    /// The client said goodbye.
    Bye,
    /// The client began anew without it.
    Restarted,
    /// The client was silent for too long.
    Silent,
    /// The attempt made no progress, or took longer than all its stages may.
    Stuck,
    /// By the user.
    Killed,
    /// By the coordinator.
    Withdrawn,
}

impl Cause {
    const ALL: [Cause; 7] = [
        Cause::Unconfirmed,
        Cause::Bye,
        Cause::Restarted,
        Cause::Silent,
        Cause::Stuck,
        Cause::Killed,
        Cause::Withdrawn,
    ];

    /// Returns the name in the database.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Unconfirmed => "unconfirmed",
            Cause::Bye => "bye",
            Cause::Restarted => "restarted",
            Cause::Silent => "silent",
            Cause::Stuck => "stuck",
            Cause::Killed => "killed",
            Cause::Withdrawn => "withdrawn",
        }
    }

    /// Whether the attempt was lost unannounced.
    pub fn is_loss(self) -> bool {
        matches!(self, Cause::Restarted | Cause::Silent | Cause::Stuck)
    }
}

impl LeaseState {
    /// Returns the name in the database.
    pub fn name(self) -> &'static str {
        match self {
            LeaseState::Offered { .. } => "offered",
            LeaseState::Running => "running",
            LeaseState::Missing { .. } => "missing",
            LeaseState::Stopped => "stopped",
            LeaseState::Reported => "reported",
            LeaseState::Settled => "settled",
            LeaseState::Superseded(_) => "superseded",
            LeaseState::Returned(_) => "returned",
        }
    }

    /// Returns why it ended without a result.
    pub fn cause(self) -> Option<Cause> {
        match self {
            LeaseState::Superseded(cause) | LeaseState::Returned(cause) => Some(cause),
            _ => None,
        }
    }

    /// Restores a state from its name and cause in the database, without times; `None` if they are unknown.
    pub fn restore(name: &str, cause: &str) -> Option<LeaseState> {
        let cause = Cause::ALL.into_iter().find(|it| it.name() == cause);
        match name {
            "offered" => Some(LeaseState::Offered { until_ms: None }),
            "running" => Some(LeaseState::Running),
            "missing" => Some(LeaseState::Missing { until_ms: 0 }),
            "stopped" => Some(LeaseState::Stopped),
            "reported" => Some(LeaseState::Reported),
            "settled" => Some(LeaseState::Settled),
            "superseded" => cause.map(LeaseState::Superseded),
            "returned" => cause.map(LeaseState::Returned),
            _ => None,
        }
    }

    /// Returns the end of a lease that is missing in the database, from the outcome of its attempt there; `None`: it has no
    /// attempt.
    pub fn of_outcome(outcome: Option<&str>) -> LeaseState {
        match outcome {
            None | Some("" | INTERRUPTED) => LeaseState::Superseded(Cause::Withdrawn),
            Some(_) => LeaseState::Settled,
        }
    }

    /// Whether another lease of the package may exist.
    pub fn has_ended(self) -> bool {
        matches!(self, LeaseState::Settled | LeaseState::Superseded(_) | LeaseState::Returned(_))
    }

    /// Whether an attempt may be running on the client.
    pub fn is_active(self) -> bool {
        !self.has_ended() && self != LeaseState::Reported
    }

    /// Whether the database gets the state at once. A restarted coordinator waits anew for silent clients and for results that
    /// were being accepted, and the end of a lease is recorded with the outcome of its attempt.
    pub(super) fn is_recorded_when_set(self) -> bool {
        !matches!(self, LeaseState::Missing { .. } | LeaseState::Reported | LeaseState::Settled)
    }

    fn may_become(self, next: LeaseState) -> bool {
        use LeaseState::{Missing, Offered, Reported, Returned, Running, Settled, Stopped, Superseded};
        match self {
            // Again, when there is more time to confirm it.
            Offered { .. } => !matches!(next, Stopped | Settled),
            Running => matches!(next, Missing { .. } | Stopped | Reported | Superseded(_) | Returned(_)),
            Missing { .. } => matches!(next, Running | Reported | Superseded(_) | Returned(_)),
            Stopped => matches!(next, Reported | Superseded(_) | Returned(_)),
            Reported => matches!(next, Settled | Superseded(_)),
            Settled | Superseded(_) | Returned(_) => false,
        }
    }

    /// Changes the state. `Dispatch::set` is its only caller.
    ///
    /// Panics on a transition that `may_become` does not allow: the database must never hold one.
    pub(super) fn set(&mut self, next: LeaseState) {
        assert!(self.may_become(next), "a lease that is {} cannot become {}", self.name(), next.name());
        *self = next;
    }
}

/// Why a client gets a package.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeasePurpose {
    /// It is needed. A package has one such lease at a time.
    Build,
    /// It was accepted, and is compared with another build.
    Verification,
}

/// Expected usage and limits of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseTerms {
    pub needs: ResourceNeeds,
    /// Longest time without progress, in milliseconds: twice the hang timeout.
    pub idle_ms: i64,
    /// Longest time of the attempt, in milliseconds: the sum of the limits of its stages.
    pub total_ms: i64,
}

/// A lease as the coordinator knows it.
#[derive(Clone, Debug)]
pub struct LeaseEntry {
    pub package: PackageId,
    pub purpose: LeasePurpose,
    pub attempt: u32,
    /// The index of the remote client.
    pub client: usize,
    /// The manifest of its package tree.
    pub tree: Option<Digest>,
    pub terms: LeaseTerms,
    /// When it was offered, on the coordinator's clock.
    pub began_ms: i64,
    /// The same on the link's clock, or since the coordinator began.
    pub(super) since_ms: i64,
    /// Its output is followed.
    pub follow: bool,
    pub(super) state: LeaseState,
    pub(super) progress: LastProgress,
}

/// The last heartbeat of a lease that differed from the one before.
#[derive(Clone, Default, Debug)]
pub(super) struct LastProgress {
    /// The link's clock.
    pub at_ms: i64,
    pub stage: String,
    pub cpu_ms: u64,
    pub sent_bytes: u64,
    /// The attempt has ended; its result is being sent.
    pub has_ended: bool,
    /// Usage in the last heartbeat.
    pub used: ResourceNeeds,
}

impl LeaseEntry {
    pub fn state(&self) -> LeaseState {
        self.state
    }

    /// When the lease changes by itself, on the link's clock.
    pub(super) fn deadline(&self) -> Option<i64> {
        match self.state {
            LeaseState::Offered { until_ms } => until_ms,
            LeaseState::Missing { until_ms } => Some(until_ms),
            LeaseState::Running | LeaseState::Stopped => {
                let idle = self.progress.at_ms.saturating_add(self.terms.idle_ms);
                Some(idle.min(self.since_ms.saturating_add(self.terms.total_ms)))
            }
            _ => None,
        }
    }
}

/// One change of a lease: a row of the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseRecord {
    pub lease: LeaseId,
    pub package: PackageId,
    pub attempt: u32,
    /// The client's name.
    pub client: String,
    /// The public identifier of the client's token.
    pub token: String,
    /// The manifest of its package tree.
    pub tree: Option<Digest>,
    /// When it was offered, on the coordinator's clock.
    pub began_ms: i64,
    /// `LeaseState::name` and `LeaseState::cause` are its text in the database.
    pub state: LeaseState,
}
