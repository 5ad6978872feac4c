//! Users at other terminals, who want something of a build at random moments.

use std::cell::RefCell;
use std::collections::BTreeSet;

use tanto_bulk::coordinator::control_socket::{ControlServer, Request, Response};
use tanto_testing::Random;

/// They ask for so much and no more, so that a build comes to its end.
const MOST: u64 = 25;

/// All of them.
pub struct ControlClients<'r> {
    random: &'r RefCell<Random>,
    /// So many packages there were at the beginning.
    count: usize,
    /// What each package needs.
    depends: Vec<Vec<u32>>,
    asked: u64,
    waiting: BTreeSet<u64>,
    /// Numbers of versions and of new packages.
    fresh: usize,
    pub answers: Vec<Response>,
}

impl<'r> ControlClients<'r> {
    pub fn new(random: &'r RefCell<Random>, depends: &[Vec<u32>]) -> Self {
        let (waiting, answers) = (BTreeSet::new(), Vec::new());
        ControlClients { random, count: depends.len(), depends: depends.to_vec(), asked: 0, waiting, fresh: 1, answers }
    }

    /// A package's directory says the same as before, or another version, or that it needs one that was not there.
    fn records(&mut self, package: usize) -> Vec<u8> {
        let fate = self.random.borrow_mut().below(6);
        let needs = self.depends[package].iter().map(|needed| format!("pkg{needed}>=1:../../cat/pkg{needed}"));
        let mut needs: Vec<String> = needs.collect();
        let record = |name: &str, version: usize, needs: &[String]| {
            format!("PKGNAME={name}-{version}\nPKG_LOCATION=cat/{name}\nALL_DEPENDS={}\n", needs.join(" "))
        };
        let name = format!("pkg{package}");
        self.fresh += 1;
        match fate {
            0 => Vec::new(),
            1 => b"PKGNAME=".to_vec(),
            2 => record(&name, self.fresh, &needs).into_bytes(),
            3 => {
                let new = format!("new{}", self.fresh);
                needs.push(format!("{new}-[0-9]*:../../cat/{new}"));
                (record(&name, 1, &needs) + &record(&new, 3, &[])).into_bytes()
            }
            4 => {
                needs.push("nobody-[0-9]*:../../cat/nobody".into());
                record(&name, 1, &needs).into_bytes()
            }
            // It may need itself then, through others.
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
        if self.asked == MOST || self.random.borrow_mut().below(12) > 0 {
            return None;
        }
        self.asked += 1;
        self.waiting.insert(self.asked);
        let package = self.random.borrow_mut().below(self.count);
        // Whole directories are named, for versions change.
        let name = format!("cat/pkg{package}");
        let what = self.random.borrow_mut().below(7);
        let request = match what {
            0 => Request::Status,
            1 => Request::Log { package: name, stage: None },
            2 => Request::Skip(vec![name]),
            3 | 4 => Request::Kill(vec![name]),
            _ => Request::Retry { packages: vec![name], records: self.records(package) },
        };
        Some((self.asked, request))
    }

    fn answer(&mut self, client: u64, answer: Response) {
        assert!(self.waiting.remove(&client), "client {client} has asked nothing, or has an answer");
        assert!(answer.code == 0 || !answer.err.is_empty());
        self.answers.push(answer);
    }
}

impl Drop for ControlClients<'_> {
    fn drop(&mut self) {
        assert!(std::thread::panicking() || self.waiting.is_empty(), "{:?} have no answer", self.waiting);
    }
}
