//! Tests with event streams, a fake clock and a simulated terminal.

mod random;
mod screen;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tanto_exec::job::report::JobSample;
use tanto_exec::job::{ExecutedBy, Usage};

use super::*;
use screen::{Habit, Screen};

/// The terminal, shared by the view and commands with the console.
#[derive(Clone)]
struct Terminal(Rc<RefCell<Screen>>);

impl Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Options of a test.
#[derive(Clone)]
struct Setup {
    size: (usize, usize),
    habit: Habit,
    color: bool,
    unicode: bool,
    status: Option<&'static str>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup { size: (60, 24), habit: Habit::Reflows, color: false, unicode: true, status: None }
    }
}

fn wide() -> Setup {
    Setup { size: (200, 24), ..Setup::default() }
}

/// A build whose jobs are numbered from 0.
struct Scene {
    view: LiveView,
    terminal: Terminal,
    jobs: Vec<JobInfo>,
    started_ms: Vec<i64>,
    now_ms: i64,
    in_background: Rc<Cell<bool>>,
    pictures: String,
}

impl Scene {
    /// Creates jobs with their estimates; 0: none.
    fn new(setup: Setup, jobs: &[(&str, i64)]) -> Scene {
        let terminal = Terminal(Rc::new(RefCell::new(Screen::new(setup.size.0, setup.size.1, setup.habit))));
        let screen = terminal.clone();
        let in_background = Rc::new(Cell::new(false));
        let background = in_background.clone();
        let config = LiveConfig {
            program: "tanto",
            format: setup
                .status
                .map_or_else(ProgressFormat::default, |text| ProgressFormat::parse_ninja_status(text.as_bytes())),
            own_format: setup.status.is_some(),
            parallelism: Box::new(|| 4),
            rest: FullOutputHint::Recorded(None),
            color: setup.color,
            unicode: setup.unicode,
            size: Box::new(move || Some(screen.0.borrow().size())),
            in_background: Box::new(move || background.get()),
        };
        let mut view = LiveView::new(config, Box::new(terminal.clone()), Box::new(terminal.clone()));
        for (job, &(_, expected_ms)) in (0..).map(JobId).zip(jobs) {
            view.event(Event::Planned { job, expected_ms: Some(expected_ms).filter(|&ms| ms > 0) });
        }
        let info = |name: &str| JobInfo {
            command: format!("cc {name}").into(),
            description: name.into(),
            outputs: vec![name.split(' ').next_back().unwrap_or_default().into()],
            ..JobInfo::default()
        };
        let started_ms = vec![0; jobs.len()];
        let jobs_are_all = jobs == JOBS;
        let jobs = jobs.iter().map(|job| info(job.0)).collect();
        let mut scene = Scene { view, terminal, jobs, started_ms, now_ms: 0, in_background, pictures: String::new() };
        let downstream_ms = if jobs_are_all { &BEHIND[..] } else { &[] };
        scene.view.event(Event::BuildStarted { at_ms: 0, downstream_ms });
        scene
    }

    /// The loop is about to wait.
    fn wait(&mut self) -> &mut Scene {
        self.view.flush();
        self
    }

    fn start(&mut self, jobs: &[u32]) -> &mut Scene {
        for &job in jobs {
            let info = &self.jobs[job as usize];
            self.started_ms[job as usize] = self.now_ms;
            self.view.event(Event::Started { job: JobId(job), info, at_ms: self.now_ms });
            if info.console {
                self.view.flush();
            }
        }
        self.wait()
    }

    fn end(&mut self, job: u32, exit: Exit, output: &str) -> &mut Scene {
        let at = job as usize;
        self.view.event(Event::Finished {
            job: JobId(job),
            info: &self.jobs[at],
            start_ms: self.started_ms[at],
            end_ms: self.now_ms,
            exit,
            output: output.as_bytes(),
            usage: Usage::default(),
            executed_by: ExecutedBy::Process,
            cache: None,
        });
        self.wait()
    }

    fn succeed(&mut self, jobs: &[u32]) -> &mut Scene {
        for &job in jobs {
            self.end(job, Exit::Code(0), "");
        }
        self
    }

    fn skip(&mut self, job: u32, because: u32) -> &mut Scene {
        let outputs = &self.jobs[job as usize].outputs;
        self.view.event(Event::Skipped { job: JobId(job), outputs, because: JobId(because) });
        self
    }

    /// Time passes, with ticks.
    fn pass(&mut self, ms: i64) -> &mut Scene {
        let until = self.now_ms + ms;
        while self.now_ms < until {
            self.now_ms = (self.now_ms + FRAME_MS).min(until);
            if self.view.tick_interval().is_some() {
                self.view.event(Event::Tick { at_ms: self.now_ms });
            }
        }
        self
    }

