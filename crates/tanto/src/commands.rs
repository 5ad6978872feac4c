//! Tanto's own subcommands: the table from which help texts, the man page and the completions are made, and the way
//! to each but `build`. Does not know how they do what they do.

use crate::flags::door::Door;
use crate::flags::modes;
use crate::flags::stop::Stop;
use crate::flags::table::{FLAGS, Flag, RUN_FLAGS};
use crate::settings::Surroundings;
use crate::{bench, bulk, clang, completions, doctor, help, man, report, run, simulate};

/// A subcommand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// Its name.
    pub name: &'static str,
    /// What follows the name.
    pub args: &'static str,
    /// One line.
    pub doc: &'static str,
    /// Everything else there is to say, in paragraphs.
    pub more: &'static str,
}

/// All that a user may type.
pub static COMMANDS: &[Command] = &[
    Command {
        name: "build",
        args: "[options] [targets...]",
        doc: "bring targets up to date, as ninja does",
        more: "Reads build.ninja of the current directory (or of the one that -C names), and runs the commands that \
               are needed to bring the targets up to date. Without targets it is those that the file's default \
               statements name. A target is a file or group of build.ninja; a directory (`lib/`), which stands for \
               all outputs below it; or a glob ('test/*.o', with `*`, `?`, `[a-z]`, and `**` for any number of \
               directories), which stands for all outputs that it matches.",
    },
    Command {
        name: "run",
        args: "[options] [--] command [arguments...]",
        doc: "run a command, and end it if it hangs",
        more: "Watches the command and all processes below it. What it prints is passed on; a stream that is a terminal \
               it keeps. If it hangs, or takes too long, its processes are asked to end and after ten seconds killed, \
               and what hung is shown: the last lines that it printed, and the tree of its processes. The exit code \
               is the command's, or 128 and the number of the signal that killed it; 123 if it hung, 124 if it took \
               too long, 125 if Tanto itself failed, 126 if the command could not be run, 127 if there is none.",
    },
    Command {
        name: "report",
        args: "sessions|rebuilds|timings|trace|output [NAME] [options]",
        doc: "tell what happened in a build, and where its time went",
        more: "Reads the sessions that builds of the current directory have left, or of the one that `-C DIR` names: in \
               .tanto/sessions, and under the name `ninja` in the user's cache. `sessions` lists them. NAME is a session: its number there (1 is the last one, which is meant \
               if none is named), or its name or the beginning of that. \
               `rebuilds` says why each command ran, and which were ended or left processes behind. \
               `timings` says where the time went: the slowest commands, the chain of commands that no number of \
               processors makes faster, why slots stood idle, and what has changed since the last build of the same commands, or the one \
               that `--against SESSION` names. `--html FILE` writes a page with pictures, which needs nothing from \
               elsewhere; `--json` prints all of it for other programs. \
               `trace` prints a build for the trace viewers of Chrome and Perfetto. \
               `output FILE` prints what the command that makes the file printed when it last ran, also in an earlier \
               session: warnings of what is up to date are read again so. Without a file it is the output of all commands of the \
               last build that printed something or failed.",
    },
    Command {
        name: "doctor",
        args: "[options]",
        doc: "show every setting and where it comes from",
        more: "Takes the options of `tanto build`, and shows what they and the other sources come to: each setting's \
               value and who said it, the log of the build directory, the processors of this machine, a jobserver, \
               and whether the `ninja` that other programs find is this one.",
    },
    Command {
        name: "bench",
        args: "compare|jobs|plot|read|stat [options]",
        doc: "measure what is faster, how many jobs are best, and what files cost",
        more: "`compare` runs two commands or more by turns, each a line for the shell: as in `tanto bench compare --runs 30 \
               --prepare 'make clean' -- 'make CC=a' 'make CC=b'`. It says by how much the second is faster or slower than \
               the first, with a 95 % interval, or that no difference was seen and which is the smallest that it could \
               have seen; and it notices what makes such an experiment worthless. Its exit code is 1 if \
               `--fail-if-slower` says so, and 2 if something failed. \
               `jobs` runs a command with several numbers of jobs, which stand where it says {jobs}: as in `tanto bench jobs \
               --jobs 1..8 --prepare 'make clean' -- make -j{jobs}`. A command of one word is a line for the shell. It says \
               which number is best, which others cannot be told from it, what limits, and which to take; `--save` makes \
               that the default of builds in this directory. Each run is written down before the next begins, and \
               `--resume` goes on after an interrupt. `plot` draws several such experiments over one another. \
               `stat` asks for the times of files in a directory in several ways and on several threads, for some \
               seconds, and shows what a call costs: for files, for files that are missing and for directories. `read` \
               reads the files in a directory, or the beginnings of a file, by `read`, by `pread` in pieces and by \
               `mmap`, and shows what a GB costs in files of each size. Both name the fastest, and what Tanto itself \
               does. `tanto bench NAME --help` says what each option does. The exit code of the others is 0, 1 if something failed, \
               or 128 and the number of the signal that interrupted it.",
    },
    Command {
        name: "simulate",
        args: "[options] [targets...]",
        doc: "tell how long a build would take elsewhere",
        more: "Takes `-C DIR`, `-f FILE`, `-j N,N...`, `--memory SIZE`, `--order ORDER` and `--session NAME`. Reads build.ninja and \
               what commands took when they last ran, and tells how long it would take to build \
               the targets from nothing, for each number N of commands at a time: the makespan, the bound that no order \
               can beat, what the makespan is as a multiple of it, and how many slots stand empty on average. Runs \
               nothing and writes nothing. A command that was never run is taken to be as others of its rule. \
               `--memory` says what commands may hold together. `--order` is the order of commands that could all be \
               started: what a build would choose (`auto`), the most time behind it first (`critical`), the most \
               commands first (`ninja`), or as in build.ninja (`fifo`). `--session` simulates what ran in a recorded build, \
               which is named as for `tanto report`, instead of all that the targets need.",
    },
    Command {
        name: "bulk",
        args: "COMMAND [options]",
        doc: "build the packages of a pkgsrc tree",
        more: "Each command reads bulk.toml of the current directory, or the file that `--config` names: there stands where the \
               tree is and how it is built. `status`, `why`, `log`, `retry`, `skip` and `kill` also work from another \
               terminal while packages are built.",
    },
    Command {
        name: "clang",
        args: "status|stop [-C DIR]",
        doc: "show or end what is kept of compiles between builds",
        more: "With `--checkpoints`, compiles wait at the end of their includes until the next build. `status` tells of which \
               files, what memory that takes, and which files have none and why; `stop` ends them. They end by themselves when nobody has built for half an \
               hour, when memory is short, or when the build directory is removed.",
    },
    Command {
        name: "help",
        args: "[command [subcommand]]",
        doc: "tell more of a command",
        more: "Without a command, lists them.",
    },
];

