//! Parses lines of events. Nothing in them is trusted.

use serde_json::{Map, Value};
use tanto_exec::event::Level;
use tanto_exec::job::report::{JobSample, ProcessInfo, Termination, TerminationReason};
use tanto_exec::job::{CacheOutcome, CacheUse, Cost, ExecutedBy, Exit, JobId, JobInfo, Usage};
use tanto_exec::schedule::ThrottleReason;
use tanto_sys::cgroup::StallTimes;

use super::{FORMAT, Finished, Head, Kept, Line, Place};
use crate::json;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong(pub String);

/// Longest time that is accepted, in milliseconds: thirty years. Sums of valid times do not overflow.
const LONGEST_MS: i64 = 1 << 40;

type Fields = Map<String, Value>;

/// Parses a line without its end. Skips unknown fields and events; known ones must be valid.
pub fn line(text: &[u8]) -> Result<Line, Wrong> {
    let fields = match serde_json::from_slice(text) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) => return Err(Wrong("no object".into())),
        Err(error) => return Err(Wrong(format!("no JSON: {error}"))),
    };
    let Some(Value::String(name)) = fields.get("event") else { return Err(Wrong("no \"event\"".into())) };
    Ok(match name.as_str() {
        "tanto" => Line::Head(head(&fields)?),
        name => event(name, &fields)?.map_or(Line::Unknown, Line::Event),
    })
}

fn head(fields: &Fields) -> Result<Head, Wrong> {
    let format = number(fields, "format", 0, i64::MAX)?;
    if !(1..=i64::from(FORMAT)).contains(&format) {
        return Err(Wrong(format!("format {format}; this Tanto reads 1 to {FORMAT}")));
    }
    Ok(Head {
        version: text(fields, "version")?,
        began_unix_ms: number(fields, "began_unix_ms", 0, 1 << 52)?,
        dir: text(fields, "dir")?,
        targets: texts(fields, "targets")?,
        manifest: mark(fields, "manifest")?,
        parallelism: small(fields, "parallelism")?,
        processors: small(fields, "processors")?,
    })
}

fn event(name: &str, fields: &Fields) -> Result<Option<Kept>, Wrong> {
    Ok(Some(match name {
        "planned" => Kept::Planned { job: job(fields)?, expected_ms: expected(fields)? },
        "unplanned" => Kept::Unplanned { job: job(fields)?, expected_ms: expected(fields)? },
        "build_started" => Kept::BuildStarted {
            at_ms: time(fields, "at_ms")?,
            downstream_ms: times(fields, renamed(fields, "downstream_ms", "behind_ms"))?,
        },
        "started" => Kept::Started { job: job(fields)?, info: info(fields)?, at_ms: time(fields, "at_ms")? },
        "nothing_to_run" | "grouped" => {
            Kept::NothingToRun { job: job(fields)?, info: info(fields)?, at_ms: time(fields, "at_ms")? }
        }
        "finished" => Kept::Finished(finished(fields)?),
        "skipped" => {
            let because = JobId(small(fields, "because")?);
            Kept::Skipped { job: job(fields)?, outputs: texts(fields, "outputs")?, because }
        }
        "stage" => Kept::Stage { job: job(fields)?, stage: text(fields, "stage")?, at_ms: time(fields, "at_ms")? },
        "state_counts" | "standing" => Kept::StateCounts { counts: counts(fields)?, at_ms: time(fields, "at_ms")? },
        "sampled" | "looked" => {
            Kept::Sampled { job: job(fields)?, at_ms: time(fields, "at_ms")?, sample: load(fields)? }
        }
        "terminated" | "stopped" => match why(fields)? {
            Some(why) => {
                let stopped =
                    Termination { reason: why, processes: processes(fields)?, killed: mark(fields, "killed")? };
                Kept::Terminated { job: job(fields)?, termination: stopped }
            }
            None => return Ok(None),
        },
        "left_behind" | "left" => {
            Kept::LeftBehind { job: job(fields)?, processes: processes(fields)?, killed: mark(fields, "killed")? }
        }
        "throttled" | "held" => match hold(fields)? {
            Some(why) => Kept::Throttled { reason: why, at_ms: time(fields, "at_ms")? },
            None => return Ok(None),
        },
        "build_finished" => Kept::BuildFinished { at_ms: time(fields, "at_ms")? },
        "notice" => match level(fields)? {
            Some(level) => Kept::Notice { level, text: text(fields, "text")? },
            None => return Ok(None),
        },
        _ => return Ok(None),
    }))
}

fn info(fields: &Fields) -> Result<JobInfo, Wrong> {
    Ok(JobInfo {
        command: text(fields, "command")?,
        description: text(fields, "description")?,
        outputs: texts(fields, "outputs")?,
        console: mark(fields, "console")?,
        why: texts(fields, "why")?,
        after: jobs(fields, "after")?,
    })
}

