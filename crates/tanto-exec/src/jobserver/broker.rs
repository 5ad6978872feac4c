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
    most: usize,
    purses: Vec<ClientPipe>,
    /// Some command could use more tokens.
    is_short: bool,
}

/// The pipe of one command.
#[derive(Debug)]
struct ClientPipe {
    job: JobId,
    urgency: i64,
    ends: SharedPipe,
    tokens: TokenPipe,
    /// Tokens added and not taken back.
    given: usize,
}

#[derive(Clone, Copy)]
struct Look {
    /// Tokens in the pipe.
    unused: usize,
    claim: Request,
}

impl ClientPipe {
    fn open(job: JobId, urgency: i64) -> io::Result<ClientPipe> {
        let ends = SharedPipe::new()?;
        // The command may change its user and reopen the pipe.
        ends.allow_all_users()?;
        let tokens = ends.tokens().map_err(|why| match why {
            TokenPipeError::NotAPipe => io::ErrorKind::InvalidInput.into(),
            TokenPipeError::Reading(error) | TokenPipeError::Writing(error) => error,
        })?;
        Ok(ClientPipe { job, urgency, ends, tokens, given: 0 })
    }

    /// A command that uses all of its tokens may double them. Others get one more to show that they can use it, if
    /// nobody else needs it.
    fn look(&mut self, most: usize) -> Look {
        let there = self.tokens.count().unwrap_or(0);
        // Excess tokens come from a misbehaving client.
        let unused = there.saturating_sub(self.take(there.saturating_sub(self.given))).min(self.given);
        let taken = self.given - unused;
        let room = most.saturating_sub(taken);
        let (need, most) = match (unused, taken) {
            (0, 0) => (Demand::Unknown, 1),
            (0, taken) => (Demand::Certain, taken),
            _ => (Demand::Unlikely, 1),
        };
        Look { unused, claim: Request { demand: need, priority: self.urgency, max: most.min(room) } }
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
        TokenBroker { slots, in_use: 0, most: most.clamp(1, slots) - 1, purses: Vec::new(), is_short: false }
    }

