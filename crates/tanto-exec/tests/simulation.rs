//! Random plans, run by the scheduler against a model of the rules. Failures print their seed; `TANTO_SCHEDULES=N` runs
//! N plans, starting with seed `TANTO_SEED` (0).

use std::collections::BTreeSet;

use tanto_exec::job::Cost;
use tanto_exec::job::JobId;
use tanto_exec::schedule::{
    AdmissionLimits, JobSpec, Kind, MAX_TIMES_PASSED_OVER, Next, Order, PoolId, ResourceSample, Schedule, State,
};
use tanto_testing::Random;

/// Parameters of this seed.
struct Character {
    density: usize,
    unwanted: usize,
    phony: usize,
    failing: usize,
    changing: usize,
    parallelism: usize,
    /// Memory of all jobs, and how often the system reports pressure.
    memory: Option<u64>,
    pressing: usize,
}

impl Character {
    fn of(random: &mut Random) -> Character {
        Character {
            density: random.below(40),
            unwanted: random.below(60),
            phony: random.below(40),
            failing: if random.chance(50) { 0 } else { random.below(15) },
            changing: if random.chance(30) { 0 } else { random.below(50) },
            parallelism: 1 + random.below(8),
            memory: random.chance(60).then(|| random.below(100) as u64),
            pressing: if random.chance(70) { 0 } else { random.below(40) },
        }
    }
}

/// Model of one job.
struct Job {
    pool: PoolId,
    /// Dependencies go from higher to lower levels, so that there is no cycle.
    level: u64,
    needs: BTreeSet<usize>,
    wanted: bool,
    kind: Kind,
    priority: i64,
    end: Option<End>,
    handed_out: bool,
    wall_ms: u32,
    memory: u64,
    /// Number of other jobs started before it while it was ready and had a higher priority.
    passed_over: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Done,
    Failed,
}

struct Simulation {
    random: Random,
    character: Character,
    schedule: Schedule,
    depths: Vec<u32>,
    jobs: Vec<Job>,
    running: Vec<usize>,
    pressed: bool,
    begun: bool,
    reopened: usize,
    trace: Vec<String>,
}

const MOST_JOBS: usize = 80;

impl Simulation {
    fn new(seed: u64) -> Simulation {
        let mut random = Random::new(seed);
        let character = Character::of(&mut random);
        let mut it = Simulation {
            random,
            character,
            schedule: Schedule::new(),
            depths: vec![0],
            jobs: Vec::new(),
            running: Vec::new(),
            pressed: false,
            begun: false,
            reopened: 0,
            trace: Vec::new(),
        };
        for _ in 0..it.random.below(4) {
            let depth = 1 + it.random.below(3) as u32;
            it.schedule.add_pool(depth);
            it.depths.push(depth);
        }
        if let Some(memory) = it.character.memory {
            it.schedule.limit_admission(AdmissionLimits { memory_kib: Some(memory), slots: it.character.parallelism });
        }
        for _ in 0..1 + it.random.below(MOST_JOBS) {
            it.add_job();
        }
        it.begin();
        it
    }

    fn add_job(&mut self) -> usize {
        let index = self.jobs.len();
        let pool = PoolId(self.random.below(self.depths.len()) as u32);
        let wanted = !self.random.chance(self.character.unwanted);
        let kind = if self.random.chance(self.character.phony) { Kind::Phony } else { Kind::Command };
        let job = self.schedule.add(JobSpec { pool, order: index as u32, kind, wanted });
        assert_eq!(job, JobId(index as u32));
        let level = self.random.number();
        let memory = if self.random.chance(30) { 0 } else { self.random.below(110) as u64 };
        let wall_ms = self.random.below(5) as u32;
        self.schedule.set_cost(job, Cost { wall_ms, memory_kib: memory as u32, cpu_ms: 0 });
        let needs = BTreeSet::new();
        let (priority, end, handed_out, passed_over) = (0, None, false, 0);
        let new = Job { pool, level, needs, wanted, kind, priority, end, handed_out, memory, passed_over, wall_ms };
        self.jobs.push(new);
        if self.begun {
            self.jobs[index].priority = self.weight(index);
        }
        for other in 0..index {
            if self.random.chance(self.character.density) {
                self.depend(index, other);
            }
        }
        index
    }

