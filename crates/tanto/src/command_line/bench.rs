//! `tanto bench`: its subcommands and their options.

use std::ffi::OsString;
use std::fmt::Display;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use tanto_bench::Error;
use tanto_bench::compare::{self, CompareOptions, Percentage};
use tanto_bench::jobs::{self, JobCounts, JobsOptions};
use tanto_bench::measure::controls::Controls;
use tanto_bench::output::{Format, OutputFile};
use tanto_bench::plot::{self, PlotOptions};
use tanto_bench::stat::{self, StatOptions};
use tanto_exec::command_output::CommandOutput;
use tanto_exec::text::number;
use tanto_sys::machine::affinity::CpuMask;

use crate::settings;

const MAX_RUNS: i64 = 1_000_000;
const MAX_READ_AHEAD_KIB: i64 = 1 << 20;
/// Runs of each command if no limit is given.
const DEFAULT_RUNS: usize = 10;

#[derive(Subcommand, Debug)]
pub enum BenchCommand {
    /// Determine whether one command is faster than another
    ///
    /// Runs two or more shell command lines alternately, in random order. Reports how much slower or faster each one is
    /// than the first, with a 95 % confidence interval, or the smallest difference that the experiment could have
    /// detected. The exit code is 1 if `--fail-if-slower` says so, 2 for errors, and 128 plus the number of the signal
    /// after an interrupt.
    ///
    /// Example: tanto bench compare --runs 30 --prepare 'make clean' 'make CC=gcc' 'make CC=clang'
    Compare(CompareArgs),
    /// Find the best number of jobs for a command
    ///
    /// Runs the command with several numbers of jobs, which replace {jobs} in it. Reports the best number, others that
    /// are not significantly slower, the bottleneck, and a recommendation. Each run is written to a file before the next
    /// one starts, so that `--resume` can continue after an interrupt.
    ///
    /// Example: tanto bench jobs --jobs 1..8 --prepare 'make clean' make -j{jobs}
    Jobs(JobsArgs),
    /// Draw the results of `jobs`, or other files of timings, in one chart
    Plot(PlotArgs),
    /// Measure the cost of file status calls on the files of a directory
    ///
    /// Measures several system calls with several numbers of threads for a few seconds, for files, missing files,
    /// directories and symbolic links.
    Stat(StatArgs),
}

#[derive(Args, Debug)]
struct ControlArgs {
    /// Restrict the commands to these processors, such as 0 or 2-3
    #[arg(long, value_name = "LIST", value_parser = parse_cpus, help_heading = "Environment")]
    cpus: Option<CpuMask>,
    /// Before each run, wait until other programs are idle, at most TIME, such as 1m
    #[arg(long, value_name = "TIME", value_parser = parse_settle, help_heading = "Environment")]
    settle: Option<Duration>,
    /// Include the time to write dirty pages to disk
    #[arg(long, help_heading = "Environment")]
    count_sync: bool,
    /// Before each run, drop the page cache (requires root)
    #[arg(long, help_heading = "Environment")]
    drop_caches: bool,
    /// Write files of the current directory synchronously, like the mount option sync
    #[arg(long, help_heading = "Environment")]
    write_through: bool,
    /// Set the read-ahead of the disk of the current directory (read_ahead_kb; requires root)
    #[arg(long, value_name = "KIB", value_parser = parse_read_ahead, help_heading = "Environment")]
    read_ahead: Option<u64>,
    /// Limit the memory of the commands, such as 2G
    #[arg(long, value_name = "SIZE", value_parser = parse_memory, help_heading = "Environment")]
    cgroup_memory: Option<u64>,
}

#[derive(Args, Debug)]
pub struct CompareArgs {
    /// Number of runs of each command [default: 10 without --for]
    #[arg(long, value_name = "N", value_parser = parse_runs)]
    runs: Option<usize>,
    /// Time limit, such as 5h: start no run that would exceed it
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time_limit)]
    time: Option<Duration>,
    /// Stop when the interval is at most P % wide to either side
    #[arg(long, value_name = "P%")]
    until: Option<Percentage>,
    /// Number of uncounted runs of each command before the first counted one
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_warmup)]
    warmup: usize,
    /// Run CMD before each run, unmeasured (repeatable)
    #[arg(long, value_name = "CMD", value_hint = ValueHint::CommandString)]
    prepare: Vec<OsString>,
    /// Run CMD before each run of the first command only (repeatable)
    #[arg(long, value_name = "CMD", value_hint = ValueHint::CommandString)]
    prepare_a: Vec<OsString>,
    /// Run CMD before each run of the second command only (repeatable)
    #[arg(long, value_name = "CMD", value_hint = ValueHint::CommandString)]
    prepare_b: Vec<OsString>,
    /// Repeat the order of the experiment with this seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Stop if this file or directory differs after any run (repeatable)
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    same: Vec<PathBuf>,
    /// Measure the first command twice, to show the noise of the machine
    #[arg(long)]
    control: bool,
    /// Exit with 1 if a command is significantly slower than the first by more than P %
    #[arg(long, value_name = "P%")]
    fail_if_slower: Option<Percentage>,
    /// Write the result to FILE; the extension is the format: txt, json, csv, svg or png (repeatable)
    #[arg(short, long, value_name = "FILE", value_parser = parse_output, value_hint = ValueHint::FilePath)]
    output: Vec<OutputFile>,
    #[command(flatten)]
    controls: ControlArgs,
    /// Shell command lines
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, value_hint = ValueHint::CommandString)]
    commands: Vec<OsString>,
}

