//! `tanto bulk status`, `why` and `log`: what becomes of packages, as far as the database tells and the build that runs.
//! Changes nothing.

use std::fmt::Write as _;
use std::fs;
use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use tanto_bulk::config::Config;
use tanto_bulk::coordinator::control_socket::{self, Answer, Request, Unheard};
use tanto_bulk::coordinator::explain;
use tanto_bulk::coordinator::plan::Plan;
use tanto_bulk::coordinator::state::State;
use tanto_record::database::{Database, PackageRow};
use tanto_sys::terminal;

use super::place::{config, look, unusable};
use super::progress;
use crate::command_line::bulk::{ConfigArg, LogArgs, PackageArgs, StatusArgs};
use crate::flags::door::Door;
use crate::flags::stop::Stop;

/// How the build stands that runs, or else the last one: how many packages are in which state, what is being built, which
/// have failed.
pub(crate) fn status(args: &StatusArgs) -> Stop {
    let asked = || {
        let config = config(&args.config.config)?;
        if let Some(text) = running(&config, args.watch)? {
            return Ok(text);
        }
        let store = look(&config)?;
        let (run, _) = store.last_run().map_err(|error| unusable(&error))?.ok_or(b"nothing was built yet")?;
        summary(&store, run)
    };
    match asked() {
        Ok(text) => Stop::printed(text, 0),
        Err(message) => Stop::failed(Door::Tanto, "error", &message),
    }
}

