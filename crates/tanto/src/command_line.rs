//! The command line of `tanto`: every subcommand from one declaration, except `ninja`'s own.

mod bench;
pub mod build;
mod generate;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::invocation::Invocation;
use crate::settings::EnvVars;
use crate::{bulk, cache, clang, doctor, report, run, simulate};
use tanto_exec::command_output::CommandOutput;

/// A build engine for the many-core era: a drop-in ninja, and more
#[derive(Parser, Debug)]
#[command(
    name = "tanto",
    version,
    arg_required_else_help = true,
    after_help = "Under the name ninja, the same program is a drop-in replacement for ninja."
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Bring targets up to date, as ninja does
    ///
    /// Reads build.ninja in the current directory, or in the one that -C names, and runs the commands that bring the
    /// targets up to date. Without targets, builds the default targets of the manifest. A target is a file or phony
    /// edge of the manifest, a directory (`lib/`: all outputs below it), or a glob (`test/*.o`, with `*`, `?`, `[a-z]`,
    /// and `**` for any number of directories).
    Build(build::BuildArgs),
    /// Run a command and kill it if it hangs
    Run(run::RunArgs),
    /// Report why commands ran, where time went, and their output
    Report(report::ReportArgs),
    /// Show every setting and where its value comes from
    ///
    /// Takes the options of `tanto build` and shows the resulting settings with their sources, the log of the build
    /// directory, the processors and memory of the machine, the jobserver, and which `ninja` is found in PATH.
    Doctor(build::BuildArgs),
    /// Compare the speed of commands, numbers of jobs and file access
    #[command(subcommand, arg_required_else_help = true, disable_help_subcommand = true)]
    Bench(bench::BenchCommand),
    /// Estimate how long a build takes with other numbers of jobs
    Simulate(simulate::SimulateArgs),
    /// Build the packages of a pkgsrc tree
    ///
    /// Each command reads bulk.toml in the current directory, or the file that --config names. `status`, `why`, `log`,
    /// `retry`, `skip` and `kill` work from another terminal during a build.
    #[command(subcommand, arg_required_else_help = true, disable_help_subcommand = true)]
    Bulk(bulk::BulkCommand),
    Clang(clang::ClangArgs),
    Cache(cache::CacheArgs),
    /// Print man pages and shell completions
    Generate(generate::GenerateArgs),
}

/// The declaration of all commands.
pub fn declaration() -> clap::Command {
    CommandLine::command()
}

/// Returns the help text of a command whose options ask for it. `-h` gives the short one.
pub fn help(name: &str, args: &[Vec<u8>]) -> String {
    let flag = if args.iter().any(|arg| arg.starts_with(b"--h")) { "--help" } else { "-h" };
    let shown = declaration().try_get_matches_from(["tanto", name, flag]);
    shown.map_or_else(|help| help.render().to_string(), |_| String::new())
}

/// Runs the command line that follows the program's name.
pub fn dispatch(args: &[Vec<u8>]) -> CommandOutput {
    match args {
        [name, rest @ ..] if name == b"doctor" => {
            let done = doctor::run(rest, &EnvVars::of_process());
            return done
                .unwrap_or_else(|error| error.output(Invocation::Tanto, b"tanto doctor", || help("doctor", rest)));
        }
        [bulk, name, rest @ ..] if bulk == b"bulk" && !matches!(rest, [flag] if flag == b"-h" || flag == b"--help") => {
            if let Some(stop) = bulk::run_internal(name, rest) {
                return stop;
            }
        }
        _ => {}
    }
    let words = args.iter().map(|arg| OsString::from_vec(arg.clone()));
    let mut command = declaration();
    let parsed = command.try_get_matches_from_mut([OsString::from("tanto")].into_iter().chain(words));
    match parsed.and_then(|matches| CommandLine::from_arg_matches(&matches)) {
        Ok(line) => execute(line.command),
        Err(error) => stopped(&error, args),
    }
}

fn execute(command: Command) -> CommandOutput {
    match command {
        // Not parsed by clap.
        Command::Build(_) | Command::Doctor(_) => CommandOutput::default(),
        Command::Bench(command) => bench::run(command),
        Command::Run(args) => run::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Bulk(command) => bulk::run(command),
        Command::Clang(args) => clang::run(&args),
        Command::Cache(args) => cache::run(&args),
        Command::Generate(args) => generate::run(&args),
    }
}

/// The help text or the error message of clap, in the form of Tanto's messages.
fn stopped(error: &clap::Error, args: &[Vec<u8>]) -> CommandOutput {
    let code = match args {
        // Exits like `timeout` and `env`, which leave small codes to their command.
        [name, ..] if name == b"run" => run::OWN_FAILURE,
        // 1 means that a command is slower.
        [bench, name, ..] if bench == b"bench" && name == b"compare" => tanto_bench::compare::FAILURE,
        _ => 1,
    };
    let text = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => CommandOutput::printed(text, 0),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            CommandOutput { out: Vec::new(), err: text.into(), code }
        }
        _ => {
            let text = format!("{}\nTry '{} --help'.", message(error, &text), called(args));
            CommandOutput::failed(text).with_code(code)
        }
    }
}