#[derive(Args, Debug)]
pub struct JobsArgs {
    /// Numbers of jobs, such as 1..16 or 1,2,4
    #[arg(short, long, value_name = "LIST")]
    jobs: JobCounts,
    /// Number of runs for each number of jobs
    #[arg(long, value_name = "N", default_value = "3", value_parser = parse_runs)]
    runs: usize,
    /// Run CMD before each run, unmeasured (repeatable)
    #[arg(long, value_name = "CMD", value_hint = ValueHint::CommandString)]
    prepare: Vec<OsString>,
    /// Run CMD before the first run, unmeasured (repeatable)
    #[arg(long, value_name = "CMD", value_hint = ValueHint::CommandString)]
    prepare_once: Vec<OsString>,
    /// Order of each round
    #[arg(long, value_enum, default_value_t = RoundOrder::Shuffled)]
    order: RoundOrder,
    /// Repeat the order of the experiment with this seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write the result to FILE; the extension is the format: txt, json, csv, svg or png (repeatable)
    #[arg(short, long, value_name = "FILE", value_parser = parse_output, value_hint = ValueHint::FilePath)]
    output: Vec<OutputFile>,
    /// Append each run to FILE, as text for `tanto bench plot` and gnuplot
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    append: Option<PathBuf>,
    /// Continue an interrupted experiment
    #[arg(long)]
    resume: bool,
    /// Save the recommended number as the default of `tanto build` in this directory
    #[arg(long)]
    save: bool,
    #[command(flatten)]
    controls: ControlArgs,
    /// Command with {jobs} in it; a single word is a shell command line
    #[arg(required = true, trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum RoundOrder {
    /// Random
    Shuffled,
    /// As in the list
    #[value(alias = "swept")]
    Listed,
}

#[derive(Args, Debug)]
pub struct PlotArgs {
    /// Write the chart to FILE; the extension is the format: svg or png (repeatable)
    #[arg(short, long, value_name = "FILE", required = true, value_parser = parse_image, value_hint = ValueHint::FilePath)]
    output: Vec<OutputFile>,
    /// Title of the chart [default: the title that the files have in common]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Results of `tanto bench jobs` (json or txt), or lines of a number of jobs and seconds
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
}

#[derive(Args, Debug)]
pub struct StatArgs {
    /// Write the result to FILE; the extension is the format: txt, json, csv, svg or png (repeatable)
    #[arg(short, long, value_name = "FILE", value_parser = parse_output, value_hint = ValueHint::FilePath)]
    output: Vec<OutputFile>,
    /// Directory whose files are measured
    #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    directory: PathBuf,
}

pub fn run(command: BenchCommand) -> CommandOutput {
    match command {
        BenchCommand::Compare(args) => finish(compare::run(&args.into()), compare::FAILURE),
        BenchCommand::Jobs(args) => finish(jobs::run(&args.into()), 1),
        BenchCommand::Plot(PlotArgs { output, title, files }) => {
            finish(plot::run(&PlotOptions { files, outputs: output, title }), 1)
        }
        BenchCommand::Stat(StatArgs { output, directory }) => {
            finish(stat::run(&StatOptions { directory, outputs: output }), 1)
        }
    }
}

fn finish(output: Result<CommandOutput, Error>, failure: u8) -> CommandOutput {
    output.unwrap_or_else(|error| CommandOutput::failed(error.to_string()).with_code(failure))
}

