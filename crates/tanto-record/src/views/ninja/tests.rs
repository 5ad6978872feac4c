//! Event streams with the output of ninja 1.13.2 for the same builds. Those with `--status` are from its development
//! branch.

use std::cell::RefCell;
use std::ffi::OsString;
use std::rc::Rc;

use tanto_exec::job::{ExecutedBy, Usage};

use super::*;

/// Standard output and standard error of the view and of commands with the console.
#[derive(Clone, Default)]
struct Screen(Rc<RefCell<Vec<u8>>>);

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Where {
    /// Not a terminal.
    Pipe,
    /// A smart terminal of this width.
    Smart(usize),
}

const TTY: Where = Where::Smart(40);

struct Build {
    view: NinjaView,
    screen: Screen,
    jobs: Vec<JobInfo>,
}

impl Build {
    fn new(place: Where, verbosity: Verbosity, jobs: &[JobInfo]) -> Build {
        Build::with(place, verbosity, ProgressFormat::default(), &[], jobs)
    }

    fn with(place: Where, verbosity: Verbosity, format: ProgressFormat, colors: &[&str], jobs: &[JobInfo]) -> Build {
        let columns = match place {
            Where::Pipe => None,
            Where::Smart(columns) => Some(columns),
        };
        let lookup = |name: &str| (name == "TERM" || colors.contains(&name)).then(|| OsString::from("1"));
        let terminal = Terminal::detect(place != Where::Pipe, lookup, Box::new(move || columns));
        let screen = Screen::default();
        let config = NinjaConfig {
            program: "ninja",
            verbosity,
            format,
            explain: true,
            holds: true,
            notes: true,
            rest: None,
            failures_to_err: false,
            parallelism: Box::new(|| 2),
        };
        let view = NinjaView::new(config, terminal, Box::new(screen.clone()), Box::new(screen.clone()));
        let mut build = Build { view, screen, jobs: jobs.to_vec() };
        for job in 0..jobs.len() as u32 {
            build.view.event(Event::Planned { job: JobId(job), expected_ms: None });
        }
        build.view.event(Event::BuildStarted { at_ms: 0, downstream_ms: &[] });
        build
    }

    fn start(&mut self, job: u32) -> &mut Build {
        self.view.event(Event::Started { job: JobId(job), info: &self.jobs[job as usize], at_ms: 0 });
        self
    }

    fn end(&mut self, job: u32, exit: Exit, output: &[u8]) -> &mut Build {
        let info = &self.jobs[job as usize];
        let usage = Usage::default();
        self.view.event(Event::Finished {
            job: JobId(job),
            info,
            start_ms: 0,
            end_ms: 1,
            exit,
            output,
            usage,
            executed_by: ExecutedBy::Process,
            cache: None,
        });
        self
    }

    fn run(&mut self, job: u32, output: &[u8]) -> &mut Build {
        self.start(job).end(job, Exit::Code(0), output)
    }

    fn fail(&mut self, job: u32, exit: Exit, output: &[u8]) -> &mut Build {
        self.start(job).end(job, exit, output)
    }

    /// A command with the console writes.
    fn child(&mut self, text: &[u8]) -> &mut Build {
        self.view.flush();
        self.screen.0.borrow_mut().extend_from_slice(text);
        self
    }

    fn notice(&mut self, level: Level, text: &str) -> &mut Build {
        self.view.event(Event::Notice { level, text: text.as_bytes() });
        self
    }

    fn finish(&mut self) -> &mut Build {
        self.view.event(Event::BuildFinished { at_ms: 1 });
        self
    }

    #[track_caller]
    fn shows(&mut self, expected: &str) {
        self.view.flush();
        let screen = self.screen.0.borrow().escape_ascii().to_string();
        assert_eq!(screen, expected.as_bytes().escape_ascii().to_string());
    }
}

fn job(output: &str, command: &str, description: &str) -> JobInfo {
    JobInfo {
        command: command.into(),
        description: description.into(),
        outputs: output.split(' ').map(Into::into).collect(),
        ..JobInfo::default()
    }
}

fn console(info: JobInfo) -> JobInfo {
    JobInfo { console: true, ..info }
}

fn explained(info: JobInfo) -> JobInfo {
    let why = [b"output ", info.outputs[0].as_slice(), b" doesn't exist"].concat();
    JobInfo { why: vec![why], ..info }
}

fn two() -> [JobInfo; 2] {
    [job("a", "true", "make a"), job("b", "true", "")]
}

