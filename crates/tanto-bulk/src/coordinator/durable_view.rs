//! Delays the events and answers that tell results until the journal has committed these.
//!
//! Other events wait too, so that their order stays the same; only those of running jobs overtake the results of other jobs.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tanto_exec::event::{Event, View};
use tanto_exec::job::JobId;
use tanto_record::database::journal::Commits;

/// The last result, and whether it is durable.
#[derive(Debug)]
pub struct LastResult {
    /// Its number in the journal.
    recorded: Cell<u64>,
    commits: Arc<Commits>,
}

impl LastResult {
    pub fn new(commits: Arc<Commits>) -> Rc<LastResult> {
        Rc::new(LastResult { recorded: Cell::new(0), commits })
    }

    /// The records up to this number contain a result.
    pub fn set(&self, recorded: u64) {
        self.recorded.set(recorded);
    }

    pub fn recorded(&self) -> u64 {
        self.recorded.get()
    }

    pub fn committed(&self) -> u64 {
        self.commits.committed()
    }
}

type Held = Box<dyn FnOnce(&mut dyn View)>;

/// A view of what the journal has committed.
pub struct DurableView<'v> {
    view: &'v mut dyn View,
    last_result: Rc<LastResult>,
    /// Events with the number of the record that they wait for.
    held: VecDeque<(u64, Held)>,
    /// By job: the record that its last held event waits for.
    held_jobs: Vec<u64>,
}

impl<'v> DurableView<'v> {
    pub fn new(view: &'v mut dyn View, last_result: Rc<LastResult>) -> DurableView<'v> {
        DurableView { view, last_result, held: VecDeque::new(), held_jobs: Vec::new() }
    }

    /// Sends the events whose results are committed. Returns the number of committed records.
    fn release(&mut self) -> u64 {
        let committed = self.last_result.committed();
        while let Some((_, event)) = self.held.pop_front_if(|(recorded, _)| *recorded <= committed) {
            event(self.view);
        }
        committed
    }

    /// Returns whether an event tells no result, and follows no held event of its job.
    fn may_overtake(&self, event: &Event<'_>, committed: u64) -> bool {
        match event {
            // They matter most while the database cannot be written.
            Event::Tick { .. } | Event::Notice { .. } => true,
            Event::Started { job, .. }
            | Event::Stage { job, .. }
            | Event::Sampled { job, .. }
            | Event::Printed { job, .. } => {
                self.held_jobs.get(job.0 as usize).is_none_or(|&recorded| recorded <= committed)
            }
            _ => false,
        }
    }

    fn hold(&mut self, event: Event<'_>, recorded: u64) {
        if let Some(JobId(job)) = job(&event) {
            let job = job as usize;
            self.held_jobs.resize(self.held_jobs.len().max(job + 1), 0);
            self.held_jobs[job] = recorded;
        }
        self.held.push_back((recorded, hold(event)));
    }

    /// Sends the last events. Those whose results will never be committed are dropped, except for the end of the build.
    pub fn finish(mut self) {
        self.release();
        if let Some((_, last)) = self.held.pop_back() {
            last(self.view);
        }
        self.view.flush();
    }
}

impl View for DurableView<'_> {
    fn event(&mut self, event: Event<'_>) {
        let recorded = self.last_result.recorded();
        let committed = self.release();
        match recorded <= committed || self.may_overtake(&event, committed) {
            true => self.view.event(event),
            false => self.hold(event, recorded),
        }
    }

    fn flush(&mut self) {
        self.release();
        self.view.flush();
    }

    fn followed_job(&self) -> Option<JobId> {
        self.view.followed_job()
    }

    fn tick_interval(&self) -> Option<Duration> {
        self.view.tick_interval()
    }
}

/// Returns the job that an event is about.
fn job(event: &Event<'_>) -> Option<JobId> {
    match *event {
        Event::Planned { job, .. }
        | Event::Unplanned { job, .. }
        | Event::Started { job, .. }
        | Event::NothingToRun { job, .. }
        | Event::Finished { job, .. }
        | Event::Skipped { job, .. }
        | Event::Stage { job, .. }
        | Event::Sampled { job, .. }
        | Event::Terminated { job, .. }
        | Event::LeftBehind { job, .. }
        | Event::Printed { job, .. } => Some(job),
        Event::BuildStarted { .. }
        | Event::StateCounts { .. }
        | Event::Throttled { .. }
        | Event::Tick { .. }
        | Event::BuildFinished { .. }
        | Event::Notice { .. } => None,
    }
}