impl From<CompareArgs> for CompareOptions {
    fn from(args: CompareArgs) -> CompareOptions {
        let is_unlimited = args.time.is_none() && args.until.is_none();
        CompareOptions {
            time: args.time,
            runs: args.runs.or(is_unlimited.then_some(DEFAULT_RUNS)),
            until: args.until.map(|it| it.0),
            warmup: args.warmup,
            seed: args.seed,
            prepare: lines(args.prepare),
            prepare_ab: [lines(args.prepare_a), lines(args.prepare_b)],
            same: args.same,
            control: args.control,
            fail_if_slower: args.fail_if_slower.map(|it| it.0),
            outputs: args.output,
            controls: args.controls.into(),
            commands: lines(args.commands),
        }
    }
}

impl From<JobsArgs> for JobsOptions {
    fn from(args: JobsArgs) -> JobsOptions {
        JobsOptions {
            counts: args.jobs,
            runs: args.runs,
            prepare: lines(args.prepare),
            prepare_once: lines(args.prepare_once),
            shuffled: args.order == RoundOrder::Shuffled,
            seed: args.seed,
            controls: args.controls.into(),
            outputs: args.output,
            append: args.append,
            resume: args.resume,
            save_to: args.save.then(|| settings::build_file(None)),
            command: lines(args.command),
        }
    }
}

impl From<ControlArgs> for Controls {
    fn from(args: ControlArgs) -> Controls {
        Controls {
            cpus: args.cpus,
            drop_caches: args.drop_caches,
            write_through: args.write_through,
            read_ahead_kib: args.read_ahead,
            cgroup_memory_kib: args.cgroup_memory,
            settle: args.settle.unwrap_or_default(),
            count_sync: args.count_sync,
        }
    }
}

fn lines(words: Vec<OsString>) -> Vec<Vec<u8>> {
    words.into_iter().map(OsString::into_vec).collect()
}

fn expected<T>(value: Option<T>, form: impl Display) -> Result<T, String> {
    value.ok_or_else(|| format!("expected {form}"))
}

fn integer(text: &str, min: i64, max: i64) -> Option<u64> {
    let number = number::integer(text.as_bytes()).filter(|it| !text.is_empty() && (min..=max).contains(it));
    number.map(i64::unsigned_abs)
}

fn parse_runs(text: &str) -> Result<usize, String> {
    expected(integer(text, 1, MAX_RUNS).map(|runs| runs as usize), format!("a number from 1 to {MAX_RUNS}"))
}

fn parse_warmup(text: &str) -> Result<usize, String> {
    expected(integer(text, 0, MAX_RUNS).map(|runs| runs as usize), format!("a number from 0 to {MAX_RUNS}"))
}

fn parse_read_ahead(text: &str) -> Result<u64, String> {
    expected(integer(text, 0, MAX_READ_AHEAD_KIB), format!("a number of KiB from 0 to {MAX_READ_AHEAD_KIB}"))
}

fn parse_cpus(text: &str) -> Result<CpuMask, String> {
    expected(CpuMask::parse(text.as_bytes()), "processors such as 0 or 2-3,5")
}

fn parse_memory(text: &str) -> Result<u64, String> {
    expected(number::size_kib(text.as_bytes()).filter(|&kib| kib > 0), "a size such as 512M or 2G")
}

fn parse_settle(text: &str) -> Result<Duration, String> {
    let ms = expected(number::milliseconds(text.as_bytes()), "a time such as 10s or 1m30s")?;
    Ok(Duration::from_millis(ms.unsigned_abs()))
}

fn parse_time_limit(text: &str) -> Result<Duration, String> {
    let ms = number::milliseconds(text.as_bytes()).filter(|&ms| ms > 0);
    Ok(Duration::from_millis(expected(ms, "a time such as 90s or 5h")?.unsigned_abs()))
}

fn parse_output(text: &str) -> Result<OutputFile, Error> {
    OutputFile::new(text.into(), Format::ALL)
}