    /// The memory of a job is sampled.
    fn look(&mut self, job: u32, memory_kib: u64) -> &mut Scene {
        let sample = JobSample { memory_kib, ..JobSample::default() };
        self.view.event(Event::Sampled { job: JobId(job), at_ms: self.now_ms, sample });
        self.wait()
    }

    /// The job prints; the view receives it if it follows the job.
    fn print(&mut self, job: u32, output: &str) -> &mut Scene {
        if self.view.followed_job() == Some(JobId(job)) {
            self.view.event(Event::Printed { job: JobId(job), at_ms: self.now_ms, output: output.as_bytes() });
        }
        self.wait()
    }

    fn stage(&mut self, job: u32, stage: &str) -> &mut Scene {
        self.view.event(Event::Stage { job: JobId(job), stage, at_ms: self.now_ms });
        self
    }

    fn standing(&mut self, counts: &[(&'static str, usize)]) -> &mut Scene {
        self.view.event(Event::StateCounts { counts, at_ms: self.now_ms });
        self
    }

    fn plan(&mut self, job: u32, is_in: bool) -> &mut Scene {
        let expected_ms = Some(10_000);
        let job = JobId(job);
        self.view.event(if is_in {
            Event::Planned { job, expected_ms }
        } else {
            Event::Unplanned { job, expected_ms }
        });
        self
    }

    fn hold(&mut self, why: Option<ThrottleReason>) -> &mut Scene {
        self.view.event(Event::Throttled { reason: why, at_ms: self.now_ms });
        self.wait()
    }

    fn finish(&mut self) -> &mut Scene {
        self.view.event(Event::BuildFinished { at_ms: self.now_ms });
        self
    }

    fn notice(&mut self, level: Level, text: &str) -> &mut Scene {
        self.view.event(Event::Notice { level, text: text.as_bytes() });
        self.wait()
    }

    /// A command with the console writes.
    fn child(&mut self, text: &str) -> &mut Scene {
        self.terminal.0.borrow_mut().write(text.as_bytes());
        self
    }

    fn resize(&mut self, columns: usize, rows: usize) -> &mut Scene {
        self.terminal.0.borrow_mut().resize(columns, rows);
        self
    }

    fn writes(&self) -> usize {
        self.terminal.0.borrow().writes
    }

    /// Adds the screen to the pictures.
    fn picture(&mut self, what: &str) -> &mut Scene {
        let screen = self.terminal.0.borrow();
        let columns = screen.size().0;
        let edge = "=".repeat(columns.saturating_sub(what.chars().count() + 4));
        self.pictures.push_str(&format!("== {what} {edge}\n{}\n", screen.shown()));
        drop(screen);
        self
    }

    /// Compares the pictures with the file of that name; `TANTO_ACCEPT=1` writes it.
    #[track_caller]
    fn as_in(&self, name: &str) {
        let path = format!("{}/src/views/live/tests/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("TANTO_ACCEPT").is_some() {
            std::fs::write(&path, &self.pictures).expect("the file can be written");
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(self.pictures == expected, "not as in {path}:\n{}", self.pictures);
    }
}

/// Commands with their estimates.
const JOBS: [(&str, i64); 6] = [
    ("CXX src/parser/lexer.o", 4000),
    ("CXX src/parser/grammar_tables_that_a_generator_has_written.o", 12_000),
    ("CXX src/ui/目録/表示.o", 2000),
    ("CXX src/main.o", 0),
    ("AR libparser.a", 700),
    ("LINK app", 65_000),
];

/// Duration of the chain after each: the objects of the parser before `AR`, all before `LINK`.
const BEHIND: [u64; 6] = [65_700, 65_700, 65_000, 65_000, 65_000, 0];

const BAD: Exit = Exit::Code(1);

#[test]
fn a_build_that_goes_well() {
    for (setup, name) in [(Setup::default(), "well-60"), (wide(), "well-200")] {
        let mut scene = Scene::new(setup, &JOBS);
        scene.start(&[0, 1, 2, 3]).picture("nothing is shown of what is over at once");
        scene.pass(100).picture("the first frame");
        scene.pass(2400).succeed(&[2]).pass(500).picture("one has ended");
        scene.end(0, Exit::Code(0), "lexer.cc:3: warning: unused\n").pass(100).picture("one had something to say");
        scene.pass(9000).succeed(&[3, 1]).start(&[4]).pass(1000).picture("late in the build");
        scene.succeed(&[4]).start(&[5]).pass(130_000).picture("the last one is late");
        scene.succeed(&[5]).finish().picture("the end");
        scene.as_in(name);
    }
}

#[test]
fn failures_stay_above_and_are_summed_up() {
    let mut scene = Scene::new(Setup::default(), &JOBS);
    scene.start(&[0, 1, 2, 3]).pass(1000);
    scene.end(2, BAD, "error: 表示 was not declared").pass(100).picture("a failure in the middle");
    scene.pass(1000).end(0, Exit::Code(0), "note: nothing\n").pass(100).picture("others go on");
    scene.end(1, Exit::Signal(9), "").succeed(&[3]);
    scene.skip(4, 1).skip(5, 1).finish().notice(Level::Info, "build stopped: subcommands failed.").picture("the end");
    scene.as_in("failures");
}

#[test]
fn packages_have_stages_and_states() {
    let packages: Vec<(&str, i64)> = ["libone-1.2", "app-1", "tool-3nb2"].map(|name| (name, 10_000)).to_vec();
    let mut scene = Scene::new(Setup::default(), &packages);
    scene.start(&[0, 2]).stage(0, "configure").stage(2, "build").standing(&[("done", 4), ("running", 2), ("open", 1)]);
    scene.pass(5000).picture("two stages");
    scene.end(0, BAD, "build exited with 1\n").plan(1, false);
    scene.standing(&[("done", 4), ("running", 1), ("failed", 1), ("indirect-failed", 1)]).pass(100);
    scene.picture("what cannot be built any more is not waited for");
    scene.plan(0, true).plan(1, true).start(&[0]).stage(0, "depends").pass(100).picture("tried again");
    scene.pass(9000).succeed(&[0]).end(2, BAD, "").plan(1, false).skip(1, 2).finish().picture("the end");
    scene.as_in("packages");
}

#[test]
fn many_failures_are_counted() {
    let names: Vec<String> = (0..30).map(|at| format!("CXX {at}.o")).collect();
    let jobs: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 0)).collect();
    let mut scene = Scene::new(Setup { size: (60, 100), ..Setup::default() }, &jobs);
    scene.start(&(0..24).collect::<Vec<_>>());
    for job in 0..22 {
        scene.end(job, BAD, "");
    }
    for job in 24..30 {
        scene.skip(job, 0);
    }
    scene.pass(100).terminal.0.borrow_mut().resize(60, 32);
    scene.finish().picture("the end").as_in("many-failures");
}

#[test]
fn more_jobs_than_rows() {
    let names: Vec<String> = (0..40).map(|at| format!("CXX {at}.o")).collect();
    let jobs: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 0)).collect();
    let mut scene = Scene::new(Setup::default(), &jobs);
    scene.start(&(0..40).collect::<Vec<_>>()).pass(1000).picture("24 rows");
    scene.succeed(&[0, 1]).pass(1000).picture("the next ones move up");
    for rows in [60, 8, 5, 4, 3, 2, 1] {
        scene.resize(60, rows).pass(100).picture(&format!("{rows} rows"));
    }
    scene.as_in("many-jobs");
}

