//! What users want of a build while it goes on: that packages are built again, left out or ended. Does not know how they
//! say it.

use std::collections::{HashMap, HashSet};

use tanto_exec::event::{Event, Level, View};
use tanto_exec::job::Cost;
use tanto_exec::job::JobId;
use tanto_exec::job::report::TerminationReason;
use tanto_exec::runner::Runner;
use tanto_exec::schedule::{JobSpec, Kind, PoolId, Schedule};

use super::Books;
use crate::attempt::stages::Stage;
use crate::coordinator::control_socket::{Answer, Request};
use crate::coordinator::plan::{Bad, Planned, SKIPPED, WANTED};
use crate::coordinator::sources::{Anew, Merged};
use crate::coordinator::state::State;
use crate::freshness::Standing;
use crate::resolve::Package;
use crate::tree::records::{self, Record};

/// So many are answered before the build goes on.
const MOST_AT_ONCE: usize = 16;

/// The parts of a build that are changed.
struct Wishes<'w, 'b> {
    books: &'w mut Books<'b>,
    schedule: &'w mut Schedule,
    runner: &'w mut dyn Runner,
    view: &'w mut dyn View,
}

/// Where packages stood before something was changed, and why.
type Before = Vec<(State, String)>;

impl Books<'_> {
    /// The schedule is told what a package needs by now.
    fn expect(&self, package: Package, schedule: &mut Schedule) {
        let job = JobId(package);
        self.plan.package(package).expected().tell(schedule, job, schedule.cost(job).wall_ms);
    }

    /// Does what others have asked for since the last call.
    pub fn attend(&mut self, schedule: &mut Schedule, runner: &mut dyn Runner, view: &mut dyn View) {
        for package in std::mem::take(&mut self.moved) {
            self.expect(package, schedule);
        }
        for package in self.crowded.keys().copied().collect::<Vec<_>>() {
            Wishes { books: self, schedule, runner, view }.reopen(package);
        }
        for package in std::mem::take(&mut self.again) {
            let records = self.later.remove(&package).unwrap_or_default();
            let mut wishes = Wishes { books: self, schedule, runner, view };
            let answer = wishes.retry(&[package], &[], &records);
            // Whoever has asked is gone. It is built again as it was.
            if answer.code != 0 {
                wishes.view.event(Event::Notice { level: Level::Warning, text: &answer.err });
                wishes.retry(&[package], &[], &[]);
            }
        }
        for _ in 0..MOST_AT_ONCE {
            let Some((guest, request)) = self.desk.next() else { return };
            let answer = Wishes { books: self, schedule, runner, view }.obey(request);
            self.desk.answer(guest, answer);
        }
    }
}

impl Wishes<'_, '_> {
    fn obey(&mut self, request: Request) -> Answer {
        match request {
            Request::Status => {
                let left_ms = self.books.left_ms(self.schedule);
                Answer::said(self.books.standing(self.schedule, left_ms))
            }
            Request::Log { package, stage } => self.log(&package, stage.as_deref()),
            Request::Retry { packages, records } => {
                let (known, unknown) = self.sort_out(&packages);
                self.retry(&known, &unknown, &records)
            }
            Request::Skip(packages) => self.of_each(&packages, Self::skip),
            Request::Kill(packages) => self.of_each(&packages, Self::kill),
        }
    }

    /// Those that are known by these words, and the other words.
    fn sort_out(&self, words: &[String]) -> (Vec<Package>, Vec<String>) {
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for word in words {
            match self.books.plan.named(word) {
                Ok(packages) => known.extend(packages),
                Err(_) => unknown.push(word.clone()),
            }
        }
        (known, unknown)
    }

    /// Does something with each, or nothing with any if one of them does not exist.
    fn of_each(&mut self, words: &[String], what: fn(&mut Self, Package) -> Result<String, String>) -> Answer {
        let mut packages = Vec::new();
        for word in words {
            match self.books.plan.named(word) {
                Ok(named) => packages.extend(named),
                Err(why) => return Answer::refused(why),
            }
        }
        let before = self.before();
        let mut answer = Answer::default();
        for package in packages {
            match what(self, package) {
                Ok(said) => answer.out.extend_from_slice(format!("{said}\n").as_bytes()),
                Err(why) if answer.err.is_empty() => answer.err = why.into_bytes(),
                Err(why) => answer.err.extend_from_slice(format!("; {why}").as_bytes()),
            }
        }
        answer.code = u8::from(!answer.err.is_empty());
        self.settle(&before, &[]);
        answer
    }

