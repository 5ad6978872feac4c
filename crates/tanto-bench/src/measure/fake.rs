//! An executor for tests: it runs nothing, and its clock advances by the times of its samples.

use std::collections::VecDeque;
use std::time::Duration;

use super::conditions::Conditions;
use super::{BackgroundLoad, Executor, Pressure, RunError, Sample};

type Answer = Box<dyn FnMut(&[u8]) -> Result<Sample, RunError>>;

pub struct FakeExecutor {
    answer: Answer,
    now: Duration,
    /// The lines that were run, in order; preparations begin with `prepare: `.
    pub lines: Vec<String>,
    /// Results of preparations, in order; then all succeed.
    pub prepare_errors: VecDeque<Option<RunError>>,
    pub background: Option<BackgroundLoad>,
}

impl FakeExecutor {
    /// `answer` returns the sample of each run.
    pub fn new(answer: impl FnMut(&[u8]) -> Result<Sample, RunError> + 'static) -> FakeExecutor {
        FakeExecutor {
            answer: Box::new(answer),
            now: Duration::ZERO,
            lines: Vec::new(),
            prepare_errors: VecDeque::new(),
            background: None,
        }
    }
}

impl Executor for FakeExecutor {
    fn run(&mut self, line: &[u8]) -> Result<Sample, RunError> {
        self.lines.push(String::from_utf8_lossy(line).into_owned());
        let sample = (self.answer)(line)?;
        self.now += sample.wall;
        Ok(sample)
    }

    fn prepare(&mut self, line: &[u8]) -> Result<(), RunError> {
        self.lines.push(format!("prepare: {}", String::from_utf8_lossy(line)));
        self.prepare_errors.pop_front().flatten().map_or(Ok(()), Err)
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn background_load(&self) -> Option<BackgroundLoad> {
        self.background
    }
}

/// Returns the sample of a run that kept one of two processors busy on an otherwise idle machine.
pub fn sample(seconds: f64) -> Sample {
    Sample {
        wall: Duration::from_secs_f64(seconds),
        user: Duration::from_secs_f64(0.75 * seconds),
        system: Duration::from_secs_f64(0.25 * seconds),
        peak_memory: Some(10 << 20),
        io_wait: Duration::ZERO,
        pressure: Pressure::default(),
        conditions: Conditions {
            processors: 2,
            background: Some(0.0),
            steal: Some(0.0),
            load: 0.5,
            ..Conditions::default()
        },
    }
}
