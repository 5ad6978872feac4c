//! A test case: files and steps, run with the reference ninja and with Tanto, then compared.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::alike;
use super::answers::{self, Answer};
use super::compare;
use super::logs::Times;
use super::process::Ended;
use super::programs::{TANTO, programs};
use super::side::Side;
use super::tree::Tree;

/// The mtime of a case's initial files.
const LONG_AGO: u64 = 1_000_000_000;

/// A run of the program.
#[derive(Clone, Default)]
pub struct Run {
    pub args: Vec<String>,
    /// Added to a minimal environment.
    pub env: Vec<(String, String)>,
    /// Run on a terminal with this many columns.
    pub columns: Option<u32>,
    /// A shell runs this and then executes the program.
    pub shell: Option<String>,
    /// Without the default `-j1`.
    pub plain: bool,
    /// Compare lines without their order and counters.
    pub any_order: bool,
    /// Compare this part of the output.
    pub view: Option<fn(&str) -> String>,
}

impl Run {
    /// Arguments are separated by spaces.
    pub fn new(args: &str) -> Run {
        Run { args: args.split_whitespace().map(str::to_owned).collect(), ..Run::default() }
    }

    pub fn arg(mut self, arg: &str) -> Run {
        self.args.push(arg.to_owned());
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Run {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn terminal(mut self, columns: u32) -> Run {
        self.columns = Some(columns);
        self
    }

    pub fn shell(mut self, line: &str) -> Run {
        self.shell = Some(line.to_owned());
        self
    }

    pub fn plain(mut self) -> Run {
        self.plain = true;
        self
    }

    pub fn any_order(mut self) -> Run {
        self.any_order = true;
        self
    }

    pub fn view(mut self, view: fn(&str) -> String) -> Run {
        self.view = Some(view);
        self
    }

    /// The terminal comes from script(1).
    pub fn command(&self, program: &Path) -> Command {
        let has_jobs = self.plain || self.args.iter().any(|arg| arg.starts_with("-j"));
        let mut args = if has_jobs { Vec::new() } else { vec!["-j1".to_owned()] };
        args.extend(self.args.iter().cloned());
        if self.columns.is_none() && self.shell.is_none() {
            let mut command = Command::new(program);
            command.args(&args);
            return command;
        }
        let quoted: Vec<String> = args.iter().map(|arg| format!("'{}'", arg.replace('\'', r"'\''"))).collect();
        let line = format!("{} exec ninja {}", self.shell.as_deref().unwrap_or(""), quoted.join(" "));
        let Some(columns) = self.columns else {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", &line]);
            return command;
        };
        let line = format!("stty cols {columns} rows 24; {line}");
        let mut command = Command::new("script");
        command.args(["-qefc", &line, "/dev/null"]);
        command
    }
}

impl From<&str> for Run {
    fn from(args: &str) -> Run {
        Run::new(args)
    }
}

type Act = Rc<dyn Fn(&mut Side)>;

#[derive(Clone)]
enum Step {
    Act(Act),
    Run(Run),
    End(Run),
}

/// The state after a run.
pub struct Seen {
    pub run: Run,
    pub ended: Ended,
    pub tree: Tree,
}

/// All observations of one program.
pub struct Played {
    /// After every run.
    pub seen: Vec<Seen>,
    /// The final output of the tools.
    pub answers: Vec<Answer>,
}

impl Played {
    /// The output of all runs, for debugging.
    fn show(&self) -> String {
        let show = |seen: &Seen| {
            format!("  {:?} {:?} -> {}\n{}", seen.run.args, seen.run.env, seen.ended.code, seen.ended.text())
        };
        self.seen.iter().map(show).collect()
    }
}

/// Named after its test.
#[derive(Clone)]
pub struct Case {
    steps: Vec<Step>,
    began: bool,
    started: Option<Run>,
    flags: Vec<String>,
    times: Times,
    ask: bool,
}

impl Case {
    pub fn new() -> Case {
        Case { steps: Vec::new(), began: false, started: None, flags: Vec::new(), times: Times::Loose, ask: true }
    }

    pub fn manifest(text: &str) -> Case {
        Case::new().file("build.ninja", text)
    }

    pub fn act(mut self, act: impl Fn(&mut Side) + 'static) -> Case {
        self.steps.push(Step::Act(Rc::new(act)));
        self
    }

    /// Before the first run the file gets an old mtime, later the current time.
    pub fn file(self, path: &str, content: impl AsRef<[u8]>) -> Case {
        let (path, content, at) = (path.to_owned(), content.as_ref().to_vec(), (!self.began).then_some(LONG_AGO));
        self.act(move |side| side.write(&path, &content, at))
    }

    pub fn touch(self, path: &str) -> Case {
        let path = path.to_owned();
        self.act(move |side| side.touch(&path, None))
    }

    /// In seconds.
    pub fn touch_at(self, path: &str, seconds: u64) -> Case {
        let path = path.to_owned();
        self.act(move |side| side.touch(&path, Some(seconds)))
    }

    pub fn delete(self, path: &str) -> Case {
        let path = path.to_owned();
        self.act(move |side| side.delete(&path))
    }

    pub fn run(mut self, run: impl Into<Run>) -> Case {
        self.began = true;
        self.steps.push(Step::Run(run.into()));
        self
    }

    /// Must be followed by `end`.
    pub fn start(mut self, run: impl Into<Run>) -> Case {
        let run = run.into();
        self.began = true;
        self.started = Some(run.clone());
        self.act(move |side| side.start(&run))
    }

    pub fn wait_for(self, barrier: &str) -> Case {
        let barrier = barrier.to_owned();
        self.act(move |side| side.wait_for(&barrier))
    }

    pub fn open(self, barrier: &str) -> Case {
        let barrier = barrier.to_owned();
        self.act(move |side| side.open(&barrier))
    }

    pub fn reset_barriers(self) -> Case {
        self.act(|side| side.reset_barriers())
    }

    pub fn signal(self, name: &str) -> Case {
        let name = name.to_owned();
        self.act(move |side| side.signal(&name, false))
    }

    pub fn type_keys(self, keys: &str) -> Case {
        let keys = keys.to_owned();
        self.act(move |side| side.type_keys(&keys))
    }

    pub fn end(mut self) -> Case {
        let run = self.started.take().expect("start comes first");
        self.steps.push(Step::End(run));
        self
    }

    /// Flags for the tools at the end too, such as `-f other.ninja`.
    pub fn flags(mut self, flags: &str) -> Case {
        self.flags = flags.split_whitespace().map(str::to_owned).collect();
        self
    }

    /// Commands wait for a clock tick, so that logged times differ from file times.
    pub fn exact_times(mut self) -> Case {
        self.times = Times::Exact;
        self
    }

    pub fn any_times(mut self) -> Case {
        self.times = Times::Any;
        self
    }

    /// For trees on which the tools differ for a known reason.
    pub fn without_answers(mut self) -> Case {
        self.ask = false;
        self
    }

    pub fn play(&self, side: &mut Side) -> Played {
        let mut seen = Vec::new();
        for step in &self.steps {
            let (run, ended) = match step {
                Step::Act(act) => {
                    act(side);
                    continue;
                }
                Step::Run(run) => (run, side.run(run)),
                Step::End(run) => (run, side.end()),
            };
            seen.push(Seen { run: run.clone(), ended, tree: side.tree(self.times) });
            if side.name() == TANTO {
                alike::check(&side.root, &self.flags);
            }
        }
        let answers = if self.ask { answers::ask(side, &self.flags) } else { Vec::new() };
        Played { seen, answers }
    }

    /// Runs the case with both programs and compares.
    pub fn check(self) {
        assert!(self.check_unless_referee_errs(), "the referee was killed by a signal");
    }

    /// Returns false, without comparing, if the reference ninja failed.
    pub fn check_unless_referee_errs(self) -> bool {
        let Some((referee, subject)) = programs() else { return true };
        let name = std::thread::current().name().unwrap_or("case").to_owned();
        let dir = fresh_dir();
        let mut referee = Side::new(&referee, dir.join("r"));
        let mut subject = Side::new(&subject, dir.join("s"));
        // Half of the cases use one thread, the others more than they need.
        let is_serial = name.bytes().fold(0, |sum, byte| sum ^ byte.count_ones()) & 1 == 0;
        for side in [&mut referee, &mut subject] {
            side.threads = Some(if is_serial { "1" } else { "8" });
        }
        let want = self.play(&mut referee);
        if referee.astray || want.seen.iter().any(|seen| DEADLY.contains(&seen.ended.code)) {
            remove_dir(&dir);
            return false;
        }
        let got = self.play(&mut subject);
        if std::env::var_os("TANTO_SHOW").is_some() {
            eprintln!("{name}\n{}", want.show());
        }
        let faults = compare::played(&referee, &want, &subject, &got);
        if !faults.is_empty() {
            panic!("{name}: {}\n(TANTO_KEEP=1 keeps {})\n", faults.join("\n"), dir.display());
        }
        remove_dir(&dir);
        true
    }
}

/// SIGABRT and SIGSEGV.
const DEADLY: [i32; 2] = [1006, 1011];

/// A directory for one case. Cases share no directory that one of them removes while another one creates its own in it.
pub fn fresh_dir() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("diff-{}-{number:04}", std::process::id()))
}

pub fn remove_dir(dir: &Path) {
    if std::env::var_os("TANTO_KEEP").is_none() {
        let _ = std::fs::remove_dir_all(dir);
    }
}