fn parse_image(text: &str) -> Result<OutputFile, Error> {
    OutputFile::new(text.into(), Format::IMAGES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse<T: Args>(words: &[&str]) -> Result<T, String> {
        let command = T::augment_args(clap::Command::new("test").no_binary_name(true));
        let matches = command.try_get_matches_from(words).map_err(|error| error.to_string())?;
        T::from_arg_matches(&matches).map_err(|error| error.to_string())
    }

    fn compare(words: &[&str]) -> CompareOptions {
        parse::<CompareArgs>(words).expect("valid").into()
    }

    fn jobs(words: &[&str]) -> JobsOptions {
        parse::<JobsArgs>(words).expect("valid").into()
    }

    #[test]
    fn options_of_compare_end_at_the_first_command() {
        let first = ["--for=1h30m", "--runs", "50", "--until", "1.5%", "--prepare-b", "x", "--prepare-b", "y"];
        let second = ["--same", "out", "--control", "--fail-if-slower", "3", "--", "a -b", "c"];
        let options = compare(&[&first[..], &second].concat());
        assert_eq!((options.time, options.runs), (Some(Duration::from_secs(5400)), Some(50)));
        assert_eq!((options.until, options.fail_if_slower), (Some(0.015), Some(0.03)));
        assert_eq!(options.prepare_ab, [vec![], vec![b"x".to_vec(), b"y".to_vec()]]);
        assert_eq!(options.commands, [b"a -b".to_vec(), b"c".to_vec()]);
        assert!(options.control && options.same == [PathBuf::from("out")] && options.warmup == 1);
        assert_eq!(compare(&["a", "--runs"]).commands, [b"a".to_vec(), b"--runs".to_vec()]);
    }

    #[test]
    fn compare_needs_a_limit() {
        assert_eq!(compare(&["a", "b"]).runs, Some(DEFAULT_RUNS));
        assert_eq!(compare(&["--for", "1s", "a", "b"]).runs, None);
        assert!(compare(&["--until", "1%", "a", "b"]).check().is_err());
    }

    #[test]
    fn options_of_jobs_are_parsed() {
        let line = "-j 1..3,8,2 --runs 5 --prepare-once ./configure --order listed --seed 7 --cpus 0 -o a.svg -o b.json \
                    --resume --save --settle 1m --cgroup-memory 1G --read-ahead 8 -- make -j{jobs} all";
        let options = jobs(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!((options.counts, options.runs, options.shuffled), (JobCounts(vec![1, 2, 3, 8]), 5, false));
        assert_eq!((options.seed, options.outputs.len(), options.resume), (Some(7), 2, true));
        assert_eq!(options.save_to, Some(settings::build_file(None)));
        assert_eq!(options.command, [&b"make"[..], b"-j{jobs}", b"all"]);
        assert_eq!(options.controls.settle, Duration::from_secs(60));
        assert_eq!((options.controls.cgroup_memory_kib, options.controls.read_ahead_kib), (Some(1 << 20), Some(8)));
        let options = jobs(&["--jobs=2", "--prepare", "make clean", "make", "-j{jobs}"]);
        assert_eq!((options.prepare, options.runs, options.shuffled), (vec![b"make clean".to_vec()], 3, true));
        assert_eq!(options.command, [&b"make"[..], b"-j{jobs}"]);
        assert!(!jobs(&["-j1..2", "--order=swept", "true {jobs}"]).shuffled);
    }

    #[test]
    fn invalid_values_are_errors() {
        for (words, expected) in [
            (&["--runs", "0", "a", "b"][..], "expected a number from 1 to 1000000"),
            (&["--for", "0", "a", "b"], "expected a time such as 90s or 5h"),
            (&["--until", "x", "a", "b"], "expected a percentage such as 1%"),
            (&["-o", "x.pdf", "a", "b"], "--output x.pdf: unknown format"),
            (&["--seed", "x", "a", "b"], "invalid digit"),
            (&["--cpus", "x", "a", "b"], "expected processors such as 0 or 2-3,5"),
            (&["--cgroup-memory", "0K", "a", "b"], "expected a size such as 512M or 2G"),
            (&["--read-ahead", "x", "a", "b"], "expected a number of KiB from 0 to 1048576"),
            (&["--settle", "soon", "a", "b"], "expected a time such as 10s or 1m30s"),
            (&["--unknown", "a", "b"], "unexpected argument '--unknown'"),
            (&[], "required arguments were not provided"),
        ] {
            let error = parse::<CompareArgs>(words).expect_err("refused");
            assert!(error.contains(expected), "{error}");
        }
        for (words, expected) in [
            (&["-j", "0..4", "x"][..], "expected numbers above 0"),
            (&["--order", "odd", "-j1", "x"], "invalid value 'odd'"),
            (&["make", "-j{jobs}"], "--jobs <LIST>"),
            (&["-j", "1..4"], "<COMMAND>..."),
        ] {
            let error = parse::<JobsArgs>(words).expect_err("refused");
            assert!(error.contains(expected), "{error}");
        }
        assert!(parse::<PlotArgs>(&["a.txt", "-o", "x.pdf"]).expect_err("refused").contains("end in .svg or .png"));
        assert!(parse::<PlotArgs>(&["a.txt"]).expect_err("refused").contains("--output <FILE>"));
        assert!(parse::<StatArgs>(&["a", "b"]).expect_err("refused").contains("unexpected argument 'b'"));
    }
}
