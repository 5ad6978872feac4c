//! Threats to the validity of a comparison.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::record::{CompareRecord, PairedRun, Variant};
use crate::format::percent;
use crate::measure::conditions::Conditions;
use crate::statistics::summary::median;

/// A background load this far above the median is reported.
const BACKGROUND_EXCESS: f64 = 0.1;
/// Relative frequency differences that are reported: of a run, and of all runs of a variant.
const RUN_FREQUENCY: f64 = 0.2;
const VARIANT_FREQUENCY: f64 = 0.05;

/// Reports equal commands and equal programs before they run. `path` is the search path.
pub fn check_commands(variants: &[Variant], path: &[u8]) -> Vec<String> {
    let others = variants[1..].iter().filter(|variant| !variant.is_control);
    others.filter_map(|variant| check_pair(&variants[0], variant, path)).collect()
}

fn check_pair(first: &Variant, second: &Variant, path: &[u8]) -> Option<String> {
    let names = format!("{} and {}", first.name, second.name);
    if first.line == second.line {
        let is_same = first.prepare == second.prepare;
        return is_same.then(|| format!("{names} are the same command"));
    }
    let programs = |line: &Variant, other: &Variant| -> Vec<PathBuf> {
        let others = words(&other.line);
        let own = words(&line.line).into_iter().filter(|word| !others.contains(word));
        own.filter_map(|word| program(&word, path)).collect()
    };
    let (ours, theirs) = (programs(first, second), programs(second, first));
    let same = |(one, other): (&PathBuf, &PathBuf)| same_content(one, other).unwrap_or(false);
    if ours.is_empty() || ours.len() != theirs.len() || !ours.iter().zip(&theirs).all(same) {
        return None;
    }
    let (one, other) = (ours[0].display(), theirs[0].display());
    Some(format!("{names} run the same program: {one} and {other} are identical"))
}

/// Splits a line into words and values of variables, without quotes.
fn words(line: &[u8]) -> Vec<Vec<u8>> {
    let parts = line.split(|byte| byte.is_ascii_whitespace() || b"=;|&()".contains(byte));
    let bare = parts.map(|part| part.iter().copied().filter(|byte| !b"'\"".contains(byte)).collect::<Vec<_>>());
    bare.filter(|word| !word.is_empty()).collect()
}

/// Returns the executable file named by a word.
fn program(word: &[u8], path: &[u8]) -> Option<PathBuf> {
    let file = |dir: &[u8]| Path::new(std::ffi::OsStr::from_bytes(dir)).join(std::ffi::OsStr::from_bytes(word));
    let found: Vec<PathBuf> =
        if word.contains(&b'/') { vec![file(b"")] } else { path.split(|&byte| byte == b':').map(file).collect() };
    let runs = |data: fs::Metadata| data.is_file() && data.permissions().mode() & 0o111 != 0;
    found.into_iter().find(|file| fs::metadata(file).is_ok_and(runs))
}

fn same_content(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut here, mut there) = (Vec::new(), Vec::new());
    loop {
        here.clear();
        there.clear();
        one.by_ref().take(1 << 20).read_to_end(&mut here)?;
        other.by_ref().take(1 << 20).read_to_end(&mut there)?;
        if here != there || here.is_empty() {
            return Ok(here == there);
        }
    }
}

/// Reports changes of the machine between runs.
pub fn check_runs(record: &CompareRecord) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(changed(record, "the number of CPUs", |now| now.processors));
    notes
        .extend(changed(record, "the frequency governor", |now| now.governor.clone().unwrap_or_else(|| "none".into())));
    notes.extend(variant_frequency(record));
    notes.extend(run_frequency(record));
    notes.extend(excess_load(record, "other programs", |now| now.background));
    notes.extend(excess_load(record, "the hypervisor", |now| now.steal));
    notes
}

fn name(record: &CompareRecord, run: &PairedRun) -> String {
    record.run_name(run.variant, run.round)
}

/// Reports the first run with another value than the previous run.
fn changed<T: PartialEq + std::fmt::Display>(
    record: &CompareRecord,
    subject: &str,
    value: impl Fn(&Conditions) -> T,
) -> Option<String> {
    let values = record.runs.windows(2).map(|runs| (&runs[1], value(&runs[0].sample.conditions)));
    let (run, before) = values.into_iter().find(|(run, before)| value(&run.sample.conditions) != *before)?;
    let now = value(&run.sample.conditions);
    Some(format!("{subject} changed at {}: {now} instead of {before}", name(record, run)))
}

/// Returns the known frequencies of runs in MHz.
fn frequencies<'r>(runs: impl Iterator<Item = &'r PairedRun>) -> Vec<(&'r PairedRun, f64)> {
    runs.filter_map(|run| Some((run, run.sample.conditions.frequency_mhz? as f64))).collect()
}

fn median_frequency(frequencies: &[(&PairedRun, f64)]) -> Option<f64> {
    median(&frequencies.iter().map(|(_, mhz)| *mhz).collect::<Vec<_>>()).filter(|&mhz| mhz > 0.0)
}

fn variant_frequency(record: &CompareRecord) -> Option<String> {
    let of = |nth: usize| median_frequency(&frequencies(record.runs.iter().filter(|run| run.variant == nth)));
    let first = of(0)?;
    let differs = |&(_, mhz): &(usize, f64)| (mhz / first - 1.0).abs() > VARIANT_FREQUENCY;
    let (nth, mhz) = (1..record.variants.len()).filter_map(|nth| Some((nth, of(nth)?))).find(differs)?;
    let (one, other) = (&record.variants[0].name, &record.variants[nth].name);
    Some(format!("median CPU frequency: {first:.0} MHz for {one}, but {mhz:.0} MHz for {other}"))
}

