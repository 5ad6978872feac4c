//! Records the inputs of commands that ask for it.

use crate::input_recorder::InputRecorder;
use crate::input_recorder::input_list::InputList;
use crate::job::{Command, InputRecording, JobId};

use super::launch::Starter;

/// The recorder of a runner.
pub(super) enum Recording {
    Off,
    /// No command has asked for it yet.
    NotNeeded,
    /// Without a place for records.
    Failed,
    On(InputRecorder),
}

/// The record of a running command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CommandRecord {
    NotWanted,
    /// It could not be created. The command runs without it.
    Failed,
    Begun,
}

impl Recording {
    pub(super) fn new(wanted: bool) -> Recording {
        if wanted { Recording::NotNeeded } else { Recording::Off }
    }

    /// Prepares the next start of a command, which may be a repeated one.
    pub(super) fn begin(&mut self, job: JobId, command: &Command, starter: &mut Starter) -> CommandRecord {
        if command.record_inputs == InputRecording::Off || matches!(self, Recording::Off) {
            return CommandRecord::NotWanted;
        }
        if matches!(self, Recording::NotNeeded) {
            *self = InputRecorder::create().map_or(Recording::Failed, Recording::On);
        }
        let Recording::On(recorder) = self else { return CommandRecord::Failed };
        let begun = match command.record_inputs {
            InputRecording::SystemCalls => recorder.create_record(job.0).map(|record| starter.trace(record)),
            _ => recorder.begin(job.0).map(|record| starter.record([recorder.preload(), record])),
        };
        begun.map_or(CommandRecord::Failed, |()| CommandRecord::Begun)
    }

    /// Returns the inputs of a command that has ended.
    pub(super) fn end(&self, job: JobId, record: CommandRecord) -> Option<Box<InputList>> {
        match (self, record) {
            (_, CommandRecord::NotWanted) => None,
            (Recording::On(recorder), CommandRecord::Begun) => Some(Box::new(recorder.end(job.0))),
            _ => Some(Box::new(InputList::lost("its record could not be created"))),
        }
    }
}
