//! Options of `ninja` and `tanto build`: the table's types, and the options that are not settings.

use tanto_ninja::getopt;

use crate::invocation::Invocation;
use crate::settings::declaration::FLAGS;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Id {
    Help,
    Version,
    Verbose,
    Quiet,
    Status,
    Directory,
    Manifest,
    Jobs,
    KeepGoing,
    MaxLoad,
    DryRun,
    Debug,
    Tool,
    Warning,
    LogVersion,
    Format,
    HangTimeout,
    Timeout,
    Leftovers,
    Memory,
    Record,
    Jobserver,
    ClangWorker,
    Checkpoints,
    VerifyCheckpoints,
    Watch,
    Follow,
    Again,
    Trace,
    Content,
    Cache,
    CacheSize,
    CacheRules,
}

/// The sources that may give an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// The command line only.
    Command,
    /// `TANTO_FLAGS` too.
    Variable,
    /// `TANTO_FLAGS` too, and the config files under this key.
    Setting(&'static str),
}

/// The kind of a value, for completions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    Directory,
    File,
    /// A number or a text without completions.
    Free,
    OneOf(&'static [&'static str]),
    /// The name of a `-t` tool.
    Tool,
    /// A target; may be omitted.
    OptionalTarget,
}

/// The value of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Value {
    /// The placeholder in help texts.
    pub name: &'static str,
    pub shape: Shape,
    /// The expected form, for error messages.
    pub expected: &'static str,
}

impl Value {
    pub fn is_optional(self) -> bool {
        self.shape == Shape::OptionalTarget
    }
}

/// Options that help texts show together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    Output,
    Place,
    Run,
    /// `-d`, `-t` and `-w`, which have lists of their own.
    Mode,
    /// Options that ninja does not have; `ninja -h` omits them.
    Own,
    /// Options of `tanto build` alone.
    Build,
}

impl Group {
    /// In the order of help texts.
    pub const ALL: [Group; 6] = [Group::Output, Group::Place, Group::Run, Group::Mode, Group::Own, Group::Build];
}

/// An option of `ninja` and `tanto build`; `Group::Build` is for `tanto build` alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flag {
    pub id: Id,
    pub short: Option<u8>,
    pub long: Option<&'static str>,
    pub value: Option<Value>,
    pub reach: Reach,
    pub group: Group,
    /// One line of help.
    pub doc: &'static str,
    /// Follows `doc` in `ninja -h`. `{jobs}` and `{version}` stand for the default on this machine and the version of
    /// this invocation.
    pub note: &'static str,
    /// The rest of the help, for `--help` and the man page.
    pub more: &'static str,
}

impl Flag {
    pub fn is_ninjas(&self) -> bool {
        !matches!(self.group, Group::Own | Group::Build)
    }

    /// The key in config files.
    pub fn key(&self) -> Option<&'static str> {
        match self.reach {
            Reach::Setting(key) => Some(key),
            Reach::Command | Reach::Variable => None,
        }
    }

    /// The names without the value, such as `-v, --verbose`.
    pub fn names(&self) -> String {
        let short = self.short.map(|letter| format!("-{}", letter as char));
        let long = self.long.map(|name| format!("--{name}"));
        [short, long].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// The names and the value, such as `-C DIR`.
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

/// The options of an invocation.
pub fn of_invocation(invocation: Invocation) -> &'static [Flag] {
    let first_other = FLAGS.iter().position(|flag| invocation == Invocation::Ninja && flag.group == Group::Build);
    &FLAGS[..first_other.unwrap_or(FLAGS.len())]
}

pub fn by_key(key: &[u8]) -> Option<&'static Flag> {
    FLAGS.iter().find(|flag| flag.key().is_some_and(|known| known.as_bytes() == key))
}

pub const fn free(name: &'static str, expected: &'static str) -> Option<Value> {
    Some(Value { name, shape: Shape::Free, expected })
}

