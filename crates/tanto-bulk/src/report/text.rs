//! Formats a report as text.

use tanto_exec::text::table::Table;
use tanto_exec::text::units::{duration, memory};
use tanto_sys::cgroup::StallTimes;

use super::changes::Change;
use super::costs::{PackageCosts, StageCosts};
use super::{Failure, Report, machine};
use crate::coordinator::state::State;
use crate::coordinator::verification;

/// The number of slowest packages.
const SHOWN: usize = 20;
/// The limit of names for each kind of change.
const NAMED: usize = 50;
/// The note if waiting times are unknown.
pub(super) const NO_WAITS: &str = "I/O WAIT and CPU WAIT were not recorded: they need control groups of version 2 that Tanto may create, with \
    pressure stall information (PSI).";

impl Report<'_> {
    pub fn text(&self) -> String {
        let mut text = self.head();
        text += &self.changed();
        text += &self.failed();
        text += &self.left_out();
        text += &self.tried_again();
        text += &self.verified();
        text += &self.noted();
        text += &self.took();
        text
    }

    fn head(&self) -> String {
        let run = self.rows.run;
        let mut table = Table::new(&[]);
        let mut row = |name: &str, value: &str| table.row([name.as_bytes(), value.as_bytes()]);
        row("bulk build", &run.run.to_string());
        row("began", &format!("{} (UTC)", machine::iso(run.began_ms)));
        let ended = run.ended_ms.map(|ms| format!("{} (UTC)", machine::iso(ms)));
        row("ended", &ended.unwrap_or_else(|| "not yet, or it was killed".into()));
        row("packages", &self.rows.packages.len().to_string());
        for (state, count) in self.counts() {
            row(state.name(), &count.to_string());
        }
        let span = &self.costs.span;
        if let Some(ratio) = span.ratio() {
            row("built now", &self.costs.packages.len().to_string());
            row("time", &format!("{}, {ratio:.3} x the lower bound", ms(span.wall_ms)));
            let chain = span.chain.len();
            row("longest chain", &format!("{} in {chain} packages", ms(span.chain_ms())));
            row("all work", &format!("{}, on {}", ms(span.work_ms), span.clients_text()));
        }
        for (estimates, what) in self.costs.estimates.iter().zip(["built before", "guessed"]) {
            if let Some(median) = estimates.median {
                let count = estimates.count;
                row("estimates", &format!("{what}: half of {count} within a factor of {median:.2}"));
            }
        }
        String::from_utf8_lossy(&table.text()).into_owned()
    }

    fn changed(&self) -> String {
        let Some(changes) = &self.changes else { return String::new() };
        let mut text = heading(&format!("Since bulk build {}", changes.since.run));
        let kinds =
            [("broken", &changes.broken), ("fixed", &changes.fixed), ("new", &changes.new), ("gone", &changes.gone)];
        for (what, all) in kinds {
            text += &format!("{} {what}{}\n", all.len(), if all.is_empty() { "" } else { ":" });
            text.extend(all.iter().take(NAMED).map(changed_line));
            if let more @ 1.. = all.len().saturating_sub(NAMED) {
                text += &format!("    and {more} more\n");
            }
        }
        text
    }

    fn failed(&self) -> String {
        if self.failures.is_empty() {
            return String::new();
        }
        let one = |failure: &Failure| {
            let it = self.package(failure.package);
            let mut text = format!("{}  {}  {}", it.name, it.location, self.maintainer(failure.package));
            text = format!("{}\n    {}\n", text.trim_end(), self.why(failure));
            for line in failure.found.iter().flat_map(|found| &found.lines) {
                text += &format!("    | {line}\n");
            }
            if failure.log.is_empty() { text } else { text + &format!("    {}\n", failure.log) }
        };
        let all: Vec<String> = self.failures.iter().map(one).collect();
        heading("Failed packages, most blocking first") + &all.join("\n")
    }

    /// Failed packages, with the kind of error and the blocked packages.
    pub(super) fn why(&self, failure: &Failure) -> String {
        let kind = failure.found.as_ref().map_or(String::new(), |found| format!(" ({})", found.kind.name()));
        let blocks = match failure.blocks {
            0 => String::new(),
            1 => "; 1 package needs it".into(),
            count => format!("; {count} packages need it"),
        };
        format!("{}{kind}{blocks}", self.package(failure.package).why)
    }

    fn left_out(&self) -> String {
        if self.masked.is_empty() {
            return String::new();
        }
        let mut table = Table::new(&[0]);
        table.row([b"BLOCKS", b"PACKAGE", b"WHY"]);
        for masked in &self.masked {
            let it = self.package(masked.package);
            table.row([masked.blocks.to_string().as_bytes(), it.name.as_bytes(), it.why.as_bytes()]);
        }
        heading("Cannot be built") + &String::from_utf8_lossy(&table.text())
    }

    fn tried_again(&self) -> String {
        if self.retries.is_empty() {
            return String::new();
        }
        let mut table = Table::new(&[1]);
        table.row([b"PACKAGE", b"ATTEMPT", b"CLIENT", b"WHY"]);
        for it in &self.retries {
            let (name, attempt) = (&self.package(it.package).name, it.attempt.to_string());
            table.row([name.as_bytes(), attempt.as_bytes(), it.client.as_bytes(), it.why.as_bytes()]);
        }
        heading("Retried after machine failures") + &String::from_utf8_lossy(&table.text())
    }

    fn verified(&self) -> String {
        if self.rows.verifications.is_empty() {
            return String::new();
        }
        let mut table = Table::new(&[]);
        self.unequal().for_each(|row| table.row([row.name.as_bytes(), verification::describe(row).as_bytes()]));
        let (all, unequal) = (self.rows.verifications.len(), self.unequal().count());
        let counts = format!("{} of {all} packages are the same\n", all - unequal);
        heading("Built again by other clients") + &counts + &String::from_utf8_lossy(&table.text())
    }

    fn noted(&self) -> String {
        if self.notes.is_empty() {
            return String::new();
        }
        let mut table = Table::new(&[]);
        for &package in &self.notes {
            let it = self.package(package);
            table.row([it.name.as_bytes(), it.why.as_bytes()]);
        }
        heading("Built, but") + &String::from_utf8_lossy(&table.text())
    }

    fn took(&self) -> String {
        if self.costs.packages.is_empty() {
            return String::new();
        }
        let longest = heading("Slowest packages") + &self.longest();
        let note = if self.costs.knows_waits() { String::new() } else { format!("\n{NO_WAITS}\n") };
        heading("Stages") + &stages(&self.costs.stages) + &longest + &note
    }

    fn longest(&self) -> String {
        let mut table = Table::new(&[0, 1, 2, 3, 4, 5]);
        table.row([b"TIME", b"CPU", b"I/O WAIT", b"CPU WAIT", b"MEMORY", b"EXPECTED", b"PACKAGE"]);
        for it in self.costs.packages.iter().take(SHOWN) {
            let PackageCosts { package, wall_ms, cpu_ms, peak_kib, waits, expected_ms } = *it;
            let [io, cpu] = waited(waits);
            table.row([
                ms(wall_ms).as_bytes(),
                ms(cpu_ms).as_bytes(),
                io.as_bytes(),
                cpu.as_bytes(),
                memory(peak_kib).as_bytes(),
                expected_ms.map(ms).unwrap_or_default().as_bytes(),
                self.package(package).name.as_bytes(),
            ]);
        }
        String::from_utf8_lossy(&table.text()).into_owned()
    }
}

