//! Clients: slots for running packages. A client on which several packages in a row fail through no fault of their own is
//! disabled.

use std::collections::BTreeSet;

use crate::resolve::PackageId;

/// Failures of this many different packages disable a client.
const MAX_FAILURES: usize = 3;

#[derive(Debug)]
pub struct Clients {
    /// 0: any number.
    count: usize,
    clients: Vec<Client>,
}

#[derive(Clone, Default, Debug)]
struct Client {
    busy: bool,
    disabled: bool,
    /// Packages that failed here through no fault of their own since the last success.
    failures: BTreeSet<PackageId>,
}

impl Clients {
    /// `count` 0: as many as are taken.
    pub fn new(count: usize) -> Clients {
        Clients { count, clients: vec![Client::default(); count] }
    }

    /// Takes a free client, preferably not the excluded one.
    pub fn take(&mut self, excluded: Option<usize>) -> usize {
        let is_free = |client: &Client| !client.busy && !client.disabled;
        let mut free = (0..self.clients.len()).filter(|&it| is_free(&self.clients[it]));
        let first = free.next();
        let found = if first == excluded { free.next().or(first) } else { first };
        // If all are busy or disabled, the excluded one continues: a new one would exceed their number.
        let client = found.or(excluded.filter(|_| self.count > 0)).unwrap_or_else(|| {
            self.clients.push(Client::default());
            self.clients.len() - 1
        });
        self.clients[client].busy = true;
        client
    }

    pub fn release(&mut self, client: usize) {
        self.clients[client].busy = false;
    }

    /// Returns whether another package may start.
    pub fn has_free(&self) -> bool {
        self.count == 0 || self.clients.iter().any(|client| !client.busy && !client.disabled)
    }

    /// Returns whether all clients are disabled.
    pub fn is_empty(&self) -> bool {
        self.count > 0 && self.clients.iter().all(|client| client.disabled)
    }

    /// Records a failure through no fault of the package. Returns whether it disables the client.
    pub fn record_machine_failure(&mut self, client: usize, package: PackageId) -> bool {
        let it = &mut self.clients[client];
        it.failures.insert(package);
        let was_disabled = std::mem::replace(&mut it.disabled, it.failures.len() >= MAX_FAILURES);
        it.disabled && !was_disabled
    }

    pub fn record_success(&mut self, client: usize) {
        self.clients[client].failures.clear();
    }
}

/// The name in the database and in messages.
pub fn name(client: usize) -> String {
    format!("local-{}", client + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_has_one_package_at_a_time() {
        let mut clients = Clients::new(2);
        assert_eq!((clients.take(None), clients.take(None), clients.has_free()), (0, 1, false));
        clients.release(0);
        assert!(clients.has_free());
        assert_eq!(clients.take(Some(0)), 0, "there is no other");
        clients.release(0);
        clients.release(1);
        assert_eq!(clients.take(Some(0)), 1, "the other is better");
        let mut any = Clients::new(0);
        assert_eq!((any.take(None), any.take(None), any.has_free()), (0, 1, true));
    }

    #[test]
    fn failures_of_different_packages_disable_a_client() {
        let mut clients = Clients::new(2);
        assert!([1, 1, 2, 1].into_iter().all(|package| !clients.record_machine_failure(0, package)));
        assert!(clients.record_machine_failure(0, 3) && !clients.record_machine_failure(0, 4), "it is reported once");
        assert_eq!((clients.take(None), clients.has_free()), (1, false));
        assert!(!clients.is_empty());
        assert!((0..3).any(|package| clients.record_machine_failure(1, package)) && clients.is_empty());
        clients.release(1);
        assert_eq!(clients.take(Some(1)), 1, "there is no other for the package that failed on it");
        assert!(clients.is_empty() && !clients.has_free());
    }

    #[test]
    fn success_resets_the_failures() {
        let mut clients = Clients::new(1);
        assert!(!clients.record_machine_failure(0, 1) && !clients.record_machine_failure(0, 2));
        clients.record_success(0);
        assert!(!clients.record_machine_failure(0, 7));
    }
}