/// The names of the command and its subcommand.
fn called(args: &[Vec<u8>]) -> String {
    let root = declaration();
    let (mut command, mut text) = (&root, "tanto".to_owned());
    for name in args.iter().map_while(|arg| std::str::from_utf8(arg).ok()) {
        let Some(below) = command.find_subcommand(name) else { break };
        command = below;
        text = format!("{text} {name}");
    }
    text
}

fn message(error: &clap::Error, text: &str) -> String {
    let context = |kind| error.get(kind).map(ToString::to_string);
    let suggested = |kind| match error.get(kind) {
        Some(ContextValue::Strings(all)) => all.first().cloned(),
        Some(ContextValue::String(one)) => Some(one.clone()),
        _ => None,
    };
    let hint = |kind| suggested(kind).map(|meant| format!(", did you mean '{meant}'?")).unwrap_or_default();
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let name = context(ContextKind::InvalidSubcommand).unwrap_or_default();
            format!("unknown command '{name}'{}", hint(ContextKind::SuggestedSubcommand))
        }
        ErrorKind::UnknownArgument => {
            let name = context(ContextKind::InvalidArg).unwrap_or_default();
            format!("unexpected argument '{name}'{}", hint(ContextKind::SuggestedArg))
        }
        ErrorKind::InvalidValue => {
            let (name, value) = (context(ContextKind::InvalidArg), context(ContextKind::InvalidValue));
            let known = context(ContextKind::ValidValue).unwrap_or_default();
            let hint = hint(ContextKind::SuggestedValue);
            let (name, value) = (name.unwrap_or_default(), value.unwrap_or_default());
            format!("invalid value '{value}' for '{name}': expected one of {known}{hint}")
        }
        _ => {
            let text = text.strip_prefix("error: ").unwrap_or(text);
            let first = text.split("\n\n").next().unwrap_or_default();
            first.split_whitespace().collect::<Vec<_>>().join(" ")
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use clap::Args;

    /// Parses the options and operands of one command.
    pub fn parse<T: Args>(line: &str) -> Result<T, clap::Error> {
        let command = T::augment_args(clap::Command::new("test").no_binary_name(true));
        T::from_arg_matches(&command.try_get_matches_from(line.split_whitespace())?)
    }

    fn tanto(line: &str) -> CommandOutput {
        dispatch(&line.split_whitespace().map(Vec::from).collect::<Vec<_>>())
    }

    fn error(line: &str) -> String {
        let stop = tanto(line);
        assert_eq!((stop.code, stop.out.len()), (1, 0), "{line}");
        String::from_utf8(stop.err).expect("text")
    }

    /// The words that lead to each command.
    fn paths(command: &clap::Command, above: &str) -> Vec<(String, bool)> {
        let line = |sub: &clap::Command| format!("{above} {}", sub.get_name());
        let below = command.get_subcommands().flat_map(|sub| paths(sub, &line(sub)));
        [(above.trim().to_owned(), command.is_hide_set())].into_iter().chain(below).collect()
    }

    #[test]
    fn every_command_has_help_and_a_man_page() {
        let root = declaration();
        root.clone().debug_assert();
        let pages = generate::pages();
        for (line, is_hidden) in paths(&root, "") {
            for flag in ["-h", "--help"] {
                let stop = tanto(&format!("{line} {flag}"));
                let text = String::from_utf8(stop.out).expect("text");
                assert_eq!((stop.code, String::from_utf8_lossy(&stop.err).as_ref()), (0, ""), "{line} {flag}");
                assert!(text.contains(format!("Usage: tanto {line}").trim_end()), "{line} {flag}: {text}");
            }
            assert_eq!(tanto(&format!("help {line}")).code, 0, "{line}");
            let name = format!("tanto {line}").trim_end().replace(' ', "-");
            assert!(is_hidden || pages.iter().any(|(page, text)| *page == name && text.len() > 100), "{name}");
        }
    }

    #[test]
    fn misspelled_names_have_suggestions() {
        assert!(error("buidl").starts_with("tanto: error: unknown command 'buidl', did you mean 'build'?\n"));
        assert!(error("bulk biuld").starts_with("tanto: error: unknown command 'biuld', did you mean 'build'?\n"));
        let unknown = error("bulk status --wtach");
        assert!(
            unknown.starts_with("tanto: error: unexpected argument '--wtach', did you mean '--watch'?\n"),
            "{unknown}"
        );
        let value = error("simulate --order nija");
        assert!(value.contains("invalid value 'nija' for '--order <ORDER>'"), "{value}");
        assert!(value.contains(", did you mean 'ninja'?"), "{value}");
    }
}
