//! The monitor on made-up jobs and a made-up clock.

use super::*;
use tanto_testing::{Random, seeds};

const JOB: JobId = JobId(3);
const HANG: i64 = 60_000;

fn limits() -> ResourceLimits {
    ResourceLimits { hang_ms: Some(HANG), ..ResourceLimits::NONE }
}

fn process(number: u64) -> ProcessId {
    ProcessId::parse(format!("{}.{}", 1 + number % 1000, number).as_bytes()).unwrap()
}

/// A job whose processes are active at given times.
#[derive(Default)]
struct Job {
    sample: Sample,
    /// In ascending order.
    acts: Vec<i64>,
    /// Number of past actions.
    done: usize,
    /// CPU time of a waiting program, in millionths of the elapsed time.
    idle_per_million: u64,
}

impl Job {
    /// Simulates the time up to `now_ms`.
    fn live(&mut self, now_ms: i64, random: &mut Random, monitor: &mut Monitor) {
        while let Some(&at) = self.acts.get(self.done).filter(|&&at| at <= now_ms) {
            self.done += 1;
            match random.below(5) {
                0 => self.sample.processes.push(process(2000 + at.unsigned_abs())),
                1 if self.sample.processes.len() > 1 => {
                    self.sample.processes.pop();
                    self.sample.waited += 200;
                }
                2 => self.sample.cpu_us += 20_000,
                3 => self.sample.written += 1,
                _ => monitor.record_output(JOB),
            }
        }
    }

    fn process_infos(&self, now_ms: i64) -> Sample {
        let waiting_us = now_ms.unsigned_abs() * self.idle_per_million / 1000;
        Sample { cpu_us: self.sample.cpu_us + waiting_us, ..self.sample.clone() }
    }
}

/// Answers samples until another action is due, or `until` is reached; returns the action and its time.
fn run(monitor: &mut Monitor, job: &mut Job, random: &mut Random, until: i64) -> Option<(Action, i64)> {
    while let Some(now_ms) = monitor.due_ms().filter(|&due| due <= until) {
        job.live(now_ms, random, monitor);
        while let Some(action) = monitor.next(now_ms) {
            let more = match action {
                Action::Sample(id) => monitor.record_sample(id, now_ms, job.process_infos(now_ms)),
                action => Some(action),
            };
            if let Some(action) = more {
                return Some((action, now_ms));
            }
        }
        assert!(monitor.due_ms().is_none_or(|due| due > now_ms), "no action is due now");
    }
    None
}

#[test]
fn idle_jobs_hang_and_active_ones_do_not() {
    for seed in seeds(300) {
        let mut random = Random::new(seed);
        let mut at = 0;
        let mut acts = Vec::new();
        while random.chance(95) {
            at += random.below(HANG as usize * 5 / 4) as i64;
            acts.push(at);
        }
        let idle_per_million = random.below(1500) as u64;
        let mut job = Job { acts: acts.clone(), idle_per_million, ..Job::default() };
        job.sample.processes.push(process(1));
        let mut monitor = Monitor::new();
        monitor.started(JOB, limits(), 0);
        let (action, when) = run(&mut monitor, &mut job, &mut random, i64::MAX).expect("it hangs eventually");
        assert_eq!(action, Action::Terminate(JOB, TerminationReason::Hung { after_ms: HANG }), "seed {seed}");
        let last = acts.iter().copied().filter(|&action| action <= when).max().unwrap_or(0);
        assert!(when - last >= HANG, "seed {seed}: ended at {when}, active at {last}");
        assert!(when - last <= HANG + MAX_INTERVAL_MS, "seed {seed}: ended at {when}, active at {last}");
    }
}

#[test]
fn a_short_job_is_never_sampled() {
    let mut monitor = Monitor::new();
    monitor.started(JOB, limits(), 50);
    assert_eq!(monitor.due_ms(), Some(150));
    assert_eq!(monitor.next(149), None);
    monitor.ended(JOB);
    assert_eq!(monitor.due_ms(), None);
    assert_eq!(monitor.next(1 << 40), None);
}

#[test]
fn sampling_intervals_grow() {
    let mut monitor = Monitor::new();
    monitor.started(JOB, ResourceLimits { hang_ms: None, sample: true, ..limits() }, 0);
    let mut looks = Vec::new();
    while let Some(now_ms) = monitor.due_ms().filter(|&due| due < 20_000) {
        assert_eq!(monitor.next(now_ms), Some(Action::Sample(JOB)));
        assert_eq!(monitor.record_sample(JOB, now_ms, Sample::default()), None);
        looks.push(now_ms);
    }
    assert_eq!(looks, [100, 200, 400, 800, 1600, 3200, 6400, 11_400, 16_400]);
}

#[test]
fn an_unanswered_sample_is_not_repeated_at_once() {
    let mut monitor = Monitor::new();
    monitor.started(JOB, limits(), 0);
    assert_eq!(monitor.next(100), Some(Action::Sample(JOB)));
    assert_eq!(monitor.next(100), None);
    assert_eq!(monitor.due_ms(), Some(101));
}

#[test]
fn without_limits_nothing_is_ever_due() {
    let mut monitor = Monitor::new();
    monitor.started(JOB, ResourceLimits { grace_ms: 1, ..ResourceLimits::NONE }, 0);
    assert_eq!(monitor.due_ms(), None);
}

