//! Job slots allocated by priority: each command gets a pipe of its own, whose tokens are added and taken back.
//!
//! With a single pipe, whoever asks first is served first, and tokens held by killed clients are lost. With one pipe
//! per command, the number of tokens added is known: those still in the pipe are unused, the others are in use. So
//! unused tokens can move to another command, commands of higher priority get more, none exceeds its maximum, and all
//! tokens of a command are free when it has ended, however it ended.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use tanto_sys::ipc::token_pipe::{SharedPipe, TokenPipe, TokenPipeError};

use super::Slot;
use super::token_allocation::{Demand, Request, allocate};
use crate::job::JobId;

/// make writes no other byte.
const TOKEN: u8 = b'+';

#[derive(Debug)]
pub struct TokenBroker {
    slots: usize,
    /// Number of running commands; the slot of each is in no pipe.
    in_use: usize,
    /// Maximum number of additional tokens per command.
    max_extra: usize,
    pipes: Vec<ClientPipe>,
    /// Some command could use more tokens.
    is_short: bool,
}

/// The pipe of one command.
#[derive(Debug)]
struct ClientPipe {
    job: JobId,
    priority: i64,
    ends: SharedPipe,
    tokens: TokenPipe,
    /// Tokens added and not taken back.
    given: usize,
}

#[derive(Clone, Copy)]
struct PipeState {
    /// Tokens in the pipe.
    unused: usize,
    request: Request,
}

impl ClientPipe {
    fn open(job: JobId, priority: i64) -> io::Result<ClientPipe> {
        let ends = SharedPipe::new()?;
        // The command may change its user and reopen the pipe.
        ends.allow_all_users()?;
        let tokens = ends.tokens().map_err(|why| match why {
            TokenPipeError::NotAPipe => io::ErrorKind::InvalidInput.into(),
            TokenPipeError::Reading(error) | TokenPipeError::Writing(error) => error,
        })?;
        Ok(ClientPipe { job, priority, ends, tokens, given: 0 })
    }

    /// A command that uses all of its tokens may double them. Others get one more to show that they can use it, if
    /// nobody else needs it.
    fn inspect(&mut self, most: usize) -> PipeState {
        let there = self.tokens.count().unwrap_or(0);
        // Excess tokens come from a misbehaving client.
        let unused = there.saturating_sub(self.take(there.saturating_sub(self.given))).min(self.given);
        let taken = self.given - unused;
        let room = most.saturating_sub(taken);
        let (demand, most) = match (unused, taken) {
            (0, 0) => (Demand::Unknown, 1),
            (0, taken) => (Demand::Certain, taken),
            _ => (Demand::Unlikely, 1),
        };
        PipeState { unused, request: Request { demand, priority: self.priority, max: most.min(room) } }
    }

    /// Takes tokens out of the pipe; returns how many, as the command may be faster.
    fn take(&self, count: usize) -> usize {
        (0..count).take_while(|_| matches!(self.tokens.take(), Ok(Some(_)))).count()
    }

    fn put(&mut self, count: usize) {
        self.given += (0..count).take_while(|_| self.tokens.put(TOKEN).is_ok()).count();
    }
}

impl TokenBroker {
    /// Creates `slots` slots (at least 1), of which each command may use at most `most`.
    pub fn new(slots: usize, most: usize) -> TokenBroker {
        assert!(slots > 0, "nothing could ever run");
        TokenBroker { slots, in_use: 0, max_extra: most.clamp(1, slots) - 1, pipes: Vec::new(), is_short: false }
    }

    /// Takes a slot for a command of this priority, unless running commands need it more.
    pub fn acquire(&mut self, priority: i64) -> Option<Slot> {
        let granted = self.in_use == 0 || self.reallocate(Some(priority));
        granted.then(|| {
            self.in_use += 1;
            Slot(())
        })
    }

    pub fn release(&mut self, _slot: Slot) {
        assert!(self.in_use > 0, "a slot was given back twice");
        self.in_use -= 1;
    }

