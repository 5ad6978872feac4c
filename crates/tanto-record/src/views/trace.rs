//! Exports a build for the trace viewers of Chrome and Perfetto, with a thread per lane.

use tanto_exec::job::ExecutedBy;

use super::report::lanes::{end_ms, lanes};
use super::report::{command_kind, exit_text};
use crate::json::{Object, list};
use crate::session::Session;

/// Returns a file in the trace event format.
pub fn json(session: &Session) -> Vec<u8> {
    let lanes = lanes(session);
    let mut out = Vec::new();
    let mut file = Object::new(&mut out);
    file.text("displayTimeUnit", b"ms");
    let names = (0..lanes.count).map(Item::Lane);
    let jobs = (0..session.jobs.len()).filter_map(|at| lanes.of[at].map(|lane| Item::Job(at, lane)));
    list(file.field("traceEvents"), names.chain(jobs), |out, item| match item {
        Item::Lane(lane) => name(out, lane),
        Item::Job(at, lane) => job(out, session, at, lane),
    });
    file.end_line();
    out
}

enum Item {
    Lane(u32),
    Job(usize, u32),
}

fn begin<'o>(out: &'o mut Vec<u8>, phase: &str, name: &[u8], lane: u32) -> Object<'o> {
    let mut event = Object::new(out);
    event.text("ph", phase.as_bytes());
    event.text("name", name);
    event.number("pid", 1);
    // In some viewers, thread 0 is the idle thread.
    event.number("tid", lane + 1);
    event
}

fn name(out: &mut Vec<u8>, lane: u32) {
    let mut event = begin(out, "M", b"thread_name", lane);
    let mut args = Object::new(event.field("args"));
    args.text("name", format!("lane {}", lane + 1).as_bytes());
    args.end();
    event.end();
}

fn job(out: &mut Vec<u8>, session: &Session, at: usize, lane: u32) {
    let job = &session.jobs[at];
    let mut event = begin(out, "X", job.title(), lane);
    event.text("cat", &command_kind(job));
    let start_ms = job.start_ms - session.started_ms;
    event.number("ts", i128::from(start_ms) * 1000);
    event.number("dur", i128::from(end_ms(session, at) - job.start_ms) * 1000);
    let mut args = Object::new(event.field("args"));
    args.number("job", job.id.0);
    args.texts("outputs", &job.info.outputs);
    args.text("command", &job.info.command);
    args.text("result", exit_text(job).as_bytes());
    args.mark("from_cache", job.executed_by() == ExecutedBy::Cache);
    args.number("cpu_ms", job.cpu_ms());
    args.number("max_rss_kib", job.end.as_ref().map_or(0, |end| end.usage.max_rss_kib));
    args.end();
    event.end();
}