#[test]
fn memory_is_shown_once_it_is_known() {
    let mut scene = Scene::new(Setup::default(), &JOBS);
    scene.start(&[0, 1, 2]).pass(100).picture("nobody has looked");
    scene.look(1, 1_400_000).look(0, 87_000).pass(100).picture("at two of three");
    scene.resize(45, 24).pass(100).picture("there is no place for it").as_in("memory");
}

#[test]
fn a_followed_command_shows_what_it_prints() {
    for (setup, name) in [(Setup::default(), "follow-60"), (wide(), "follow-200")] {
        let mut scene = Scene::new(setup, &JOBS);
        scene.start(&[0, 1, 2]).print(0, "not followed\n").pass(1000).picture("none is followed");
        scene.view.follow(Follow::Maker(b"src/ui/\xe7\x9b\xae\xe9\x8c\xb2/\xe8\xa1\xa8\xe7\xa4\xba.o".to_vec()));
        scene.start(&[3]).print(3, "another\n").pass(100).picture("it was started before it was asked for");
        scene.view.follow(Follow::Longest);
        scene.print(0, "reading\nlexing 10%\rlexing 20%").print(1, "another\n").pass(100).picture("the longest");
        let lines: String =
            (0..9).map(|at| format!("\x1b[31mline {at}\x1b[0m of \tmany, 表示: {}\n", "x".repeat(50))).collect();
        scene.print(0, &lines).pass(100).picture("only the last lines");
        scene.resize(40, 9).pass(100).picture("little room").resize(60, 24).pass(100);
        scene.end(0, Exit::Code(0), "line 0\n").print(1, "now this one\n").pass(100).picture("the next longest");
        scene.succeed(&[1, 2, 3]).pass(100).picture("all have ended").as_in(name);
    }
}

