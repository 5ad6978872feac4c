//! The one table of flags: the parser, the help texts, the man page, the completions and the config files' keys
//! are all made from it. It does not know what a flag does.

use tanto_ninja::getopt;

use super::door::Door;

/// Which flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Id {
    /// `-h`
    Help,
    /// `--version`
    Version,
    /// `-v`
    Verbose,
    /// `--quiet`
    Quiet,
    /// `--status`
    Status,
    /// `-C`
    Directory,
    /// `-f`
    Manifest,
    /// `-j`
    Jobs,
    /// `-k`
    KeepGoing,
    /// `-l`
    MaxLoad,
    /// `-n`
    DryRun,
    /// `-d`
    Debug,
    /// `-t`
    Tool,
    /// `-w`
    Warning,
    /// `--log-version`
    LogVersion,
    /// `--format`
    Format,
    /// `--hang-timeout`
    HangTimeout,
    /// `--timeout`
    Timeout,
    /// `--leftovers`
    Leftovers,
    /// `--memory`
    Memory,
    /// `--record`
    Record,
    /// `--jobserver`
    Jobserver,
    /// `--clang-worker`
    ClangWorker,
    /// `--checkpoints`
    Checkpoints,
    /// `--verify-checkpoints`
    VerifyCheckpoints,
    /// `--watch`
    Watch,
    /// `--follow`
    Follow,
}

/// Where a flag may be given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// On the command line only.
    Command,
    /// In `TANTO_FLAGS` too.
    Variable,
    /// In `TANTO_FLAGS`, and under this key in the config files.
    Setting(&'static str),
}

/// What a flag's value is, for completions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// A directory.
    Directory,
    /// A file.
    File,
    /// A number or a text that no shell can guess.
    Free,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// The name of a `-t` tool.
    Tool,
    /// A target, which may be left out.
    OptionalTarget,
}

/// The value that follows a flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Value {
    /// What help texts call it.
    pub name: &'static str,
    /// What it is.
    pub shape: Shape,
    /// What a config file's value has to be, for its error message.
    pub expected: &'static str,
}

impl Value {
    /// The flag may be given without it.
    pub fn is_optional(self) -> bool {
        self.shape == Shape::OptionalTarget
    }
}

/// Flags that are shown together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// What is printed.
    Output,
    /// Which build.
    Place,
    /// How commands are run.
    Run,
    /// Modes of ninja's with lists of their own.
    Mode,
    /// Tanto's own. Not in the usage text of the ninja door.
    Own,
    /// Of `tanto build` only.
    Build,
}

impl Group {
    /// All, in the order in which they are shown.
    pub const ALL: [Group; 6] = [Group::Output, Group::Place, Group::Run, Group::Mode, Group::Own, Group::Build];
}

/// One flag. Both doors take all of them, but for `Group::Build`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flag {
    /// Which.
    pub id: Id,
    /// Its letter, after one dash.
    pub short: Option<u8>,
    /// Its name, after two dashes.
    pub long: Option<&'static str>,
    /// What follows it, if anything.
    pub value: Option<Value>,
    /// Where it may be given.
    pub reach: Reach,
    /// With which others it is shown.
    pub group: Group,
    /// What it does, in one line.
    pub doc: &'static str,
    /// What help texts add, on the same line or on lines of its own. `{jobs}` and `{version}` stand for this machine's
    /// default and this door's version.
    pub note: &'static str,
    /// Everything else there is to say, in paragraphs.
    pub more: &'static str,
}

impl Flag {
    /// ninja has it too.
    pub fn is_ninjas(&self) -> bool {
        !matches!(self.group, Group::Own | Group::Build)
    }

    /// Its key in config files.
    pub fn key(&self) -> Option<&'static str> {
        match self.reach {
            Reach::Setting(key) => Some(key),
            Reach::Command | Reach::Variable => None,
        }
    }

    /// Its names, comma-separated, without its value: `-v, --verbose`.
    pub fn names(&self) -> String {
        let short = self.short.map(|letter| format!("-{}", letter as char));
        let long = self.long.map(|name| format!("--{name}"));
        [short, long].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Its names and its value, as help texts show it: `-C DIR`.
    pub fn label(&self) -> String {
        let value = match self.value {
            Some(value) if value.is_optional() => format!("[={}]", value.name),
            Some(value) => format!(" {}", value.name),
            None => String::new(),
        };
        self.names() + &value
    }
}

