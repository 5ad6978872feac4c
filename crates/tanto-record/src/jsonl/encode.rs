//! Formats events as lines.

use tanto_exec::event::{Event, Level};
use tanto_exec::job::report::{ProcessInfo, Termination, TerminationReason};
use tanto_exec::job::{CacheOutcome, CacheUse, Cost, ExecutedBy, Exit, JobInfo, Usage};
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
        let (name, job, at_ms) = match *event {
            Event::Planned { job, .. } => ("planned", Some(job), None),
            Event::Unplanned { job, .. } => ("unplanned", Some(job), None),
            Event::BuildStarted { at_ms, .. } => ("build_started", None, Some(at_ms)),
            Event::Started { job, at_ms, .. } => ("started", Some(job), Some(at_ms)),
            Event::NothingToRun { job, at_ms, .. } => ("nothing_to_run", Some(job), Some(at_ms)),
            Event::Finished { job, .. } => ("finished", Some(job), None),
            Event::Skipped { job, .. } => ("skipped", Some(job), None),
            Event::Stage { job, at_ms, .. } => ("stage", Some(job), Some(at_ms)),
            Event::StateCounts { at_ms, .. } => ("state_counts", None, Some(at_ms)),
            Event::Sampled { job, at_ms, .. } => ("sampled", Some(job), Some(at_ms)),
            Event::Terminated { job, .. } => ("terminated", Some(job), None),
            Event::LeftBehind { job, .. } => ("left_behind", Some(job), None),
            Event::Throttled { at_ms, .. } => ("throttled", None, Some(at_ms)),
            Event::BuildFinished { at_ms } => ("build_finished", None, Some(at_ms)),
            Event::Notice { .. } => ("notice", None, None),
            Event::Tick { .. } | Event::Printed { .. } => return,
        };
        let mut object = begin(out, name);
        object.optional("job", job.map(|job| job.0));
        object.optional("at_ms", at_ms);
        self.fields(&mut object, event);
        object.end_line();
    }

    fn fields(self, object: &mut Object<'_>, event: &Event<'_>) {
        match *event {
            Event::Planned { expected_ms, .. } | Event::Unplanned { expected_ms, .. } => {
                object.optional("expected_ms", expected_ms);
            }
            Event::BuildStarted { downstream_ms, .. } => {
                if downstream_ms.iter().any(|&ms| ms > 0) {
                    object.numbers("downstream_ms", downstream_ms.iter().copied());
                }
            }
            Event::Started { info, .. } | Event::NothingToRun { info, .. } => self.info(object, info),
            Event::Finished { start_ms, end_ms, exit, output, usage, executed_by, cache, .. } => {
                object.number("start_ms", start_ms);
                object.number("end_ms", end_ms);
                exit_fields(object, exit);
                usage_fields(object, usage, executed_by);
                cache_fields(object, cache);
                self.output(object, output);
            }
            Event::Skipped { outputs, because, .. } => {
                object.number("because", because.0);
                if !self.brief {
                    object.texts("outputs", outputs);
                }
            }
            Event::Stage { stage, .. } => object.text("stage", stage.as_bytes()),
            // States without jobs are left out.
            Event::StateCounts { counts, .. } => {
                let mut states = Object::new(object.field("counts"));
                for (state, count) in counts.iter().filter(|(_, count)| *count > 0) {
                    states.number(state, *count as u64);
                }
                states.end();
            }
            Event::Sampled { sample, .. } => {
                object.number("processes", sample.processes);
                object.number("cpu_ms", sample.cpu_ms);
                object.number("memory_kib", sample.memory_kib);
            }
            Event::Terminated { termination, .. } => {
                termination_fields(object, termination);
                self.processes(object, &termination.processes);
            }
            Event::LeftBehind { processes, killed, .. } => {
                object.mark("killed", killed);
                self.processes(object, processes);
            }
            Event::Throttled { reason: Some(reason), .. } => throttle_fields(object, reason),
            Event::Notice { level, text } => {
                object.text("level", level_name(level).as_bytes());
                object.text("text", text);
            }
            Event::Throttled { reason: None, .. }
            | Event::BuildFinished { .. }
            | Event::Tick { .. }
            | Event::Printed { .. } => {}
        }
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

pub(crate) fn throttle_fields(object: &mut Object<'_>, why: ThrottleReason) {
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

pub(crate) fn termination_fields(object: &mut Object<'_>, termination: &Termination) {
    let (reason, key, number): (&str, &str, Option<i128>) = match termination.reason {
        TerminationReason::Hung { after_ms } => ("hung", "after_ms", Some(after_ms.into())),
        TerminationReason::Timeout { after_ms } => ("timeout", "after_ms", Some(after_ms.into())),
        TerminationReason::CpuTime { after_ms } => ("cpu_time", "after_ms", Some(after_ms.into())),
        TerminationReason::Memory { limit_kib } => ("memory", "limit_kib", Some(limit_kib.into())),
        TerminationReason::Output { limit_bytes } => ("output", "limit_bytes", Some(limit_bytes.into())),
        TerminationReason::Disk { limit_kib } => ("disk", "limit_kib", Some(limit_kib.into())),
        TerminationReason::Requested => ("requested", "", None),
    };
    object.text("reason", reason.as_bytes());
    object.optional(key, number);
    object.mark("killed", termination.killed);
}

fn exit_fields(object: &mut Object<'_>, exit: Exit) {
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
fn usage_fields(object: &mut Object<'_>, usage: Usage, executed_by: ExecutedBy) {
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
    object.mark("in_process", matches!(executed_by, ExecutedBy::Fork | ExecutedBy::Checkpoint));
    object.mark("checkpoint", executed_by == ExecutedBy::Checkpoint);
}

fn cache_fields(object: &mut Object<'_>, cache: Option<&CacheUse>) {
    let Some(CacheUse { outcome, reason, depends_on_root }) = cache else { return };
    object.text("cache", cache_word(outcome).as_bytes());
    if let CacheOutcome::Hit(Cost { wall_ms, cpu_ms, memory_kib }) = *outcome {
        object.number("saved_ms", wall_ms);
        object.number("saved_cpu_ms", cpu_ms);
        object.number("saved_kib", memory_kib);
    }
    if !reason.is_empty() {
        object.text("cache_reason", reason.as_bytes());
    }
    object.mark("depends_on_root", *depends_on_root);
}

fn cache_word(outcome: &CacheOutcome) -> &'static str {
    match outcome {
        CacheOutcome::Hit(_) => "hit",
        CacheOutcome::New => "new",
        CacheOutcome::Changed => "changed",
        CacheOutcome::NotCacheable => "not cacheable",
    }
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::Info => "info",
        Level::Warning => "warning",
        Level::Error => "error",
        Level::Explain => "explain",
    }
}
