//! Estimates the costs of commands from their last run or, for new commands, from others of the same rule.

use tanto_exec::job::{Cost, CostLookup};

use crate::hash::Map;
use crate::ids::{EdgeId, RuleId};
use crate::scan::Scan;

/// The maximum number of edges sampled for a rule's typical cost.
const MAX_SAMPLED: usize = 4096;

#[derive(Default)]
pub(crate) struct CostEstimates<'p> {
    /// By output path.
    past: Option<CostLookup<'p>>,
    rules: Map<RuleId, Cost>,
    /// The typical cost of any command.
    all: Cost,
}

/// Samples for medians. 0 means unknown.
#[derive(Default)]
struct Samples {
    wall_ms: Vec<u32>,
    cpu_ms: Vec<u32>,
    memory_kib: Vec<u32>,
}

impl<'p> CostEstimates<'p> {
    pub(crate) fn new(scan: &Scan<'_, '_>, plan: &[EdgeId], past: Option<CostLookup<'p>>) -> CostEstimates<'p> {
        let mut it = CostEstimates { past, ..CostEstimates::default() };
        let is_command = |edge: &EdgeId| !scan.graph.edge(*edge).is_phony();
        let commands = || plan.iter().copied().filter(is_command);
        if commands().any(|edge| it.measured(scan, edge).wall_ms == 0) {
            let stride = scan.graph.edge_count() / MAX_SAMPLED + 1;
            it.learn(
                scan,
                commands().take(MAX_SAMPLED).chain(scan.graph.edge_ids().step_by(stride).filter(is_command)),
            );
        }
        it
    }

    /// A 0 in the result means unknown.
    pub(crate) fn of(&self, scan: &Scan<'_, '_>, edge: EdgeId) -> Cost {
        let it = scan.graph.edge(edge);
        if it.is_phony() {
            return Cost::default();
        }
        let typical = self.rules.get(&it.rule).copied().unwrap_or_default();
        or(or(self.measured(scan, edge), typical), self.all)
    }

    /// The cost of the last run. The log's duration takes precedence over the history's.
    pub(crate) fn measured(&self, scan: &Scan<'_, '_>, edge: EdgeId) -> Cost {
        let logged = scan.expected_ms(edge).and_then(|ms| u32::try_from(ms).ok());
        // A logged duration of 0 ms is still a measurement.
        let wall_ms = logged.map_or(0, |ms| ms.max(1));
        let mut outs = scan.graph.edge(edge).outs.iter();
        let past = self.past.and_then(|past| outs.find_map(|&out| past(scan.graph.path(out))));
        or(Cost { wall_ms, ..Cost::default() }, past.unwrap_or_default())
    }

    fn learn(&mut self, scan: &Scan<'_, '_>, edges: impl Iterator<Item = EdgeId>) {
        let mut rules: Map<RuleId, Samples> = Map::default();
        for edge in edges {
            let cost = self.measured(scan, edge);
            if cost != Cost::default() {
                rules.entry(scan.graph.edge(edge).rule).or_default().add(cost);
            }
        }
        let mut all = Samples::default();
        for (rule, mut known) in rules {
            all.wall_ms.extend(&known.wall_ms);
            all.cpu_ms.extend(&known.cpu_ms);
            self.rules.insert(rule, known.median());
        }
        // The memory use of one rule does not predict another's, so unknown memory stays 0.
        self.all = all.median();
    }
}

impl Samples {
    fn add(&mut self, cost: Cost) {
        let put = |to: &mut Vec<u32>, number| to.extend((number > 0).then_some(number));
        put(&mut self.wall_ms, cost.wall_ms);
        put(&mut self.cpu_ms, cost.cpu_ms);
        put(&mut self.memory_kib, cost.memory_kib);
    }

    fn median(&mut self) -> Cost {
        let middle = |numbers: &mut Vec<u32>| {
            let at = numbers.len() / 2;
            if numbers.is_empty() { 0 } else { *numbers.select_nth_unstable(at).1 }
        };
        Cost {
            wall_ms: middle(&mut self.wall_ms),
            cpu_ms: middle(&mut self.cpu_ms),
            memory_kib: middle(&mut self.memory_kib),
        }
    }
}

fn or(first: Cost, second: Cost) -> Cost {
    let pick = |a: u32, b: u32| if a == 0 { b } else { a };
    Cost {
        wall_ms: pick(first.wall_ms, second.wall_ms),
        cpu_ms: pick(first.cpu_ms, second.cpu_ms),
        memory_kib: pick(first.memory_kib, second.memory_kib),
    }
}