impl getopt::Flag for Flag {
    fn letter(&self) -> Option<u8> {
        self.short
    }

    fn name(&self) -> Option<&'static str> {
        self.long
    }

    fn takes_value(&self) -> bool {
        self.value.is_some()
    }

    fn value_is_optional(&self) -> bool {
        self.value.is_some_and(|value| value.is_optional())
    }

    fn gives_way(&self) -> bool {
        !self.is_ninjas()
    }
}

/// The flags that a door takes.
pub fn known(door: Door) -> &'static [Flag] {
    let first_other = FLAGS.iter().position(|flag| door == Door::Ninja && flag.group == Group::Build);
    &FLAGS[..first_other.unwrap_or(FLAGS.len())]
}

/// The flag with this id.
pub fn flag(id: Id) -> &'static Flag {
    // The order of `Id` is not the table's: a search keeps both free to change.
    FLAGS.iter().find(|flag| flag.id == id).unwrap_or(&FLAGS[0])
}

/// The flag whose key in config files this is.
pub fn by_key(key: &[u8]) -> Option<&'static Flag> {
    FLAGS.iter().find(|flag| flag.key().is_some_and(|known| known.as_bytes() == key))
}

const fn free(name: &'static str, expected: &'static str) -> Option<Value> {
    Some(Value { name, shape: Shape::Free, expected })
}

/// `-d`'s modes that `-d list` names.
pub const DEBUG_MODES: &[&str] = &["stats", "explain", "keepdepfile", "keeprsp"];

/// `-w`'s flags that are not deprecated.
pub const WARNINGS: &[&str] = &["phonycycle=err", "phonycycle=warn"];

/// `--format`'s values.
pub const FORMATS: &[&str] = &["auto", "live", "plain", "jsonl"];
/// `--leftovers`' words.
pub const LEFTOVERS: &[&str] = &["ignore", "report", "kill"];

/// Values of time limits.
pub const TIME: &str = "a time such as 90s or 1h30m, 0 for none";

const HANG_TIMEOUT: Flag = Flag {
    id: Id::HangTimeout,
    short: None,
    long: Some("hang-timeout"),
    value: free("TIME", TIME),
    reach: Reach::Setting("hang-timeout"),
    group: Group::Own,
    doc: "end a command that does nothing for TIME",
    note: "",
    more: "It does nothing if none of its processes starts another one, ends, uses the processor or writes anything, and \
           it prints nothing. All its processes are asked to end, and after ten seconds killed; then it has failed, \
           with exit code 123. Off by default.",
};

const TIMEOUT: Flag = Flag {
    id: Id::Timeout,
    short: None,
    long: Some("timeout"),
    value: free("TIME", TIME),
    reach: Reach::Setting("timeout"),
    group: Group::Own,
    doc: "end a command that is not done after TIME",
    note: "",
    more: "As with `--hang-timeout`, but whatever it does; the exit code is 124. Off by default.",
};

const LEFT: Flag = Flag {
    id: Id::Leftovers,
    short: None,
    long: Some("leftovers"),
    value: Some(Value { name: "WHAT", shape: Shape::OneOf(LEFTOVERS), expected: "ignore, report or kill" }),
    reach: Reach::Setting("leftovers"),
    group: Group::Own,
    doc: "ignore, report or kill processes that outlive their command",
    note: "",
    more: "Under the name `ninja` the default is `ignore`, else `report`: what is still there at the end is named. \
           Compiler caches and the like start servers that are meant to stay.",
};

/// `--jobserver`'s values.
pub const JOBSERVERS: &[&str] = &["auto", "on", "off", "fifo"];

