//! The record that a build leaves: when it begins and ends, who else looks on, and what is said if it could not be kept.
//! Does not know what is in it.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tanto_exec::clock::Clock;
use tanto_exec::event::{Event, Level, View};
use tanto_exec::job::JobId;
use tanto_exec::writer::Writer;
use tanto_record::jsonl::Head;
use tanto_record::session::recorder::Recorder;
use tanto_sys::machine::cpu;

use super::Invocation;
use super::view::Shown;
use crate::flags::Options;
use crate::settings::layer::Jobs;

/// All who look on at a run.
pub struct Views {
    /// What the user sees.
    pub shown: Shown,
    /// What remains.
    pub recorder: Recorder,
}

impl Views {
    /// With what the options want kept, by `writer`. What runs nothing leaves nothing behind.
    pub fn new(shown: Shown, options: &Options, writer: &Rc<Writer>) -> Views {
        let wanted = options.record && !options.dry_run && options.tool.is_none();
        Views { shown, recorder: Recorder::new(wanted, Rc::clone(writer)) }
    }
}

impl View for Views {
    fn event(&mut self, event: Event<'_>) {
        self.recorder.event(event);
        self.shown.event(event);
    }

    fn flush(&mut self) {
        self.shown.flush();
        self.recorder.flush();
    }

    fn followed_job(&self) -> Option<JobId> {
        self.shown.followed_job()
    }

    fn tick_interval(&self) -> Option<Duration> {
        self.shown.tick_interval()
    }
}

impl Invocation<'_> {
    /// Commands are about to run: those that bring the manifest itself up to date, or those of the targets.
    pub(super) fn begin_record(&mut self, manifest: bool) {
        if !self.tells_more() {
            return;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        let jobs = self.options.jobs;
        let head = Head {
            version: env!("CARGO_PKG_VERSION").into(),
            began_unix_ms: unix_ms.saturating_sub(self.clock.now_ms()).max(0),
            dir: std::env::current_dir().map(|dir| dir.into_os_string().into_vec()).unwrap_or_default(),
            targets: if manifest { vec![self.options.manifest.clone()] } else { self.options.targets.clone() },
            manifest,
            parallelism: if jobs == Jobs::Unlimited { 0 } else { jobs.limit(cpu::count) as u32 },
            processors: cpu::count() as u32,
        };
        self.view.recorder.start(&self.state, &head);
        self.view.shown.begin(&head);
    }

    /// Somebody hears more of commands than a user sees: what they wait for, and why they run.
    pub(super) fn tells_more(&self) -> bool {
        self.view.recorder.is_enabled() || self.view.shown.is_lines()
    }

    /// Where all is that the commands of a failed build printed, for a view that has summed up the rest.
    pub(super) fn name_record(&mut self) {
        let session = self.view.recorder.session_path().filter(|_| self.view.shown.sums_up());
        if let Some(path) = session.map(|path| path.as_os_str().as_bytes().to_vec()) {
            let path = path.strip_prefix(b"./").unwrap_or(&path);
            self.say(Level::Info, &[b"full log: ", path].concat());
        }
    }

    /// No command runs any more. That something could not be kept is said once, however often the manifest is built; not
    /// under the name `ninja`, where nobody has asked for a record.
    pub(super) fn end_record(&mut self) {
        let Err(error) = self.view.recorder.finish() else { return };
        if !self.state.is_best_effort() && !std::mem::replace(&mut self.said_unkept, true) {
            let why = tanto_sys::error::text(&error);
            self.say(Level::Warning, &[b"no record of this build in .tanto: ", &why[..]].concat());
        }
    }
}
