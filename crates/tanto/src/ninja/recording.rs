//! Records a build: the session recorder beside the view, and messages about it.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use tanto_exec::clock::Clock;
use tanto_exec::event::Level;
use tanto_exec::writer::Writer;
use tanto_record::jsonl::Head;
use tanto_record::session::recorder::Recorder;
use tanto_record::views::display::{Display, Views};
use tanto_sys::machine::cpu;

use super::BuildRun;
use crate::settings::Options;
use crate::settings::values::Jobs;

/// The view and the recorder. Dry runs and tools are not recorded.
pub(super) fn views(display: Display, options: &Options, writer: &Rc<Writer>) -> Views {
    let wanted = options.settings.record.value && !options.dry_run && options.tool.is_none();
    Views { display, recorder: Recorder::new(wanted, Rc::clone(writer)) }
}

impl BuildRun<'_> {
    /// Called before commands run. `manifest` tells whether they bring the manifest up to date.
    pub(super) fn start_recording(&mut self, manifest: bool) {
        if !self.needs_details() {
            return;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        let jobs = self.options.settings.jobs.value;
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
        self.view.display.begin(&head);
    }

    /// Returns whether events need details: dependencies and explanations.
    pub(super) fn needs_details(&self) -> bool {
        self.view.recorder.is_enabled() || self.view.display.is_jsonl()
    }

    /// Prints the path of the full log, if the view shows only a summary of a failed build.
    pub(super) fn print_log_path(&mut self) {
        let session = self.view.recorder.session_path().filter(|_| self.view.display.shows_summary());
        if let Some(path) = session.map(|path| path.as_os_str().as_bytes().to_vec()) {
            let path = path.strip_prefix(b"./").unwrap_or(&path);
            self.say(Level::Info, &[b"full log: ", path].concat());
        }
    }

    /// Called after the last command. Reports an error once per run; not under the name `ninja`, where recording is
    /// best effort.
    pub(super) fn finish_recording(&mut self) {
        let Err(error) = self.view.recorder.finish() else { return };
        if !self.state.is_best_effort() && !std::mem::replace(&mut self.reported_record_error, true) {
            let why = tanto_sys::error::text(&error);
            self.say(Level::Warning, &[b"no record of this build in .tanto: ", &why[..]].concat());
        }
    }
}