const JOBSERVER: Flag = Flag {
    id: Id::Jobserver,
    short: None,
    long: Some("jobserver"),
    value: Some(Value { name: "HOW", shape: Shape::OneOf(JOBSERVERS), expected: "auto, on, off or fifo" }),
    reach: Reach::Setting("jobserver"),
    group: Group::Own,
    doc: "share the N of -j with what commands start: auto, on, off or fifo",
    note: " [default=auto]",
    more: "`on`: a `make`, `cargo`, `ninja` or `gcc -flto=jobserver` that a command starts takes part through a pipe that \
           it inherits, and all together never run more than N. `fifo`: through a named pipe, which `make` knows from 4.4 \
           on. `auto`: `on`, but not under the name `ninja`, and not where MAKEFLAGS names a jobserver already; then Tanto \
           takes part in that one, unless `-j` is given. `off`: neither.",
};

/// `--clang-worker`'s values.
pub const WORKERS: &[&str] = &["auto", "off", "require"];

const WORKER: Flag = Flag {
    id: Id::ClangWorker,
    short: None,
    long: Some("clang-worker"),
    value: Some(Value { name: "WHETHER", shape: Shape::OneOf(WORKERS), expected: "auto, off or require" }),
    reach: Reach::Setting("clang-worker"),
    group: Group::Own,
    doc: "compile in a clang that is already running: auto, off or require",
    note: " [default=auto]",
    more: "Each compile by the clang that the compile worker stands for, and each link by its lld, runs in a fork of the \
           worker instead of a new program. Files, messages and exit codes are the same. `auto`: use the worker where there \
           is one (`tanto doctor` shows it). `require`: fail if there is none, if it does not start, or if a command with \
           `-c`, also in a response file, cannot run in it.",
};

const CHECKPOINTS: Flag = Flag {
    id: Id::Checkpoints,
    short: None,
    long: Some("checkpoints"),
    value: free("N", "auto, off or a number"),
    reach: Reach::Setting("checkpoints"),
    group: Group::Own,
    doc: "keep the last N compiles at the end of their includes for the next build: auto, off or a number",
    note: " [default=auto]",
    more: "When a build is over, the compile worker compiles what was compiled last once more, in the background, as far as to \
           the end of its includes. When the same file is compiled again with the same flags and headers, that goes on from \
           there; what comes of it is the same. `auto`: 8, but none under the name `ninja`. Nobody is started for it without a \
           terminal, or where `CI` is set. `tanto clang status` shows what is kept.",
};

const VERIFY_CHECKPOINTS: Flag = Flag {
    id: Id::VerifyCheckpoints,
    short: None,
    long: Some("verify-checkpoints"),
    value: free("N", "a number"),
    reach: Reach::Setting("verify-checkpoints"),
    group: Group::Own,
    doc: "run one in N of the compiles from checkpoints again as a process, and compare",
    note: " [default=0]",
    more: "A difference makes the command fail. 0: none.",
};

const WATCH: Flag = Flag {
    id: Id::Watch,
    short: None,
    long: Some("watch"),
    value: None,
    reach: Reach::Command,
    group: Group::Build,
    doc: "build again whenever a source file changes",
    note: "",
    more: "After each build, waits for a change of the files that the targets depend on: sources, headers, build files. \
           A change during a build leads to another. Ctrl-C ends it, with exit code 130; a build that fails does not.",
};

const FOLLOW: Flag = Flag {
    id: Id::Follow,
    short: None,
    long: Some("follow"),
    value: Some(Value { name: "TARGET", shape: Shape::OptionalTarget, expected: "a target" }),
    reach: Reach::Command,
    group: Group::Build,
    doc: "show the output of a running command",
    note: "",
    more: "Its last lines are shown below its row on the terminal. Without TARGET, it is the longest-running command.",
};