    fn name(&self, package: Package) -> String {
        self.books.plan.package(package).name.clone()
    }

    /// It is not built in this run.
    fn skip(&mut self, package: Package) -> Result<String, String> {
        let name = self.name(package);
        match self.books.plan.package(package).state {
            State::Open | State::IndirectFailed | State::IndirectPrefailed => {
                self.books.plan.set(package, State::Prefailed, SKIPPED.into());
                let users = self.books.plan.all_users(&[package]);
                let open = users.iter().filter(|&&user| self.books.plan.package(user).state == State::Open).count();
                Ok(format!("{name} is not built in this run, nor are {open} packages that need it"))
            }
            State::Running => Err(format!("{name} is being built: 'tanto bulk kill' ends that")),
            state => Err(format!("{name} is {}", state.name())),
        }
    }

    /// Its stage is ended, and it has failed.
    fn kill(&mut self, package: Package) -> Result<String, String> {
        let name = self.name(package);
        let Some(progress) = self.books.running.get_mut(&package) else {
            return Err(format!("{name} is not being built"));
        };
        if progress.failed.is_some() || progress.stage == Stage::Clean {
            return Err(format!("{name} is only cleaned up"));
        }
        progress.killed = true;
        let stage = progress.stage.name();
        // Where nothing can be ended, it fails as soon as its stage has ended.
        self.runner.terminate(JobId(package), TerminationReason::Requested);
        Ok(format!("{name} is ended in its stage {stage}"))
    }

    fn log(&mut self, word: &str, stage: Option<&str>) -> Answer {
        let running: Vec<Package> = match self.books.plan.named(word) {
            Ok(packages) => packages.into_iter().filter(|package| self.books.running.contains_key(package)).collect(),
            Err(why) => return Answer::refused(why),
        };
        let [package] = running[..] else { return Answer::refused(format!("{word} is not being built")) };
        let now = self.books.running[&package].stage.name();
        if stage.is_some_and(|stage| stage != now) {
            return Answer::refused(format!("{} is in its stage {now}", self.name(package)));
        }
        Answer::said(self.runner.output_so_far(JobId(package)).unwrap_or_default())
    }

    /// These are built again, and what needs them. Of `words` nothing was known before; `records` may say what they are.
    fn retry(&mut self, packages: &[Package], words: &[String], records: &[u8]) -> Answer {
        let fresh = match records::read(records) {
            Ok(fresh) if words.is_empty() || !self.books.sources.is_empty() => fresh,
            Ok(_) => return Answer::refused(format!("there is no package '{}'", words.join("', '"))),
            Err(bad) => return Answer::refused(format!("what was scanned is no record: {}", bad.why.told())),
        };
        let before = self.before();
        let rewired = match self.learn(&fresh) {
            Ok(rewired) => rewired,
            Err(why) => return Answer::refused(why),
        };
        let mut wanted = packages.to_vec();
        for word in words {
            match self.books.plan.named(word) {
                Ok(named) => wanted.extend(named),
                // What was learnt stays learnt.
                Err(why) => {
                    self.settle(&before, &rewired);
                    return Answer::refused(why);
                }
            }
        }
        self.open(&wanted);
        self.settle(&before, &rewired);
        Answer::said(wanted.iter().map(|&package| self.outlook(package)).collect::<String>())
    }

    /// What becomes of a package now, as a line.
    fn outlook(&self, package: Package) -> String {
        let it = self.books.plan.package(package);
        let name = &it.name;
        match it.state {
            State::Open => format!("{name} is built again\n"),
            State::Running => format!("{name} is being built, and is built again when that has ended\n"),
            state => format!("{name} is {}: {}\n", state.name(), it.why),
        }
    }

