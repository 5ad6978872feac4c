//! Prints simulated builds as a table.

use super::SimulatedBuild;
use crate::text::table::right_aligned;

/// The result for one number of slots.
pub struct SimulatedRow {
    pub outcome: SimulatedBuild,
    /// The makespan in ninja's order, if the simulated order is another one.
    pub ninja_ms: Option<u64>,
}

/// Describes the totals, which do not depend on the number of slots.
pub fn work(outcome: &SimulatedBuild) -> String {
    let pool =
        if outcome.pool_ms > 0 { format!(", the busiest pool {}", time(outcome.pool_ms)) } else { String::new() };
    format!("{} of work, the longest chain takes {}{pool}", time(outcome.work_ms), time(outcome.critical_path_ms))
}

pub fn text(rows: &[SimulatedRow]) -> String {
    let with_ninja = rows.iter().any(|row| row.ninja_ms.is_some());
    let mut heads = vec!["-j", "makespan", "bound", "ratio", "idle"];
    heads.extend(with_ninja.then_some("in ninja's order"));
    let lines = rows.iter().map(|SimulatedRow { outcome, ninja_ms }| {
        let idle = outcome.idle_ms() as f64 / outcome.makespan_ms.max(1) as f64;
        let mut cells = vec![
            outcome.slots.to_string(),
            time(outcome.makespan_ms),
            time(outcome.lower_bound_ms()),
            format!("{:.3}", outcome.ratio()),
            format!("{idle:.1}"),
        ];
        cells.extend(ninja_ms.map(time));
        cells
    });
    let mut table = vec![heads.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    table.extend(lines);
    right_aligned(&table)
        + "\nbound: the longest chain, all work on all slots, or a pool's; idle: slots without a command, on average\n"
}

/// `0.25 s`, `12.3 s`, `4:05`, `1:02:03`.
fn time(ms: u64) -> String {
    let seconds = ms / 1000;
    match ms {
        0..10_000 => format!("{:.2} s", ms as f64 / 1000.0),
        10_000..60_000 => format!("{:.1} s", ms as f64 / 1000.0),
        60_000..3_600_000 => format!("{}:{:02}", seconds / 60, seconds % 60),
        _ => format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_readable() {
        let table = [(0, "0.00 s"), (250, "0.25 s"), (12_340, "12.3 s"), (245_000, "4:05"), (3_723_000, "1:02:03")];
        for (ms, text) in table {
            assert_eq!(time(ms), text);
        }
    }
}
