//! Tanto's own subcommands: the table from which help texts, the man page and the completions are made, and the way
//! to each but `build`. Does not know how they do what they do.

use crate::flags::door::Door;
use crate::flags::modes;
use crate::flags::stop::Stop;
use crate::settings::Surroundings;
use crate::{bench, completions, doctor, help, man};

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
    /// It takes the flags of the table.
    pub flags: bool,
}

/// All that a user may type.
pub static COMMANDS: &[Command] = &[
    Command {
        name: "build",
        args: "[options] [targets...]",
        doc: "bring targets up to date, as ninja does",
        more: "Reads build.ninja of the current directory (or of the one that -C names), and runs the commands that \
               are needed to bring the targets up to date. Without targets it is those that the file's default \
               statements name.",
        flags: true,
    },
    Command {
        name: "doctor",
        args: "[options]",
        doc: "show every setting and where it comes from",
        more: "Takes the options of `tanto build`, and shows what they and the other sources come to: each setting's \
               value and who said it, the log of the build directory, the processors of this machine, a jobserver, \
               and whether the `ninja` that other programs find is this one.",
        flags: true,
    },
    Command {
        name: "bench",
        args: "stat|read [PATH]",
        doc: "measure what this machine's files cost",
        more: "`stat` asks for the times of files in the directory PATH (or in the current one) in several ways and \
               on several threads, for some seconds, and shows what a call costs: for files, for files that are \
               missing and for directories. `read` reads the files in PATH, or the beginnings of the file PATH, by \
               `read`, by `pread` in pieces and by `mmap`, and shows what a GB costs in files of each size. Both \
               name the fastest, and what Tanto itself does. Nothing is written.",
        flags: false,
    },
    Command {
        name: "help",
        args: "[command]",
        doc: "tell more of a command",
        more: "Without a command, lists them.",
        flags: false,
    },
];

/// The command of this name.
pub fn find(name: &[u8]) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name.as_bytes() == name)
}

/// Runs a command line that is no build.
pub fn run(args: &[Vec<u8>]) -> Stop {
    let Some((name, rest)) = args.split_first() else {
        return Stop { out: Vec::new(), err: help::overview().into_bytes(), code: 1 };
    };
    match name.as_slice() {
        b"bench" => bench::run(rest),
        b"doctor" => doctor::run(rest, &Surroundings::of_process()),
        b"help" | b"-h" | b"--help" => help_on(rest),
        b"--version" | b"-V" => Stop::printed(format!("{}\n", Door::Tanto.version()), 0),
        b"generate" => generate(rest),
        name => unknown(name),
    }
}

fn help_on(topics: &[Vec<u8>]) -> Stop {
    let Some(topic) = topics.first() else {
        return Stop::printed(help::overview(), 0);
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
