//! What may make an experiment worthless, and is easily missed. Does not know what it has found.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::bench::measure::conditions::Conditions;
use crate::bench::show;
use crate::bench::statistics::quantile::median;

use super::record::{Record, Run, Side};

/// Others that took so much more of all processors than usual are noticed.
const DISTURBED: f64 = 0.1;
/// Processors that run so much faster or slower than usual are noticed: for a run, and for all runs of a side.
const OTHER_SPEED: f64 = 0.2;
const OTHER_SPEED_OF_SIDE: f64 = 0.05;

/// Before anything is run: what is not as different as it should be.
pub fn of_sides(sides: &[Side], path: &[u8]) -> Vec<String> {
    let others = sides[1..].iter().filter(|side| !side.control);
    others.filter_map(|side| of_lines(&sides[0], side, path)).collect()
}

fn of_lines(first: &Side, second: &Side, path: &[u8]) -> Option<String> {
    let names = format!("{} and {}", first.name, second.name);
    if first.line == second.line {
        let alike = first.prepare == second.prepare;
        return alike.then(|| format!("{names} are the same command"));
    }
    let programs = |line: &Side, other: &Side| -> Vec<PathBuf> {
        let others = words(&other.line);
        let own = words(&line.line).into_iter().filter(|word| !others.contains(word));
        own.filter_map(|word| program(&word, path)).collect()
    };
    let (ours, theirs) = (programs(first, second), programs(second, first));
    let same = |(one, other): (&PathBuf, &PathBuf)| are_same(one, other).unwrap_or(false);
    if ours.is_empty() || ours.len() != theirs.len() || !ours.iter().zip(&theirs).all(same) {
        return None;
    }
    let (one, other) = (ours[0].display(), theirs[0].display());
    Some(format!("{names} run the same program: {one} and {other} are alike, byte for byte"))
}

/// A line's words and values of variables, without quotes.
fn words(line: &[u8]) -> Vec<Vec<u8>> {
    let parts = line.split(|byte| byte.is_ascii_whitespace() || b"=;|&()".contains(byte));
    let bare = parts.map(|part| part.iter().copied().filter(|byte| !b"'\"".contains(byte)).collect::<Vec<_>>());
    bare.filter(|word| !word.is_empty()).collect()
}

/// The executable file that a word names.
fn program(word: &[u8], path: &[u8]) -> Option<PathBuf> {
    let file = |dir: &[u8]| Path::new(std::ffi::OsStr::from_bytes(dir)).join(std::ffi::OsStr::from_bytes(word));
    let found: Vec<PathBuf> =
        if word.contains(&b'/') { vec![file(b"")] } else { path.split(|&byte| byte == b':').map(file).collect() };
    let runs = |data: fs::Metadata| data.is_file() && data.permissions().mode() & 0o111 != 0;
    found.into_iter().find(|file| fs::metadata(file).is_ok_and(runs))
}

fn are_same(one: &Path, other: &Path) -> io::Result<bool> {
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

/// Of what has run: what was not the same for all of it.
pub fn of_runs(record: &Record) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(changed(record, "processors", |now| now.processors));
    notes.extend(changed(record, "the governor", |now| now.governor.clone().unwrap_or_else(|| "none".into())));
    notes.extend(speed_of_sides(record));
    notes.extend(speed_of_runs(record));
    notes.extend(taken(record, "others used", |now| now.background));
    notes.extend(taken(record, "the machine around this one took", |now| now.stolen));
    notes
}

fn name(record: &Record, run: &Run) -> String {
    record.name(run.side, run.round)
}

/// The first run that had another value than the run before it.
fn changed<T: PartialEq + std::fmt::Display>(
    record: &Record,
    what: &str,
    value: impl Fn(&Conditions) -> T,
) -> Option<String> {
    let values = record.runs.windows(2).map(|runs| (&runs[1], value(&runs[0].sample.conditions)));
    let (run, before) = values.into_iter().find(|(run, before)| value(&run.sample.conditions) != *before)?;
    let now = value(&run.sample.conditions);
    Some(format!("{what} changed with {}: {now} instead of {before}", name(record, run)))
}

/// MHz of these runs, where they are known.
fn speeds<'r>(runs: impl Iterator<Item = &'r Run>) -> Vec<(&'r Run, f64)> {
    runs.filter_map(|run| Some((run, run.sample.conditions.frequency_mhz? as f64))).collect()
}

fn usual(speeds: &[(&Run, f64)]) -> Option<f64> {
    median(&speeds.iter().map(|(_, mhz)| *mhz).collect::<Vec<_>>()).filter(|&mhz| mhz > 0.0)
}

fn speed_of_sides(record: &Record) -> Option<String> {
    let of = |side: usize| usual(&speeds(record.runs.iter().filter(|run| run.side == side)));
    let first = of(0)?;
    let differs = |&(_, mhz): &(usize, f64)| (mhz / first - 1.0).abs() > OTHER_SPEED_OF_SIDE;
    let (side, mhz) = (1..record.sides.len()).filter_map(|side| Some((side, of(side)?))).find(differs)?;
    let (one, other) = (&record.sides[0].name, &record.sides[side].name);
    Some(format!("processors ran at {first:.0} MHz in runs of {one}, and at {mhz:.0} MHz in runs of {other}"))
}