    /// They are to be built, and so is what was built with them.
    fn open(&mut self, packages: &[Package]) {
        for &package in packages {
            match self.books.plan.package(package).state {
                State::Running => self.once_more(package),
                // What it says itself stands, if nobody has taken it out.
                State::Prefailed if self.books.plan.package(package).why != SKIPPED => {}
                _ => {
                    self.books.crowded.remove(&package);
                    self.books.plan.set(package, State::Open, WANTED.into());
                    self.books.plan.stands(package, Standing::Due(WANTED.into()));
                }
            }
        }
        for user in self.books.plan.all_users(packages) {
            match self.books.plan.package(user).state {
                // What failed may have failed because of it.
                State::Done | State::Failed | State::MachineFailed => {
                    self.books.plan.set(user, State::Open, String::new())
                }
                State::Running => self.once_more(user),
                _ => {}
            }
        }
    }

    fn once_more(&mut self, package: Package) {
        if let Some(progress) = self.books.running.get_mut(&package) {
            progress.again = true;
        }
    }

    /// A package that had no room waits for its turn again, and that for what it had at least.
    fn reopen(&mut self, package: Package) {
        if self.books.plan.package(package).state != State::Running {
            return;
        }
        let before = self.before();
        self.books.plan.set(package, State::Open, String::new());
        self.settle(&before, &[]);
    }

    fn before(&self) -> Before {
        self.books.plan.packages.iter().map(|it| (it.state, it.why.clone())).collect()
    }