fn finished(fields: &Fields) -> Result<Finished, Wrong> {
    let cache = cache(fields)?;
    let is_hit = cache.as_ref().is_some_and(|cache| matches!(cache.outcome, CacheOutcome::Hit(_)));
    Ok(Finished {
        job: job(fields)?,
        start_ms: time(fields, "start_ms")?,
        end_ms: time(fields, "end_ms")?,
        exit: exit(fields)?,
        output: text(fields, "output")?,
        left_out: count(fields, "left_out")?,
        place: match count(fields, "output_length")? {
            0 => None,
            length => Some(Place { at: count(fields, "output_at")?, length }),
        },
        usage: Usage {
            user_us: count(fields, "user_us")?,
            system_us: count(fields, "system_us")?,
            max_rss_kib: count(fields, "max_rss_kib")?,
            read_bytes: count(fields, "read_bytes")?,
            written_bytes: count(fields, "written_bytes")?,
            waits: waits(fields)?,
        },
        executed_by: match (mark(fields, "in_process")?, mark(fields, "checkpoint")?) {
            (_, true) => ExecutedBy::Checkpoint,
            (true, false) => ExecutedBy::Fork,
            (false, false) if is_hit => ExecutedBy::Cache,
            (false, false) => ExecutedBy::Process,
        },
        cache,
    })
}

/// `None` if there was no action cache.
fn cache(fields: &Fields) -> Result<Option<CacheUse>, Wrong> {
    if !fields.contains_key("cache") {
        return Ok(None);
    }
    let small = |key| count(fields, key).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    let outcome = match &text(fields, "cache")?[..] {
        b"hit" => CacheOutcome::Hit(Cost {
            wall_ms: small("saved_ms")?,
            cpu_ms: small("saved_cpu_ms")?,
            memory_kib: small("saved_kib")?,
        }),
        b"new" => CacheOutcome::New,
        b"changed" => CacheOutcome::Changed,
        _ => CacheOutcome::NotCacheable,
    };
    let reason = String::from_utf8_lossy(&text(fields, "cache_reason")?).into_owned();
    Ok(Some(CacheUse { outcome, reason, depends_on_root: mark(fields, "depends_on_root")? }))
}

/// `None` if the command had no control group with pressure stall information.
fn waits(fields: &Fields) -> Result<Option<StallTimes>, Wrong> {
    let waits = fields
        .contains_key("io_wait_us")
        .then(|| Ok(StallTimes { io_us: count(fields, "io_wait_us")?, cpu_us: count(fields, "cpu_wait_us")? }));
    waits.transpose()
}

fn load(fields: &Fields) -> Result<JobSample, Wrong> {
    Ok(JobSample {
        processes: small(fields, "processes")?,
        cpu_ms: count(fields, "cpu_ms")?,
        memory_kib: count(fields, "memory_kib")?,
        files_kib: None,
    })
}

/// `None` for a reason of a newer version.
fn why(fields: &Fields) -> Result<Option<TerminationReason>, Wrong> {
    let after_ms = || time(fields, "after_ms");
    Ok(match text(fields, renamed(fields, "reason", "why"))?.as_slice() {
        b"hung" => Some(TerminationReason::Hung { after_ms: after_ms()? }),
        b"timeout" | b"too_long" => Some(TerminationReason::Timeout { after_ms: after_ms()? }),
        b"cpu_time" | b"cpu" => Some(TerminationReason::CpuTime { after_ms: after_ms()? }),
        b"memory" => {
            Some(TerminationReason::Memory { limit_kib: count(fields, renamed(fields, "limit_kib", "most_kib"))? })
        }
        b"output" | b"printed" => {
            Some(TerminationReason::Output { limit_bytes: count(fields, renamed(fields, "limit_bytes", "most"))? })
        }
        b"disk" => {
            Some(TerminationReason::Disk { limit_kib: count(fields, renamed(fields, "limit_kib", "most_kib"))? })
        }
        b"requested" | b"wanted" => Some(TerminationReason::Requested),
        _ => None,
    })
}

/// Sorted by name.
fn counts(fields: &Fields) -> Result<Vec<(Vec<u8>, u64)>, Wrong> {
    let Some(Value::Object(states)) = fields.get("counts") else { return Err(wrong("counts", "a number by state")) };
    states.keys().map(|state| Ok((json::bytes(state), count(states, state)?))).collect()
}

/// `None` for a reason of a newer version.
fn hold(fields: &Fields) -> Result<Option<Option<ThrottleReason>>, Wrong> {
    Ok(match text(fields, renamed(fields, "reason", "why"))?.as_slice() {
        b"" => Some(None),
        b"memory_pressure" => Some(Some(ThrottleReason::MemoryPressure)),
        b"cpu_pressure" => Some(Some(ThrottleReason::CpuPressure)),
        b"load_average" | b"load" => Some(Some(ThrottleReason::LoadAverage)),
        kind @ (b"memory" | b"disk") => {
            let (needs_kib, available_kib) =
                (count(fields, "needs_kib")?, count(fields, renamed(fields, "available_kib", "left_kib"))?);
            let job = job(fields)?;
            let is_memory = kind == b"memory";
            let disk = ThrottleReason::Disk { job, needs_kib, available_kib };
            Some(Some(if is_memory { ThrottleReason::Memory { job, needs_kib, available_kib } } else { disk }))
        }
        _ => None,
    })
}