    /// Opens a pipe for a command that is about to start, and returns the descriptors that it inherits. `None` if
    /// commands may use only one slot, or no descriptors are left.
    pub fn add_command(&mut self, job: JobId, priority: i64) -> Option<[RawFd; 2]> {
        if self.max_extra == 0 {
            return None;
        }
        let pipe = ClientPipe::open(job, priority).ok()?;
        let numbers = pipe.ends.raw_fds();
        self.pipes.push(pipe);
        Some(numbers)
    }

    /// Frees all tokens of a command that has ended with all of its processes.
    pub fn remove_command(&mut self, job: JobId) {
        self.pipes.retain(|pipe| pipe.job != job);
    }

    /// Reallocates tokens. Call regularly. Returns whether a waiting command of this priority gets a slot.
    pub fn reallocate(&mut self, waiting: Option<i64>) -> bool {
        let states: Vec<PipeState> = self.pipes.iter_mut().map(|pipe| pipe.inspect(self.max_extra)).collect();
        let waits = waiting.map(|priority| Request { demand: Demand::Certain, priority, max: 1 });
        let requests: Vec<Request> = waits.into_iter().chain(states.iter().map(|state| state.request)).collect();
        let unused: usize = states.iter().map(|state| state.unused).sum();
        let mut shares = allocate(self.free() + unused, &requests);
        self.is_short = requests
            .iter()
            .zip(&shares)
            .any(|(request, &share)| share < request.max && request.demand == Demand::Certain);
        let granted = waiting.is_some() && shares.remove(0) > 0;
        let pairs = || states.iter().zip(&shares);
        for (pipe, (state, &share)) in self.pipes.iter_mut().zip(pairs()) {
            pipe.given -= pipe.take(state.unused.saturating_sub(share));
        }
        // Commands may have taken tokens meanwhile.
        let mut free = self.free().saturating_sub(usize::from(granted));
        for (pipe, (state, &share)) in self.pipes.iter_mut().zip(pairs()) {
            let more = share.saturating_sub(state.unused).min(free);
            pipe.put(more);
            free -= more;
        }
        granted && self.free() > 0
    }

    /// Returns the number of slots neither in a pipe nor in use.
    fn free(&self) -> usize {
        let given: usize = self.pipes.iter().map(|pipe| pipe.given).sum();
        self.slots.saturating_sub(self.in_use + given)
    }

    pub fn has_commands(&self) -> bool {
        !self.pipes.is_empty()
    }