/// All flags. ninja's long names stand in the order in which an ambiguous abbreviation lists them; `Group::Build` comes last.
pub static FLAGS: &[Flag] = &[
    Flag {
        id: Id::Help,
        short: Some(b'h'),
        long: Some("help"),
        value: None,
        reach: Reach::Command,
        group: Group::Output,
        doc: "print this text",
        note: "",
        more: "Under the name `ninja` it goes to standard error and the exit code is 1, as with ninja.",
    },
    Flag {
        id: Id::Version,
        short: None,
        long: Some("version"),
        value: None,
        reach: Reach::Command,
        group: Group::Output,
        doc: "print the version",
        note: " (\"{version}\")",
        more: "Under the name `ninja` it is the version of the ninja that Tanto stands for: programs that write \
               build files read it.",
    },
    Flag {
        id: Id::Verbose,
        short: Some(b'v'),
        long: Some("verbose"),
        value: None,
        reach: Reach::Setting("verbose"),
        group: Group::Output,
        doc: "show all command lines while building",
        note: "",
        more: "The last one of this and `--quiet` counts.",
    },
    Flag {
        id: Id::Quiet,
        short: None,
        long: Some("quiet"),
        value: None,
        reach: Reach::Setting("quiet"),
        group: Group::Output,
        doc: "don't show progress status, just command output",
        note: "",
        more: "The last one of this and `--verbose` counts.",
    },
    Flag {
        id: Id::Status,
        short: None,
        long: Some("status"),
        value: free("FMT", "a status format"),
        reach: Reach::Setting("status"),
        group: Group::Output,
        doc: "progress status format, such as '[$finished/$total] '",
        note: "",
        more: "It goes before `NINJA_STATUS`, whose format has % placeholders instead.",
    },
    Flag {
        id: Id::Directory,
        short: Some(b'C'),
        long: None,
        value: Some(Value { name: "DIR", shape: Shape::Directory, expected: "a directory" }),
        reach: Reach::Command,
        group: Group::Place,
        doc: "change to DIR before doing anything else",
        note: "",
        more: "The directory's own settings, in `.tanto/config`, are those that count.",
    },
    Flag {
        id: Id::Manifest,
        short: Some(b'f'),
        long: None,
        value: Some(Value { name: "FILE", shape: Shape::File, expected: "a file" }),
        reach: Reach::Command,
        group: Group::Place,
        doc: "specify input build file",
        note: " [default=build.ninja]",
        more: "It is looked for in the directory that `-C` names.",
    },
    Flag {
        id: Id::Jobs,
        short: Some(b'j'),
        long: None,
        value: free("N", "a number, 0 for no limit"),
        reach: Reach::Setting("jobs"),
        group: Group::Run,
        doc: "run N jobs in parallel (0 means infinity)",
        note: " [default={jobs} on this system]",
        more: "The default is the number of processors that this process may use, and two more under the name \
               `ninja` (one more where there are one or two). On the command line it also means not to take part \
               in the jobserver of a `make` that runs us.",
    },
    Flag {
        id: Id::KeepGoing,
        short: Some(b'k'),
        long: None,
        value: free("N", "a number, 0 for no limit"),
        reach: Reach::Setting("keep-going"),
        group: Group::Run,
        doc: "keep going until N jobs fail (0 means infinity)",
        note: " [default=1]",
        more: "Jobs that run when the last allowed one fails still come to their end.",
    },
    Flag {
        id: Id::MaxLoad,
        short: Some(b'l'),
        long: None,
        value: free("N", "a number, 0 for no limit"),
        reach: Reach::Setting("max-load"),
        group: Group::Run,
        doc: "do not start new jobs if the load average is greater than N",
        note: "",
        more: "One job always runs, whatever the load.",
    },
    Flag {
        id: Id::DryRun,
        short: Some(b'n'),
        long: None,
        value: None,
        reach: Reach::Variable,
        group: Group::Run,
        doc: "dry run (don't run commands but act like they succeeded)",
        note: "",
        more: "Nothing is written, the logs included.",
    },
    Flag {
        id: Id::Debug,
        short: Some(b'd'),
        long: None,
        value: Some(Value { name: "MODE", shape: Shape::OneOf(DEBUG_MODES), expected: "a mode" }),
        reach: Reach::Variable,
        group: Group::Mode,
        doc: "enable debugging",
        note: " (use '-d list' to list modes)",
        more: "May be given more than once.",
    },
    Flag {
        id: Id::Tool,
        short: Some(b't'),
        long: None,
        value: Some(Value { name: "TOOL", shape: Shape::Tool, expected: "a tool" }),
        reach: Reach::Command,
        group: Group::Mode,
        doc: "run a subtool",
        note: " (use '-t list' to list subtools)\nends the options; all that follows goes to the tool",
        more: "`-t TOOL -h` tells a tool's own options.",
    },
    Flag {
        id: Id::Warning,
        short: Some(b'w'),
        long: None,
        value: Some(Value { name: "FLAG", shape: Shape::OneOf(WARNINGS), expected: "a warning flag" }),
        reach: Reach::Variable,
        group: Group::Mode,
        doc: "adjust warnings",
        note: " (use '-w list' to list warnings)",
        more: "May be given more than once.",
    },
    Flag {
        id: Id::LogVersion,
        short: None,
        long: Some("log-version"),
        value: Some(Value { name: "N", shape: Shape::OneOf(&["5", "6", "7"]), expected: "5, 6 or 7" }),
        reach: Reach::Setting("log-version"),
        group: Group::Own,
        doc: "version of a new .ninja_log: 5, 6 or 7",
        note: " [default: as the other ninja in PATH, else 7]",
        more: "For a build directory that an older ninja goes on with: ninja up to 1.11 reads version 5, 1.12 reads \
               6. The default is the version of the first other program named `ninja` in PATH, which is asked for its \
               version once. A log that is there keeps its version. `TANTO_LOG_VERSION` says the same.",
    },
    Flag {
        id: Id::Format,
        short: None,
        long: Some("format"),
        value: Some(Value { name: "NAME", shape: Shape::OneOf(FORMATS), expected: "auto, live, plain or jsonl" }),
        reach: Reach::Setting("format"),
        group: Group::Own,
        doc: "what a build shows: auto, live, plain or jsonl",
        note: " [default=auto]",
        more: "`live` keeps a bar and the commands that run at the bottom of the terminal, and sums up what failed. \
               `plain` prints ninja's lines; so does `live` where the output is no terminal, and with `-v`, `--quiet`, \
               `-n` or `-d explain`. Where `tanto build` is asked for `plain`, failures and what failed commands printed go to \
               standard error; under the name `ninja` they go where ninja prints them. `auto` is `live`, or under the name `ninja` `plain`. `jsonl` is for programs: \
               all that happens, each event a line of JSON, as docs/formats.md tells.",
    },
    HANG_TIMEOUT,
    TIMEOUT,
    LEFT,
    Flag {
        id: Id::Memory,
        short: None,
        long: Some("memory"),
        value: free("SIZE", "'auto', 'off' or a size such as 8G"),
        reach: Reach::Setting("memory"),
        group: Group::Own,
        doc: "memory for commands: auto, off, or a size such as 8G",
        note: " [default=auto]",
        more: "A command is started only if it fits beside those that run, by what it and they held at most when they \
               last ran. With `auto` they share what the machine and its control groups have free, with a size so \
               much. Either way, nothing more is started while the machine waits for memory, and half as much while \
               its processors have too much to do. One command may always run. Under the name `ninja` it is off, \
               unless you ask for it.",
    },
    Flag {
        id: Id::Record,
        short: None,
        long: Some("record"),
        value: Some(Value { name: "WHETHER", shape: Shape::OneOf(&["on", "off"]), expected: "'on' or 'off'" }),
        reach: Reach::Setting("record"),
        group: Group::Own,
        doc: "keep a record of builds: on or off",
        note: " [default=on]",
        more: "A build that runs commands leaves its events in .tanto/sessions, and in .tanto/history what its commands \
               took, with which the next one is planned; under the name `ninja` both lie in the user's cache. Only you can read them: they hold commands, and what those printed. Old \
               ones go by themselves.",
    },
    JOBSERVER,
    WORKER,
    CHECKPOINTS,
    VERIFY_CHECKPOINTS,
    WATCH,
    FOLLOW,
];
