//! The packages of a simulated build.

use std::collections::BTreeSet;

use tanto_testing::Random;

use super::MINUTE;

pub struct SimulatedPackage {
    pub ms: i64,
    pub depends: Vec<usize>,
    pub dependents: Vec<usize>,
    /// The longest chain that begins with it, in milliseconds.
    pub chain_ms: i64,
    pub state: BuildState,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BuildState {
    Open,
    Leased,
    Accepted,
    Failed,
}

pub fn generate(random: &mut Random, count: usize) -> Vec<SimulatedPackage> {
    let mut packages: Vec<SimulatedPackage> = (0..count)
        .map(|at| {
            let depends: BTreeSet<usize> =
                (0..random.below(3)).filter(|_| at > 0).map(|_| random.below(at.max(1))).collect();
            let ms = [MINUTE / 2, 2 * MINUTE, 10 * MINUTE, 40 * MINUTE][random.below(4)] + random.below(60_000) as i64;
            let (depends, dependents) = (depends.into_iter().collect(), Vec::new());
            SimulatedPackage { ms, depends, dependents, chain_ms: ms, state: BuildState::Open }
        })
        .collect();
    for at in (0..count).rev() {
        let chain_ms = packages[at].chain_ms;
        for needed in packages[at].depends.clone() {
            let it = &mut packages[needed];
            it.chain_ms = it.chain_ms.max(it.ms + chain_ms);
            it.dependents.push(at);
        }
    }
    packages
}
