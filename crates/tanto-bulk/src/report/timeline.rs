//! Draws a run as SVG: a row for each client, a bar for each attempt.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fmt::Write;

use tanto_exec::text::units::duration;
use tanto_record::database::AttemptRow;

use super::RunRows;
use tanto_exec::text::html::escape;

const WIDTH: f64 = 1200.0;
const ROW: usize = 18;
const GAP: usize = 2;
/// The narrowest bar.
const NARROWEST: f64 = 0.05;

/// Returns the SVG; empty if nothing was built.
pub(super) fn picture(rows: &RunRows) -> String {
    let mut ended: Vec<(&AttemptRow, i64)> = rows.attempts.iter().filter_map(|it| Some((it, it.ended_ms?))).collect();
    ended.sort_by_key(|&(it, _)| (it.began_ms, it.job));
    let Some(&(first, _)) = ended.first() else { return String::new() };
    let from = first.began_ms;
    let until = ended.iter().map(|&(_, end)| end).max().unwrap_or(from).max(from + 1);
    let scale = WIDTH / (until - from) as f64;
    let names: HashMap<u32, &str> = rows.packages.iter().map(|it| (it.job, it.name.as_str())).collect();
    let mut lanes = Lanes::default();
    let mut bars = String::new();
    for (it, end) in ended {
        let lane = lanes.next(it.began_ms, end);
        let (left, wide) = ((it.began_ms - from) as f64 * scale, (end - it.began_ms) as f64 * scale);
        if wide < NARROWEST {
            continue;
        }
        let (top, name) = (lane * (ROW + GAP), names.get(&it.job).copied().unwrap_or_default());
        let _ = writeln!(
            bars,
            "<rect class=\"{}\" x=\"{left:.2}\" y=\"{top}\" width=\"{:.2}\" height=\"{ROW}\"><title>{}: {}, {}</title></rect>",
            class(&it.outcome),
            (wide - 0.5).max(NARROWEST),
            escape(name),
            duration(end - it.began_ms),
            escape(&it.outcome),
        );
    }
    let height = lanes.count * (ROW + GAP);
    format!(
        "<p>{} from left to right. Blue: built. Red: failed. Orange: retried.</p>\n\
         <svg viewBox=\"0 0 {WIDTH} {height}\" preserveAspectRatio=\"none\" role=\"img\">\n{bars}</svg>\n",
        duration(until - from)
    )
}

fn class(outcome: &str) -> &'static str {
    match outcome {
        "done" => "done",
        "failed" => "failed",
        _ => "machine",
    }
}

/// Puts each attempt into the first free row.
#[derive(Default)]
struct Lanes {
    free: BinaryHeap<Reverse<usize>>,
    busy: BinaryHeap<Reverse<(i64, usize)>>,
    count: usize,
}

impl Lanes {
    fn next(&mut self, began_ms: i64, ended_ms: i64) -> usize {
        while let Some(&Reverse((end, lane))) = self.busy.peek()
            && end <= began_ms
        {
            self.busy.pop();
            self.free.push(Reverse(lane));
        }
        let lane = self.free.pop().map_or(self.count, |Reverse(lane)| lane);
        self.count = self.count.max(lane + 1);
        self.busy.push(Reverse((ended_ms, lane)));
        lane
    }
}