#[test]
fn termination_escalates_in_steps() {
    let mut monitor = Monitor::new();
    monitor.started(JOB, ResourceLimits { hang_ms: None, total_ms: Some(1000), ..limits() }, 5);
    assert_eq!(monitor.next(1004), None);
    assert_eq!(monitor.next(1005), Some(Action::Terminate(JOB, TerminationReason::Timeout { after_ms: 1000 })));
    assert_eq!(monitor.record_sample(JOB, 1006, Sample::default()), None, "it is being terminated already");
    assert_eq!((monitor.next(1006), monitor.due_ms()), (None, Some(11_005)));
    assert_eq!(monitor.next(11_005), Some(Action::Kill(JOB)));
    assert_eq!((monitor.next(21_004), monitor.next(21_005)), (None, Some(Action::Abandon(JOB))));
    assert_eq!((monitor.next(1 << 40), monitor.due_ms()), (None, None));
    monitor.ended(JOB);
}

#[test]
fn suspended_time_does_not_count_as_a_hang() {
    let mut monitor = Monitor::new();
    let (mut job, mut random) = (Job::default(), Random::new(1));
    monitor.started(JOB, limits(), 0);
    assert_eq!(run(&mut monitor, &mut job, &mut random, HANG / 2), None);
    // Tanto and the job are stopped for a day.
    let day = 86_400_000;
    assert_eq!(monitor.next(day), Some(Action::Sample(JOB)));
    assert_eq!(monitor.record_sample(JOB, day, job.process_infos(day)), None);
    let (_, when) = run(&mut monitor, &mut job, &mut random, 2 * day).unwrap();
    assert!(when > day + HANG / 4 && when < day + HANG, "{when}");
}

#[test]
fn jobs_are_sampled_independently() {
    let mut monitor = Monitor::new();
    for number in 0..50 {
        monitor.started(JobId(number), limits(), i64::from(number));
    }
    let mut process_infos = Vec::new();
    while let Some(Action::Sample(job)) = monitor.next(149) {
        process_infos.push(job.0);
        monitor.record_sample(job, 149, Sample::default());
    }
    assert_eq!(process_infos, (0..50).collect::<Vec<_>>());
    (0..50).for_each(|number| monitor.ended(JobId(number)));
    assert_eq!(monitor.due_ms(), None);
}

#[test]
fn short_hang_limits_shorten_the_interval() {
    let mut monitor = Monitor::new();
    monitor.started(JOB, ResourceLimits { hang_ms: Some(40), ..limits() }, 0);
    let (action, when) = run(&mut monitor, &mut Job::default(), &mut Random::new(1), 1000).unwrap();
    assert_eq!(action, Action::Terminate(JOB, TerminationReason::Hung { after_ms: 40 }));
    assert!((40..=60).contains(&when), "{when}");
}

#[test]
fn jobs_over_their_limits_are_terminated() {
    let all = ResourceLimits { cpu_ms: Some(2000), memory_kib: Some(100), disk_kib: Some(50), ..ResourceLimits::NONE };
    let (total_cpu_us, memory_kib, disk_kib) = (1_999_999, 100, 50);
    let most = Sample { total_cpu_us, memory_kib, disk_kib, ..Sample::default() };
    let record_sample = |limits, sample| {
        let mut monitor = Monitor::new();
        monitor.started(JOB, limits, 0);
        assert_eq!(monitor.next(100), Some(Action::Sample(JOB)));
        let action = monitor.record_sample(JOB, 100, sample);
        (action, monitor.due_ms(), monitor.next(100))
    };
    assert_eq!(record_sample(all, most.clone()).0, None);
    let ends = |why: TerminationReason| (Some(Action::Terminate(JOB, why)), Some(100), Some(Action::Kill(JOB)));
    let memory = TerminationReason::Memory { limit_kib: 100 };
    assert_eq!(record_sample(all, Sample { memory_kib: 101, ..most.clone() }), ends(memory));
    assert_eq!(
        record_sample(all, Sample { exceeded_memory_limit: true, ..most.clone() }),
        ends(memory),
        "the kernel was there before"
    );
    assert_eq!(
        record_sample(all, Sample { disk_kib: 51, ..most.clone() }),
        ends(TerminationReason::Disk { limit_kib: 50 })
    );
    let slow = (Some(Action::Terminate(JOB, TerminationReason::CpuTime { after_ms: 2000 })), Some(10_100), None);
    assert_eq!(record_sample(all, Sample { total_cpu_us: 2_000_000, ..most.clone() }), slow, "it may end by itself");
    let whatever = Sample { total_cpu_us: u64::MAX, memory_kib: u64::MAX, disk_kib: u64::MAX, ..most };
    assert_eq!(record_sample(ResourceLimits { sample: true, ..ResourceLimits::NONE }, whatever).0, None);
}

#[test]
fn memory_limits_shorten_the_interval() {
    let looks = |limits: ResourceLimits| {
        let mut monitor = Monitor::new();
        monitor.started(JOB, limits, 0);
        let mut count = 0;
        while let Some(now_ms) = monitor.due_ms().filter(|&due| due <= 60_000) {
            assert_eq!(monitor.next(now_ms), Some(Action::Sample(JOB)));
            assert_eq!(monitor.record_sample(JOB, now_ms, Sample::default()), None);
            count += 1;
        }
        count
    };
    let (memory, disk) = (
        ResourceLimits { memory_kib: Some(1), ..ResourceLimits::NONE },
        ResourceLimits { disk_kib: Some(1), ..ResourceLimits::NONE },
    );
    assert!(looks(memory) >= 240 && (60..70).contains(&looks(disk)));
    assert_eq!(
        looks(ResourceLimits { output_bytes: Some(1), ..ResourceLimits::NONE }),
        0,
        "what is printed is counted when it comes"
    );
}
