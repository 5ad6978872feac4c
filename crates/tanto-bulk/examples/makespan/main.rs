//! Prints simulated makespans of bulk builds on many clients, as multiples of their lower bounds, with the schedule and the
//! placement of a real build.

mod graph;
mod simulation;

use std::process::ExitCode;

use self::graph::Graph;
use self::simulation::{Conditions, Simulation};

const USAGE: &str = "usage: makespan CLIENTS,... SEEDS [RESOLVED TIMES]";
/// Packages of a generated graph.
const PACKAGES: usize = 20_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let (clients, seeds, graph) = match arguments {
        [clients, seeds] => (clients, seeds, Graph::generate(1, PACKAGES)),
        [clients, seeds, resolved, times] => (clients, seeds, Graph::read(resolved, times)?),
        _ => return Err(USAGE.to_owned()),
    };
    let seeds: u64 = seeds.parse().map_err(|_| USAGE.to_owned())?;
    println!("{} packages; the worst of {seeds} seeds", graph.plan.packages.len());
    println!("clients  no losses  losses  attempts lost  speeds 1 and 2");
    for clients in clients.split(',') {
        let clients: usize = clients.parse().map_err(|_| USAGE.to_owned())?;
        let calm = worst(&graph, Conditions { clients, has_losses: false, are_equal: true }, 1..2)?;
        let lossy = worst(&graph, Conditions { clients, has_losses: true, are_equal: true }, 1..seeds + 1)?;
        let mixed = worst(&graph, Conditions { clients, has_losses: false, are_equal: false }, 1..2)?;
        println!("{clients:7}  {:9.3}  {:6.3}  {:13}  {:14.3}", calm.0, lossy.0, lossy.1, mixed.0);
    }
    Ok(())
}

/// Returns the largest ratio to the lower bound, and the most lost attempts.
fn worst(graph: &Graph, conditions: Conditions, seeds: std::ops::Range<u64>) -> Result<(f64, usize), String> {
    let mut worst = (1.0_f64, 0);
    for seed in seeds {
        let outcome = Simulation::new(graph, conditions, seed).run();
        if outcome.failed > 0 {
            return Err(format!("seed {seed}: {} packages were lost too often", outcome.failed));
        }
        worst = (worst.0.max(outcome.ratio), worst.1.max(outcome.lost));
    }
    Ok(worst)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEDS: std::ops::Range<u64> = 0..3;

    fn ratio(clients: usize, has_losses: bool, are_equal: bool) -> f64 {
        let graph = Graph::generate(7, 400);
        worst(&graph, Conditions { clients, has_losses, are_equal }, SEEDS).unwrap().0
    }

    #[test]
    fn packages_never_wait_without_need() {
        for clients in [1, 4, 16] {
            let ratio = ratio(clients, false, true);
            assert!((1.0..1.15).contains(&ratio), "{clients} clients: {ratio}");
        }
    }

    #[test]
    fn losses_cost_little_more_than_the_lost_time() {
        for clients in [4, 16] {
            let ratio = ratio(clients, true, true);
            assert!(ratio < 1.5, "{clients} clients: {ratio}");
        }
    }

    #[test]
    fn slow_clients_do_not_hold_up_the_others() {
        let ratio = ratio(8, false, false);
        assert!(ratio < 1.5, "{ratio}");
    }
}