/// The flags of this command.
pub fn flags_of(command: &Command) -> &'static [Flag] {
    match command.name {
        "build" | "doctor" => FLAGS,
        "run" => RUN_FLAGS,
        _ => &[],
    }
}

/// The command of this name.
pub fn find(name: &[u8]) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name.as_bytes() == name)
}

/// Runs a command line that is no build.
pub fn obey(args: &[Vec<u8>]) -> Stop {
    let Some((name, rest)) = args.split_first() else {
        return Stop { out: Vec::new(), err: help::overview().into_bytes(), code: 1 };
    };
    match name.as_slice() {
        b"bench" => bench::run(rest),
        b"bulk" => bulk::run(rest),
        b"clang" => clang::run(rest),
        b"simulate" => simulate::run(rest),
        b"report" => report::run(rest),
        b"doctor" => doctor::run(rest, &Surroundings::of_process()),
        b"run" => run::run(rest),
        b"help" | b"-h" | b"--help" => help_on(rest),
        b"--version" | b"-V" => Stop::printed(format!("{}\n", Door::Tanto.version()), 0),
        b"generate" => generate(rest),
        name => unknown(name),
    }
}

fn help_on(topics: &[Vec<u8>]) -> Stop {
    let topic = match topics {
        [] => return Stop::printed(help::overview(), 0),
        [command, name, ..] if command == b"bench" => {
            return match bench::MEASUREMENTS.iter().find(|it| it.name.as_bytes() == name) {
                Some(it) => Stop::printed(help::measurement(it), 0),
                None => Stop::failed(Door::Tanto, "error", &bench::unknown(name)),
            };
        }
        [command, name, ..] if command == b"bulk" => {
            return match bulk::TASKS.iter().find(|it| it.name.as_bytes() == name) {
                Some(task) => Stop::printed(help::task(task), 0),
                None => Stop::failed(Door::Tanto, "error", &bulk::unknown(name)),
            };
        }
        [topic, ..] => topic,
    };
    match find(topic) {
        Some(command) => Stop::printed(help::topic(command), 0),
        None => unknown(topic),
    }
}

fn unknown(name: &[u8]) -> Stop {
    let message = modes::unknown("command", name, COMMANDS.iter().map(|command| command.name));
    Stop::failed(Door::Tanto, "error", &message)
}

/// What `./install` puts beside the program. No command for a user, and in no table.
fn generate(what: &[Vec<u8>]) -> Stop {
    match what.first().map(Vec::as_slice) {
        Some(b"man") => Stop::printed(man::page(), 0),
        Some(b"bash") => Stop::printed(completions::bash::script(), 0),
        Some(b"zsh") => Stop::printed(completions::zsh::script(), 0),
        Some(b"fish") => Stop::printed(completions::fish::script(), 0),
        _ => Stop::failed(Door::Tanto, "error", b"generate what: man, bash, zsh or fish?"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(words: &[&str]) -> Stop {
        help_on(&words.iter().map(|&word| word.into()).collect::<Vec<_>>())
    }

    #[test]
    fn subcommands_have_their_own_help() {
        let out = |words: &[&str]| String::from_utf8(help(words).out).expect("text");
        assert!(out(&["bench", "compare"]).starts_with("usage: tanto bench compare "));
        assert!(out(&["bulk", "status"]).starts_with("usage: tanto bulk status"));
        assert!(out(&["bulk"]).starts_with("usage: tanto bulk "));
        let wrong = String::from_utf8(help(&["bench", "compar"]).err).expect("text");
        assert_eq!(wrong, "tanto: error: unknown measurement 'compar', did you mean 'compare'?\n");
    }
}
