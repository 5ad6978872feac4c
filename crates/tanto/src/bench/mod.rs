//! `tanto bench`: measures on the user's own machine how many jobs are best, what is faster, and what Tanto's own choices
//! rest on. Does not know how each is measured.

pub mod args;
pub mod chart;
mod compare;
mod files;
mod grid;
mod jobs;
pub mod measure;
pub mod output;
mod plot;
mod read;
pub mod show;
mod shuffle;
mod stat;
pub mod statistics;

use crate::flags::door::Door;
use crate::flags::modes;
use crate::flags::stop::Stop;
use crate::{command_line, help};
use args::Flag;

/// A measurement.
pub struct Measurement {
    /// Its name, after `tanto bench`.
    pub name: &'static str,
    /// What follows it.
    pub args: &'static str,
    /// What it measures, in one line.
    pub doc: &'static str,
    /// Its flags.
    pub flags: &'static [Flag],
    run: fn(&[Vec<u8>]) -> Stop,
}

/// All of them: the help texts, the man page and the completions are made from it.
pub static MEASUREMENTS: [Measurement; 5] = [
    Measurement {
        name: "compare",
        args: "[options] [--] 'COMMAND A' 'COMMAND B'...",
        doc: "whether one command is really faster than another",
        flags: &compare::args::FLAGS,
        run: compare::run,
    },
    Measurement {
        name: "jobs",
        args: "--jobs LIST [options] [--] command [arguments...]",
        doc: "how many jobs at a time are best for a command that takes their number",
        flags: &jobs::args::FLAGS,
        run: jobs::run,
    },
    Measurement {
        name: "plot",
        args: "FILE... -o FILE.svg",
        doc: "draw what `jobs` has written, or other files of timings, over one another",
        flags: &plot::FLAGS,
        run: plot::run,
    },
    Measurement {
        name: "read",
        args: "[FILE or DIR] [options]",
        doc: "what it costs to read files",
        flags: &grid::FLAGS,
        run: read::run,
    },
    Measurement {
        name: "stat",
        args: "[DIR] [options]",
        doc: "what it costs to ask for the times of files",
        flags: &grid::FLAGS,
        run: stat::run,
    },
];

/// What `tanto bench` prints for these arguments.
pub fn run(args: &[Vec<u8>]) -> Stop {
    let Some((what, rest)) = args.split_first() else {
        return Stop::failed(Door::Tanto, "error", b"measure what? 'tanto help bench' tells more");
    };
    if matches!(what.as_slice(), b"-h" | b"--help") {
        return Stop::printed(command_line::help("bench", false), 0);
    }
    match MEASUREMENTS.iter().find(|it| it.name.as_bytes() == what) {
        Some(measurement) => (measurement.run)(rest),
        None => Stop::failed(Door::Tanto, "error", &unknown(what)),
    }
}

/// The error of a measurement that there is not.
pub fn unknown(name: &[u8]) -> Vec<u8> {
    modes::unknown("measurement", name, MEASUREMENTS.iter().map(|it| it.name))
}

/// What `tanto bench NAME --help` prints.
pub fn helped(name: &str) -> Stop {
    Stop::printed(MEASUREMENTS.iter().find(|it| it.name == name).map(help::measurement).unwrap_or_default(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(args: &[&str]) -> String {
        let stop = run(&args.iter().map(|&arg| arg.into()).collect::<Vec<_>>());
        assert_eq!((stop.code, stop.out.len()), (1, 0));
        String::from_utf8(stop.err).expect("text")
    }

    #[test]
    fn what_cannot_be_measured_is_an_error() {
        assert_eq!(complaint(&[]), "tanto: error: measure what? 'tanto help bench' tells more\n");
        assert_eq!(complaint(&["stats"]), "tanto: error: unknown measurement 'stats', did you mean 'stat'?\n");
        assert_eq!(complaint(&["stat", "a", "b"]), "tanto: error: one directory at a time\n");
        assert_eq!(complaint(&["read", "a", "b"]), "tanto: error: one file or directory at a time\n");
        assert_eq!(
            complaint(&["stat", "/nonexistent"]),
            "tanto: error: reading /nonexistent: No such file or directory\n"
        );
    }

    #[test]
    fn it_has_help() {
        for it in &MEASUREMENTS {
            let text = String::from_utf8(run(&[it.name.into(), b"--help".to_vec()]).out).expect("text");
            assert!(text.starts_with(&format!("usage: tanto bench {} ", it.name)), "{text}");
            assert!(it.flags.iter().all(|flag| text.contains(&flag.label())), "{text}");
        }
    }
}