fn three() -> [JobInfo; 3] {
    [job("a", "x", "A"), job("b", "y", "B"), job("c", "z", "C")]
}

#[test]
fn two_commands() {
    use Verbosity::{Normal, Quiet, Verbose};
    let cases = [
        (Where::Pipe, Normal, "[1/2] make a\n[2/2] true\n"),
        (TTY, Normal, "\r[0/2] make a\x1b[K\r[1/2] make a\x1b[K\r[1/2] true\x1b[K\r[2/2] true\x1b[K\n"),
        (Where::Pipe, Verbose, "[1/2] true\n[2/2] true\n"),
        (TTY, Verbose, "[1/2] true\n[2/2] true\n"),
        (Where::Pipe, Quiet, ""),
        (TTY, Quiet, ""),
    ];
    for (place, verbosity, expected) in cases {
        Build::new(place, verbosity, &two()).run(0, b"").run(1, b"").finish().shows(expected);
    }
}

#[test]
fn a_dry_run_starts_all_before_it_ends_one() {
    let mut build = Build::new(TTY, Verbosity::Normal, &two());
    build.start(0).start(1).end(0, Exit::Code(0), b"").end(1, Exit::Code(0), b"").finish();
    build.shows("\r[0/2] make a\x1b[K\r[0/2] true\x1b[K\r[1/2] make a\x1b[K\r[2/2] true\x1b[K\n");
}

fn with_output(place: Where, verbosity: Verbosity, colors: &[&str]) -> Build {
    let mut build = Build::with(place, verbosity, ProgressFormat::default(), colors, &three());
    build.run(0, b"x\x1b[31mred\x1b[0m\n").run(1, b"nonl").run(2, b"more\n").finish();
    build
}

#[test]
fn output_and_its_colours() {
    use Verbosity::{Normal, Quiet};
    let plain = "[1/3] A\nxred\n[2/3] B\nnonl[3/3] C\n\nmore\n";
    let color = "[1/3] A\nx\x1b[31mred\x1b[0m\n[2/3] B\nnonl[3/3] C\n\nmore\n";
    with_output(Where::Pipe, Normal, &[]).shows(plain);
    with_output(Where::Pipe, Normal, &["CLICOLOR_FORCE"]).shows(color);
    with_output(Where::Pipe, Normal, &["CLICOLOR_FORCE", "NO_COLOR"]).shows(plain);
    with_output(Where::Pipe, Normal, &["FORCE_COLOR", "NO_COLOR"]).shows(color);
    with_output(Where::Pipe, Quiet, &[]).shows("xred\nnonl\nmore\n");
    with_output(TTY, Quiet, &[]).shows("x\x1b[31mred\x1b[0m\nnonl\nmore\n");
    with_output(TTY, Normal, &[]).shows(
        "\r[0/3] A\x1b[K\r[1/3] A\x1b[K\nx\x1b[31mred\x1b[0m\n\r[1/3] B\x1b[K\r[2/3] B\x1b[K\nnonl\
         \r[2/3] C\x1b[K\r[3/3] C\x1b[K\nmore\n",
    );
}

#[test]
fn failures_name_code_outputs_and_command() {
    let jobs = [job("a a2", "echo oops; exit 3", "A"), job("b", "true", "B")];
    let run = |place, verbosity, colors: &[&str]| {
        let mut build = Build::with(place, verbosity, ProgressFormat::default(), colors, &jobs);
        build.fail(0, Exit::Code(3), b"oops\n").finish();
        build.notice(Level::Info, "build stopped: subcommand failed.");
        build
    };
    let block = "FAILED: [code=3] a a2 \necho oops; exit 3\noops\nninja: build stopped: subcommand failed.\n";
    let red = block.replace("FAILED: [code=3] ", "\x1b[31mFAILED: [code=3] \x1b[0m");
    run(Where::Pipe, Verbosity::Normal, &[]).shows(&format!("[1/2] A\n{block}"));
    run(Where::Pipe, Verbosity::Normal, &["CLICOLOR_FORCE"]).shows(&format!("[1/2] A\n{red}"));
    run(TTY, Verbosity::Quiet, &[]).shows(&red);
    run(TTY, Verbosity::Verbose, &[]).shows(&format!("[1/2] echo oops; exit 3\n{red}"));
    run(TTY, Verbosity::Normal, &[]).shows(&format!("\r[0/2] A\x1b[K\r[1/2] A\x1b[K\n{red}"));
    run(TTY, Verbosity::Normal, &["NO_COLOR"]).shows(&format!("\r[0/2] A\x1b[K\r[1/2] A\x1b[K\n{block}"));
}

