//! What the machine was like while something was measured. Does not know what that was.

use std::fmt::Write;
use std::time::Duration;

use tanto_sys::machine::info::MachineInfo;
use tanto_sys::machine::proc_stat::SystemTimes;

use super::Sample;
use super::controls::Controls;
use crate::bench::show::percent;
use crate::bench::statistics::quantile::Summary;

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
    /// Whether the machine was calm when it began; `None` without `--settle`.
    pub calm: Option<bool>,
}

/// Of a shorter run the kernel's hundredths of a second tell nothing.
const TOO_SHORT: Duration = Duration::from_millis(250);

/// Of all processors of the machine: what was used by others than a run that took so long and used so much itself, and
/// what was stolen.
pub fn shares(between: &SystemTimes, wall: Duration, own: Duration, processors: usize) -> (Option<f64>, Option<f64>) {
    if wall < TOO_SHORT || processors == 0 {
        return (None, None);
    }
    let all_us = wall.as_secs_f64() * 1e6 * processors as f64;
    let others_us = between.busy_us as f64 - own.as_secs_f64() * 1e6;
    let share = |us: f64| Some((us / all_us).clamp(0.0, 1.0));
    (share(others_us), share(between.stolen_us as f64))
}

/// Others that used more of the processors are told of.
const DISTURBING: f64 = 0.05;
/// A machine around this one that took more of them is told of.
const STOLEN: f64 = 0.01;
/// A frequency that changed by more from run to run is told of.
const FREQUENCY: f64 = 0.05;

/// Were other programs at rest in this time, in which nothing of ours ran? `None` if it was too short to tell.
pub fn is_calm(between: &SystemTimes, time: Duration, processors: usize) -> Option<bool> {
    let (used, stolen) = shares(between, time, Duration::ZERO, processors);
    Some(used? + stolen? <= DISTURBING)
}

/// What could not be held still, for people: a line each under a head, or nothing.
pub fn notes<'s>(samples: impl Iterator<Item = &'s Sample>, controls: &Controls, machine: &MachineInfo) -> String {
    let all: Vec<&Conditions> = samples.map(|sample| &sample.conditions).collect();
    let spread = |of: &dyn Fn(&Conditions) -> Option<f64>| {
        Summary::of(&all.iter().filter_map(|conditions| of(conditions)).collect::<Vec<f64>>())
    };
    let mut lines = Vec::new();
    let mut share = |what: &str, found: Option<Summary>, most: f64| {
        if let Some(it) = found.filter(|it| it.max > most) {
            let (usual, max) = (percent(Some(it.median)), percent(Some(it.max)));
            lines.push(format!("{what} {usual} of the processors, at most {max}"));
        }
    };
    share("other programs used", spread(&|it| it.background), DISTURBING);
    share("the machine around this one took", spread(&|it| it.stolen), STOLEN);
    lines.extend(frequency(spread(&|it| Some(it.frequency_mhz? as f64)), machine));
    if let Some(governor) = all.iter().find_map(|it| it.governor.as_ref()).filter(|name| *name != "performance") {
        lines.push(format!("the kernel changes the processors' frequency by the rule '{governor}'"));
    }
    let restless = all.iter().filter(|it| it.calm == Some(false)).count();
    if restless > 0 {
        lines.push(format!(
            "other programs did not rest before {restless} of {} runs, as long as --settle waited",
            all.len()
        ));
    }
    if all.iter().any(|it| it.left > 0) {
        lines.push("processes outlived their runs, and may have disturbed the next ones".into());
    }
    if !controls.drop_caches {
        lines.push("files that were read before are in memory (--drop-caches forgets them)".into());
    }
    let mut text = String::new();
    for (nth, line) in lines.iter().enumerate() {
        let _ = writeln!(text, "{}  {line}", if nth == 0 { "Not held still:\n" } else { "" });
    }
    text
}

fn frequency(found: Option<Summary>, machine: &MachineInfo) -> Option<String> {
    match found {
        None if machine.is_virtual => Some("the processors' frequency: a virtual machine does not tell".into()),
        None => Some("the processors' frequency: this machine does not tell".into()),
        Some(it) if it.max > it.min * (1.0 + FREQUENCY) => {
            Some(format!("the processors' frequency: {:.0} to {:.0} MHz", it.min, it.max))
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::measure::fake;

    #[test]
    fn what_was_not_held_still_is_named() {
        let notes = |samples: &[Sample], controls: &Controls| notes(samples.iter(), controls, &MachineInfo::default());
        let mut calm = fake::sample(1.0);
        calm.conditions.frequency_mhz = Some(3000);
        let still = Controls { drop_caches: true, ..Controls::default() };
        assert_eq!(notes(&[calm.clone(), calm.clone()], &still), "");
        let mut wild = calm.clone();
        wild.conditions = Conditions {
            frequency_mhz: Some(2000),
            governor: Some("powersave".into()),
            background: Some(0.5),
            stolen: Some(0.1),
            left: 1,
            calm: Some(false),
            ..calm.conditions.clone()
        };
        let text = notes(&[calm.clone(), calm, wild], &Controls::default());
        let expected = "Not held still:\n  other programs used 0 % of the processors, at most 50 %\n  \
                        the machine around this one took 0 % of the processors, at most 10 %\n  \
                        the processors' frequency: 2000 to 3000 MHz\n  \
                        the kernel changes the processors' frequency by the rule 'powersave'\n  \
                        other programs did not rest before 1 of 3 runs, as long as --settle waited\n  \
                        processes outlived their runs, and may have disturbed the next ones\n  \
                        files that were read before are in memory (--drop-caches forgets them)\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_machine_is_calm_when_others_rest() {
        let second = Duration::from_secs(1);
        let used = |busy_us, stolen_us| SystemTimes { busy_us, stolen_us, ..SystemTimes::default() };
        assert_eq!(is_calm(&used(90_000, 0), second, 2), Some(true));
        assert_eq!(is_calm(&used(150_000, 0), second, 2), Some(false));
        assert_eq!(is_calm(&used(60_000, 60_000), second, 2), Some(false));
        assert_eq!(is_calm(&used(0, 0), Duration::from_millis(100), 2), None);
    }

    #[test]
    fn what_is_not_ours_is_others() {
        let between = SystemTimes { busy_us: 3_000_000, stolen_us: 500_000, ..SystemTimes::default() };
        let shares =
            |wall_ms, own_ms| super::shares(&between, Duration::from_millis(wall_ms), Duration::from_millis(own_ms), 2);
        assert_eq!(shares(2000, 2000), (Some(0.25), Some(0.125)));
        assert_eq!(shares(2000, 9000).0, Some(0.0));
        assert_eq!(shares(100, 50), (None, None));
        assert_eq!(super::shares(&between, Duration::from_secs(1), Duration::ZERO, 0), (None, None));
    }
}