fn run_frequency(record: &CompareRecord) -> Option<String> {
    let frequencies = frequencies(record.runs.iter());
    let usual = median_frequency(&frequencies)?;
    let deviation = |mhz: f64| (mhz / usual - 1.0).abs();
    let count = frequencies.iter().filter(|(_, mhz)| deviation(*mhz) > RUN_FREQUENCY).count();
    let (run, mhz) = frequencies.iter().max_by(|one, other| deviation(one.1).total_cmp(&deviation(other.1)))?;
    let (all, run) = (frequencies.len(), name(record, run));
    (count > 0).then(|| {
        format!("unusual CPU frequency in {count} of {all} runs: {mhz:.0} MHz in {run}, median {usual:.0} MHz")
    })
}

/// Reports the run with the highest background load if it is far above the median.
fn excess_load(record: &CompareRecord, subject: &str, load: impl Fn(&Conditions) -> Option<f64>) -> Option<String> {
    let known = record.runs.iter().filter_map(|run| Some((run, load(&run.sample.conditions)?)));
    let loads: Vec<(&PairedRun, f64)> = known.collect();
    let usual = median(&loads.iter().map(|(_, load)| *load).collect::<Vec<_>>())?;
    let (run, max) = loads.iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
    (*max > usual + BACKGROUND_EXCESS).then(|| {
        let (run, max, usual) = (name(record, run), percent(Some(*max)), percent(Some(usual)));
        format!("{subject} used {max} of the CPUs in {run}, median {usual}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::fake;
    use std::time::Duration;
    use tanto_testing::Scratch;

    fn variant(name: &str, line: &str) -> Variant {
        Variant { name: name.into(), line: line.into(), prepare: Vec::new(), is_control: false }
    }

    fn executable(dir: &Scratch, path: &str, text: &str) {
        dir.write(path, text);
        fs::set_permissions(dir.at(path), fs::Permissions::from_mode(0o755)).expect("changed");
    }

    #[test]
    fn copies_of_a_program_are_reported() {
        let dir = Scratch::new("bench-validity");
        executable(&dir, "a/cc", "one");
        executable(&dir, "b/cc", "one");
        executable(&dir, "c/cc", "two");
        let place = dir.text();
        let notes_on = |one: &str, other: &str| {
            let lines = [one, other].map(|line| line.replace('@', place));
            check_commands(&[variant("A", &lines[0]), variant("B", &lines[1])], dir.bytes("a").as_slice())
        };
        assert_eq!(notes_on("x", "x"), ["A and B are the same command"]);
        for (one, other) in
            [("@/a/cc x.c", "@/b/cc x.c"), ("make CC='@/a/cc'", "make CC='@/b/cc'"), ("cc -c", "@/b/cc -c")]
        {
            let notes = notes_on(one, other);
            assert!(
                notes[0].starts_with("A and B run the same program: ") && notes[0].ends_with(" are identical"),
                "{notes:?}"
            );
        }
        for (one, other) in
            [("@/a/cc x.c", "@/c/cc x.c"), ("S=1 @/a/cc", "S=0 @/a/cc"), ("cc", "@/nonexistent"), ("a", "b")]
        {
            assert!(notes_on(one, other).is_empty(), "{one} {other}");
        }
    }

    fn record(change: impl Fn(usize, &mut Conditions)) -> CompareRecord {
        let mut record = CompareRecord::new(vec![variant("A", "a"), variant("B", "b")], 0);
        for nth in 0..12 {
            let mut sample = fake::sample(1.0);
            sample.conditions.frequency_mhz = Some(3000);
            change(nth, &mut sample.conditions);
            record.runs.push(PairedRun { variant: nth % 2, round: nth / 2, started: Duration::ZERO, sample });
        }
        record
    }

    #[test]
    fn constant_conditions_are_not_reported() {
        assert_eq!(check_runs(&record(|_, _| {})), <[&str; 0]>::default());
        assert_eq!(
            check_runs(&CompareRecord::new(vec![variant("A", "a"), variant("B", "b")], 0)),
            <[&str; 0]>::default()
        );
    }

    #[test]
    fn changes_between_runs_are_reported() {
        let is =
            |change: fn(usize, &mut Conditions), expected: &str| assert_eq!(check_runs(&record(change)), [expected]);
        is(
            |nth, now| now.processors = if nth < 5 { 2 } else { 1 },
            "the number of CPUs changed at run 3 of B: 1 instead of 2",
        );
        is(
            |nth, now| now.governor = (nth > 5).then(|| "powersave".into()),
            "the frequency governor changed at run 4 of A: powersave instead of none",
        );
        is(
            |nth, now| now.frequency_mhz = Some(if nth % 2 == 0 { 3000 } else { 2700 }),
            "median CPU frequency: 3000 MHz for A, but 2700 MHz for B",
        );
        is(
            |nth, now| now.frequency_mhz = Some(if nth == 7 { 1200 } else { 3000 }),
            "unusual CPU frequency in 1 of 12 runs: 1200 MHz in run 4 of B, median 3000 MHz",
        );
        is(
            |nth, now| now.background = Some(if nth == 4 { 0.5 } else { 0.02 }),
            "other programs used 50 % of the CPUs in run 3 of A, median 2 %",
        );
        is(
            |nth, now| now.steal = Some(if nth == 0 { 0.25 } else { 0.0 }),
            "the hypervisor used 25 % of the CPUs in run 1 of A, median 0 %",
        );
    }
}