#[test]
fn the_maker_of_a_file_is_followed() {
    let names: Vec<String> = (0..40).map(|at| format!("CXX {at}.o")).collect();
    let jobs: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 0)).collect();
    let mut scene = Scene::new(Setup::default(), &jobs);
    scene.view.follow(Follow::Maker(b"30.o".to_vec()));
    scene.start(&(0..40).collect::<Vec<_>>()).print(30, "one\ntwo\n").print(0, "not this\n").pass(100);
    scene.picture("below those that have run longer").resize(60, 6).pass(100).picture("little room");
    scene.resize(60, 24).succeed(&[30]).pass(100).picture("it has ended").as_in("follow-maker");
}

#[test]
fn lasting_throttling_is_shown() {
    let mut scene = Scene::new(Setup::default(), &JOBS);
    let memory = ThrottleReason::Memory { job: JobId(2), needs_kib: 12_900_000, available_kib: 700_000 };
    scene.start(&[0, 1]).hold(Some(memory)).pass(900).picture("not yet").pass(100).picture("it lasts");
    scene.hold(None).pass(100).picture("it is over");
    scene.hold(Some(ThrottleReason::CpuPressure)).pass(1000).resize(30, 6).pass(100).picture("little place");
    scene.resize(30, 3).pass(100).picture("less").as_in("held");
}

#[test]
fn every_width_works() {
    let mut scene = Scene::new(Setup { size: (100, 24), ..Setup::default() }, &JOBS);
    scene.start(&[0, 1, 2, 3]).pass(1000).end(2, BAD, "error\n").pass(2000);
    for columns in [100, 80, 60, 50, 40, 30, 20, 10, 5, 2] {
        scene.resize(columns, 24).pass(100).picture(&format!("{columns}"));
    }
    scene.as_in("widths");
}

#[test]
fn a_window_changes_between_frames() {
    for (habit, name) in [(Habit::Reflows, "resized-reflow"), (Habit::Cuts, "resized-cut")] {
        let mut scene = Scene::new(Setup { size: (80, 12), habit, ..Setup::default() }, &JOBS);
        scene.start(&[0, 1, 2, 3]).pass(1000).end(0, Exit::Code(0), "said\n").pass(100).picture("before");
        scene.resize(40, 12).picture("narrower, before the next frame").pass(100).picture("narrower");
        scene.resize(70, 5).pass(100).picture("wider and lower");
        scene.resize(70, 12).pass(100).picture("higher").finish().picture("the end");
        scene.as_in(name);
    }
}

#[test]
fn the_console_belongs_to_one_command() {
    let mut scene = Scene::new(Setup::default(), &JOBS);
    scene.jobs[3].console = true;
    scene.start(&[0, 1]).pass(1000).picture("before").start(&[3]).picture("the region is gone");
    assert_eq!(scene.view.tick_interval(), None, "nothing to do while the terminal is another's");
    scene.child("What is your name? ").end(0, Exit::Code(0), "kept back\n").pass(1000).picture("it asks");
    scene.succeed(&[3]).pass(100).picture("afterwards");
    scene.succeed(&[1]).finish().picture("the end");
    scene.as_in("console");
}

#[test]
fn a_console_that_is_interrupted_or_fails() {
    let mut scene = Scene::new(Setup::default(), &JOBS[..4]);
    scene.jobs[3].console = true;
    scene.start(&[0, 3]).child("1\n2\n3").finish().notice(Level::Info, "build stopped: interrupted by user.");
    scene.picture("interrupted");
    let mut other = Scene::new(Setup::default(), &JOBS[..4]);
    other.jobs[3].console = true;
    other.start(&[0, 3]).child("1\n2\n").pass(1000).end(3, BAD, "").pass(100).picture("failed");
    scene.pictures.push_str(&other.pictures);
    scene.as_in("console-ends");
}

#[test]
fn stopping_and_continuing() {
    let mut scene = Scene::new(Setup::default(), &JOBS);
    scene.start(&[0, 1]).pass(1000).view.hide();
    scene.picture("halted").child("$ bg\n$ vi").in_background.set(true);
    scene.pass(1000).end(0, Exit::Code(0), "said\n").pass(500).picture("in the background");
    scene.in_background.set(false);
    scene.pass(500).picture("in the foreground again").as_in("halt");
}