#[test]
fn a_build_goes_on_after_a_failure() {
    let jobs = [job("a a2", "echo oops; exit 3", "A"), job("b", "true", "B")];
    let mut build = Build::new(TTY, Verbosity::Normal, &jobs);
    build.fail(0, Exit::Code(3), b"oops\n").run(1, b"").finish();
    build.shows(
        "\r[0/2] A\x1b[K\r[1/2] A\x1b[K\n\x1b[31mFAILED: [code=3] \x1b[0ma a2 \necho oops; exit 3\noops\n\
         \r[1/2] B\x1b[K\r[2/2] B\x1b[K\n",
    );
}

#[test]
fn codes_of_signals() {
    let signals = [(Exit::Signal(9), 137), (Exit::Signal(11), 139), (Exit::Signal(15), 130), (Exit::Dumped(11), 267)];
    for (exit, code) in [(Exit::Code(255), 255)].into_iter().chain(signals) {
        let mut build = Build::new(Where::Pipe, Verbosity::Normal, &[job("a", "x", "A")]);
        build.fail(0, exit, b"").finish().shows(&format!("[1/1] A\nFAILED: [code={code}] a \nx\n"));
    }
}

/// `b` and `c` end while `a` has the console.
fn beside_the_console(place: Where, verbosity: Verbosity, exit: Exit, b: &[u8], c: &[u8]) -> Build {
    let [a, b_job, c_job] = three();
    let mut build = Build::new(place, verbosity, &[console(a), b_job, c_job]);
    let ok = Exit::Code(0);
    build.start(0).child(b"con1\n").run(1, b).start(2).end(2, ok, c).child(b"con2\n").end(0, exit, b"").finish();
    build
}

#[test]
fn the_console_holds_others_back() {
    use Verbosity::{Normal, Quiet, Verbose};
    let run = |place, verbosity| beside_the_console(place, verbosity, Exit::Code(0), b"bout\n", b"");
    run(Where::Pipe, Normal).shows("[0/3] A\ncon1\ncon2\n[1/3] B\nbout\n[2/3] C\n");
    run(TTY, Normal).shows("\r[0/3] A\x1b[K\ncon1\ncon2\n[1/3] B\nbout\n\r[2/3] C\x1b[K\n");
    run(Where::Pipe, Quiet).shows("con1\ncon2\nbout\n");
    run(TTY, Verbose).shows("[0/3] x\ncon1\ncon2\n[1/3] y\nbout\n[2/3] z\n");
}

#[test]
fn held_output_without_a_line_end() {
    let run = |place| beside_the_console(place, Verbosity::Normal, Exit::Code(1), b"bout", b"");
    run(Where::Pipe).shows("[0/3] A\ncon1\ncon2\n\n[1/3] B\nbout[2/3] C\n\nFAILED: [code=1] a \nx\n");
    run(TTY)
        .shows("\r[0/3] A\x1b[K\ncon1\ncon2\n\n[1/3] B\nbout\r[2/3] C\x1b[K\n\x1b[31mFAILED: [code=1] \x1b[0ma \nx\n");
}

#[test]
fn only_the_last_held_line_is_shown() {
    let [a, b, c] = three();
    let run = |place| {
        let mut build =
            Build::new(place, Verbosity::Normal, &[console(a.clone()), b.clone(), c.clone(), job("d", "t", "D")]);
        build.start(0).child(b"con1\n").run(1, b"").run(2, b"c").child(b"con2\n").end(0, Exit::Code(0), b"");
        build.run(3, b"").finish();
        build
    };
    run(Where::Pipe).shows("[0/4] A\ncon1\ncon2\n\n[2/4] C\nc[4/4] D\n\n");
    run(TTY).shows("\r[0/4] A\x1b[K\ncon1\ncon2\n\n[2/4] C\nc\r[3/4] D\x1b[K\r[4/4] D\x1b[K\n");
}