/// How often a watcher looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How the build stands that runs, or in which phase it is; none if none runs, or, for a watcher, not any more.
fn running(config: &Config, watches: bool) -> Result<Option<String>, Vec<u8>> {
    let mut screen = Screen::default();
    loop {
        let told = match control_socket::ask(Path::new(&config.state), &Request::Status) {
            Ok(answer) => Some(String::from_utf8_lossy(&answer.out).into_owned()),
            Err(Unheard::Nobody) => progress::told(config),
            Err(unheard) => return Err(unheard.told().into_bytes()),
        };
        match told {
            Some(text) if watches => screen.show(&text),
            told => {
                screen.clear();
                return Ok(told);
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Text that is written over and over in the same place, where standard output is a terminal.
#[derive(Default)]
struct Screen {
    /// The cursor stands so many lines below the first.
    lines: usize,
}

impl Screen {
    fn show(&mut self, text: &str) {
        let mut out = std::io::stdout().lock();
        let Some((columns, rows)) = terminal::size(std::io::stdout()).filter(|_| std::io::stdout().is_terminal())
        else {
            // Nobody who reads it any more is no error.
            let _ = writeln!(out, "{text}").and_then(|()| out.flush());
            return;
        };
        let most = if rows > 1 { rows - 1 } else { usize::MAX };
        let shown: Vec<String> =
            text.lines().take(most).map(|line| line.chars().take(columns.wrapping_sub(1)).collect()).collect();
        let _ = writeln!(out, "{}{}", self.back(), shown.join("\n")).and_then(|()| out.flush());
        self.lines = shown.len();
    }

    fn clear(&mut self) {
        let mut out = std::io::stdout().lock();
        let _ = write!(out, "{}", self.back()).and_then(|()| out.flush());
        self.lines = 0;
    }

    /// To the first line, and all below it goes.
    fn back(&self) -> String {
        if self.lines == 0 { String::new() } else { format!("\x1b[{}A\r\x1b[J", self.lines) }
    }
}

/// Where a package stands and why, and what was tried.
pub(crate) fn why(args: &PackageArgs) -> Stop {
    answer(&args.config, |_, store, run| {
        let packages = store.packages(run).map_err(|error| unusable(&error))?;
        let package = find(&packages, args.package.as_bytes())?;
        let mut text = format!("{}: {}{}\n", package.name, package.state, because(&package.why));
        let due = store.due(run).map_err(|error| unusable(&error))?;
        if let Some((_, why)) = due.iter().find(|(due, _)| *due == package.package) {
            text += &format!("  it has to be built: {why}\n");
        }
        let edges = store.edges(run).map_err(|error| unusable(&error))?;
        text += &explain::told(&Plan::of_rows(&packages, &edges), package.package);
        for attempt in store.attempts(run).map_err(|error| unusable(&error))? {
            if attempt.job == package.job {
                let outcome = if attempt.outcome.is_empty() { "goes on" } else { &attempt.outcome };
                text += &format!("  attempt {}: {outcome}{}\n", attempt.attempt, because(&attempt.why));
            }
        }
        for stage in store.stages(run).map_err(|error| unusable(&error))?.iter().filter(|it| it.job == package.job) {
            let (wall, cpu) = (stage.wall_ms as f64 / 1e3, stage.cpu_ms as f64 / 1e3);
            // The logs of what was built are gone.
            let log = if Path::new(&stage.log).exists() { format!("  {}", stage.log) } else { String::new() };
            text += &format!("    {:12} exit {:3} {wall:9.2} s {cpu:9.2} s cpu{log}\n", stage.stage, stage.exit);
        }
        Ok(text)
    })
}

/// What a package prints that is being built, or what a failed one printed: in its last stage, or in the stage that is named.
pub(crate) fn log(args: &LogArgs) -> Stop {
    answer(&args.config, |config, store, run| {
        let packages = store.packages(run).map_err(|error| unusable(&error))?;
        let package = find(&packages, args.package.as_bytes())?;
        let wanted = &args.stage;
        let request = Request::Log { package: package.name.clone(), stage: wanted.clone() };
        if package.state == State::Running.name()
            && let Ok(Answer { code: 0, out, .. }) = control_socket::ask(Path::new(&config.state), &request)
        {
            return Ok(String::from_utf8_lossy(&out).into_owned());
        }
        let stages = store.stages(run).map_err(|error| unusable(&error))?;
        let is_wanted = |stage: &str| wanted.as_ref().is_none_or(|wanted| wanted == stage) && stage != "clean";
        let is_there = |log: &str| !log.is_empty() && Path::new(log).exists();
        let of_it = stages.iter().rev().filter(|it| it.job == package.job && is_there(&it.log));
        let stage = of_it.clone().find(|it| is_wanted(&it.stage));
        let stage = stage.ok_or_else(|| format!("there is no such log of {}", package.name).into_bytes())?;
        let read = fs::read(Path::new(&stage.log));
        let text = read.map_err(|error| super::files::failed("reading ", stage.log.as_bytes(), &error))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    })
}

/// A few lines on a run.
pub(super) fn summary(store: &Database, run: i64) -> Result<String, Vec<u8>> {
    let packages = store.packages(run).map_err(|error| unusable(&error))?;
    if packages.is_empty() {
        return Ok("a build has begun, and has not come to its packages: 'tanto bulk build' goes on with it\n".into());
    }
    let mut text = format!("{} packages", packages.len());
    for state in State::ALL {
        let count = packages.iter().filter(|package| package.state == state.name()).count();
        if count > 0 {
            let _ = write!(text, ", {count} {}", state.name());
        }
        let stood = packages.iter().filter(|it| it.state == state.name() && it.why == State::UP_TO_DATE).count();
        if stood > 0 {
            let _ = write!(text, " ({stood} up to date before)");
        }
    }
    text.push('\n');
    for state in [State::Failed.name(), State::MachineFailed.name()] {
        for package in packages.iter().filter(|package| package.state == state) {
            let _ = writeln!(text, "{state}: {}{}", package.name, because(&package.why));
        }
    }
    Ok(text)
}

fn because(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!(" ({why})") }
}

/// Asks the last run.
fn answer(args: &ConfigArg, ask: impl FnOnce(&Config, &Database, i64) -> Result<String, Vec<u8>>) -> Stop {
    let asked = || {
        let config = config(&args.config)?;
        let store = look(&config)?;
        let last = store.last_run().map_err(|error| unusable(&error))?;
        let (run, _) = last.ok_or(b"nothing was built yet")?;
        ask(&config, &store, run)
    };
    match asked() {
        Ok(text) => Stop::printed(text, 0),
        Err(message) => Stop::failed(Door::Tanto, "error", &message),
    }
}

/// The package of this name, or the only one with this base or directory.
pub(super) fn find<'a>(packages: &'a [PackageRow], word: &[u8]) -> Result<&'a PackageRow, Vec<u8>> {
    let base = |package: &PackageRow| tanto_bulk::package::name::Name::new(package.name.as_bytes()).base() == word;
    let is_it = |package: &&PackageRow| package.location.as_bytes() == word || base(package);
    let exact = packages.iter().find(|package| package.name.as_bytes() == word);
    let mut alike = packages.iter().filter(is_it);
    match (exact, alike.next(), alike.next()) {
        (Some(package), ..) | (None, Some(package), None) => Ok(package),
        (None, Some(_), Some(_)) => Err([b"more than one package is '", word, b"': name it with its version"].concat()),
        (None, None, _) => Err([b"there is no package '", word, b"'"].concat()),
    }
}