pub const fn one_of(name: &'static str, words: &'static [&'static str], expected: &'static str) -> Option<Value> {
    Some(Value { name, shape: Shape::OneOf(words), expected })
}

/// Makes completions offer the targets of the manifest.
pub const TARGET_HINT: clap::ValueHint = clap::ValueHint::Hostname;

pub const DEBUG_MODES: &[&str] = &["stats", "explain", "keepdepfile", "keeprsp"];
/// The values of `-w` that are not deprecated.
pub const WARNINGS: &[&str] = &["phonycycle=err", "phonycycle=warn"];

/// An option without names, as the base of others.
const OPTION: Flag = Flag {
    id: Id::Help,
    short: None,
    long: None,
    value: None,
    reach: Reach::Command,
    group: Group::Own,
    doc: "",
    note: "",
    more: "",
};

/// A setting with this long name, which is also its key.
pub const fn long(name: &'static str) -> Flag {
    Flag { long: Some(name), reach: Reach::Setting(name), ..OPTION }
}

/// A setting with this short name, of the run.
pub const fn short(letter: u8, key: &'static str) -> Flag {
    Flag { short: Some(letter), reach: Reach::Setting(key), group: Group::Run, ..OPTION }
}

pub const HELP: Flag = Flag {
    id: Id::Help,
    short: Some(b'h'),
    long: Some("help"),
    group: Group::Output,
    doc: "print this text",
    more: "Under the name ninja, prints it to standard error and exits with 1, as ninja does.",
    ..OPTION
};

pub const VERSION: Flag = Flag {
    id: Id::Version,
    long: Some("version"),
    group: Group::Output,
    doc: "print the version",
    note: " (\"{version}\")",
    more: "Under the name ninja, prints the version of ninja that Tanto is compatible with, because generators of build \
    files read it.",
    ..OPTION
};

pub const DIRECTORY: Flag = Flag {
    id: Id::Directory,
    short: Some(b'C'),
    value: Some(Value { name: "DIR", shape: Shape::Directory, expected: "a directory" }),
    group: Group::Place,
    doc: "change to DIR before doing anything else",
    more: "The settings in .tanto/config of that directory apply.",
    ..OPTION
};

pub const MANIFEST: Flag = Flag {
    id: Id::Manifest,
    short: Some(b'f'),
    value: Some(Value { name: "FILE", shape: Shape::File, expected: "a file" }),
    group: Group::Place,
    doc: "specify input build file",
    note: " [default=build.ninja]",
    more: "The path is relative to the directory of -C.",
    ..OPTION
};

pub const DRY_RUN: Flag = Flag {
    id: Id::DryRun,
    short: Some(b'n'),
    reach: Reach::Variable,
    group: Group::Run,
    doc: "dry run (don't run commands but act like they succeeded)",
    more: "Writes no files, not even logs.",
    ..OPTION
};

pub const DEBUG: Flag = Flag {
    id: Id::Debug,
    short: Some(b'd'),
    value: Some(Value { name: "MODE", shape: Shape::OneOf(DEBUG_MODES), expected: "a mode" }),
    reach: Reach::Variable,
    group: Group::Mode,
    doc: "enable debugging",
    note: " (use '-d list' to list modes)",
    more: "Repeatable.",
    ..OPTION
};

pub const TOOL: Flag = Flag {
    id: Id::Tool,
    short: Some(b't'),
    value: Some(Value { name: "TOOL", shape: Shape::Tool, expected: "a tool" }),
    group: Group::Mode,
    doc: "run a subtool",
    note: " (use '-t list' to list subtools)\nends the options; all that follows goes to the tool",
    more: "All arguments after TOOL go to it; `-t TOOL -h` lists its options.",
    ..OPTION
};

pub const WARNING: Flag = Flag {
    id: Id::Warning,
    short: Some(b'w'),
    value: Some(Value { name: "FLAG", shape: Shape::OneOf(WARNINGS), expected: "a warning flag" }),
    reach: Reach::Variable,
    group: Group::Mode,
    doc: "adjust warnings",
    note: " (use '-w list' to list warnings)",
    more: "Repeatable.",
    ..OPTION
};

pub const WATCH: Flag = Flag {
    id: Id::Watch,
    long: Some("watch"),
    group: Group::Build,
    doc: "build again whenever a source file changes",
    more: "After each build, also a failed one, waits for a change of the files that the targets depend on: sources, headers, \
    build files. A change during a build starts another build. Ctrl-C ends it with exit code 130.",
    ..OPTION
};

pub const FOLLOW: Flag = Flag {
    id: Id::Follow,
    long: Some("follow"),
    value: Some(Value { name: "TARGET", shape: Shape::OptionalTarget, expected: "a target" }),
    group: Group::Build,
    doc: "show the output of a running command",
    more: "Shows its last lines below its row on the terminal: those of the command that makes TARGET, or of the \
    longest-running command.",
    ..OPTION
};

pub const AGAIN: Flag = Flag {
    id: Id::Again,
    long: Some("again"),
    group: Group::Build,
    doc: "run the commands of the targets even if they are up to date",
    more: "The targets must be named. For a group, such as `all`, the commands of its members run again. Where content decides, \
    a new timestamp makes no command run.",
    ..OPTION
};

pub const TRACE: Flag = Flag {
    id: Id::Trace,
    long: Some("trace"),
    value: Some(Value { name: "FILE", shape: Shape::File, expected: "a file" }),
    group: Group::Build,
    doc: "write to FILE which files and variables each command looks at",
    more: "Also lists the files of the project that a command reads although neither the manifest nor a depfile names them: \
    Tanto cannot know that their changes matter. Compiles run as processes. FILE is relative to the current directory, not to \
    that of -C.",
    ..OPTION
};
