//! Durations of the phases of a run (`-d stats`).

use std::time::{Duration, Instant};

/// Counts and durations, in the order in which phases first ran.
pub struct Stats {
    wanted: bool,
    rows: Vec<Row>,
}

struct Row {
    name: &'static str,
    count: u32,
    total: Duration,
}

impl Stats {
    pub fn new(wanted: bool) -> Self {
        Stats { wanted, rows: Vec::new() }
    }

    pub fn time<T>(&mut self, name: &'static str, step: impl FnOnce() -> T) -> T {
        if !self.wanted {
            return step();
        }
        let start = Instant::now();
        let result = step();
        let total = start.elapsed();
        match self.rows.iter_mut().find(|row| row.name == name) {
            Some(row) => (row.count, row.total) = (row.count + 1, row.total + total),
            None => self.rows.push(Row { name, count: 1, total }),
        }
        result
    }

    /// The table in ninja's format; empty if not enabled.
    pub fn table(&self) -> String {
        if !self.wanted {
            return String::new();
        }
        let width = self.rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
        let head = format!("{:width$}\t{:6}\t{:9}\t{}\n", "metric", "count", "avg (us)", "total (ms)");
        let lines = self.rows.iter().map(|row| {
            let micros = row.total.as_micros() as f64;
            let (average, total) = (micros / f64::from(row.count), micros / 1000.0);
            format!("{:width$}\t{:<6}\t{average:<8.1}\t{total:.1}\n", row.name, row.count)
        });
        std::iter::once(head).chain(lines).collect()
    }
}
