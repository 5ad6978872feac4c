//! The manual page, from the tables of flags and commands. Knows roff; does not know where the page is installed.

use tanto_ninja::tools::TOOLS;

use crate::bench::{self, MEASUREMENTS};
use crate::bulk::{TASKS, Task};
use crate::commands::{COMMANDS, Command};
use crate::flags::table::{FLAGS, Flag, Group};
use crate::help::capital;
use crate::ninja::clang_worker::PLACE_VARIABLE;
use crate::settings::{
    FLAGS_VARIABLE, LOG_VARIABLE, SNAPSHOT_VARIABLE, SPAWN_VARIABLE, STATUS_VARIABLE, THREADS_VARIABLE,
};

/// The whole of `tanto.1`.
pub fn page() -> String {
    let parts = [
        head(),
        section("COMMANDS", &COMMANDS.iter().map(command).collect::<String>()),
        section("OPTIONS", &options()),
        section("MEASUREMENTS", &measurements()),
        section("PACKAGE TREES", &tasks()),
        section("TOOLS", &tools()),
        section("SETTINGS", &keys()),
        section("ENVIRONMENT", &entries(ENVIRONMENT)),
        section("FILES", &entries(FILES)),
        section("EXIT STATUS", &entries(EXITS)),
        section("SEE ALSO", ".BR make (1),\n.BR ninja (1),\n.BR cmake (1)\n"),
    ];
    parts.concat()
}

const ENVIRONMENT: &[(&str, &str)] = &[
    (
        FLAGS_VARIABLE,
        "Flags, split into words as a shell does it. They go before the config files and after the command line.",
    ),
    (STATUS_VARIABLE, "What stands before each description, with ninja's % placeholders. `--status` goes before it."),
    (LOG_VARIABLE, "The version of a new .ninja_log, as `--log-version` gives it."),
    (
        THREADS_VARIABLE,
        "The most threads of Tanto's own, which look at files before the first command starts; 1 for none beside the \
         main one. It has nothing to do with `-j`, and nothing but time depends on it.",
    ),
    (
        SNAPSHOT_VARIABLE,
        "`off`: a snapshot of what the build files say is neither read nor written; `always`: however small they are; \
         `auto`: where that saves time. Nothing but time depends on it.",
    ),
    (
        SPAWN_VARIABLE,
        "`1`: every compiler is a process of its own, as with `--clang-worker=off`. Nothing but time depends on it.",
    ),
    (PLACE_VARIABLE, "The compile worker's program, if it is not where `tanto doctor` says that it is looked for."),
    ("MAKEFLAGS", "Where a `make` that runs us says how to reach its jobserver, and where commands find ours."),
    ("NO_COLOR, CLICOLOR_FORCE, FORCE_COLOR", "Whether output keeps its colours where it goes to no terminal."),
    ("POSIXLY_CORRECT", "If set, the first target ends the options."),
];

const FILES: &[(&str, &str)] = &[
    ("build.ninja", "What to build, and how."),
    (".ninja_log, .ninja_deps", "What was built, as ninja keeps it: both programs read and write them."),
    (".tanto/config", "Settings of a build directory."),
    (
        ".tanto/sessions, .tanto/history",
        "What happened in builds, and what their commands took. Both may be deleted; `--record=off` keeps neither.",
    ),
    (
        ".tanto/bench",
        "What `tanto bench` has measured, unless it was told another file; and what a command that failed printed.",
    ),
    (".tanto/checkpoints", "Where compiles are reached that are kept for the next build: `tanto clang status`."),
    (".tanto/snapshots", "Pictures of what build files say, which spare reading those again. They may be deleted."),
    (
        "$XDG_CACHE_HOME/tanto/builds, ~/.cache/tanto/builds",
        "In place of .tanto, what is kept under the name ninja. It may be deleted.",
    ),
    ("$XDG_CONFIG_HOME/tanto/config, ~/.config/tanto/config", "Settings of a user."),
];

const EXITS: &[(&str, &str)] = &[
    ("0", "All targets are up to date."),
    (
        "1",
        "A command or Tanto itself failed, or the usage was wrong. A build stopped by a failed command has that command's code.",
    ),
    ("130", "Interrupted."),
];

fn head() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let synopsis: String =
        COMMANDS.iter().map(|command| format!(".B tanto {}\n{}\n.br\n", command.name, text(command.args))).collect();
    format!(
        ".\\\" Made from the program's own tables: 'tanto generate man'.\n\
         .TH TANTO 1 \"\" \"tanto {version}\" \"User Commands\"\n\
         .SH NAME\ntanto, ninja \\- build what is out of date\n\
         .SH SYNOPSIS\n{synopsis}.B ninja\n[options] [targets...]\n\
         .SH DESCRIPTION\n{}",
        text(
            "Tanto runs the commands that bring files up to date, as many at a time as the machine has processors. \
             It reads the build files that CMake, Meson, GN and others write for ninja. Called by the name `ninja` \
             it does whatever ninja does, and can stand in its place.\n"
        )
    )
}

