//! Tests of admission control with made-up resource samples.

use super::*;

const GIB: u64 = 1 << 20;

fn admission(memory_gib: Option<u64>) -> AdmissionControl {
    AdmissionControl::new(AdmissionLimits { memory_kib: memory_gib.map(|gib| gib * GIB), slots: 8 })
}

/// Jobs 0, 1, ... that need so many GiB each.
fn candidates(gib: &[u64]) -> impl Iterator<Item = Candidate> {
    (0..).map(JobId).zip(gib).map(|(job, gib)| Candidate { job, needs_kib: Some(gib * GIB), disk_kib: 0 })
}

fn run(admission: &mut AdmissionControl, job: u32, gib: u64) {
    admission.started(JobId(job), gib * GIB, 0);
}

#[test]
fn one_job_may_always_run() {
    let mut it = admission(Some(1));
    it.update_resources(ResourceSample {
        memory_some: 90.0,
        memory_full: 80.0,
        cpu_some: 100.0,
        ..ResourceSample::default()
    });
    assert_eq!(it.choose(candidates(&[7])), Some(JobId(0)));
    run(&mut it, 9, 0);
    assert_eq!(it.choose(candidates(&[0])), None);
    assert_eq!(it.throttled, Some(ThrottleReason::MemoryPressure));
}

#[test]
fn jobs_start_within_the_memory_limit() {
    let mut it = admission(Some(8));
    run(&mut it, 9, 5);
    assert_eq!(it.choose(candidates(&[4, 3])), Some(JobId(1)));
    assert_eq!(it.choose(candidates(&[4])), None);
    assert_eq!(
        it.throttled,
        Some(ThrottleReason::Memory { job: JobId(0), needs_kib: 4 * GIB, available_kib: 3 * GIB })
    );
    it.ended(JobId(9));
    assert_eq!(it.choose(candidates(&[4])), Some(JobId(0)));
    assert_eq!(it.throttled, None);
}

#[test]
fn growth_of_running_jobs_is_reserved() {
    let mut it = admission(None);
    run(&mut it, 9, 6);
    assert_eq!(it.choose(candidates(&[90])), Some(JobId(0)), "free resources are unknown");
    it.update_resources(ResourceSample { free_kib: Some(8 * GIB), ..ResourceSample::default() });
    assert_eq!(it.choose(candidates(&[3])), None);
    it.update_memory(JobId(9), 5 * GIB);
    assert_eq!(it.choose(candidates(&[3])), Some(JobId(0)), "5 of the expected 6 GiB are already in use");
    it.update_memory(JobId(9), 7 * GIB);
    assert_eq!(it.choose(candidates(&[8])), Some(JobId(0)));
}

#[test]
fn unknown_needs_wait_only_while_memory_is_exceeded() {
    let mut it = admission(Some(4));
    run(&mut it, 9, 4);
    assert_eq!(it.choose(candidates(&[0])), Some(JobId(0)));
    it.update_memory(JobId(9), 5 * GIB);
    assert_eq!(it.choose(candidates(&[0])), None);
}

#[test]
fn phony_jobs_need_no_memory() {
    let mut it = admission(Some(1));
    run(&mut it, 9, 1);
    it.update_resources(ResourceSample { memory_some: 90.0, ..ResourceSample::default() });
    let group = Candidate { job: JobId(5), needs_kib: None, disk_kib: 0 };
    assert_eq!(it.choose(candidates(&[2]).chain([group])), Some(JobId(5)));
}

#[test]
fn jobs_are_passed_over_a_limited_number_of_times() {
    let mut it = admission(Some(8));
    run(&mut it, 9, 5);
    for _ in 0..MAX_TIMES_PASSED_OVER {
        assert_eq!(it.choose(candidates(&[4, 1])), Some(JobId(1)));
    }
    assert_eq!(it.choose(candidates(&[4, 1])), None, "it blocks others now");
    let urgent = Candidate { job: JobId(7), needs_kib: Some(0), disk_kib: 0 };
    assert_eq!(it.choose([urgent].into_iter().chain(candidates(&[4]))), None, "it blocks more urgent jobs too");
    it.ended(JobId(9));
    assert_eq!(it.choose([urgent].into_iter().chain(candidates(&[4]))), Some(JobId(0)));
    it.dequeued(JobId(0));
    assert_eq!(it.choose([urgent].into_iter()), Some(JobId(7)));
}

