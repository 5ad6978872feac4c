//! Clients that were refused lately, for the user.

use std::collections::VecDeque;

use tanto_protocol::{Environment, Hello, Refusal, RefusalCode, TokenIdentity};

use crate::machine_environment;

/// Most refused clients that are remembered; the oldest are forgotten.
const MAX_REFUSED: usize = 64;

/// A client that said hello and was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusedClient {
    pub name: String,
    pub roles: String,
    pub slots: u32,
    pub memory_kib: u64,
    /// For the user.
    pub why: String,
    /// On the link's clock.
    pub(super) at_ms: i64,
}

#[derive(Clone, Default, Debug)]
pub(super) struct Refusals(VecDeque<RefusedClient>);

impl Refusals {
    pub fn all(&self) -> impl Iterator<Item = &RefusedClient> {
        self.0.iter()
    }

    /// The client was accepted.
    pub fn forget(&mut self, name: &str) {
        self.0.retain(|it| it.name != name);
    }

    pub fn add(&mut self, now: i64, token: &TokenIdentity, hello: &Hello, own: &Environment, refusal: &Refusal) {
        self.forget(&hello.name);
        self.0.truncate(MAX_REFUSED - 1);
        let why = match refusal.code {
            RefusalCode::Environment => machine_environment::differing(own, &hello.environment),
            _ => refusal.message.clone(),
        };
        self.0.push_front(RefusedClient {
            name: hello.name.clone(),
            roles: token.roles.to_string(),
            slots: hello.slots,
            memory_kib: hello.memory_kib,
            why,
            at_ms: now,
        });
    }
}
