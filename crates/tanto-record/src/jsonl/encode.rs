//! Formats events as lines.

use tanto_exec::event::{Event, Level};
use tanto_exec::job::report::{ProcessInfo, Termination, TerminationReason};
use tanto_exec::job::{ExecutedBy, Exit, JobId, JobInfo, Usage};
use tanto_exec::schedule::ThrottleReason;

use super::{FORMAT, Head, Place};
use crate::json::{Object, list};

#[derive(Clone, Copy, Debug)]
pub struct Encoder {
    /// Longer output is truncated, in bytes.
    pub most_output: usize,
    /// Leaves out outputs, commands, descriptions, reasons and printed output.
    pub brief: bool,
}

impl Encoder {
    /// Truncates only very long output: a line must fit into a reader's memory.
    pub const WHOLE: Encoder = Encoder { most_output: 16 << 20, brief: false };

    /// Appends the first line of a stream.
    pub fn head(self, out: &mut Vec<u8>, head: &Head) {
        let mut object = begin(out, "tanto");
        object.number("format", FORMAT);
        object.text("version", &head.version);
        object.number("began_unix_ms", head.began_unix_ms);
        object.text("dir", &head.dir);
        object.texts("targets", &head.targets);
        object.mark("manifest", head.manifest);
        object.number("parallelism", head.parallelism);
        object.number("processors", head.processors);
        object.end_line();
    }

    /// Appends the line of an event. A tick has none.
    pub fn event(self, out: &mut Vec<u8>, event: &Event<'_>) {
        match *event {
            Event::Planned { job, expected_ms } => planned(out, "planned", job, expected_ms),
            Event::Unplanned { job, expected_ms } => planned(out, "unplanned", job, expected_ms),
            Event::BuildStarted { at_ms, downstream_ms } => {
                let mut object = begin(out, "build_started");
                object.number("at_ms", at_ms);
                if downstream_ms.iter().any(|&ms| ms > 0) {
                    object.numbers("downstream_ms", downstream_ms.iter().copied());
                }
                object.end_line();
            }
            Event::Started { job, info, at_ms } => {
                let mut object = timed(out, "started", job, at_ms);
                self.info(&mut object, info);
                object.end_line();
            }
            Event::NothingToRun { job, info, at_ms } => {
                let mut object = timed(out, "nothing_to_run", job, at_ms);
                self.info(&mut object, info);
                object.end_line();
            }
            Event::Finished { job, start_ms, end_ms, exit, output, usage, executed_by, .. } => {
                let mut object = of_job(out, "finished", job);
                object.number("start_ms", start_ms);
                object.number("end_ms", end_ms);
                how(&mut object, exit);
                used(&mut object, usage, executed_by);
                self.output(&mut object, output);
                object.end_line();
            }
            Event::Skipped { job, outputs, because } => {
                let mut object = of_job(out, "skipped", job);
                object.number("because", because.0);
                if !self.brief {
                    object.texts("outputs", outputs);
                }
                object.end_line();
            }
            Event::Stage { job, stage, at_ms } => {
                let mut object = timed(out, "stage", job, at_ms);
                object.text("stage", stage.as_bytes());
                object.end_line();
            }
            Event::StateCounts { counts, at_ms } => standing(out, counts, at_ms),
            Event::Sampled { job, at_ms, sample } => {
                let mut object = timed(out, "sampled", job, at_ms);
                object.number("processes", sample.processes);
                object.number("cpu_ms", sample.cpu_ms);
                object.number("memory_kib", sample.memory_kib);
                object.end_line();
            }
            Event::Terminated { job, termination, .. } => self.stopped(out, job, termination),
            Event::LeftBehind { job, processes: left, killed, .. } => {
                let mut object = of_job(out, "left_behind", job);
                object.mark("killed", killed);
                self.processes(&mut object, left);
                object.end_line();
            }
            Event::Throttled { reason: why, at_ms } => held(out, why, at_ms),
            Event::BuildFinished { at_ms } => moment(out, "build_finished", at_ms),
            Event::Notice { level, text } => {
                let mut object = begin(out, "notice");
                object.text("level", level_name(level).as_bytes());
                object.text("text", text);
                object.end_line();
            }
            Event::Tick { .. } | Event::Printed { .. } => {}
        }
    }

    fn stopped(self, out: &mut Vec<u8>, job: JobId, termination: &Termination) {
        let mut object = of_job(out, "terminated", job);
        stop(&mut object, termination);
        self.processes(&mut object, &termination.processes);
        object.end_line();
    }

    fn processes(self, object: &mut Object<'_>, processes: &[ProcessInfo]) {
        list(object.field("processes"), processes, |out, seen| {
            let mut object = Object::new(out);
            object.number("pid", seen.pid);
            object.number("depth", seen.depth);
            object.text("state", &[seen.state]);
            object.number("cpu_ms", seen.cpu_ms);
            object.number("memory_kib", seen.memory_kib);
            if !self.brief {
                object.text("command", &seen.command);
                if let Some(dir) = &seen.directory {
                    object.text("dir", dir);
                }
            }
            object.end();
        });
    }

