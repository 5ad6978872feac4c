//! The state of the machine during a run.

use std::fmt::Write;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tanto_sys::machine::info::MachineInfo;
use tanto_sys::machine::proc_stat::SystemTimes;

use super::Sample;
use super::controls::Controls;
use crate::format::percent;
use crate::statistics::summary::Summary;

/// External influences on a run's time.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Conditions {
    /// Processors available to the run.
    pub processors: usize,
    /// At the end of the run; `None` if unknown, as in most virtual machines.
    pub frequency_mhz: Option<u64>,
    /// The kernel's frequency governor; `None` if there is none.
    pub governor: Option<String>,
    /// The load average of one minute at the start.
    pub load: f64,
    /// Processor time of other programs, as a fraction of all processors; `None` if the run was too short.
    pub background: Option<f64>,
    /// Processor time taken by the hypervisor, as a fraction of all processors; `None` if the run was too short.
    pub steal: Option<f64>,
    /// Processes left behind by the run, which may disturb the next one.
    pub leftover_processes: usize,
    /// Whether other programs were idle at the start; `None` without `--settle`.
    pub settled: Option<bool>,
}

/// The kernel counts processor time in units of 10 ms, which is too coarse for shorter runs.
const MIN_WALL: Duration = Duration::from_millis(250);

/// Returns the background and steal fractions of a run with this wall time and this own processor time.
pub fn background_and_steal(
    between: &SystemTimes,
    wall: Duration,
    own: Duration,
    processors: usize,
) -> (Option<f64>, Option<f64>) {
    if wall < MIN_WALL || processors == 0 {
        return (None, None);
    }
    let all_us = wall.as_secs_f64() * 1e6 * processors as f64;
    let others_us = between.busy_us as f64 - own.as_secs_f64() * 1e6;
    let fraction = |us: f64| Some((us / all_us).clamp(0.0, 1.0));
    (fraction(others_us), fraction(between.stolen_us as f64))
}

/// Fractions above these are reported.
const MAX_BACKGROUND: f64 = 0.05;
const MAX_STEAL: f64 = 0.01;
/// A relative spread of the frequency above this is reported.
const MAX_FREQUENCY_SPREAD: f64 = 0.05;

/// Returns whether other programs were idle, measured while no command ran; `None` if the time is too short.
pub fn is_idle(between: &SystemTimes, time: Duration, processors: usize) -> Option<bool> {
    let (background, steal) = background_and_steal(between, time, Duration::ZERO, processors);
    Some(background? + steal? <= MAX_BACKGROUND)
}

/// Lists uncontrolled influences, a line each below a heading; empty if there are none.
pub fn report<'s>(samples: impl Iterator<Item = &'s Sample>, controls: &Controls, machine: &MachineInfo) -> String {
    let all: Vec<&Conditions> = samples.map(|sample| &sample.conditions).collect();
    let spread = |of: &dyn Fn(&Conditions) -> Option<f64>| {
        Summary::of(&all.iter().filter_map(|conditions| of(conditions)).collect::<Vec<f64>>())
    };
    let mut lines = Vec::new();
    let mut add_fraction = |subject: &str, found: Option<Summary>, limit: f64| {
        if let Some(it) = found.filter(|it| it.max > limit) {
            let (median, max) = (percent(Some(it.median)), percent(Some(it.max)));
            lines.push(format!("{subject} used {median} of the CPUs (median), {max} at most"));
        }
    };
    add_fraction("other programs", spread(&|it| it.background), MAX_BACKGROUND);
    add_fraction("the hypervisor", spread(&|it| it.steal), MAX_STEAL);
    lines.extend(frequency(spread(&|it| Some(it.frequency_mhz? as f64)), machine));
    if let Some(governor) = all.iter().find_map(|it| it.governor.as_ref()).filter(|name| *name != "performance") {
        lines.push(format!("CPU frequency governor: {governor}"));
    }
    let unsettled = all.iter().filter(|it| it.settled == Some(false)).count();
    if unsettled > 0 {
        lines.push(format!(
            "other programs were active before {unsettled} of {} runs when --settle timed out",
            all.len()
        ));
    }
    if all.iter().any(|it| it.leftover_processes > 0) {
        lines.push("some processes outlived their run and may have disturbed the next one".into());
    }
    if !controls.drop_caches {
        lines.push("the page cache was warm (--drop-caches empties it)".into());
    }
    let mut text = String::new();
    for (nth, line) in lines.iter().enumerate() {
        let _ = writeln!(text, "{}  {line}", if nth == 0 { "Not controlled:\n" } else { "" });
    }
    text
}

fn frequency(found: Option<Summary>, machine: &MachineInfo) -> Option<String> {
    match found {
        None if machine.is_virtual => Some("CPU frequency: unknown in a virtual machine".into()),
        None => Some("CPU frequency: unknown on this machine".into()),
        Some(it) if it.max > it.min * (1.0 + MAX_FREQUENCY_SPREAD) => {
            Some(format!("CPU frequency: {:.0} to {:.0} MHz", it.min, it.max))
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::fake;

    #[test]
    fn uncontrolled_influences_are_listed() {
        let report =
            |samples: &[Sample], controls: &Controls| report(samples.iter(), controls, &MachineInfo::default());
        let mut idle = fake::sample(1.0);
        idle.conditions.frequency_mhz = Some(3000);
        let controlled = Controls { drop_caches: true, ..Controls::default() };
        assert_eq!(report(&[idle.clone(), idle.clone()], &controlled), "");
        let mut disturbed = idle.clone();
        disturbed.conditions = Conditions {
            frequency_mhz: Some(2000),
            governor: Some("powersave".into()),
            background: Some(0.5),
            steal: Some(0.1),
            leftover_processes: 1,
            settled: Some(false),
            ..idle.conditions.clone()
        };
        let text = report(&[idle.clone(), idle, disturbed], &Controls::default());
        let expected = "Not controlled:\n  other programs used 0 % of the CPUs (median), 50 % at most\n  \
                        the hypervisor used 0 % of the CPUs (median), 10 % at most\n  \
                        CPU frequency: 2000 to 3000 MHz\n  \
                        CPU frequency governor: powersave\n  \
                        other programs were active before 1 of 3 runs when --settle timed out\n  \
                        some processes outlived their run and may have disturbed the next one\n  \
                        the page cache was warm (--drop-caches empties it)\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_machine_is_idle_below_the_limit() {
        let second = Duration::from_secs(1);
        let used = |busy_us, stolen_us| SystemTimes { busy_us, stolen_us, ..SystemTimes::default() };
        assert_eq!(is_idle(&used(90_000, 0), second, 2), Some(true));
        assert_eq!(is_idle(&used(150_000, 0), second, 2), Some(false));
        assert_eq!(is_idle(&used(60_000, 60_000), second, 2), Some(false));
        assert_eq!(is_idle(&used(0, 0), Duration::from_millis(100), 2), None);
    }

    #[test]
    fn background_load_excludes_the_run() {
        let between = SystemTimes { busy_us: 3_000_000, stolen_us: 500_000, ..SystemTimes::default() };
        let of = |wall_ms, own_ms| {
            background_and_steal(&between, Duration::from_millis(wall_ms), Duration::from_millis(own_ms), 2)
        };
        assert_eq!(of(2000, 2000), (Some(0.25), Some(0.125)));
        assert_eq!(of(2000, 9000).0, Some(0.0));
        assert_eq!(of(100, 50), (None, None));
        assert_eq!(background_and_steal(&between, Duration::from_secs(1), Duration::ZERO, 0), (None, None));
    }
}
