//! What the machine was like while something was measured. Does not know what that was.

use std::time::Duration;

use tanto_sys::times::Times;

/// What can make one run slower than another, and is not of its doing.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Conditions {
    /// Processors that the run might use.
    pub processors: usize,
    /// How fast they ran at its end, in MHz; none if nobody knows, as on a machine within another.
    pub frequency_mhz: Option<u64>,
    /// By which rule the kernel sets that; none if it does not.
    pub governor: Option<String>,
    /// The load average of a minute when it began: how many processes wanted a processor.
    pub load: f64,
    /// What others used of all processors of the machine, from 0 to 1; none for a run that was too short to tell.
    pub background: Option<f64>,
    /// What the machine around this one took of them, from 0 to 1; none for a run that was too short to tell.
    pub stolen: Option<f64>,
    /// Processes that it has left behind, which may have disturbed the next one.
    pub left: usize,
}

/// Of a shorter run the kernel's hundredths of a second tell nothing.
const TOO_SHORT: Duration = Duration::from_millis(250);

/// Of all processors of the machine: what was used by others than a run that took so long and used so much itself, and
/// what was stolen.
pub fn shares(between: &Times, wall: Duration, own: Duration, processors: usize) -> (Option<f64>, Option<f64>) {
    if wall < TOO_SHORT || processors == 0 {
        return (None, None);
    }
    let all_us = wall.as_secs_f64() * 1e6 * processors as f64;
    let others_us = between.busy_us as f64 - own.as_secs_f64() * 1e6;
    let share = |us: f64| Some((us / all_us).clamp(0.0, 1.0));
    (share(others_us), share(between.stolen_us as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_ours_is_others() {
        let between = Times { busy_us: 3_000_000, stolen_us: 500_000, ..Times::default() };
        let shares =
            |wall_ms, own_ms| super::shares(&between, Duration::from_millis(wall_ms), Duration::from_millis(own_ms), 2);
        assert_eq!(shares(2000, 2000), (Some(0.25), Some(0.125)));
        assert_eq!(shares(2000, 9000).0, Some(0.0));
        assert_eq!(shares(100, 50), (None, None));
        assert_eq!(super::shares(&between, Duration::from_secs(1), Duration::ZERO, 0), (None, None));
    }
}
