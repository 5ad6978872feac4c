//! Options of `ninja` and `tanto build`: their types, and those that are no settings.

use tanto_ninja::getopt;

use crate::invocation::Invocation;
use crate::settings::declaration::FLAGS;

/// Which flag.
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
    /// Tanto's own. Not in the usage text of the ninja invocation.
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
    /// default and this invocation's version.
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

/// The flags that a invocation takes.
pub fn of_invocation(invocation: Invocation) -> &'static [Flag] {
    let first_other = FLAGS.iter().position(|flag| invocation == Invocation::Ninja && flag.group == Group::Build);
    &FLAGS[..first_other.unwrap_or(FLAGS.len())]
}

/// The flag whose key in config files this is.
pub fn by_key(key: &[u8]) -> Option<&'static Flag> {
    FLAGS.iter().find(|flag| flag.key().is_some_and(|known| known.as_bytes() == key))
}

pub const fn free(name: &'static str, expected: &'static str) -> Option<Value> {
    Some(Value { name, shape: Shape::Free, expected })
}

pub const fn one_of(name: &'static str, words: &'static [&'static str], expected: &'static str) -> Option<Value> {
    Some(Value { name, shape: Shape::OneOf(words), expected })
}

/// Completions offer the targets of the manifest where they find this hint.
pub const TARGET_HINT: clap::ValueHint = clap::ValueHint::Hostname;

/// The modes that `-d list` lists.
pub const DEBUG_MODES: &[&str] = &["stats", "explain", "keepdepfile", "keeprsp"];
/// The flags of `-w` that are not deprecated.
pub const WARNINGS: &[&str] = &["phonycycle=err", "phonycycle=warn"];
pub const LEFTOVERS: &[&str] = &["ignore", "report", "kill"];

/// An option without names and value, to be completed.
pub const OPTION: Flag = Flag {
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

pub const HELP: Flag = Flag {
    id: Id::Help,
    short: Some(b'h'),
    long: Some("help"),
    group: Group::Output,
    doc: "print this text",
    more: "Under the name `ninja` it goes to standard error and the exit code is 1, as with ninja.",
    ..OPTION
};

pub const VERSION: Flag = Flag {
    id: Id::Version,
    long: Some("version"),
    group: Group::Output,
    doc: "print the version",
    note: " (\"{version}\")",
    more: "Under the name `ninja` it is the version of the ninja that Tanto stands for: programs that write \
    build files read it.",
    ..OPTION
};

pub const DIRECTORY: Flag = Flag {
    id: Id::Directory,
    short: Some(b'C'),
    value: Some(Value { name: "DIR", shape: Shape::Directory, expected: "a directory" }),
    group: Group::Place,
    doc: "change to DIR before doing anything else",
    more: "The directory's own settings, in `.tanto/config`, are those that count.",
    ..OPTION
};

pub const MANIFEST: Flag = Flag {
    id: Id::Manifest,
    short: Some(b'f'),
    value: Some(Value { name: "FILE", shape: Shape::File, expected: "a file" }),
    group: Group::Place,
    doc: "specify input build file",
    note: " [default=build.ninja]",
    more: "It is looked for in the directory that `-C` names.",
    ..OPTION
};

pub const DRY_RUN: Flag = Flag {
    id: Id::DryRun,
    short: Some(b'n'),
    reach: Reach::Variable,
    group: Group::Run,
    doc: "dry run (don't run commands but act like they succeeded)",
    more: "Nothing is written, the logs included.",
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
    more: "May be given more than once.",
    ..OPTION
};

pub const TOOL: Flag = Flag {
    id: Id::Tool,
    short: Some(b't'),
    value: Some(Value { name: "TOOL", shape: Shape::Tool, expected: "a tool" }),
    group: Group::Mode,
    doc: "run a subtool",
    note: " (use '-t list' to list subtools)\nends the options; all that follows goes to the tool",
    more: "`-t TOOL -h` tells a tool's own options.",
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
    more: "May be given more than once.",
    ..OPTION
};

pub const WATCH: Flag = Flag {
    id: Id::Watch,
    long: Some("watch"),
    group: Group::Build,
    doc: "build again whenever a source file changes",
    more: "After each build, waits for a change of the files that the targets depend on: sources, headers, build files. \
    A change during a build leads to another. Ctrl-C ends it, with exit code 130; a build that fails does not.",
    ..OPTION
};

pub const FOLLOW: Flag = Flag {
    id: Id::Follow,
    long: Some("follow"),
    value: Some(Value { name: "TARGET", shape: Shape::OptionalTarget, expected: "a target" }),
    group: Group::Build,
    doc: "show the output of a running command",
    more: "Its last lines are shown below its row on the terminal. Without TARGET, it is the longest-running command.",
    ..OPTION
};
