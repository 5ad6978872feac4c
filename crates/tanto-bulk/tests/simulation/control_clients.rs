//! Control clients that send requests at random moments.

use std::cell::RefCell;
use std::collections::BTreeSet;

use tanto_bulk::coordinator::control_socket::{ControlServer, Request, Response};
use tanto_testing::Random;

/// The maximum number of requests, so that a build ends.
const MAX_REQUESTS: u64 = 25;

pub struct ControlClients<'r> {
    random: &'r RefCell<Random>,
    /// The number of packages at the start of the build.
    count: usize,
    /// The dependencies of each package.
    depends: Vec<Vec<u32>>,
    requests: u64,
    waiting: BTreeSet<u64>,
    /// Number for the next version or new package.
    next_version: usize,
    pub responses: Vec<Response>,
}

impl<'r> ControlClients<'r> {
    pub fn new(random: &'r RefCell<Random>, depends: &[Vec<u32>]) -> Self {
        let (waiting, responses) = (BTreeSet::new(), Vec::new());
        ControlClients {
            random,
            count: depends.len(),
            depends: depends.to_vec(),
            requests: 0,
            waiting,
            next_version: 1,
            responses,
        }
    }

    /// Returns the result of a new scan: as before, malformed, or with another version, a new or missing dependency, or a cycle.
    fn records(&mut self, package: usize) -> Vec<u8> {
        let change = self.random.borrow_mut().below(6);
        let needs = self.depends[package].iter().map(|needed| format!("pkg{needed}>=1:../../cat/pkg{needed}"));
        let mut needs: Vec<String> = needs.collect();
        let record = |name: &str, version: usize, needs: &[String]| {
            format!("PKGNAME={name}-{version}\nPKG_LOCATION=cat/{name}\nALL_DEPENDS={}\n", needs.join(" "))
        };
        let name = format!("pkg{package}");
        self.next_version += 1;
        match change {
            0 => Vec::new(),
            1 => b"PKGNAME=".to_vec(),
            2 => record(&name, self.next_version, &needs).into_bytes(),
            3 => {
                let new = format!("new{}", self.next_version);
                needs.push(format!("{new}-[0-9]*:../../cat/{new}"));
                (record(&name, 1, &needs) + &record(&new, 3, &[])).into_bytes()
            }
            4 => {
                needs.push("nobody-[0-9]*:../../cat/nobody".into());
                record(&name, 1, &needs).into_bytes()
            }
            // This can be a cycle.
            _ => {
                let other = self.random.borrow_mut().below(self.count);
                needs.push(format!("pkg{other}>=1:../../cat/pkg{other}"));
                record(&name, 1, &needs).into_bytes()
            }
        }
    }
}

impl ControlServer for ControlClients<'_> {
    fn next(&mut self) -> Option<(u64, Request)> {
        if self.requests == MAX_REQUESTS || self.random.borrow_mut().below(12) > 0 {
            return None;
        }
        self.requests += 1;
        self.waiting.insert(self.requests);
        let package = self.random.borrow_mut().below(self.count);
        // Locations, because versions change.
        let name = format!("cat/pkg{package}");
        let kind = self.random.borrow_mut().below(7);
        let request = match kind {
            0 => Request::Status,
            1 => Request::Log { package: name, stage: None },
            2 => Request::Skip(vec![name]),
            3 | 4 => Request::Kill(vec![name]),
            _ => Request::Retry { packages: vec![name], records: self.records(package) },
        };
        Some((self.requests, request))
    }

    fn answer(&mut self, client: u64, response: Response) {
        assert!(self.waiting.remove(&client), "client {client} has no open request");
        assert!(response.code == 0 || !response.err.is_empty());
        self.responses.push(response);
    }
}

impl Drop for ControlClients<'_> {
    fn drop(&mut self) {
        assert!(std::thread::panicking() || self.waiting.is_empty(), "{:?} have no response", self.waiting);
    }
}