#[test]
fn explanations_come_before_each_status_line() {
    let jobs = two().map(explained);
    let run = |place, verbosity| {
        let mut build = Build::new(place, verbosity, &jobs);
        build.run(0, b"").run(1, b"").finish();
        build
    };
    let (a, b) = ("ninja explain: output a doesn't exist\n", "ninja explain: output b doesn't exist\n");
    run(Where::Pipe, Verbosity::Normal).shows(&format!("{a}[1/2] make a\n{b}[2/2] true\n"));
    run(Where::Pipe, Verbosity::Quiet).shows(&format!("{a}{b}"));
    run(TTY, Verbosity::Normal).shows(&format!(
        "{a}\r[0/2] make a\x1b[K\n{a}\r[1/2] make a\x1b[K\n{b}\r[1/2] true\x1b[K\n{b}\r[2/2] true\x1b[K\n"
    ));
}

#[test]
fn explanations_end_an_unfinished_line() {
    let mut build = Build::new(Where::Pipe, Verbosity::Normal, &three().map(explained));
    build.run(0, b"xred\n").run(1, b"nonl").run(2, b"more\n").finish();
    build.shows(
        "ninja explain: output a doesn't exist\n[1/3] A\nxred\nninja explain: output b doesn't exist\n[2/3] B\nnonl\n\
         ninja explain: output c doesn't exist\n[3/3] C\nmore\n",
    );
}

#[test]
fn a_console_command_is_explained_once() {
    for (place, status) in [(Where::Pipe, "[0/1] A\n"), (TTY, "\r[0/1] A\x1b[K\n")] {
        let mut build = Build::new(place, Verbosity::Normal, &[console(explained(job("a", "x", "A")))]);
        build.start(0).child(b"con\n").end(0, Exit::Code(0), b"").finish();
        build.shows(&format!("ninja explain: output a doesn't exist\n{status}con\n"));
    }
}

#[test]
fn each_throttle_reason_is_reported_once() {
    let memory = ThrottleReason::Memory { job: JobId(1), needs_kib: 3 << 20, available_kib: 0 };
    let whys = [Some(memory), None, Some(ThrottleReason::LoadAverage), None, Some(memory)];
    let run = |holds| {
        let mut build = Build::new(Where::Pipe, Verbosity::Normal, &two());
        build.view.config.holds = holds;
        build.start(0);
        whys.into_iter().for_each(|why| build.view.event(Event::Throttled { reason: why, at_ms: 1 }));
        build.end(0, Exit::Code(0), b"").run(1, b"").finish();
        build
    };
    let lines = "[1/2] make a\n[2/2] true\n";
    let messages = "ninja: waiting: not enough memory: 3.0 GiB needed, nothing left\nninja: waiting: the load average is too high\n";
    run(true).shows(&format!("{messages}{lines}"));
    run(false).shows(lines);
}

#[test]
fn reasons_are_not_shown_unless_asked_for() {
    let mut build = Build::new(Where::Pipe, Verbosity::Normal, &two().map(explained));
    build.view.config.explain = false;
    build.run(0, b"").shows("[1/2] make a\n");
}

#[test]
fn a_notice_can_explain() {
    let run = |place| {
        let mut build = Build::new(place, Verbosity::Normal, &two().map(explained));
        build.run(0, b"").notice(Level::Explain, "loading dyndep file 'a'").run(1, b"").finish();
        build
    };
    let (a, b) = ("ninja explain: output a doesn't exist\n", "ninja explain: output b doesn't exist\n");
    let load = "ninja explain: loading dyndep file 'a'\n";
    run(Where::Pipe).shows(&format!("{a}[1/2] make a\n{load}{b}[2/2] true\n"));
    run(TTY).shows(&format!(
        "{a}\r[0/2] make a\x1b[K\n{a}\r[1/2] make a\x1b[K\n{load}{b}\r[1/2] true\x1b[K\n{b}\r[2/2] true\x1b[K\n"
    ));
}

/// Explanations are written at once, although another process owns the terminal.
#[test]
fn explanations_do_not_wait_for_the_console() {
    let [a, b] = two().map(explained);
    let mut build = Build::new(Where::Pipe, Verbosity::Normal, &[console(a), b, job("c", "z", "C")]);
    build.start(0).run(1, b"").notice(Level::Explain, "loading dyndep file 'b'").run(2, b"");
    build.child(b"con2\n").end(0, Exit::Code(0), b"").finish();
    build.shows(
        "ninja explain: output a doesn't exist\n[0/3] make a\nninja explain: output b doesn't exist\n\
         ninja explain: loading dyndep file 'b'\ncon2\n[1/3] true\n[2/3] C\n",
    );
}