    /// Takes a slot for a command of this priority, unless running commands need it more.
    pub fn acquire(&mut self, urgency: i64) -> Option<Slot> {
        let granted = self.in_use == 0 || self.balance(Some(urgency));
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
    pub fn join(&mut self, job: JobId, urgency: i64) -> Option<[RawFd; 2]> {
        if self.most == 0 {
            return None;
        }
        let purse = ClientPipe::open(job, urgency).ok()?;
        let numbers = purse.ends.raw_fds();
        self.purses.push(purse);
        Some(numbers)
    }

    /// Frees all tokens of a command that has ended with all of its processes.
    pub fn leave(&mut self, job: JobId) {
        self.purses.retain(|purse| purse.job != job);
    }

    /// Reallocates tokens. Call regularly. Returns whether a waiting command of this priority gets a slot.
    pub fn balance(&mut self, waiting: Option<i64>) -> bool {
        let looks: Vec<Look> = self.purses.iter_mut().map(|purse| purse.look(self.most)).collect();
        let waits = waiting.map(|urgency| Request { demand: Demand::Certain, priority: urgency, max: 1 });
        let claims: Vec<Request> = waits.into_iter().chain(looks.iter().map(|look| look.claim)).collect();
        let unused: usize = looks.iter().map(|look| look.unused).sum();
        let mut shares = allocate(self.free() + unused, &claims);
        self.is_short =
            claims.iter().zip(&shares).any(|(claim, &share)| share < claim.max && claim.demand == Demand::Certain);
        let granted = waiting.is_some() && shares.remove(0) > 0;
        let pairs = || looks.iter().zip(&shares);
        for (purse, (look, &share)) in self.purses.iter_mut().zip(pairs()) {
            purse.given -= purse.take(look.unused.saturating_sub(share));
        }
        // Commands may have taken tokens meanwhile.
        let mut free = self.free().saturating_sub(usize::from(granted));
        for (purse, (look, &share)) in self.purses.iter_mut().zip(pairs()) {
            let more = share.saturating_sub(look.unused).min(free);
            purse.put(more);
            free -= more;
        }
        granted && self.free() > 0
    }

    /// Returns the number of slots neither in a pipe nor in use.
    fn free(&self) -> usize {
        let given: usize = self.purses.iter().map(|purse| purse.given).sum();
        self.slots.saturating_sub(self.in_use + given)
    }

    pub fn is_busy(&self) -> bool {
        !self.purses.is_empty()
    }

    /// Returns the pipes that become readable when a command puts back a token that others need.
    pub fn awaited(&self) -> impl Iterator<Item = &impl AsRawFd> {
        self.purses.iter().filter(|purse| self.is_short && purse.given > 0).map(|purse| &purse.tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a command, and returns its end of the pipe.
    fn join(bank: &mut TokenBroker, job: u32, urgency: i64) -> TokenPipe {
        assert!(bank.acquire(urgency).is_some());
        let [reader, writer] = bank.join(JobId(job), urgency).unwrap();
        bank.balance(None);
        TokenPipe::inherited(reader, writer).unwrap()
    }

    /// Takes up to `wanted` tokens, as fast as they arrive.
    fn take_all(bank: &mut TokenBroker, client: &TokenPipe, wanted: usize) -> usize {
        let mut taken = 0;
        for _ in 0..20 {
            while taken < wanted && client.take().unwrap().is_some() {
                taken += 1;
            }
            bank.balance(None);
        }
        taken
    }

    fn put(client: &TokenPipe, count: usize) {
        (0..count).for_each(|_| client.put(TOKEN).unwrap());
    }

    #[test]
    fn one_alone_gets_all_that_it_wants() {
        let mut bank = TokenBroker::new(8, 8);
        let one = join(&mut bank, 1, 5);
        assert_eq!(take_all(&mut bank, &one, 3), 3);
        assert_eq!(take_all(&mut bank, &one, 100), 4);
        assert!(bank.acquire(9).is_none(), "all are in use");
        put(&one, 1);
        assert!(bank.acquire(9).is_some());
    }

    #[test]
    fn none_gets_more_than_it_may() {
        let mut bank = TokenBroker::new(8, 3);
        let one = join(&mut bank, 1, 5);
        assert_eq!(take_all(&mut bank, &one, 100), 2);
        let mut bank = TokenBroker::new(8, 1);
        assert!(bank.acquire(1).is_some() && bank.join(JobId(1), 1).is_none());
    }

    #[test]
    fn tokens_go_to_the_more_urgent() {
        let mut bank = TokenBroker::new(8, 8);
        let (less, more) = (join(&mut bank, 1, 5), join(&mut bank, 2, 9));
        assert_eq!(take_all(&mut bank, &less, 100), 6, "what the other does not use");
        assert_eq!(take_all(&mut bank, &more, 100), 0);
        assert!(bank.awaited().next().is_some());
        put(&less, 3);
        assert_eq!(take_all(&mut bank, &more, 100), 3, "what the less urgent puts back is the other's");
        assert_eq!(less.take().unwrap(), None);
    }

    #[test]
    fn who_waits_has_to_be_more_urgent_than_who_needs_more() {
        let mut bank = TokenBroker::new(2, 2);
        let one = join(&mut bank, 1, 5);
        assert!(one.take().unwrap().is_some());
        assert!(bank.acquire(9).is_none());
        put(&one, 1);
        assert!(one.take().unwrap().is_some());
        bank.balance(Some(9));
        put(&one, 1);
        assert!(bank.balance(Some(9)), "it is taken away at the next look");
        assert_eq!(one.take().unwrap(), None);
        assert!(bank.acquire(9).is_some());
    }

    #[test]
    fn what_a_killed_command_had_is_free() {
        let mut bank = TokenBroker::new(4, 4);
        let one = join(&mut bank, 1, 5);
        assert_eq!(take_all(&mut bank, &one, 100), 3);
        assert!(bank.acquire(5).is_none());
        bank.leave(JobId(1));
        bank.release(Slot(()));
        let other = join(&mut bank, 2, 1);
        put(&one, 3);
        assert_eq!(take_all(&mut bank, &other, 100), 3, "what is put into a pipe that is gone is nobody's");
    }

    #[test]
    fn who_puts_in_more_than_he_took_makes_no_tokens() {
        let mut bank = TokenBroker::new(4, 4);
        let one = join(&mut bank, 1, 5);
        put(&one, 50);
        bank.balance(None);
        let other = join(&mut bank, 2, 9);
        let both = take_all(&mut bank, &other, 100) + take_all(&mut bank, &one, 100);
        assert_eq!(both, 2);
    }

    #[test]
    fn what_is_dealt_never_exceeds_what_there_is() {
        let mut draw = tanto_testing::Random::new(7);
        let mut bank = TokenBroker::new(6, 5);
        let mut clients: Vec<(u32, TokenPipe, usize)> = Vec::new();
        for step in 0..2000_u32 {
            match draw.below(5) {
                0 => {
                    let urgency = draw.below(10) as i64;
                    if bank.acquire(urgency).is_some() {
                        let [reader, writer] = bank.join(JobId(step), urgency).unwrap();
                        clients.push((step, TokenPipe::inherited(reader, writer).unwrap(), 0));
                    }
                }
                1 if !clients.is_empty() => {
                    // It ends, with or without tokens in hand.
                    let (job, ..) = clients.swap_remove(draw.below(clients.len()));
                    bank.leave(JobId(job));
                    bank.release(Slot(()));
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
                _ => _ = bank.balance(None),
            }
            let running: usize = clients.iter().map(|(.., held)| 1 + held).sum();
            assert!(running <= 6, "step {step}: {running} run");
        }
        assert!(!clients.is_empty());
    }
}