#[test]
fn messages_stay() {
    let mut scene = Scene::new(Setup::default(), &JOBS);
    scene
        .start(&[0, 1])
        .pass(1000)
        .notice(Level::Warning, "odd")
        .notice(Level::Info, "so")
        .pass(100)
        .picture("while it runs");
    scene.finish().notice(Level::Error, "wrong").picture("after it").as_in("messages");
}

#[test]
fn the_users_own_status_goes_beside_the_bar() {
    let setup = Setup { status: Some("[%r running, %f of %t, %e s] "), ..Setup::default() };
    let mut scene = Scene::new(setup, &JOBS);
    scene
        .start(&[0, 1])
        .pass(1500)
        .picture("of its own")
        .end(0, Exit::Code(0), "said\n")
        .pass(100)
        .picture("and above");
    scene.as_in("own-status");
}

#[test]
fn an_ascii_terminal() {
    let mut scene = Scene::new(Setup { unicode: false, ..Setup::default() }, &JOBS);
    scene.start(&[0, 1, 2]).pass(3000).end(0, BAD, "").pass(100).picture("no Unicode").as_in("ascii");
}

#[test]
fn colours_are_few() {
    let mut scene = Scene::new(Setup { color: true, ..Setup::default() }, &JOBS);
    scene.start(&[0, 1]).pass(2000).end(0, BAD, "\x1b[1mbold\n").pass(10_500);
    scene.view.now_ms += 30_000;
    let rows = scene.view.rows(Layout { columns: 60, rows: 24, color: true, unicode: true });
    scene.pictures = rows.join("\n").replace('\x1b', "ESC") + "\n";
    scene.as_in("colours");
}

#[test]
fn only_changes_are_written() {
    let mut scene = Scene::new(Setup::default(), &[("CXX a.o", 60_000), ("CXX b.o", 0)]);
    scene.start(&[0]).pass(100);
    let first = scene.writes();
    assert_eq!(first, 1, "one write for a frame");
    scene.wait().wait().pass(800);
    assert_eq!(scene.writes(), first, "nothing to say before the second is full");
    scene.pass(200);
    assert_eq!(scene.writes(), first + 1);
    scene.succeed(&[0]).start(&[1]);
    assert_eq!(scene.writes(), first + 1, "frames are apart");
    scene.end(1, BAD, "said\n");
    assert_eq!(scene.writes(), first + 1, "output waits for its frame");
    scene.pass(100);
    assert_eq!(scene.writes(), first + 2, "and goes with it");
}

#[test]
fn the_cursor_is_hidden_while_the_region_exists() {
    let mut scene = Scene::new(Setup::default(), &JOBS);
    let cursor = |scene: &Scene| scene.terminal.0.borrow().cursor;
    assert!(cursor(&scene));
    scene.start(&[0]).pass(200);
    assert!(!cursor(&scene));
    scene.view.hide();
    assert!(cursor(&scene), "before a halt");
    scene.pass(200);
    assert!(!cursor(&scene));
    scene.jobs[1].console = true;
    scene.start(&[1]).wait();
    assert!(cursor(&scene), "a command has the terminal");
    scene.succeed(&[1]).pass(200);
    assert!(!cursor(&scene));
    let terminal = scene.terminal.clone();
    drop(scene);
    assert!(terminal.0.borrow().cursor, "a view that goes leaves it shown");
}

#[test]
fn a_busy_loop_still_draws_frames() {
    let names: Vec<String> = (0..200).map(|at| format!("{at}.o")).collect();
    let jobs: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 0)).collect();
    let mut scene = Scene::new(Setup::default(), &jobs);
    for job in 0..200 {
        // Without ticks: a command ends every 10 ms.
        scene.start(&[job]);
        scene.now_ms += 10;
        scene.succeed(&[job]);
    }
    assert!((15..25).contains(&scene.writes()), "{} frames in 2 s", scene.writes());
}

#[test]
fn a_second_build_starts_over() {
    let mut scene = Scene::new(Setup::default(), &JOBS[..2]);
    scene.view.event(Event::Unplanned { job: JobId(1), expected_ms: Some(12_000) });
    scene.start(&[0]).pass(2000).succeed(&[0]).finish();
    scene.view.event(Event::Planned { job: JobId(0), expected_ms: None });
    scene.view.event(Event::Planned { job: JobId(1), expected_ms: None });
    scene.view.event(Event::BuildStarted { at_ms: scene.now_ms, downstream_ms: &[] });
    scene.start(&[1]).pass(1000).picture("of two").as_in("another");
}
