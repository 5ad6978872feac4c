//! Tests of `tanto simulate`.

use tanto_exec::job::{Cost, JobId};
use tanto_exec::schedule::{JobSpec, Kind, PoolId, Schedule};

use super::*;
use crate::command_line::tests::parse;

fn args(text: &str) -> SimulateArgs {
    parse(text).expect("sound")
}

/// Commands that take so many seconds and hold so many MiB, and each waits for these.
fn build(jobs: &[(u32, u32, &[u32])]) -> Scenario {
    let mut schedule = Schedule::new();
    for (order, &(seconds, mib, needs)) in (0..).zip(jobs) {
        let job = schedule.add(JobSpec { pool: PoolId::UNLIMITED, order, kind: Kind::Command, wanted: true });
        schedule.set_cost(job, Cost { wall_ms: seconds * 1000, cpu_ms: 0, memory_kib: mib << 10 });
        needs.iter().for_each(|&on| schedule.add_dependency(job, JobId(on), 0));
    }
    let chain = (0..jobs.len() as u32).map(JobId).collect();
    Scenario { schedule, chain, about: "a build".to_owned() }
}

#[test]
fn command_line_is_parsed() {
    let all = args("-C dir -f x.ninja -j4,8 --memory 2G --order fifo a b");
    assert_eq!((all.dir, all.manifest), (Some("dir".into()), "x.ninja".into()));
    assert_eq!(all.jobs, Some(SlotCounts(vec![4, 8])));
    assert_eq!((all.memory, all.order), (Memory::AtMost(2 << 20), SimulatedOrder::Fifo));
    assert_eq!(all.targets, ["a", "b"]);
    let none = args("");
    assert_eq!(usual_slots(3), [1, 2, 3, 4, 8, 16, 32, 64]);
    assert_eq!((none.jobs, none.memory, none.order), (None, Memory::Off, SimulatedOrder::Auto));
    for wrong in ["-j 0", "-j x", "-j 4,", "--memory auto", "--memory 4", "--order best", "--session 1 all", "-x"] {
        assert!(parse::<SimulateArgs>(wrong).is_err(), "{wrong}");
    }
}

/// The long command stands last: in the order of the manifest it begins late.
const LATE: &[(u32, u32, &[u32])] = &[(2, 0, &[]), (2, 0, &[]), (2, 0, &[]), (3, 0, &[]), (3, 0, &[4 - 1])];

#[test]
fn makespan_depends_on_the_order() {
    let table = report(&build(LATE), &args("-j 1,2"));
    let expected = "a build; 12.0 s of work, the longest chain takes 6.00 s\n\n\
                    -j  makespan   bound  ratio  idle  in ninja's order\n \
                    1    12.0 s  12.0 s  1.000   0.0            12.0 s\n \
                    2    6.00 s  6.00 s  1.000   0.0            7.00 s\n\n\
                    bound: the longest chain, all work on all slots, or a pool's; idle: slots without a command, on \
                    average\n";
    assert_eq!(table, expected);
    let fifo = report(&build(LATE), &args("-j2 --order fifo"));
    assert!(fifo.contains("\n 2    8.00 s  6.00 s  1.333   0.5            7.00 s\n"), "{fifo}");
    assert!(!report(&build(LATE), &args("-j2 --order ninja")).contains("in ninja's order"));
}

#[test]
fn memory_limits_parallelism() {
    let heavy = build(&[(2, 600, &[]), (2, 600, &[]), (1, 0, &[])]);
    assert!(report(&heavy, &args("-j3 --memory 1000M")).contains("4.00 s"));
    assert!(report(&heavy, &args("-j3")).contains(" 2.00 s  2.00 s  1.000"));
}