    /// Makes the job of the higher level depend on the other one, if it can still wait; sometimes twice.
    fn depend(&mut self, a: usize, b: usize) {
        let (job, on) = if self.jobs[a].level > self.jobs[b].level { (a, b) } else { (b, a) };
        if a == b || self.jobs[job].handed_out {
            return;
        }
        for _ in 0..1 + usize::from(self.random.chance(10)) {
            self.schedule.add_dependency(id(job), id(on), self.random.below(3) as u32);
        }
        self.jobs[job].needs.insert(on);
        self.forget_patience(job);
    }

    /// A job that returns to waiting is no longer passed over.
    fn forget_patience(&mut self, job: usize) {
        if self.schedule.state(id(job)) == State::Waiting {
            self.jobs[job].passed_over = 0;
        }
    }

    fn begin(&mut self) {
        let order = self.prioritise();
        let order: Vec<JobId> = order.into_iter().map(id).collect();
        self.schedule.prioritize(&order, Order::Critical);
        self.schedule.begin();
        self.begun = true;
    }

    /// Computes priorities: the heaviest chain of waiting jobs that starts with the job. Returns all jobs, each after
    /// its dependencies.
    fn prioritise(&mut self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.jobs.len()).collect();
        order.sort_by_key(|&job| self.jobs[job].level);
        for &job in order.iter().rev() {
            let waits = |other: &&Job| other.needs.contains(&job) && !other.handed_out;
            let behind = match self.jobs[job].end {
                Some(End::Done) => None,
                _ => self.jobs.iter().filter(waits).map(|other| other.priority).max(),
            };
            self.jobs[job].priority = self.weight(job) + behind.unwrap_or(0);
        }
        order
    }

    fn weight(&self, job: usize) -> i64 {
        let it = &self.jobs[job];
        if it.wanted && it.kind == Kind::Command { i64::from(it.wall_ms.max(1)) } else { 0 }
    }

    /// Raises a job, as for an urgent new dependent.
    fn raise(&mut self) {
        let (job, behind) = (self.random.below(self.jobs.len()), self.random.below(30) as i64);
        let priority = behind + self.weight(job);
        let rises = !self.jobs[job].handed_out && priority > self.jobs[job].priority;
        assert_eq!(self.schedule.raise(id(job), behind), rises.then_some(priority));
        if rises {
            self.jobs[job].priority = priority;
        }
    }

    fn run(mut self) -> Vec<String> {
        loop {
            self.hand_out_all();
            self.check_pools();
            if self.running.is_empty() {
                break;
            }
            self.end_one();
        }
        self.check_end();
        self.trace
    }

    fn hand_out_all(&mut self) {
        while self.schedule.has_noop() || (self.schedule.has_next() && self.running.len() < self.character.parallelism)
        {
            self.press();
            let best = self.best_ready();
            match self.schedule.take_next() {
                Some(Next::NoOp(job)) => self.pass(job.0 as usize),
                Some(Next::Start(job)) => {
                    let started = job.0 as usize;
                    assert!(Some(started) == best || self.character.memory.is_some(), "not the most urgent one");
                    self.count_passed(started);
                    self.start(started);
                }
                None => {
                    assert!(!self.running.is_empty(), "nothing runs, and nothing is started");
                    let fits = best.is_none_or(|best| self.fits(best));
                    let starves = self.jobs.iter().any(|job| job.passed_over >= MAX_TIMES_PASSED_OVER);
                    assert!(self.pressed || starves || !fits, "nothing is started without a reason");
                    let hold = self.schedule.throttle_reason().expect("it says why");
                    self.trace.push(format!("hold {hold:?}"));
                    return;
                }
            }
        }
    }

    /// Reports a resource sample.
    fn press(&mut self) {
        if self.random.chance(self.character.pressing) {
            self.pressed = !self.pressed;
            let memory_some = if self.pressed { 50.0 } else { 0.0 };
            self.schedule.update_resources(ResourceSample { memory_some, ..ResourceSample::default() });
        }
        for &job in &self.running {
            let most = self.jobs[job].memory as usize;
            self.schedule.update_memory(id(job), self.random.below(most + 1) as u64);
        }
    }

    /// Returns whether the job fits beside the running ones.
    fn fits(&self, job: usize) -> bool {
        let held: u64 = self.running.iter().map(|&job| self.jobs[job].memory).sum();
        self.character.memory.is_none_or(|memory| held + self.jobs[job].memory <= memory)
    }

    fn count_passed(&mut self, started: usize) {
        let rank = |job: usize| (self.jobs[job].priority, std::cmp::Reverse(job));
        let is_command = |job: usize| self.jobs[job].kind == Kind::Command;
        let is_ready = |job: usize| self.schedule.state(id(job)) == State::Ready;
        // Starving jobs take turns.
        let starved = self.jobs[started].passed_over == MAX_TIMES_PASSED_OVER;
        let counts: Vec<_> = (0..self.jobs.len())
            .map(|job| match () {
                () if !is_ready(job) => 0,
                () if !starved && is_command(started) && is_command(job) && rank(job) > rank(started) => {
                    self.jobs[job].passed_over + 1
                }
                () => self.jobs[job].passed_over,
            })
            .collect();
        for (job, count) in counts.into_iter().enumerate() {
            assert!(count <= MAX_TIMES_PASSED_OVER, "job {job} starves");
            if count == MAX_TIMES_PASSED_OVER && self.jobs[job].passed_over < MAX_TIMES_PASSED_OVER {
                self.trace.push(format!("lose patience {job}"));
            }
            self.jobs[job].passed_over = count;
        }
    }

    fn best_ready(&self) -> Option<usize> {
        let ready = (0..self.jobs.len()).filter(|&job| self.schedule.state(id(job)) == State::Ready);
        ready.max_by_key(|&job| (self.jobs[job].priority, std::cmp::Reverse(job)))
    }

    fn pass(&mut self, job: usize) {
        self.trace.push(format!("pass {job}"));
        assert!(!self.jobs[job].wanted, "wanted job {job} passed");
        self.check_handed_out(job);
        self.change_plan();
        self.succeed(job);
    }

    fn start(&mut self, job: usize) {
        self.trace.push(format!("start {job}"));
        assert!(self.jobs[job].wanted, "unwanted job {job} was started");
        self.check_handed_out(job);
        if self.jobs[job].kind == Kind::Command && !self.running.is_empty() {
            assert!(self.fits(job), "memory is overrun");
            assert!(!self.pressed || self.character.memory.is_none(), "started under pressure");
        }
        self.running.push(job);
        if self.jobs[job].kind == Kind::Phony {
            self.running.pop();
            self.succeed(job);
        }
    }

    fn check_handed_out(&mut self, job: usize) {
        let it = &self.jobs[job];
        assert!(!it.handed_out, "job {job} was handed out twice");
        let unmet = it.needs.iter().find(|&&on| self.jobs[on].end != Some(End::Done));
        assert_eq!(unmet, None, "job {job} did not wait");
        self.jobs[job].handed_out = true;
    }

    fn end_one(&mut self) {
        let at = self.random.below(self.running.len());
        let job = self.running.remove(at);
        if self.random.chance(self.character.failing) {
            self.trace.push(format!("fail {job}"));
            self.schedule.failed(id(job));
            self.jobs[job].end = Some(End::Failed);
        } else {
            self.trace.push(format!("done {job}"));
            self.change_plan();
            self.succeed(job);
        }
    }

    fn succeed(&mut self, job: usize) {
        self.jobs[job].end = Some(End::Done);
        self.schedule.succeeded(id(job));
    }

    /// Changes that a frontend may make when a job finishes.
    fn change_plan(&mut self) {
        while self.random.chance(self.character.changing) {
            match self.random.below(9) {
                0 => self.take_out(),
                1 => self.take_in(),
                2 => self.raise(),
                3 => self.reopen(),
                4 => self.withdraw(),
                5 => self.free(),
                6 => {
                    self.schedule.reprioritize();
                    self.prioritise();
                }
                7 if self.jobs.len() < MOST_JOBS => {
                    let job = self.add_job();
                    self.schedule.enqueue_if_ready(id(job));
                }
                _ => {
                    let (a, b) = (self.random.below(self.jobs.len()), self.random.below(self.jobs.len()));
                    self.depend(a, b);
                }
            }
        }
    }

    fn take_out(&mut self) {
        let job = self.random.below(self.jobs.len());
        if self.schedule.state(id(job)) == State::Waiting {
            self.schedule.unwant(id(job));
            self.jobs[job].wanted = false;
        }
    }

    fn take_in(&mut self) {
        let job = self.random.below(self.jobs.len());
        if !self.jobs[job].handed_out {
            self.schedule.want(id(job));
            self.jobs[job].wanted = true;
        }
    }

    /// Reopens a finished job. Waiting dependents wait for it again.
    fn reopen(&mut self) {
        let job = self.random.below(self.jobs.len());
        if self.jobs[job].end.is_none() || self.reopened >= MOST_JOBS {
            return;
        }
        self.reopened += 1;
        self.trace.push(format!("reopen {job}"));
        self.schedule.reopen(id(job));
        let it = &mut self.jobs[job];
        (it.end, it.handed_out, it.wanted) = (None, false, true);
        for on in self.jobs[job].needs.clone() {
            self.schedule.add_dependency(id(job), id(on), 0);
        }
        for user in 0..self.jobs.len() {
            if self.jobs[user].needs.contains(&job) && !self.jobs[user].handed_out {
                self.schedule.remove_dependency(id(user), id(job));
                self.schedule.add_dependency(id(user), id(job), 0);
                self.forget_patience(user);
            }
        }
        self.schedule.enqueue_if_ready(id(job));
    }

    fn withdraw(&mut self) {
        let job = self.random.below(self.jobs.len());
        self.schedule.withdraw(id(job));
        if !self.jobs[job].handed_out {
            (self.jobs[job].wanted, self.jobs[job].passed_over) = (false, 0);
        }
    }

    /// Removes a dependency.
    fn free(&mut self) {
        let job = self.random.below(self.jobs.len());
        let Some(&on) = self.jobs[job].needs.iter().next() else { return };
        if !self.jobs[job].handed_out {
            self.jobs[job].needs.remove(&on);
            self.schedule.remove_dependency(id(job), id(on));
            self.schedule.enqueue_if_ready(id(job));
        }
    }

    /// Checks that no pool exceeds its depth, has a free slot while a job waits for it, or delays jobs without need.
    fn check_pools(&self) {
        for (pool, &depth) in self.depths.iter().enumerate() {
            let count = |state| self.jobs_of(pool).filter(|&job| self.schedule.state(id(job)) == state).count();
            let busy = count(State::Ready) + count(State::Running);
            assert!(depth == 0 || busy <= depth as usize, "pool {pool} is overrun");
            assert!(count(State::Delayed) == 0 || busy == depth as usize, "pool {pool} has a slot to spare");
        }
        for (index, job) in self.jobs.iter().enumerate().filter(|(_, job)| !job.handed_out) {
            let free = job.needs.iter().all(|&on| self.jobs[on].end == Some(End::Done));
            let waits = self.schedule.state(id(index)) == State::Waiting;
            assert!(waits != free, "job {index} waits: {waits}; has all it needs: {free}");
        }
    }

    fn jobs_of(&self, pool: usize) -> impl Iterator<Item = usize> {
        (0..self.jobs.len()).filter(move |&job| self.jobs[job].pool.0 as usize == pool)
    }

    /// Checks that all jobs that are not blocked by a failure have ended, and that the schedule has no more work.
    fn check_end(&self) {
        for (index, job) in self.jobs.iter().enumerate() {
            let free = job.needs.iter().all(|&on| self.jobs[on].end == Some(End::Done));
            assert!(job.end.is_some() || !free, "job {index} has not ended");
        }
        let left = self.jobs.iter().any(|job| job.wanted && job.end != Some(End::Done));
        let commands = self.jobs.iter().any(|job| job.wanted && job.kind == Kind::Command);
        assert_eq!(self.schedule.has_work(), left && commands);
    }
}

fn id(job: usize) -> JobId {
    JobId(job as u32)
}

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).unwrap_or_default();
    if text.is_empty() { default } else { text.parse().unwrap_or_else(|_| panic!("{name} is no number")) }
}

/// Prints the seed on a panic.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {0}: TANTO_SEED={0} TANTO_SCHEDULES=1 runs it alone", self.0);
        }
    }
}

#[test]
fn every_seed_keeps_invariants_and_replays() {
    let (first, count) = (number("TANTO_SEED", 0), number("TANTO_SCHEDULES", 10_000));
    let mut ends = BTreeSet::new();
    for seed in first..first + count {
        let print_seed = Seed(seed);
        let trace = Simulation::new(seed).run();
        assert_eq!(trace, Simulation::new(seed).run(), "the same seed went another way");
        ends.extend(trace.iter().map(|line| line.split(' ').next().unwrap_or_default().to_owned()));
        drop(print_seed);
    }
    // Seeds without failures, no-ops or memory shortage would test less than intended.
    assert!(count < 10_000 || ends.len() == 7, "{ends:?}");
}