    /// Returns the pipes that become readable when a command puts back a token that others need.
    pub fn awaited_pipes(&self) -> impl Iterator<Item = &impl AsRawFd> {
        self.pipes.iter().filter(|pipe| self.is_short && pipe.given > 0).map(|pipe| &pipe.tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a command, and returns its end of the pipe.
    fn join(broker: &mut TokenBroker, job: u32, priority: i64) -> TokenPipe {
        assert!(broker.acquire(priority).is_some());
        let [reader, writer] = broker.add_command(JobId(job), priority).unwrap();
        broker.reallocate(None);
        TokenPipe::inherited(reader, writer).unwrap()
    }

    /// Takes up to `wanted` tokens, as fast as they arrive.
    fn take_all(broker: &mut TokenBroker, client: &TokenPipe, wanted: usize) -> usize {
        let mut taken = 0;
        for _ in 0..20 {
            while taken < wanted && client.take().unwrap().is_some() {
                taken += 1;
            }
            broker.reallocate(None);
        }
        taken
    }

    fn put(client: &TokenPipe, count: usize) {
        (0..count).for_each(|_| client.put(TOKEN).unwrap());
    }

    #[test]
    fn a_single_command_gets_all_tokens() {
        let mut broker = TokenBroker::new(8, 8);
        let one = join(&mut broker, 1, 5);
        assert_eq!(take_all(&mut broker, &one, 3), 3);
        assert_eq!(take_all(&mut broker, &one, 100), 4);
        assert!(broker.acquire(9).is_none(), "all are in use");
        put(&one, 1);
        assert!(broker.acquire(9).is_some());
    }

    #[test]
    fn a_command_gets_at_most_its_maximum() {
        let mut broker = TokenBroker::new(8, 3);
        let one = join(&mut broker, 1, 5);
        assert_eq!(take_all(&mut broker, &one, 100), 2);
        let mut broker = TokenBroker::new(8, 1);
        assert!(broker.acquire(1).is_some() && broker.add_command(JobId(1), 1).is_none());
    }

    #[test]
    fn tokens_go_to_the_highest_priority() {
        let mut broker = TokenBroker::new(8, 8);
        let (less, more) = (join(&mut broker, 1, 5), join(&mut broker, 2, 9));
        assert_eq!(take_all(&mut broker, &less, 100), 6, "the other command uses none");
        assert_eq!(take_all(&mut broker, &more, 100), 0);
        assert!(broker.awaited_pipes().next().is_some());
        put(&less, 3);
        assert_eq!(take_all(&mut broker, &more, 100), 3, "returned tokens go to the more urgent command");
        assert_eq!(less.take().unwrap(), None);
    }

    #[test]
    fn a_waiting_job_needs_a_higher_priority_than_a_running_one() {
        let mut broker = TokenBroker::new(2, 2);
        let one = join(&mut broker, 1, 5);
        assert!(one.take().unwrap().is_some());
        assert!(broker.acquire(9).is_none());
        put(&one, 1);
        assert!(one.take().unwrap().is_some());
        broker.reallocate(Some(9));
        put(&one, 1);
        assert!(broker.reallocate(Some(9)), "the next reallocation takes it away");
        assert_eq!(one.take().unwrap(), None);
        assert!(broker.acquire(9).is_some());
    }

    #[test]
    fn tokens_of_a_killed_command_are_freed() {
        let mut broker = TokenBroker::new(4, 4);
        let one = join(&mut broker, 1, 5);
        assert_eq!(take_all(&mut broker, &one, 100), 3);
        assert!(broker.acquire(5).is_none());
        broker.remove_command(JobId(1));
        broker.release(Slot(()));
        let other = join(&mut broker, 2, 1);
        put(&one, 3);
        assert_eq!(take_all(&mut broker, &other, 100), 3, "tokens put into a removed pipe are lost");
    }

    #[test]
    fn extra_tokens_are_discarded() {
        let mut broker = TokenBroker::new(4, 4);
        let one = join(&mut broker, 1, 5);
        put(&one, 50);
        broker.reallocate(None);
        let other = join(&mut broker, 2, 9);
        let both = take_all(&mut broker, &other, 100) + take_all(&mut broker, &one, 100);
        assert_eq!(both, 2);
    }

    #[test]
    fn allocated_tokens_never_exceed_the_total() {
        let mut draw = tanto_testing::Random::new(7);
        let mut broker = TokenBroker::new(6, 5);
        let mut clients: Vec<(u32, TokenPipe, usize)> = Vec::new();
        for step in 0..2000_u32 {
            match draw.below(5) {
                0 => {
                    let priority = draw.below(10) as i64;
                    if broker.acquire(priority).is_some() {
                        let [reader, writer] = broker.add_command(JobId(step), priority).unwrap();
                        clients.push((step, TokenPipe::inherited(reader, writer).unwrap(), 0));
                    }
                }
                1 if !clients.is_empty() => {
                    // It ends, with or without tokens in hand.
                    let (job, ..) = clients.swap_remove(draw.below(clients.len()));
                    broker.remove_command(JobId(job));
                    broker.release(Slot(()));
                }
                2 if !clients.is_empty() => {
                    let at = draw.below(clients.len());
                    let (_, tokens, held) = &mut clients[at];
                    *held += usize::from(tokens.take().unwrap().is_some());
                }
                3 if !clients.is_empty() => {
                    let at = draw.below(clients.len());
                    let (_, tokens, held) = &mut clients[at];
                    if *held > 0 {
                        *held -= 1;
                        tokens.put(TOKEN).unwrap();
                    }
                }
                _ => _ = broker.reallocate(None),
            }
            let running: usize = clients.iter().map(|(.., held)| 1 + held).sum();
            assert!(running <= 6, "step {step}: {running} run");
        }
        assert!(!clients.is_empty());
    }
}
