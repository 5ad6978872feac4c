//! Records a build: its events in a session and the costs of its jobs in the history.

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use tanto_exec::event::{Event, Level, View};
use tanto_exec::job::{CacheOutcome, CacheUse, Cost, JobInfo, Usage};
use tanto_exec::writer::{Stream, Writer};
use tanto_sys::fs::state_dir::StateDirs;

use crate::history::NewCosts;
use crate::jsonl::{Encoder, Head, Place};
use crate::session::{self, Sessions};

/// Longer output is truncated in the session's lines, in bytes; a separate file has more.
const MOST_OUTPUT: usize = 64 << 10;

/// Limit of that file, in bytes, so that output does not displace other sessions.
const MOST_LONG_OUTPUT: u64 = 64 << 20;

/// Size of pieces of long output passed to the writer, so that it is not in memory as a whole.
const PIECE: usize = 1 << 20;

/// From this length on, in bytes, a session has no more commands, output and reasons.
const LONG: u64 = 64 << 20;

/// From this length on, nothing more is recorded.
const TOO_LONG: u64 = 192 << 20;

/// The recorder; does nothing unless recording is wanted.
pub struct Recorder {
    wanted: bool,
    encoder: Encoder,
    /// Lines that were not passed to the writer yet. Before the build begins, none are.
    lines: Vec<u8>,
    length: u64,
    writer: Rc<Writer>,
    /// The session's file.
    file: Option<Stream>,
    /// The file with long output, and its length.
    output: Option<Stream>,
    output_length: u64,
    /// The writer's thread could not be started: nothing is recorded.
    is_lost: bool,
    learned: NewCosts,
    /// The state directories of the session and the history, set by `begin`.
    state: Option<StateDirs>,
    /// The path of the session's file, set by the writer.
    path: Arc<OnceLock<PathBuf>>,
}

impl Recorder {
    pub fn new(wanted: bool, writer: Rc<Writer>) -> Recorder {
        Recorder {
            wanted,
            encoder: Encoder { most_output: MOST_OUTPUT, brief: false },
            lines: Vec::new(),
            length: 0,
            writer,
            file: None,
            output: None,
            output_length: 0,
            is_lost: false,
            learned: NewCosts::default(),
            state: None,
            path: Arc::default(),
        }
    }

    /// Returns whether anything is recorded.
    pub fn is_enabled(&self) -> bool {
        self.wanted
    }

    /// Begins a session. Events received before are written first.
    pub fn start(&mut self, state: &StateDirs, head: &Head) {
        if !self.wanted {
            return;
        }
        self.encoder.brief = false;
        (self.length, self.output_length) = (0, 0);
        self.state = Some(state.clone());
        let before = std::mem::take(&mut self.lines);
        self.encoder.head(&mut self.lines, head);
        self.lines.extend_from_slice(&before);
        let sessions = Sessions::new(state);
        // If no thread can be started, the build reports that.
        self.path = Arc::default();
        let path = Arc::clone(&self.path);
        let open = move || {
            let file = sessions.create(SystemTime::now())?;
            // Set only here.
            let _ = path.set(file.path().into());
            Ok(file)
        };
        self.file = self.writer.begin(open).ok();
        self.is_lost = self.file.is_none();
    }

    /// Returns the path of the last session, once `end` was called.
    pub fn session_path(&self) -> Option<&Path> {
        self.path.get().map(PathBuf::as_path)
    }

    /// Waits until everything was passed to the kernel. Fails if something could not be recorded.
    pub fn finish(&mut self) -> io::Result<()> {
        self.hand_over();
        if std::mem::take(&mut self.is_lost) {
            self.lines = Vec::new();
        }
        let learned = std::mem::take(&mut self.learned);
        let output = self.output.take().map_or(Ok(()), |output| output.end(Vec::new()));
        let (Some(file), Some(state)) = (self.file.take(), self.state.take()) else { return Ok(()) };
        let ended = file.end(vec![Box::new(move || learned.save(&state, SystemTime::now()))]);
        ended.and(output)
    }

    fn hand_over(&mut self) {
        let Some(file) = &self.file else { return };
        if self.lines.is_empty() {
            return;
        }
        self.length += self.lines.len() as u64;
        file.append(&self.lines);
        self.lines.clear();
        if self.length > LONG {
            self.encoder.brief = true;
        }
    }

    fn keep(&mut self, event: &Event<'_>) {
        if self.is_lost || self.length > TOO_LONG {
            return;
        }
        match self.keep_output(event) {
            Some(place) => self.encoder.finished(&mut self.lines, event, place),
            None => self.encoder.event(&mut self.lines, event),
        }
        if self.length + self.lines.len() as u64 > TOO_LONG && self.file.is_some() {
            let text = b"the record of this build ends here: it exceeds the limit";
            self.encoder.event(&mut self.lines, &Event::Notice { level: Level::Warning, text });
            self.hand_over();
        }
    }

