//! Random builds in randomly resized windows: at the end, the terminal contains exactly the permanent text.

use tanto_exec::text::units::short_duration;
use tanto_testing::Random;

use super::screen::Habit;
use super::*;

const JOBS: u32 = 30;

/// A random build and its permanent text.
struct Story {
    scene: Scene,
    random: Random,
    stays: Vec<String>,
    /// Text that waits until the console is released.
    held: Vec<String>,
    running: Vec<u32>,
    console: Option<u32>,
    ended: usize,
}

impl Story {
    fn new(seed: u64) -> Story {
        let mut random = Random::new(seed);
        let habit = if random.chance(50) { Habit::Cuts } else { Habit::Reflows };
        let setup = Setup { size: (60 + random.below(100), 1 + random.below(30)), habit, ..Setup::default() };
        let names: Vec<String> = (0..JOBS).map(|job| format!("CC {}{job}", "目録 ".repeat(random.below(20)))).collect();
        let past = |random: &mut Random| if random.chance(50) { 0 } else { random.below(30_000) as i64 };
        let jobs: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), past(&mut random))).collect();
        let scene = Scene::new(setup, &jobs);
        Story { scene, random, stays: Vec::new(), held: Vec::new(), running: Vec::new(), console: None, ended: 0 }
    }

    fn play(mut self) -> (String, String) {
        for job in 0..JOBS {
            self.scene.jobs[job as usize].description = format!("{job}").into();
            self.scene.jobs[job as usize].console = self.console.is_none() && self.random.chance(15);
            self.start(job);
            while self.random.chance(60) {
                self.something();
            }
        }
        for job in self.running.clone() {
            self.end(job);
        }
        self.scene.finish();
        self.stays.push(format!("tanto: done: {JOBS} commands in {}.", short_duration(self.scene.now_ms)));
        let shown = self.scene.terminal.0.borrow().all();
        (shown, self.stays.join("\n"))
    }

    fn start(&mut self, job: u32) {
        if self.scene.jobs[job as usize].console {
            self.stays.push(format!("[{}/{JOBS}] {job}", self.ended));
            self.scene.start(&[job]).child(&format!("asks {job}"));
            self.stays.push(format!("asks {job}"));
            self.console = Some(job);
        } else {
            self.scene.start(&[job]);
        }
        self.running.push(job);
    }

    fn something(&mut self) {
        match self.random.below(4) {
            0 => self.resize(),
            1 if !self.running.is_empty() => {
                let job = *self.random.pick(&self.running);
                self.end(job);
            }
            _ => {
                self.scene.pass(self.random.below(3000) as i64);
            }
        }
    }

    fn resize(&mut self) {
        // Permanent text fits all of these widths, so none is cut. While another process has the terminal, it is not
        // resized.
        if self.console.is_none() {
            self.scene.resize(30 + self.random.below(100), 1 + self.random.below(30));
        }
    }

    fn end(&mut self, job: u32) {
        self.running.retain(|&it| it != job);
        self.ended += 1;
        let output = if self.random.chance(30) { format!("said {job}\nand more") } else { String::new() };
        if self.console == Some(job) {
            self.scene.end(job, Exit::Code(0), "");
            self.console = None;
            self.stays.append(&mut self.held);
            return;
        }
        self.scene.end(job, Exit::Code(0), &output);
        if !output.is_empty() {
            let to = if self.console.is_some() { &mut self.held } else { &mut self.stays };
            to.push(format!("[{}/{JOBS}] {job}\n{output}", self.ended));
        }
    }
}

#[test]
fn only_permanent_text_remains() {
    for seed in 0..500 {
        let (shown, stays) = Story::new(seed).play();
        assert_eq!(shown, stays, "seed {seed}\n{shown}\n");
    }
}
