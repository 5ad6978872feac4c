//! Clients: who builds a package, and whom so many failures that are the machine's befell that nothing more is given to
//! it. Does not know what a client does.

use std::collections::BTreeSet;

use crate::resolve::Package;

/// After machine's failures of so many different packages a client gets no more.
const TOO_MANY: usize = 3;

/// All clients of a build.
#[derive(Debug)]
pub struct Clients {
    /// So many there are; 0: any number.
    count: usize,
    known: Vec<Client>,
}

#[derive(Clone, Default, Debug)]
struct Client {
    busy: bool,
    aside: bool,
    /// What failed here though it was not its fault.
    blamed: BTreeSet<Package>,
}

impl Clients {
    /// So many; 0: as many as are asked for.
    pub fn new(count: usize) -> Clients {
        Clients { count, known: vec![Client::default(); count] }
    }

    /// A free client, if there is one: rather not that one.
    pub fn take(&mut self, not: Option<usize>) -> usize {
        let is_free = |client: &Client| !client.busy && !client.aside;
        let mut free = (0..self.known.len()).filter(|&it| is_free(&self.known[it]));
        let first = free.next();
        let found = if first == not { free.next().or(first) } else { first };
        // If all are busy or get no more, whoever failed goes on: others would be more than there are to be.
        let client = found.or(not.filter(|_| self.count > 0)).unwrap_or_else(|| {
            self.known.push(Client::default());
            self.known.len() - 1
        });
        self.known[client].busy = true;
        client
    }

    /// It is free again.
    pub fn release(&mut self, client: usize) {
        self.known[client].busy = false;
    }

    /// May another package begin?
    pub fn has_free(&self) -> bool {
        self.count == 0 || self.known.iter().any(|client| !client.busy && !client.aside)
    }

    /// None is left that would get anything.
    pub fn is_empty(&self) -> bool {
        self.count > 0 && self.known.iter().all(|client| client.aside)
    }

    /// A package failed here, and that was the machine's fault. True if the client gets no more for that.
    pub fn blame(&mut self, client: usize, package: Package) -> bool {
        let it = &mut self.known[client];
        it.blamed.insert(package);
        let was_aside = std::mem::replace(&mut it.aside, it.blamed.len() >= TOO_MANY);
        it.aside && !was_aside
    }

    /// A package was built here: what failed before was not this client's fault.
    pub fn praise(&mut self, client: usize) {
        self.known[client].blamed.clear();
    }
}

/// As it is called in the database and by whoever shows it.
pub fn name(client: usize) -> String {
    format!("local-{}", client + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_one_package_at_a_time() {
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
    fn on_whom_different_packages_fail_gets_no_more() {
        let mut clients = Clients::new(2);
        assert!([1, 1, 2, 1].into_iter().all(|package| !clients.blame(0, package)));
        assert!(clients.blame(0, 3) && !clients.blame(0, 4), "it is said once");
        assert_eq!((clients.take(None), clients.has_free()), (1, false));
        assert!(!clients.is_empty());
        assert!((0..3).any(|package| clients.blame(1, package)) && clients.is_empty());
        clients.release(1);
        assert_eq!(clients.take(Some(1)), 1, "there is no other for the package that failed on it");
        assert!(clients.is_empty() && !clients.has_free());
    }

    #[test]
    fn who_builds_something_is_well() {
        let mut clients = Clients::new(1);
        assert!(!clients.blame(0, 1) && !clients.blame(0, 2));
        clients.praise(0);
        assert!(!clients.blame(0, 7));
    }
}
