//! Random graphs that resemble builds.

use tanto_exec::job::Cost;
use tanto_exec::job::JobId;
use tanto_exec::schedule::{JobSpec, Kind, PoolId, Schedule};
use tanto_testing::Random;

#[derive(Default)]
pub struct Build {
    pub jobs: Vec<Job>,
    /// Depths of the limited pools.
    pub pools: Vec<u32>,
}

#[derive(Clone, Default)]
pub struct Job {
    pub wall_ms: u32,
    /// 0: unlimited pool.
    pub pool: u32,
    pub needs: Vec<usize>,
}

impl Build {
    /// Returns a random build of one of several kinds.
    pub fn of(random: &mut Random) -> Build {
        let mut build = Build::default();
        match random.below(5) {
            0 => build.layers(random),
            1 => build.tree_of_libraries(random),
            2 => build.anything(random),
            3 => build.generated(random),
            _ => {
                build.tree_of_libraries(random);
                build.chains(random);
            }
        }
        build
    }

    /// Returns a schedule that has not begun, and its jobs in order.
    pub fn schedule(&self) -> (Schedule, Vec<JobId>) {
        let mut schedule = Schedule::new();
        let pools: Vec<PoolId> = self.pools.iter().map(|&depth| schedule.add_pool(depth)).collect();
        for (at, job) in self.jobs.iter().enumerate() {
            let pool = if job.pool == 0 { PoolId::UNLIMITED } else { pools[job.pool as usize - 1] };
            let id = schedule.add(JobSpec { pool, order: at as u32, kind: Kind::Command, wanted: true });
            schedule.set_cost(id, Cost { wall_ms: job.wall_ms, ..Cost::default() });
        }
        for (at, job) in self.jobs.iter().enumerate() {
            job.needs.iter().for_each(|&on| schedule.add_dependency(JobId(at as u32), JobId(on as u32), 0));
        }
        (schedule, self.sorted())
    }

    /// Returns all jobs, each after its dependencies.
    fn sorted(&self) -> Vec<JobId> {
        let mut users = vec![Vec::new(); self.jobs.len()];
        let mut missing: Vec<usize> = self.jobs.iter().map(|job| job.needs.len()).collect();
        for (at, job) in self.jobs.iter().enumerate() {
            job.needs.iter().for_each(|&on| users[on].push(at));
        }
        let mut sorted: Vec<usize> = (0..missing.len()).filter(|&at| missing[at] == 0).collect();
        let mut next = 0;
        while let Some(&at) = sorted.get(next) {
            next += 1;
            for &user in &users[at] {
                missing[user] -= 1;
                sorted.extend((missing[user] == 0).then_some(user));
            }
        }
        assert_eq!(sorted.len(), missing.len(), "there is a cycle");
        sorted.into_iter().map(|at| JobId(at as u32)).collect()
    }

    fn add(&mut self, wall_ms: u32, needs: Vec<usize>) -> usize {
        self.jobs.push(Job { wall_ms, pool: 0, needs });
        self.jobs.len() - 1
    }

    /// Layers of similar width; each job depends on some of the previous layer.
    fn layers(&mut self, random: &mut Random) {
        let (width, density) = (4 + random.below(60), 1 + random.below(4));
        let mut last: Vec<usize> = Vec::new();
        for _ in 0..2 + random.below(10) {
            let count = 1 + random.below(width);
            let some = |random: &mut Random| {
                let needs = (0..density).filter(|_| !last.is_empty()).map(|_| *random.pick(&last));
                needs.collect()
            };
            last = (0..count)
                .map(|_| {
                    let needs = some(random);
                    self.add(compile(random), needs)
                })
                .collect();
        }
    }

    /// Compiles, archives, programs and tests; sometimes a pool for links.
    fn tree_of_libraries(&mut self, random: &mut Random) {
        let pool = if random.chance(40) {
            self.pools.push(1 + random.below(4) as u32);
            self.pools.len() as u32
        } else {
            0
        };
        let mut libraries: Vec<usize> = Vec::new();
        for _ in 0..2 + random.below(25) {
            let objects: Vec<usize> = (0..1 + random.below(40)).map(|_| self.add(compile(random), vec![])).collect();
            let mut needs = objects;
            if !libraries.is_empty() && random.chance(50) {
                needs.push(*random.pick(&libraries));
            }
            let library = self.add(20 + random.below(200) as u32, needs);
            libraries.push(library);
        }
        for _ in 0..1 + random.below(20) {
            let main = self.add(compile(random), vec![]);
            let mut needs = vec![main];
            needs.extend((0..1 + random.below(5)).map(|_| *random.pick(&libraries)));
            let program = self.add(300 + random.below(6000) as u32, needs);
            self.jobs[program].pool = pool;
            if random.chance(50) {
                self.add(10 + random.below(3000) as u32, vec![program]);
            }
        }
    }

    /// Each job depends on some of all earlier ones.
    fn anything(&mut self, random: &mut Random) {
        let (count, most) = (10 + random.below(400), 1 + random.below(4));
        let near = if random.chance(50) { count } else { 20 };
        for at in 0..count {
            let from = at.saturating_sub(near);
            let needs = (0..random.below(most + 1)).filter(|_| at > 0).map(|_| from + random.below(at - from));
            let needs = needs.collect();
            self.add(compile(random), needs);
        }
    }

    /// A generator, generated files, and independent jobs.
    fn generated(&mut self, random: &mut Random) {
        let tool: Vec<usize> = (0..2 + random.below(20)).map(|_| self.add(compile(random), vec![])).collect();
        let tool = self.add(1000, tool);
        for _ in 0..5 + random.below(100) {
            let source = self.add(5 + random.below(200) as u32, vec![tool]);
            self.add(compile(random), vec![source]);
        }
        for _ in 0..random.below(200) {
            self.add(compile(random), vec![]);
        }
        let all = (0..self.jobs.len()).collect();
        self.add(2000, all);
    }

    /// Long chains of quick steps beside other jobs.
    fn chains(&mut self, random: &mut Random) {
        for _ in 0..1 + random.below(6) {
            let mut last = self.add(1 + random.below(100) as u32, vec![]);
            for _ in 0..random.below(60) {
                last = self.add(1 + random.below(300) as u32, vec![last]);
            }
        }
    }
}

/// Mostly short and some long durations, as of compiles.
fn compile(random: &mut Random) -> u32 {
    let base = 50 + random.below(1000) as u32;
    match random.below(20) {
        0 => base * 12,
        1..=3 => base * 4,
        4..=8 => base * 2,
        _ => base,
    }
}