fn speed_of_runs(record: &Record) -> Option<String> {
    let speeds = speeds(record.runs.iter());
    let usual = usual(&speeds)?;
    let far = |mhz: f64| (mhz / usual - 1.0).abs();
    let odd = speeds.iter().filter(|(_, mhz)| far(*mhz) > OTHER_SPEED).count();
    let (run, mhz) = speeds.iter().max_by(|one, other| far(one.1).total_cmp(&far(other.1)))?;
    let (all, run) = (speeds.len(), name(record, run));
    (odd > 0).then(|| {
        format!("processors ran at another speed in {odd} of {all} runs: {mhz:.0} MHz in {run}, usually {usual:.0} MHz")
    })
}

/// The run in which others took much more of the processors than usual.
fn taken(record: &Record, who: &str, share: impl Fn(&Conditions) -> Option<f64>) -> Option<String> {
    let known = record.runs.iter().filter_map(|run| Some((run, share(&run.sample.conditions)?)));
    let shares: Vec<(&Run, f64)> = known.collect();
    let usual = median(&shares.iter().map(|(_, share)| *share).collect::<Vec<_>>())?;
    let (run, most) = shares.iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
    let (run, percent) = (name(record, run), |share: f64| show::percent(Some(share)));
    (*most > usual + DISTURBED)
        .then(|| format!("{who} {} of all processors in {run}, usually {}", percent(*most), percent(usual)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::measure::fake;
    use std::time::Duration;
    use tanto_testing::Scratch;

    fn side(name: &str, line: &str) -> Side {
        Side { name: name.into(), line: line.into(), prepare: Vec::new(), control: false }
    }

    fn executable(dir: &Scratch, path: &str, text: &str) {
        dir.write(path, text);
        fs::set_permissions(dir.at(path), fs::Permissions::from_mode(0o755)).expect("it is ours");
    }

    #[test]
    fn the_same_program_under_two_names_is_noticed() {
        let dir = Scratch::new("compare-duff");
        executable(&dir, "a/cc", "one");
        executable(&dir, "b/cc", "one");
        executable(&dir, "c/cc", "two");
        let place = dir.text();
        let told = |one: &str, other: &str| {
            let lines = [one, other].map(|line| line.replace('@', place));
            of_sides(&[side("A", &lines[0]), side("B", &lines[1])], dir.bytes("a").as_slice())
        };
        assert_eq!(told("x", "x"), ["A and B are the same command"]);
        for (one, other) in
            [("@/a/cc x.c", "@/b/cc x.c"), ("make CC='@/a/cc'", "make CC='@/b/cc'"), ("cc -c", "@/b/cc -c")]
        {
            let notes = told(one, other);
            assert!(
                notes[0].starts_with("A and B run the same program: ") && notes[0].ends_with("byte for byte"),
                "{notes:?}"
            );
        }
        for (one, other) in
            [("@/a/cc x.c", "@/c/cc x.c"), ("S=1 @/a/cc", "S=0 @/a/cc"), ("cc", "@/nonexistent"), ("a", "b")]
        {
            assert!(told(one, other).is_empty(), "{one} {other}");
        }
    }

    fn record(change: impl Fn(usize, &mut Conditions)) -> Record {
        let mut record = Record::new(vec![side("A", "a"), side("B", "b")]);
        for nth in 0..12 {
            let mut sample = fake::sample(1.0);
            sample.conditions.frequency_mhz = Some(3000);
            change(nth, &mut sample.conditions);
            record.runs.push(Run { side: nth % 2, round: nth / 2, at: Duration::ZERO, sample });
        }
        record
    }

    #[test]
    fn a_machine_that_stays_the_same_is_no_news() {
        assert_eq!(of_runs(&record(|_, _| {})), <[&str; 0]>::default());
        assert_eq!(of_runs(&Record::new(vec![side("A", "a"), side("B", "b")])), <[&str; 0]>::default());
    }

    #[test]
    fn what_changes_between_runs_is_named() {
        let is = |change: fn(usize, &mut Conditions), expected: &str| assert_eq!(of_runs(&record(change)), [expected]);
        is(
            |nth, now| now.processors = if nth < 5 { 2 } else { 1 },
            "processors changed with run 3 of B: 1 instead of 2",
        );
        is(
            |nth, now| now.governor = (nth > 5).then(|| "powersave".into()),
            "the governor changed with run 4 of A: powersave instead of none",
        );
        is(
            |nth, now| now.frequency_mhz = Some(if nth % 2 == 0 { 3000 } else { 2700 }),
            "processors ran at 3000 MHz in runs of A, and at 2700 MHz in runs of B",
        );
        is(
            |nth, now| now.frequency_mhz = Some(if nth == 7 { 1200 } else { 3000 }),
            "processors ran at another speed in 1 of 12 runs: 1200 MHz in run 4 of B, usually 3000 MHz",
        );
        is(
            |nth, now| now.background = Some(if nth == 4 { 0.5 } else { 0.02 }),
            "others used 50 % of all processors in run 3 of A, usually 2 %",
        );
        is(
            |nth, now| now.stolen = Some(if nth == 0 { 0.25 } else { 0.0 }),
            "the machine around this one took 25 % of all processors in run 1 of A, usually 0 %",
        );
    }
}