    /// Empty fields are left out.
    fn info(self, object: &mut Object<'_>, info: &JobInfo) {
        let text = |object: &mut Object<'_>, key, text: &[u8]| match text {
            b"" => {}
            text => object.text(key, text),
        };
        if !self.brief {
            text(object, "description", &info.description);
            if !info.outputs.is_empty() {
                object.texts("outputs", &info.outputs);
            }
            text(object, "command", &info.command);
            if !info.why.is_empty() {
                object.texts("why", &info.why);
            }
        }
        object.mark("console", info.console);
        if !info.after.is_empty() {
            object.numbers("after", info.after.iter().map(|job| job.0));
        }
    }

    /// Appends the end of a command whose long output is at `place`.
    pub fn finished(self, out: &mut Vec<u8>, event: &Event<'_>, place: Place) {
        self.event(out, event);
        // Reopens the line to append two fields.
        out.truncate(out.len() - b"}\n".len());
        out.extend_from_slice(format!(",\"output_at\":{},\"output_length\":{}}}\n", place.at, place.length).as_bytes());
    }

    fn output(self, object: &mut Object<'_>, output: &[u8]) {
        let most = if self.brief { 0 } else { self.most_output };
        let left_out = output.len().saturating_sub(most);
        if left_out > 0 {
            let head = most / 2;
            object.number("left_out", left_out as u64);
            object.text("output", &[&output[..head], &output[head + left_out..]].concat());
        } else if !output.is_empty() {
            object.text("output", output);
        }
    }
}

fn begin<'o>(out: &'o mut Vec<u8>, name: &str) -> Object<'o> {
    let mut object = Object::new(out);
    object.text("event", name.as_bytes());
    object
}

fn of_job<'o>(out: &'o mut Vec<u8>, name: &str, job: JobId) -> Object<'o> {
    let mut object = begin(out, name);
    object.number("job", job.0);
    object
}

fn timed<'o>(out: &'o mut Vec<u8>, name: &str, job: JobId, at_ms: i64) -> Object<'o> {
    let mut object = of_job(out, name, job);
    object.number("at_ms", at_ms);
    object
}

fn planned(out: &mut Vec<u8>, name: &str, job: JobId, expected_ms: Option<i64>) {
    let mut object = of_job(out, name, job);
    if let Some(ms) = expected_ms {
        object.number("expected_ms", ms);
    }
    object.end_line();
}

fn moment(out: &mut Vec<u8>, name: &str, at_ms: i64) {
    let mut object = begin(out, name);
    object.number("at_ms", at_ms);
    object.end_line();
}

fn held(out: &mut Vec<u8>, why: Option<ThrottleReason>, at_ms: i64) {
    let mut object = begin(out, "throttled");
    object.number("at_ms", at_ms);
    if let Some(why) = why {
        hold(&mut object, why);
    }
    object.end_line();
}

/// States without jobs are left out.
fn standing(out: &mut Vec<u8>, counts: &[(&str, usize)], at_ms: i64) {
    let mut object = begin(out, "state_counts");
    object.number("at_ms", at_ms);
    let mut states = Object::new(object.field("counts"));
    for (state, count) in counts.iter().filter(|(_, count)| *count > 0) {
        states.number(state, *count as u64);
    }
    states.end();
    object.end_line();
}

pub(crate) fn hold(object: &mut Object<'_>, why: ThrottleReason) {
    match why {
        ThrottleReason::MemoryPressure => object.text("reason", b"memory_pressure"),
        ThrottleReason::CpuPressure => object.text("reason", b"cpu_pressure"),
        ThrottleReason::LoadAverage => object.text("reason", b"load_average"),
        ThrottleReason::Memory { job, needs_kib, available_kib }
        | ThrottleReason::Disk { job, needs_kib, available_kib } => {
            object.text("reason", if matches!(why, ThrottleReason::Disk { .. }) { &b"disk"[..] } else { b"memory" });
            object.number("job", job.0);
            object.number("needs_kib", needs_kib);
            object.number("available_kib", available_kib);
        }
    }
}

pub(crate) fn stop(object: &mut Object<'_>, termination: &Termination) {
    let mut tell = |why: &str, number: Option<(&str, i128)>| {
        object.text("reason", why.as_bytes());
        if let Some((name, number)) = number {
            object.number(name, number);
        }
    };
    let after = |after_ms: i64| Some(("after_ms", i128::from(after_ms)));
    let limit_kib = |limit_kib: u64| Some(("limit_kib", i128::from(limit_kib)));
    match termination.reason {
        TerminationReason::Hung { after_ms } => tell("hung", after(after_ms)),
        TerminationReason::Timeout { after_ms } => tell("timeout", after(after_ms)),
        TerminationReason::CpuTime { after_ms } => tell("cpu_time", after(after_ms)),
        TerminationReason::Memory { limit_kib: kib } => tell("memory", limit_kib(kib)),
        TerminationReason::Output { limit_bytes: most } => tell("output", Some(("limit_bytes", i128::from(most)))),
        TerminationReason::Disk { limit_kib: kib } => tell("disk", limit_kib(kib)),
        TerminationReason::Requested => tell("requested", None),
    }
    object.mark("killed", termination.killed);
}

fn how(object: &mut Object<'_>, exit: Exit) {
    match exit {
        Exit::Code(code) => object.number("exit", code),
        Exit::Signal(signal) => object.number("signal", signal),
        Exit::Dumped(signal) => {
            object.number("signal", signal);
            object.mark("core", true);
        }
    }
}

/// Fields that are 0 or false are left out.
fn used(object: &mut Object<'_>, usage: Usage, executed_by: ExecutedBy) {
    let fields = [
        ("user_us", usage.user_us),
        ("system_us", usage.system_us),
        ("max_rss_kib", usage.max_rss_kib),
        ("read_bytes", usage.read_bytes),
        ("written_bytes", usage.written_bytes),
    ];
    for (key, number) in fields.into_iter().filter(|(_, number)| *number > 0) {
        object.number(key, number);
    }
    if let Some(waits) = usage.waits {
        object.number("io_wait_us", waits.io_us);
        object.number("cpu_wait_us", waits.cpu_us);
    }
    object.mark("in_process", executed_by != ExecutedBy::Process);
    object.mark("checkpoint", executed_by == ExecutedBy::Checkpoint);
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::Info => "info",
        Level::Warning => "warning",
        Level::Error => "error",
        Level::Explain => "explain",
    }
}