/// Copies an event.
fn hold(event: Event<'_>) -> Held {
    match event {
        Event::Planned { job, expected_ms } => Box::new(move |view| view.event(Event::Planned { job, expected_ms })),
        Event::Unplanned { job, expected_ms } => {
            Box::new(move |view| view.event(Event::Unplanned { job, expected_ms }))
        }
        Event::BuildStarted { at_ms, downstream_ms } => {
            let owned = downstream_ms.to_vec();
            Box::new(move |view| view.event(Event::BuildStarted { at_ms, downstream_ms: &owned }))
        }
        Event::Skipped { job, outputs, because } => {
            let owned = outputs.to_vec();
            Box::new(move |view| view.event(Event::Skipped { job, outputs: &owned, because }))
        }
        Event::StateCounts { counts, at_ms } => {
            let owned = counts.to_vec();
            Box::new(move |view| view.event(Event::StateCounts { counts: &owned, at_ms }))
        }
        Event::Throttled { reason, at_ms } => Box::new(move |view| view.event(Event::Throttled { reason, at_ms })),
        Event::Tick { at_ms } => Box::new(move |view| view.event(Event::Tick { at_ms })),
        Event::BuildFinished { at_ms } => Box::new(move |view| view.event(Event::BuildFinished { at_ms })),
        Event::Notice { level, text } => {
            let owned = text.to_vec();
            Box::new(move |view| view.event(Event::Notice { level, text: &owned }))
        }
        event => hold_job(event),
    }
}

/// Copies an event about a job that runs or has run.
fn hold_job(event: Event<'_>) -> Held {
    match event {
        Event::Started { job, info, at_ms } => {
            let info = info.clone();
            Box::new(move |view| view.event(Event::Started { job, info: &info, at_ms }))
        }
        Event::NothingToRun { job, info, at_ms } => {
            let info = info.clone();
            Box::new(move |view| view.event(Event::NothingToRun { job, info: &info, at_ms }))
        }
        Event::Finished { job, info, start_ms, end_ms, exit, output, usage, executed_by, cache } => {
            let (info, owned, cache) = (info.clone(), output.to_vec(), cache.cloned());
            Box::new(move |view| {
                let (info, output, cache) = (&info, &owned[..], cache.as_ref());
                view.event(Event::Finished { job, info, start_ms, end_ms, exit, output, usage, executed_by, cache });
            })
        }
        Event::Stage { job, stage, at_ms } => {
            let owned = stage.to_owned();
            Box::new(move |view| view.event(Event::Stage { job, stage: &owned, at_ms }))
        }
        Event::Sampled { job, at_ms, sample } => {
            Box::new(move |view| view.event(Event::Sampled { job, at_ms, sample }))
        }
        Event::Terminated { job, info, termination } => {
            let (info, owned) = (info.clone(), termination.clone());
            Box::new(move |view| view.event(Event::Terminated { job, info: &info, termination: &owned }))
        }
        Event::LeftBehind { job, info, processes, killed } => {
            let (info, owned) = (info.clone(), processes.to_vec());
            Box::new(move |view| view.event(Event::LeftBehind { job, info: &info, processes: &owned, killed }))
        }
        Event::Printed { job, at_ms, output } => {
            let owned = output.to_vec();
            Box::new(move |view| view.event(Event::Printed { job, at_ms, output: &owned }))
        }
        Event::Planned { .. }
        | Event::Unplanned { .. }
        | Event::BuildStarted { .. }
        | Event::Skipped { .. }
        | Event::StateCounts { .. }
        | Event::Throttled { .. }
        | Event::Tick { .. }
        | Event::BuildFinished { .. }
        | Event::Notice { .. } => unreachable!("{event:?} is about no job"),
    }
}