#[test]
fn notices_have_ninja_s_prefixes() {
    let mut build = Build::new(Where::Pipe, Verbosity::Quiet, &[]);
    build.notice(Level::Info, "no work to do.").notice(Level::Warning, "odd").notice(Level::Error, "wrong");
    build.shows("ninja: no work to do.\nninja: warning: odd\nninja: error: wrong\n");
}

#[test]
fn only_information_goes_to_standard_output() {
    let (out, err) = (Screen::default(), Screen::default());
    let terminal = Terminal::detect(false, |_| None, Box::new(|| None));
    let config = NinjaConfig {
        program: "ninja",
        verbosity: Verbosity::Normal,
        format: ProgressFormat::default(),
        holds: false,
        notes: false,
        explain: true,
        rest: None,
        failures_to_err: false,
        parallelism: Box::new(|| 1),
    };
    let mut view = NinjaView::new(config, terminal, Box::new(out.clone()), Box::new(err.clone()));
    for level in [Level::Info, Level::Warning, Level::Error, Level::Explain] {
        view.event(Event::Notice { level, text: b"x" });
    }
    assert_eq!(*out.0.borrow(), b"ninja: x\n");
    assert_eq!(*err.0.borrow(), b"ninja: warning: x\nninja: error: x\nninja explain: x\n");
}

#[test]
fn an_unfinished_line_waits_for_its_end() {
    let mut build = Build::new(Where::Pipe, Verbosity::Quiet, &three());
    build.run(0, b"one\ntwo").notice(Level::Error, "e").finish();
    build.shows("one\nninja: error: e\ntwo\n");
}

#[test]
fn the_total_follows_the_plan() {
    let mut build = Build::new(Where::Pipe, Verbosity::Normal, &three());
    build.view.event(Event::Unplanned { job: JobId(2), expected_ms: None });
    build.run(0, b"").run(1, b"").finish().shows("[1/2] A\n[2/2] B\n");
}

/// The manifest's own build stays in the total, as in ninja.
#[test]
fn a_second_build_counts_on() {
    let mut build = Build::new(Where::Pipe, Verbosity::Normal, &[job("build.ninja", "g", "regen")]);
    build.run(0, b"").finish();
    build.jobs = two().to_vec();
    for job in 0..2 {
        build.view.event(Event::Planned { job: JobId(job), expected_ms: None });
    }
    build.view.event(Event::BuildStarted { at_ms: 0, downstream_ms: &[] });
    build.run(0, b"").run(1, b"").finish().shows("[1/1] regen\n[1/3] make a\n[2/3] true\n");
}

#[test]
fn formats() {
    let run = |place, verbosity, format| {
        let mut build = Build::with(place, verbosity, format, &[], &two());
        build.run(0, b"").run(1, b"").finish();
        build
    };
    let many = || ProgressFormat::parse_ninja_status(b"%s %t %p %r %u %f %% |");
    let normal = Verbosity::Normal;
    run(Where::Pipe, normal, many()).shows("1 2  50% 1 1 1 % |make a\n2 2 100% 1 0 2 % |true\n");
    run(Where::Smart(80), normal, many()).shows(
        "\r1 2   0% 1 1 0 % |make a\x1b[K\r1 2  50% 1 1 1 % |make a\x1b[K\r2 2  50% 1 0 1 % |true\x1b[K\
         \r2 2 100% 1 0 2 % |true\x1b[K\n",
    );
    run(Where::Pipe, normal, ProgressFormat::parse_ninja_status(b"")).shows("make a\ntrue\n");

    let status = |text: &[u8]| ProgressFormat::parse_status(text).expect("a good format");
    run(Where::Pipe, normal, status(b"")).shows("\n\n");
    run(Where::Pipe, Verbosity::Verbose, status(b"X $description")).shows("X true\nX true\n");
    run(TTY, normal, status(b"X $finished $description"))
        .shows("\rX 0 make a\x1b[K\rX 1 make a\x1b[K\rX 1 true\x1b[K\rX 2 true\x1b[K\n");
}

#[test]
fn lines_are_cut_to_the_terminal() {
    let long = [job("a", "true", "0123456789012345678901234567890123456789 end")];
    for (columns, line) in [(10, "/... end"), (20, "/1] 01...56789 end")] {
        let mut build = Build::new(Where::Smart(columns), Verbosity::Normal, &long);
        build.run(0, b"").finish().shows(&format!("\r[0{line}\x1b[K\r[1{line}\x1b[K\n"));
    }
}