fn section(name: &str, body: &str) -> String {
    format!(".SH {name}\n{body}")
}

fn command(command: &Command) -> String {
    format!(
        ".TP\n.BI \"tanto {} \" \"{}\"\n{}. {}\n",
        command.name,
        text(command.args),
        text(&capital(command.doc)),
        text(command.more)
    )
}

fn options() -> String {
    let lead = text(
        "`tanto build` and `ninja` take the same options, but for `--watch` and `--follow`, which are not there under the name `ninja`. Targets may stand between them; `--` ends them.",
    );
    let groups = Group::ALL.into_iter().map(|group| FLAGS.iter().filter(move |flag| flag.group == group));
    lead + "\n" + &groups.flatten().map(option).collect::<String>()
}

fn option(flag: &Flag) -> String {
    let value = match flag.value {
        Some(value) if value.is_optional() => format!("[=\\fI{}\\fR]", text(value.name)),
        Some(value) => format!(" \\fI{}\\fR", text(value.name)),
        None => String::new(),
    };
    let note = if flag.note.contains('{') { String::new() } else { flag.note.replace('\n', "; ") };
    let doc = format!("{}{note}.\n{}", capital(flag.doc), flag.more);
    format!(".TP\n\\fB{}\\fR{value}\n{}\n", text(&flag.names()), text(&doc))
}

fn measurements() -> String {
    let flag = |flag: &bench::args::Flag| entry(&flag.label(), &(capital(flag.doc) + "."));
    let one = |it: &bench::Measurement| {
        let flags: String = it.flags.iter().map(flag).collect();
        let head = format!(".SS tanto bench {} {}\n", it.name, text(it.args));
        head + &text(&format!("{}.\n", capital(it.doc))) + &flags
    };
    MEASUREMENTS.iter().map(one).collect()
}

fn tasks() -> String {
    let one = |it: &Task| format!(".SS tanto bulk {} {}\n{}", it.name, text(it.args), text(&format!("{}\n", it.doc)));
    TASKS.iter().map(one).collect()
}

fn tools() -> String {
    let listed = TOOLS.iter().filter_map(|tool| Some((tool.name, tool.description?)));
    let entries: String = listed.map(|(name, doc)| entry(name, &(capital(doc) + "."))).collect();
    text("A tool answers a question, or puts something in order, and builds nothing.\n") + &entries
}

fn keys() -> String {
    let lead = "A config file has lines of `key = value`; a line that begins with `#` is a comment, and quotes around \
                a value keep the spaces at its ends. The file of the build directory (the one that `-C` names) goes \
                before the user's. `tanto doctor` shows what holds, and why.\n";
    let entries = FLAGS.iter().filter_map(|flag| {
        let expected = flag.value.map_or("`yes` or `no`", |value| value.expected);
        Some(entry(flag.key()?, &format!("As `{}`: {expected}.", flag.label())))
    });
    text(lead) + &entries.collect::<String>()
}

fn entries(list: &[(&str, &str)]) -> String {
    list.iter().map(|(name, doc)| entry(name, doc)).collect()
}

fn entry(name: &str, doc: &str) -> String {
    format!(".TP\n\\fB{}\\fR\n{}\n", text(name), text(doc))
}

/// Plain text as roff: what roff would take for its own is escaped, and what stands in backquotes is bold.
fn text(plain: &str) -> String {
    let mut roff = String::new();
    let mut bold = false;
    for (at, letter) in plain.char_indices() {
        let begins_line = at == 0 || plain[..at].ends_with('\n');
        match letter {
            '`' => {
                bold = !bold;
                roff += if bold { "\\fB" } else { "\\fR" };
            }
            '\\' => roff += "\\e",
            '-' => roff += "\\-",
            '.' | '\'' if begins_line => roff.extend(["\\&", if letter == '.' { "." } else { "\\(aq" }]),
            '\'' => roff += "\\(aq",
            '~' => roff += "\\(ti",
            letter => roff.push(letter),
        }
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::completions::tests::check;

    #[test]
    fn escapes_what_roff_would_take() {
        assert_eq!(text(".x -j\n'y' \\z `b`"), "\\&.x \\-j\n\\&\\(aqy\\(aq \\ez \\fBb\\fR");
    }

    #[test]
    fn has_every_flag_and_command() {
        let page = page();
        for flag in FLAGS {
            assert!(page.contains(&format!("\\fB{}\\fR", text(&flag.names()))), "{flag:?}");
            assert!(flag.key().is_none_or(|key| page.contains(&format!("\\fB{}\\fR", text(key)))), "{flag:?}");
        }
        assert!(page.contains("tanto doctor"));
    }

    #[test]
    fn roff_finds_no_fault() {
        check("man", &["--warnings", "-E", "UTF-8", "-l"], &page());
        // No warnings: it would have a date, and a page made anew by each build has none.
        check("mandoc", &["-T", "lint", "-W", "error"], &page());
    }
}