    /// Writes long output to its file, truncated to the space left.
    fn keep_output(&mut self, event: &Event<'_>) -> Option<Place> {
        let Event::Finished { output, .. } = *event else { return None };
        let room = MOST_LONG_OUTPUT - self.output_length;
        if output.len() <= MOST_OUTPUT || room <= MOST_OUTPUT as u64 || self.file.is_none() || self.encoder.brief {
            return None;
        }
        if self.output.is_none() {
            let path = Arc::clone(&self.path);
            let open = move || session::create_output(path.get().ok_or(io::ErrorKind::NotFound)?);
            self.output = self.writer.begin(open).ok();
        }
        let stream = self.output.as_ref()?;
        let length = output.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        let (head, tail) = (length.div_ceil(2), length / 2);
        let ends = [&output[..head], &output[output.len() - tail..]];
        ends.into_iter().flat_map(|end| end.chunks(PIECE)).for_each(|piece| stream.append(piece));
        let place = Place { at: self.output_length, length: length as u64 };
        self.output_length += place.length;
        Some(place)
    }

    fn learn(&mut self, info: &JobInfo, wall_ms: i64, usage: Usage, cache: Option<&CacheUse>) {
        let Some(output) = info.outputs.first() else { return };
        if let Some(CacheOutcome::Hit(cost)) = cache.map(|cache| cache.outcome) {
            return self.learned.add(output, cost);
        }
        let cost = Cost {
            wall_ms: u32::try_from(wall_ms.max(0)).unwrap_or(u32::MAX),
            cpu_ms: clip(usage.user_us.saturating_add(usage.system_us) / 1000),
            memory_kib: clip(usage.max_rss_kib),
        };
        self.learned.add(output, cost);
    }
}