fn processes(fields: &Fields) -> Result<Vec<ProcessInfo>, Wrong> {
    let one = |item: &Value| {
        let fields = item.as_object().ok_or_else(|| wrong("processes", "a list of processes"))?;
        Ok(ProcessInfo {
            pid: small(fields, "pid")?,
            depth: small(fields, "depth")?,
            state: text(fields, "state")?.first().copied().unwrap_or(b'?'),
            cpu_ms: count(fields, "cpu_ms")?,
            memory_kib: count(fields, "memory_kib")?,
            command: text(fields, "command")?,
            directory: fields.contains_key("dir").then(|| text(fields, "dir")).transpose()?,
        })
    };
    items(fields, "processes")?.iter().map(one).collect()
}

fn exit(fields: &Fields) -> Result<Exit, Wrong> {
    let byte = |key| number(fields, key, 0, 255).map(|number| number as i32);
    Ok(match (fields.contains_key("signal"), mark(fields, "core")?) {
        (false, _) => Exit::Code(byte("exit")?),
        (true, false) => Exit::Signal(byte("signal")?),
        (true, true) => Exit::Dumped(byte("signal")?),
    })
}

/// `None` for a level of a newer version.
fn level(fields: &Fields) -> Result<Option<Level>, Wrong> {
    Ok(match text(fields, "level")?.as_slice() {
        b"info" => Some(Level::Info),
        b"warning" => Some(Level::Warning),
        b"error" => Some(Level::Error),
        b"explain" => Some(Level::Explain),
        _ => None,
    })
}

/// Returns the name of a field, which is the old one in format 1.
fn renamed<'n>(fields: &Fields, new: &'n str, old: &'n str) -> &'n str {
    if fields.contains_key(old) { old } else { new }
}

fn wrong(key: &str, expected: &str) -> Wrong {
    Wrong(format!("\"{key}\" is not {expected}"))
}

/// A missing field is empty.
fn text(fields: &Fields, key: &str) -> Result<Vec<u8>, Wrong> {
    match fields.get(key) {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(json::bytes(text)),
        Some(_) => Err(wrong(key, "text")),
    }
}

fn items<'f>(fields: &'f Fields, key: &str) -> Result<&'f [Value], Wrong> {
    match fields.get(key) {
        None => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(wrong(key, "a list")),
    }
}

fn texts(fields: &Fields, key: &str) -> Result<Vec<Vec<u8>>, Wrong> {
    let one = |item: &Value| item.as_str().map(json::bytes).ok_or_else(|| wrong(key, "a list of strings"));
    items(fields, key)?.iter().map(one).collect()
}

fn jobs(fields: &Fields, key: &str) -> Result<Vec<JobId>, Wrong> {
    let one = |item: &Value| item.as_u64().and_then(|number| u32::try_from(number).ok()).map(JobId);
    items(fields, key)?.iter().map(|item| one(item).ok_or_else(|| wrong(key, "a list of jobs"))).collect()
}

fn mark(fields: &Fields, key: &str) -> Result<bool, Wrong> {
    match fields.get(key) {
        None => Ok(false),
        Some(value) => value.as_bool().ok_or_else(|| wrong(key, "true or false")),
    }
}

fn number(fields: &Fields, key: &str, least: i64, most: i64) -> Result<i64, Wrong> {
    let number = fields.get(key).and_then(Value::as_i64).filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| wrong(key, &format!("a number from {least} to {most}")))
}

/// A missing field is 0.
fn count(fields: &Fields, key: &str) -> Result<u64, Wrong> {
    match fields.get(key) {
        None => Ok(0),
        Some(value) => value.as_u64().ok_or_else(|| wrong(key, "a number")),
    }
}

fn small(fields: &Fields, key: &str) -> Result<u32, Wrong> {
    number(fields, key, 0, u32::MAX.into()).map(|number| number as u32)
}

fn job(fields: &Fields) -> Result<JobId, Wrong> {
    small(fields, "job").map(JobId)
}

fn time(fields: &Fields, key: &str) -> Result<i64, Wrong> {
    number(fields, key, -LONGEST_MS, LONGEST_MS)
}

/// A missing field is an empty list.
fn times(fields: &Fields, key: &str) -> Result<Vec<u64>, Wrong> {
    let one = |item: &Value| item.as_u64().filter(|&ms| ms <= LONGEST_MS.unsigned_abs());
    items(fields, key)?.iter().map(|item| one(item).ok_or_else(|| wrong(key, "a list of times"))).collect()
}

fn expected(fields: &Fields) -> Result<Option<i64>, Wrong> {
    fields.contains_key("expected_ms").then(|| time(fields, "expected_ms")).transpose()
}
