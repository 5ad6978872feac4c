//! A bench that a test makes up: it says what each run took, and time goes by as it says. Does not know why.

use std::collections::VecDeque;
use std::time::Duration;

use super::conditions::Conditions;
use super::{Bench, Halt, Others, Pressure, Sample};

/// What the next run of a line brings.
type Answer = Box<dyn FnMut(&[u8]) -> Result<Sample, Halt>>;

/// Runs nothing.
pub struct Fake {
    answer: Answer,
    now: Duration,
    /// What was run and prepared, in order; preparations with `prepare: ` before them.
    pub lines: Vec<String>,
    /// What goes wrong at preparations, first come first served; none: nothing.
    pub halts: VecDeque<Option<Halt>>,
    /// What other programs use.
    pub others: Option<Others>,
}

impl Fake {
    /// One whose runs take what `answer` says.
    pub fn new(answer: impl FnMut(&[u8]) -> Result<Sample, Halt> + 'static) -> Fake {
        Fake { answer: Box::new(answer), now: Duration::ZERO, lines: Vec::new(), halts: VecDeque::new(), others: None }
    }
}

impl Bench for Fake {
    fn run(&mut self, line: &[u8]) -> Result<Sample, Halt> {
        self.lines.push(String::from_utf8_lossy(line).into_owned());
        let sample = (self.answer)(line)?;
        self.now += sample.wall;
        Ok(sample)
    }

    fn prepare(&mut self, line: &[u8]) -> Result<(), Halt> {
        self.lines.push(format!("prepare: {}", String::from_utf8_lossy(line)));
        self.halts.pop_front().flatten().map_or(Ok(()), Err)
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn others(&self) -> Option<Others> {
        self.others
    }
}

/// A run of so many seconds that kept one processor of two busy, on a calm machine.
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
            stolen: Some(0.0),
            load: 0.5,
            ..Conditions::default()
        },
    }
}