fn clip(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl View for Recorder {
    fn event(&mut self, event: Event<'_>) {
        if !self.wanted {
            return;
        }
        if let Event::Finished { info, start_ms, end_ms, exit, usage, cache, .. } = event
            && exit.success()
        {
            self.learn(info, end_ms - start_ms, usage, cache);
        }
        self.keep(&event);
    }

    fn flush(&mut self) {
        self.hand_over();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::History;
    use crate::session::Session;
    use crate::views::report::output;
    use tanto_exec::job::{ExecutedBy, Exit, JobId};
    use tanto_testing::Scratch;

    fn build(recorder: &mut Recorder, jobs: u32, output: &[u8]) {
        recorder.event(Event::BuildStarted { at_ms: 1, downstream_ms: &[] });
        for job in 0..jobs {
            let outputs = vec![format!("o{job}").into_bytes()];
            let info = JobInfo { command: b"make it".into(), outputs, ..JobInfo::default() };
            let (job, info, start_ms, end_ms) = (JobId(job), &info, 2, 42);
            recorder.event(Event::Started { job, info, at_ms: start_ms });
            let exit = if job == JobId(1) { Exit::Code(1) } else { Exit::Code(0) };
            let usage = Usage { user_us: 5000, max_rss_kib: 7, ..Usage::default() };
            recorder.event(Event::Finished {
                job,
                info,
                start_ms,
                end_ms,
                exit,
                output,
                usage,
                executed_by: ExecutedBy::Process,
                cache: None,
            });
            recorder.flush();
        }
        recorder.event(Event::BuildFinished { at_ms: 50 });
    }

    fn head() -> Head {
        Head { version: b"1".into(), ..Head::default() }
    }

    fn last(dir: &Path) -> Session {
        let sessions = Sessions::new(&StateDirs::in_tree(dir));
        let list = sessions.list();
        Session::read(&sessions.path(&list[list.len() - 1].name)).unwrap()
    }

    #[test]
    fn a_build_is_recorded() {
        let place = Scratch::new("recorder");
        let dir = place.at("");
        let mut recorder = Recorder::new(true, Rc::default());
        recorder.event(Event::Planned { job: JobId(0), expected_ms: Some(3) });
        recorder.start(&StateDirs::in_tree(&dir), &head());
        build(&mut recorder, 2, b"said\xff");
        recorder.finish().unwrap();
        let session = last(&dir);
        assert_eq!((session.jobs.len(), session.finished_ms), (2, Some(50)));
        assert_eq!((session.jobs[0].expected_ms, session.jobs[0].wall_ms()), (Some(3), 40));
        assert_eq!(session.jobs[1].end.as_ref().unwrap().output, b"said\xff");
        let history = History::open(&StateDirs::in_tree(&dir));
        let cost = Cost { wall_ms: 40, cpu_ms: 5, memory_kib: 7 };
        assert_eq!((history.cost(b"o0"), history.cost(b"o1")), (Some(cost), None), "what fails tells nothing");
        build(&mut recorder, 1, b"");
        recorder.start(&StateDirs::in_tree(&dir), &head());
        recorder.finish().unwrap();
        assert_eq!(Sessions::new(&StateDirs::in_tree(&dir)).list().len(), 2);
    }

    #[test]
    fn nothing_is_recorded_when_disabled() {
        let place = Scratch::new("recorder-off");
        let mut recorder = Recorder::new(false, Rc::default());
        recorder.start(&StateDirs::in_tree(place.path()), &head());
        build(&mut recorder, 2, b"");
        recorder.finish().unwrap();
        assert!(!place.at(".tanto").exists());
    }

    #[test]
    fn long_output_is_truncated() {
        let place = Scratch::new("recorder-long");
        let mut recorder = Recorder::new(true, Rc::default());
        recorder.start(&StateDirs::in_tree(place.path()), &head());
        let output = [&[b'a'; MOST_OUTPUT][..], &[b'z'; MOST_OUTPUT]].concat();
        build(&mut recorder, 1, &output);
        recorder.finish().unwrap();
        let end = last(&place.at("")).jobs[0].end.clone().unwrap();
        assert_eq!((end.output.len(), end.left_out), (MOST_OUTPUT, MOST_OUTPUT as u64));
        assert_eq!((end.output[0], end.output[MOST_OUTPUT - 1]), (b'a', b'z'));
    }

    #[test]
    fn sessions_are_limited() {
        let place = Scratch::new("recorder-limits");
        let mut recorder = Recorder::new(true, Rc::default());
        recorder.start(&StateDirs::in_tree(place.path()), &head());
        recorder.length = LONG;
        build(&mut recorder, 3, b"said");
        let long = recorder.length;
        recorder.length = TOO_LONG;
        let info = JobInfo::default();
        for job in 10..20 {
            recorder.event(Event::Started { job: JobId(job), info: &info, at_ms: 1 });
        }
        recorder.finish().unwrap();
        let session = last(&place.at(""));
        assert!(long < LONG + 1500, "{}", long - LONG);
        let info = |job: usize| session.jobs[job].info.command.as_slice();
        assert_eq!((info(0), info(1), session.jobs.len()), (&b"make it"[..], &b""[..], 4));
        assert_eq!(session.notices.len(), 1);
    }

    #[test]
    fn obstacles_are_reported() {
        let place = Scratch::new("recorder-way");
        place.write(".tanto", "a file");
        let mut recorder = Recorder::new(true, Rc::default());
        recorder.start(&StateDirs::in_tree(place.path()), &head());
        build(&mut recorder, 2, b"");
        assert!(recorder.finish().is_err());
    }

    #[test]
    fn long_output_has_its_own_file() {
        let place = Scratch::new("recorder-beside");
        let dir = place.at("");
        let mut recorder = Recorder::new(true, Rc::default());
        recorder.start(&StateDirs::in_tree(&dir), &head());
        let text = |letter: u8| [vec![letter; 2 * MOST_OUTPUT], vec![letter + 1; 2 * MOST_OUTPUT + 1]].concat();
        build(&mut recorder, 1, &text(b'a'));
        recorder.output_length = MOST_LONG_OUTPUT - 2 * MOST_OUTPUT as u64;
        let info = JobInfo::default();
        recorder.event(Event::Started { job: JobId(1), info: &info, at_ms: 50 });
        let (job, exit, usage, output) = (JobId(1), Exit::Code(0), Usage::default(), &text(b'x')[..]);
        let (info, start_ms, end_ms, executed_by) = (&info, 50, 60, ExecutedBy::Process);
        recorder.event(Event::Finished { job, info, start_ms, end_ms, exit, output, usage, executed_by, cache: None });
        recorder.finish().unwrap();
        let (sessions, session) = (Sessions::new(&StateDirs::in_tree(&dir)), last(&dir));
        let name = sessions.list()[0].name.clone();
        // The second one is truncated and follows the first.
        let read = |_: Place| sessions.read_output(&name, Place { at: text(b'a').len() as u64, length: u64::MAX });
        let whole = output::printed(&session.jobs[0], &|place| sessions.read_output(&name, place), true);
        assert!(whole == [&text(b'a')[..], b"\n"].concat());
        let cut = output::printed(&session.jobs[1], &read, true);
        let between = format!("\n[... {} bytes were not recorded ...]\n", 2 * MOST_OUTPUT + 1);
        let half = MOST_OUTPUT;
        let expected = [&vec![b'x'; half][..], between.as_bytes(), &vec![b'y'; half], b"\n"].concat();
        assert!(cut == expected);
        let gone = output::printed(&session.jobs[0], &|_| b"half\n".to_vec(), true);
        let missing = text(b'a').len() - 5;
        assert_eq!(gone, format!("half\n\n[... {missing} bytes were not recorded ...]\n").into_bytes());
        assert_eq!(sessions.list()[0].length, {
            let length = |path| std::fs::metadata(path).unwrap().len();
            length(sessions.path(&name)) + length(sessions.output_path(&name))
        });
    }
}
