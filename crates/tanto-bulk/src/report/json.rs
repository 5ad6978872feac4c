//! Formats a report as JSON.

use tanto_record::database::{PackageRow, VerificationRow};
use tanto_record::json::{Object, integer, list, string};
use tanto_sys::cgroup::StallTimes;

use super::changes::Change;
use super::costs::{Estimates, PackageCosts, StageCosts};
use super::{Failure, Report, Retry};

impl Report<'_> {
    /// Returns an object on one line. Times are milliseconds.
    pub fn json(&self) -> Vec<u8> {
        let mut text = Vec::new();
        let mut object = Object::new(&mut text);
        object.number("run", self.rows.run.run);
        object.number("began_ms", self.rows.run.began_ms);
        if let Some(ended_ms) = self.rows.run.ended_ms {
            object.number("ended_ms", ended_ms);
        }
        let mut counts = Object::new(object.field("counts"));
        self.counts().into_iter().for_each(|(state, count)| counts.number(state.name(), count as u64));
        counts.end();
        self.span(&mut object);
        list(object.field("failures"), &self.failures, |out, it| self.failure(out, it));
        list(object.field("retries"), &self.retries, |out, it| self.retry(out, it));
        list(object.field("verifications"), &self.rows.verifications, verification);
        list(object.field("notes"), &self.notes, |out, &it| package(out, self.package(it)));
        self.changed_fields(&mut object);
        list(object.field("stages"), &self.costs.stages, stage);
        list(object.field("costs"), &self.costs.packages, |out, it| self.cost(out, it));
        list(object.field("packages"), &self.rows.packages, package);
        object.end_line();
        text
    }

    fn span(&self, object: &mut Object<'_>) {
        let span = &self.costs.span;
        object.number("wall_ms", span.wall_ms);
        object.number("bound_ms", span.bound_ms());
        object.number("work_ms", span.work_ms);
        object.number("clients", span.clients as u64);
        list(object.field("longest_chain"), &span.chain, |out, &(package, ms)| {
            let mut object = Object::new(out);
            object.text("package", self.package(package).name.as_bytes());
            object.number("wall_ms", ms);
            object.end();
        });
        let mut estimates = Object::new(object.field("estimates"));
        for (name, it) in ["known", "guessed"].into_iter().zip(&self.costs.estimates) {
            estimate(estimates.field(name), it);
        }
        estimates.end();
    }

    fn failure(&self, out: &mut Vec<u8>, failure: &Failure) {
        let it = self.package(failure.package);
        let mut object = Object::new(out);
        object.text("package", it.name.as_bytes());
        object.text("location", it.location.as_bytes());
        object.text("maintainer", self.maintainer(failure.package).as_bytes());
        object.text("why", it.why.as_bytes());
        object.text("stage", failure.stage.as_bytes());
        object.number("blocks", failure.blocks as u64);
        if let Some(found) = &failure.found {
            object.text("kind", found.kind.name().as_bytes());
            list(object.field("lines"), &found.lines, |out, line| string(out, line.as_bytes()));
        }
        object.text("log", failure.log.as_bytes());
        object.end();
    }

    fn retry(&self, out: &mut Vec<u8>, it: &Retry) {
        let mut object = Object::new(out);
        object.text("package", self.package(it.package).name.as_bytes());
        object.number("attempt", it.attempt);
        object.text("client", it.client.as_bytes());
        object.text("why", it.why.as_bytes());
        object.end();
    }

    fn changed_fields(&self, object: &mut Object<'_>) {
        let Some(changes) = &self.changes else { return };
        let mut inner = Object::new(object.field("changes"));
        inner.number("since", changes.since.run);
        let kinds =
            [("broken", &changes.broken), ("fixed", &changes.fixed), ("new", &changes.new), ("gone", &changes.gone)];
        for (name, all) in kinds {
            list(inner.field(name), all, change);
        }
        inner.end();
    }

    fn cost(&self, out: &mut Vec<u8>, it: &PackageCosts) {
        let mut object = Object::new(out);
        object.text("package", self.package(it.package).name.as_bytes());
        object.number("wall_ms", it.wall_ms);
        object.number("cpu_ms", it.cpu_ms);
        object.number("peak_kib", it.peak_kib);
        waits(&mut object, it.waits);
        if let Some(ms) = it.expected_ms {
            object.number("expected_ms", ms);
        }
        object.end();
    }
}

fn estimate(out: &mut Vec<u8>, it: &Estimates) {
    let mut object = Object::new(out);
    object.number("count", it.count as u64);
    if let Some(median) = it.median {
        // Two digits are significant.
        integer(object.field("median_percent"), (median * 100.0).round() as i128);
    }
    object.end();
}

fn change(out: &mut Vec<u8>, it: &Change) {
    let mut object = Object::new(out);
    object.text("package", it.name.as_bytes());
    object.text("then", it.then.as_bytes());
    object.text("now", it.now.as_bytes());
    object.end();
}

fn stage(out: &mut Vec<u8>, it: &StageCosts) {
    let mut object = Object::new(out);
    object.text("stage", it.name.as_bytes());
    object.number("count", it.count as u64);
    object.number("failed", it.failed as u64);
    object.number("wall_ms", it.wall_ms);
    object.number("cpu_ms", it.cpu_ms);
    object.number("peak_kib", it.peak_kib);
    object.number("read_bytes", it.read_bytes);
    object.number("written_bytes", it.written_bytes);
    waits(&mut object, it.waits);
    object.end();
}

/// Leaves out unknown numbers.
fn waits(object: &mut Object<'_>, waits: Option<StallTimes>) {
    if let Some(waits) = waits {
        object.number("io_wait_ms", waits.io_us / 1000);
        object.number("cpu_wait_ms", waits.cpu_us / 1000);
    }
}

fn verification(out: &mut Vec<u8>, it: &VerificationRow) {
    let mut object = Object::new(out);
    object.text("package", it.name.as_bytes());
    object.text("result", it.result.as_bytes());
    for (name, client) in [("first", &it.first), ("second", &it.second), ("third", &it.third), ("suspect", &it.suspect)]
    {
        object.text(name, client.as_bytes());
    }
    object.text("detail", it.detail.as_bytes());
    object.end();
}

fn package(out: &mut Vec<u8>, it: &PackageRow) {
    let mut object = Object::new(out);
    object.text("package", it.name.as_bytes());
    object.text("location", it.location.as_bytes());
    object.text("state", it.state.as_bytes());
    object.text("why", it.why.as_bytes());
    object.end();
}