    /// Directories say something else than before. Which packages wait for others now; an error changes nothing.
    fn learn(&mut self, fresh: &[Record<'_>]) -> Result<Vec<Package>, String> {
        let fresh = self.put_off(fresh);
        if fresh.is_empty() || self.books.sources.is_empty() {
            return Ok(Vec::new());
        }
        let Merged { sources, changed, gone } = self.books.sources.merged(&fresh);
        let anew = sources.resolved()?;
        let planned = changed.iter().map(|&package| {
            let record = sources.record(package).ok_or("a record is lost")?;
            let planned = Planned::new(&record, Vec::new()).map_err(|bad| match bad {
                Bad::Name(name) => format!("'{}' is no name for a package", String::from_utf8_lossy(&name)),
                Bad::Cycle => "packages need each other".into(),
            })?;
            Ok((package, planned))
        });
        let planned = planned.collect::<Result<Vec<(Package, Planned)>, String>>()?;
        self.books.sources = sources;
        planned.into_iter().for_each(|(package, planned)| self.renew(package, planned, &anew));
        for &package in &gone {
            let why = format!("{} makes it no more", self.books.plan.package(package).location);
            self.books.plan.set(package, State::Prefailed, why);
        }
        Ok(self.rewire(&changed, &anew))
    }

    /// What is being built is not changed in the midst: its directory's records wait until that has ended. The others.
    fn put_off<'t>(&mut self, fresh: &[Record<'t>]) -> Vec<Record<'t>> {
        let (mut now, mut later): (_, HashMap<Package, Vec<u8>>) = (Vec::new(), HashMap::new());
        for record in fresh {
            let is_it = |package: &&Package| self.books.plan.package(**package).location.as_bytes() == record.location;
            match self.books.running.keys().find(is_it).copied() {
                Some(package) => {
                    later.entry(package).or_default().extend_from_slice(record.text);
                    self.once_more(package);
                }
                None => now.push(*record),
            }
        }
        // What was said of the directory before does not hold any more.
        self.books.later.extend(later);
        now
    }

    /// A package is what its record says now. What it needs comes later. One that was built under this name still is.
    fn renew(&mut self, package: Package, mut planned: Planned, anew: &Anew) {
        if let Some(why) = anew.lacks.get(&package) {
            (planned.state, planned.why) = (State::Prefailed, why.clone());
        }
        if (package as usize) < self.books.plan.packages.len() {
            let old = self.books.plan.package(package);
            let says_so = planned.state == State::Prefailed || old.state == State::Prefailed && old.why != SKIPPED;
            if !says_so && old.name == planned.name {
                (planned.state, planned.why) = (old.state, old.why.clone());
            }
            planned.depends = old.depends.clone();
            (planned.is_new, planned.attempts) = (old.is_new, old.attempts);
            (planned.needs, planned.on_disk) = (old.needs, old.on_disk);
            planned.content = old.content.clone().filter(|_| old.name == planned.name);
        } else {
            let spec = JobSpec { pool: PoolId::UNLIMITED, order: package, kind: Kind::Command, wanted: false };
            let job = self.schedule.add(spec);
            let wall_ms = self.books.usual_ms(self.schedule);
            self.schedule.set_cost(job, Cost { wall_ms, ..Cost::default() });
        }
        self.books.plan.renew(package, planned);
    }

    /// Packages need what was found anew, if they are not built yet or have changed. Which they are.
    fn rewire(&mut self, changed: &[Package], anew: &Anew) -> Vec<Package> {
        let mut rewired = Vec::new();
        for package in self.books.plan.all() {
            let it = self.books.plan.package(package);
            let is_open = !matches!(it.state, State::Done | State::Running | State::Failed | State::MachineFailed);
            let depends = &anew.depends[package as usize];
            let is_it = is_open && !anew.lacks.contains_key(&package) || changed.contains(&package);
            if is_it && it.depends != *depends {
                let standing = Standing::Due("it needs other packages than before".into());
                let planned = Planned { depends: depends.clone(), standing, ..it.clone() };
                it.depends.iter().for_each(|&needed| self.schedule.remove_dependency(JobId(package), JobId(needed)));
                self.books.plan.renew(package, planned);
                rewired.push(package);
            } else if changed.contains(&package) {
                rewired.push(package);
            }
        }
        rewired
    }

    /// The schedule, the database and the view follow the plan.
    fn settle(&mut self, before: &Before, rewired: &[Package]) {
        self.books.plan.derive();
        let reopened: Vec<Package> = self.books.plan.all().filter(|&package| self.follow(package)).collect();
        for &package in reopened.iter().chain(rewired) {
            for needed in self.books.plan.package(package).depends.clone() {
                self.wait_for(package, needed);
            }
        }
        for &package in &reopened {
            for user in self.books.plan.users(package).to_vec() {
                self.wait_for(user, package);
            }
        }
        self.hold_back();
        for package in self.books.plan.all() {
            self.schedule.enqueue_if_ready(JobId(package));
        }
        self.schedule.reprioritize();
        rewired.iter().for_each(|&package| self.books.note_again(package));
        for package in self.books.plan.all() {
            self.tell(package, before.get(package as usize));
        }
    }

    /// What needs one that has failed, and does not wait for it in the schedule, is not started for all that: its job may
    /// have ended before it was learnt that it needs another.
    fn hold_back(&mut self) {
        let waits: HashSet<JobId> = self.schedule.blocked().into_iter().map(|it| it.job).collect();
        for package in self.books.plan.all() {
            let is_lost = self.books.plan.package(package).state == State::IndirectFailed;
            if is_lost && !waits.contains(&JobId(package)) {
                self.schedule.withdraw(JobId(package));
            }
        }
    }

    /// The job is wanted as its package is. True if it had ended.
    fn follow(&mut self, package: Package) -> bool {
        use tanto_exec::schedule::State::{Done, Failed};
        let job = JobId(package);
        match self.books.plan.package(package).state {
            State::Open if matches!(self.schedule.state(job), Done | Failed) => {
                self.books.expect(package, self.schedule);
                self.schedule.reopen(job);
                return true;
            }
            State::Open => self.schedule.want(job),
            State::Prefailed | State::IndirectPrefailed => self.schedule.withdraw(job),
            _ => {}
        }
        false
    }

    /// Said once, however often it is said.
    fn wait_for(&mut self, package: Package, needed: Package) {
        if self.schedule.is_pending(JobId(package)) {
            self.schedule.remove_dependency(JobId(package), JobId(needed));
            self.schedule.add_dependency(JobId(package), JobId(needed), 0);
        }
    }

    fn tell(&mut self, package: Package, before: Option<&(State, String)>) {
        let it = self.books.plan.package(package);
        let (state, why) = (it.state, it.why.clone());
        if before == Some(&(state, why.clone())) {
            return;
        }
        let was = before.map(|(state, _)| *state);
        self.books.note_state(package, state, why);
        let job = JobId(package);
        let expected_ms = Some(i64::from(self.schedule.cost(job).wall_ms));
        match (was, state) {
            (Some(State::Open), State::Open) => {}
            (_, State::Open) => self.view.event(Event::Planned { job, expected_ms }),
            (Some(State::Open), _) => self.view.event(Event::Unplanned { job, expected_ms }),
            _ => {}
        }
    }
}