#[test]
fn a_dequeued_job_does_not_block_others() {
    let mut it = admission(Some(8));
    run(&mut it, 9, 5);
    let starts = (0..MAX_TIMES_PASSED_OVER).filter_map(|_| it.choose(candidates(&[4, 1])));
    assert_eq!(starts.count(), MAX_TIMES_PASSED_OVER as usize);
    it.dequeued(JobId(0));
    assert_eq!(it.choose(candidates(&[9, 1]).skip(1)), Some(JobId(1)));
}

#[test]
fn pressure_has_hysteresis() {
    let mut it = admission(None);
    run(&mut it, 9, 0);
    let mut starts = |memory_some, memory_full| {
        it.update_resources(ResourceSample { memory_some, memory_full, ..ResourceSample::default() });
        it.choose(candidates(&[0])).is_some()
    };
    assert_eq!([starts(19.0, 0.0), starts(20.0, 0.0), starts(6.0, 0.0), starts(4.0, 0.0)], [true, false, false, true]);
    assert_eq!([starts(10.0, 9.0), starts(10.0, 10.0), starts(4.0, 3.0), starts(4.0, 2.0)], [true, false, false, true]);
}

#[test]
fn cpu_pressure_leaves_two_slots() {
    let mut it = AdmissionControl::new(AdmissionLimits { memory_kib: None, slots: 2 });
    it.update_resources(ResourceSample { cpu_some: 100.0, ..ResourceSample::default() });
    run(&mut it, 9, 0);
    assert_eq!(it.choose(candidates(&[0])), Some(JobId(0)));
}

#[test]
fn cpu_pressure_leaves_half_of_the_slots() {
    let mut it = admission(None);
    it.update_resources(ResourceSample { cpu_some: 96.0, ..ResourceSample::default() });
    for job in 0..4 {
        assert_eq!(it.choose(candidates(&[0])), Some(JobId(0)), "{job} run");
        run(&mut it, 10 + job, 0);
    }
    assert_eq!(it.choose(candidates(&[0])), None);
    assert_eq!(it.throttled, Some(ThrottleReason::CpuPressure));
    it.update_resources(ResourceSample { cpu_some: 85.0, ..ResourceSample::default() });
    assert_eq!(it.choose(candidates(&[0])), None);
    it.update_resources(ResourceSample { cpu_some: 70.0, ..ResourceSample::default() });
    assert_eq!(it.choose(candidates(&[0])), Some(JobId(0)));
}

#[test]
fn jobs_start_within_free_disk_space() {
    let mut it = admission(None);
    let candidate = |job, gib: u64| Candidate { job: JobId(job), needs_kib: Some(0), disk_kib: gib * GIB };
    it.started(JobId(9), 0, 3 * GIB);
    assert_eq!(it.choose([candidate(0, 90)].into_iter()), Some(JobId(0)), "free resources are unknown");
    it.update_resources(ResourceSample { free_disk_kib: Some(8 * GIB), ..ResourceSample::default() });
    assert_eq!(it.choose([candidate(0, 6), candidate(1, 5)].into_iter()), Some(JobId(1)));
    assert_eq!(it.choose([candidate(0, 6)].into_iter()), None);
    assert_eq!(it.throttled, Some(ThrottleReason::Disk { job: JobId(0), needs_kib: 6 * GIB, available_kib: 5 * GIB }));
    it.update_resources(ResourceSample { free_disk_kib: Some(GIB), ..ResourceSample::default() });
    assert_eq!(it.choose([candidate(0, 0)].into_iter()), Some(JobId(0)), "its disk use is unknown");
    it.update_resources(ResourceSample { free_disk_kib: Some(8 * GIB), ..ResourceSample::default() });
    it.update_expected(JobId(9), 0, 2 * GIB);
    assert_eq!(it.choose([candidate(0, 6)].into_iter()), Some(JobId(0)), "it will write less");
    it.update_resources(ResourceSample { free_disk_kib: Some(GIB), ..ResourceSample::default() });
    it.ended(JobId(9));
    it.update_expected(JobId(9), 0, 2 * GIB);
    assert_eq!(it.choose([candidate(0, 6)].into_iter()), Some(JobId(0)), "one may always run");
}