fn heading(text: &str) -> String {
    format!("\n{text}\n\n")
}

fn changed_line(change: &Change) -> String {
    let usual = |state: &str| state == State::Done.name() || state.is_empty();
    let now = if usual(&change.now) { String::new() } else { format!(" ({})", change.now) };
    format!("    {}{now}\n", change.name)
}

fn stages(stages: &[StageCosts]) -> String {
    let mut table = Table::new(&[1, 2, 3, 4, 5, 6, 7]);
    table.row([b"STAGE", b"TIMES", b"FAILED", b"TIME", b"CPU", b"I/O WAIT", b"CPU WAIT", b"MOST MEMORY"]);
    for it in stages {
        let [io, cpu] = waited(it.waits);
        table.row([
            it.name.as_bytes(),
            it.count.to_string().as_bytes(),
            it.failed.to_string().as_bytes(),
            ms(it.wall_ms).as_bytes(),
            ms(it.cpu_ms).as_bytes(),
            io.as_bytes(),
            cpu.as_bytes(),
            memory(it.peak_kib).as_bytes(),
        ]);
    }
    String::from_utf8_lossy(&table.text()).into_owned()
}

/// Columns of waiting times; empty if unknown.
pub(super) fn waited(waits: Option<StallTimes>) -> [String; 2] {
    let column = |us: fn(StallTimes) -> u64| waits.map(|waits| ms(us(waits) / 1000)).unwrap_or_default();
    [column(|waits| waits.io_us), column(|waits| waits.cpu_us)]
}

pub(super) fn ms(ms: u64) -> String {
    duration(i64::try_from(ms).unwrap_or(i64::MAX))
}
