//! The build of a session, to simulate it.

use std::collections::HashMap;

use tanto_exec::job::{Cost, JobId};
use tanto_exec::schedule::{JobSpec, Kind, PoolId, Schedule};
use tanto_exec::simulate::scenario::Scenario;

use super::{Session, SessionJob};

/// Returns the build of a session. Its jobs are in the order of their starts, which is topological. A session records no
/// pools except the console.
pub fn scenario(session: &Session, about: String) -> Scenario {
    let mut schedule = Schedule::new();
    let console = schedule.add_pool(1);
    let mut numbers: HashMap<JobId, JobId> = HashMap::new();
    let mut chain = Vec::new();
    for job in &session.jobs {
        if numbers.contains_key(&job.id) {
            continue;
        }
        let pool = if job.info.console { console } else { PoolId::UNLIMITED };
        let kind = if job.is_group { Kind::Phony } else { Kind::Command };
        let id = schedule.add(JobSpec { pool, order: job.id.0, kind, wanted: true });
        schedule.set_cost(id, cost(job));
        // A dependency without an event was up to date.
        job.info.after.iter().filter_map(|on| numbers.get(on)).for_each(|&on| schedule.add_dependency(id, on, 0));
        numbers.insert(job.id, id);
        chain.push(id);
    }
    Scenario { schedule, chain, about }
}

fn cost(job: &SessionJob) -> Cost {
    let clip = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    Cost {
        wall_ms: clip(job.wall_ms().max(0).cast_unsigned()),
        cpu_ms: clip(job.cpu_ms().max(0).cast_unsigned()),
        memory_kib: job.end.as_ref().map_or(0, |end| clip(end.usage.max_rss_kib)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_exec::schedule::Order;
    use tanto_exec::simulate;

    #[test]
    fn jobs_have_recorded_costs_and_dependencies() {
        let started = |job, after| format!("{{\"event\":\"started\",\"job\":{job},\"at_ms\":0,\"after\":{after}}}\n");
        let finished = |job, end_ms| {
            let usage = "\"user_us\":1000,\"system_us\":0,\"max_rss_kib\":7,\"read_bytes\":0,\"written_bytes\":0";
            let times = format!("\"start_ms\":0,\"end_ms\":{end_ms}");
            format!("{{\"event\":\"finished\",\"job\":{job},{times},\"exit\":0,{usage}}}\n")
        };
        let head = "{\"event\":\"tanto\",\"format\":2,\"version\":\"1\",\"began_unix_ms\":0,\"dir\":\"/\",\"targets\":[],\
                    \"manifest\":false,\"parallelism\":2,\"processors\":2}\n";
        // Job 9 was up to date and has no event.
        let first = [started(4, "[]"), started(2, "[]"), finished(4, 300)].concat();
        let text = [head, &first, &started(7, "[4,9]"), &finished(2, 100), &finished(7, 50)].concat();
        let session = Session::parse(text.as_bytes()).expect("a sound session");
        let mut build = scenario(&session, String::new());
        assert_eq!(build.schedule.cost(JobId(0)), Cost { wall_ms: 300, cpu_ms: 1, memory_kib: 7 });
        build.schedule.prioritize(&build.chain, Order::Critical);
        let outcome = simulate::run(&mut build.schedule, 2);
        assert_eq!((outcome.makespan_ms, outcome.critical_path_ms, outcome.work_ms), (350, 350, 450));
    }
}
