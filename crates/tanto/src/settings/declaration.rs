//! The declaration of all settings: type, defaults, option, config key, variable, help, and text for `tanto doctor`.

use std::os::unix::ffi::OsStrExt;

use tanto_exec::jobserver::role::JobserverMode;
use tanto_exec::monitor::watcher::Leftovers;
use tanto_exec::runner::clang::installation::ClangWorker;
use tanto_ninja::snapshot::SnapshotPolicy;
use tanto_record::views::ninja::Verbosity;
use tanto_sys::threads::ThreadLimit;

use super::flags::{self, Flag, Group, Id, free, long, one_of, short};
use super::values::{
    self, CacheMode, CheckpointLimit, Jobs, Memory, OutputFormat, StatusFormat, clang_worker, jobserver, leftovers,
    output_format, snapshots, text,
};
use super::{CommandLineError, EnvVars, Origin, Sourced};
use crate::invocation::Invocation;

/// Each setting has a default as `ninja` and one as `tanto`. A `flag` is an option, in the order in which ninja lists an
/// ambiguous abbreviation; `Reach::Setting` names its config key. A `variable` has a parser, the expected form, and help.
macro_rules! settings {
    ($($field:ident: $type:ty {
        default: $ninja:expr, $tanto:expr;
        doctor: $text:expr;
        $(flag $id:ident = $parse:expr, $flag:expr;)*
        $(variable $variable:literal = $parse_variable:expr, $expected:literal, $help:literal;)*
    })*) => {
        /// The settings that one source gives; `None` for the others.
        #[derive(Clone, Default, PartialEq, Debug)]
        pub struct Layer {
            $(pub $field: Option<Sourced<$type>>,)*
        }

        /// The value and the source of each setting.
        #[derive(Clone, PartialEq, Debug)]
        pub struct Settings {
            $(pub $field: Sourced<$type>,)*
        }

        impl Layer {
            /// Sets the setting of an option; `false` if the value is invalid or the option is no setting.
            pub fn set(&mut self, id: Id, value: &[u8], origin: Origin) -> bool {
                match id {
                    $($(Id::$id => put(&mut self.$field, ($parse)(value), origin),)*)*
                    _ => false,
                }
            }

            /// Reads the variables of settings.
            pub fn of_variables(variables: &EnvVars) -> Result<Layer, CommandLineError> {
                let mut layer = Layer::default();
                $($(
                    if let Some(value) = variables.get($variable)
                        && !put(&mut layer.$field, ($parse_variable)(value.as_bytes()), Origin::Variable($variable))
                    {
                        return Err(CommandLineError::InvalidVariable { name: $variable, expected: $expected });
                    }
                )*)*
                Ok(layer)
            }

            /// Adds the settings of a source with lower precedence.
            pub fn over(self, below: Layer) -> Layer {
                Layer { $($field: self.$field.or(below.$field),)* }
            }
        }

        impl Settings {
            pub fn of(layer: Layer, invocation: Invocation) -> Settings {
                Settings {
                    $($field: layer.$field.unwrap_or_else(|| {
                        let value = if invocation == Invocation::Ninja { $ninja } else { $tanto };
                        Sourced { value, origin: Origin::Default }
                    }),)*
                }
            }

            /// Returns the name, the value as text, and the source of each setting.
            pub fn rows(&self) -> Vec<(&'static str, String, Origin)> {
                vec![$((stringify!($field), $text(&self.$field.value), self.$field.origin),)*]
            }
        }

        /// Names and help of the variables of single settings.
        pub const VARIABLES: &[(&str, &str)] = &[$($(($variable, $help),)*)*];

        /// All options. Those of `tanto build` alone come last.
        pub static FLAGS: &[Flag] = &[
            flags::HELP,
            flags::VERSION,
            $($(Flag { id: Id::$id, ..$flag },)*)*
            flags::DIRECTORY,
            flags::MANIFEST,
            flags::DRY_RUN,
            flags::DEBUG,
            flags::TOOL,
            flags::WARNING,
            flags::WATCH,
            flags::FOLLOW,
            flags::AGAIN,
            flags::TRACE,
        ];
    };
}

fn put<T>(slot: &mut Option<Sourced<T>>, value: Option<T>, origin: Origin) -> bool {
    let is_valid = value.is_some();
    *slot = value.map(|value| Sourced { value, origin });
    is_valid
}

/// The default of `clang_worker`, which a packager can set when Tanto is compiled.
fn worker_default() -> ClangWorker {
    option_env!("TANTO_CLANG_WORKER_DEFAULT")
        .and_then(|value| clang_worker::parse(value.as_bytes()))
        .unwrap_or(ClangWorker::Auto)
}

/// Turns off compiles in forks, unless it is 0.
pub const SPAWN_VARIABLE: &str = "TANTO_SPAWN_CC1";

/// The form of time limits.
pub const TIME: &str = "a time such as 90s or 1h30m, 0 for none";

settings! {
    verbosity: Verbosity {
        default: Verbosity::Normal, Verbosity::Normal;
        doctor: text::verbosity;
        flag Verbose = |value| values::switch(value, Verbosity::Verbose), Flag {
            short: Some(b'v'),
            group: Group::Output,
            doc: "show all command lines while building",
            more: "The last one of this and --quiet counts.",
            ..long("verbose")
        };
        flag Quiet = |value| values::switch(value, Verbosity::Quiet), Flag {
            group: Group::Output,
            doc: "don't show progress status, just command output",
            more: "The last one of this and --verbose counts.",
            ..long("quiet")
        };
    }
    status: StatusFormat {
        default: StatusFormat::Percent(b"[%f/%t] ".to_vec()), StatusFormat::Percent(b"[%f/%t] ".to_vec());
        doctor: text::status;
        flag Status = |value: &[u8]| Some(StatusFormat::Variables(value.to_vec())), Flag {
            value: free("FMT", "a status format"),
            group: Group::Output,
            doc: "progress status format, such as '[$finished/$total] '",
            more: "Overrides NINJA_STATUS, which has % placeholders.",
            ..long("status")
        };
        variable "NINJA_STATUS" = |value: &[u8]| Some(StatusFormat::Percent(value.to_vec())), "a status format",
            "Progress status format with ninja's % placeholders. --status overrides it.";
    }
    jobs: Jobs {
        default: Jobs::ProcessorsAndMore, Jobs::Processors;
        doctor: text::jobs;
        flag Jobs = values::jobs, Flag {
            value: free("N", "a number, 0 for no limit"),
            doc: "run N jobs in parallel (0 means infinity)",
            note: " [default={jobs} on this system]",
            more: "The default is the number of processors that this process may use; under the name ninja, two more \
                   (one more if there are one or two). On the command line it also turns off the jobserver of a make \
                   that runs Tanto.",
            ..short(b'j', "jobs")
        };
    }
    keep_going: u32 {
        default: 1, 1;
        doctor: text::keep_going;
        flag KeepGoing = values::keep_going, Flag {
            value: free("N", "a number, 0 for no limit"),
            doc: "keep going until N jobs fail (0 means infinity)",
            note: " [default=1]",
            more: "Running jobs are finished after the last allowed failure.",
            ..short(b'k', "keep-going")
        };
    }
    max_load: Option<f64> {
        default: None, None;
        doctor: text::max_load;
        flag MaxLoad = values::max_load, Flag {
            value: free("N", "a number, 0 for no limit"),
            doc: "do not start new jobs if the load average is greater than N",
            more: "One job always runs, whatever the load.",
            ..short(b'l', "max-load")
        };
    }
    log_version: Option<u32> {
        default: None, None;
        doctor: text::log_version;
        flag LogVersion = values::log_version, Flag {
            value: one_of("N", &["5", "6", "7"], "5, 6 or 7"),
            doc: "version of a new .ninja_log",
            note: " [default: as the other ninja in PATH, else 7]",
            more: "For a build directory that an older ninja continues: ninja up to 1.11 reads version 5, 1.12 reads 6. The \
                   default is the version of the first other program named ninja in PATH, queried for its \
                   version once. An existing log keeps its version.",
            ..long("log-version")
        };
        variable "TANTO_LOG_VERSION" = values::log_version, "5, 6 or 7", "Version of a new .ninja_log, as --log-version.";
    }
    format: OutputFormat {
        default: OutputFormat::Auto, OutputFormat::Auto;
        doctor: output_format::text;
        flag Format = output_format::parse, Flag {
            value: one_of("NAME", output_format::WORDS, "auto, live, plain or jsonl"),
            doc: "output of a build",
            note: " [default=auto]",
            more: "live: a progress bar and the running commands at the bottom of the terminal, and a summary of \
                   failures. plain: ninja's lines; also used by live if the output is no terminal, and with -v, \
                   --quiet, -n or -d explain. With `tanto build --format=plain`, failures and the output of failed \
                   commands go to standard error. auto: live; under the name ninja plain. jsonl: events as lines of \
                   JSON (docs/formats.md).",
            ..long("format")
        };
    }
    hang_timeout: Option<i64> {
        default: None, None;
        doctor: text::time;
        flag HangTimeout = values::time, Flag {
            value: free("TIME", TIME),
            doc: "kill a command after TIME without CPU use, output or new processes",
            more: "Its processes get SIGTERM, and SIGKILL ten seconds later. The command has failed with exit code 123. \
                   Off by default.",
            ..long("hang-timeout")
        };
    }
    timeout: Option<i64> {
        default: None, None;
        doctor: text::time;
        flag Timeout = values::time, Flag {
            value: free("TIME", TIME),
            doc: "kill a command after TIME",
            more: "Like --hang-timeout, but independent of activity; the exit code is 124. Off by default.",
            ..long("timeout")
        };
    }
    leftovers: Leftovers {
        default: Leftovers::Ignore, Leftovers::Report;
        doctor: leftovers::text;
        flag Leftovers = leftovers::parse, Flag {
            value: one_of("ACTION", leftovers::WORDS, "ignore, report or kill"),
            doc: "action for processes that outlive their command",
            note: " [default=report]",
            more: "report: list those that still run at the end of the build. Under the name ninja the default is ignore. \
                   Compiler caches and similar tools start servers that are meant to stay.",
            ..long("leftovers")
        };
    }
    memory: Memory {
        default: Memory::Off, Memory::Free;
        doctor: text::memory;
        flag Memory = values::memory, Flag {
            value: free("SIZE", "'auto', 'off' or a size such as 8G"),
            doc: "memory for commands: auto, off, or a size such as 8G",
            note: " [default=auto]",
            more: "A command starts only if its peak memory of the last run fits beside that of the running commands. auto: \
                   they share the free memory of the machine and its control groups; SIZE: they share SIZE. In both cases \
                   nothing starts while the machine waits for memory, and half as much while its CPUs are overloaded. \
                   One command may always run. Under the name ninja the default is off.",
            ..long("memory")
        };
    }
    jobserver: JobserverMode {
        default: JobserverMode::Auto, JobserverMode::Auto;
        doctor: jobserver::text;
        flag Jobserver = jobserver::parse, Flag {
            value: one_of("MODE", jobserver::WORDS, "auto, on, off or fifo"),
            doc: "share the N of -j with the commands",
            note: " [default=auto]",
            more: "on: a make, cargo, ninja or gcc -flto=jobserver that a command starts takes part through an inherited \
                   pipe; all together never run more than N jobs. fifo: through a named pipe, which make supports since \
                   4.4. auto: on, except under the name ninja or if MAKEFLAGS names a jobserver; Tanto then takes part in \
                   that one unless -j is given. off: neither.",
            ..long("jobserver")
        };
    }
    clang_worker: ClangWorker {
        default: worker_default(), worker_default();
        doctor: clang_worker::text;
        flag ClangWorker = clang_worker::parse, Flag {
            value: one_of("MODE", clang_worker::WORDS, "auto, off or require"),
            doc: "run compiles in forks of clang",
            note: " [default=auto]",
            more: "Each compile by clang runs in a fork of that clang, which is started once per build. Files, messages and \
                   exit codes are the same. auto: where that is possible and cheaper (see tanto doctor). require: fail \
                   if a command with -c cannot run in a fork.",
            ..long("clang-worker")
        };
        variable "TANTO_SPAWN_CC1" = |_: &[u8]| Some(ClangWorker::Off), "1",
            "If 1, every compiler is a process of its own, as with --clang-worker=off.";
    }
    checkpoints: CheckpointLimit {
        default: CheckpointLimit::AtMost(0), CheckpointLimit::Auto;
        doctor: text::checkpoints;
        flag Checkpoints = values::checkpoints, Flag {
            value: free("N", "auto, off or a number"),
            doc: "keep N compiles paused after their includes: auto, off or a number",
            note: " [default=auto]",
            more: "After a build, the checkpoint program compiles the last N compiled files once more in the background, up to \
                   the end of their includes. The next compile of the same file with the same options and headers \
                   continues from there, with the same result. auto: 8; under the name ninja none. Only with a terminal, \
                   and not if CI is set. See tanto-clang(1).",
            ..long("checkpoints")
        };
    }
    verify_checkpoints: u32 {
        default: 0, 0;
        doctor: text::one_in;
        flag VerifyCheckpoints = values::count, Flag {
            value: free("N", "a number"),
            doc: "run one in N compiles from checkpoints again as a process, and compare",
            note: " [default=0]",
            more: "A difference makes the command fail. 0: none.",
            ..long("verify-checkpoints")
        };
    }
    threads: ThreadLimit {
        default: ThreadLimit::Auto, ThreadLimit::Auto;
        doctor: text::threads;
        variable "TANTO_THREADS" = values::threads, "a number above 0",
            "Maximum number of Tanto's own threads, which read files before the first command starts. Independent of -j.";
    }
    snapshots: SnapshotPolicy {
        default: SnapshotPolicy::Auto, SnapshotPolicy::Auto;
        doctor: snapshots::text;
        variable "TANTO_SNAPSHOT" = snapshots::parse, "'auto', 'always' or 'off'",
            "Use of snapshots of loaded manifests: auto (where they save time), always, or off.";
    }
    content: bool {
        default: false, true;
        doctor: text::content;
        flag Content = values::on_or_off, Flag {
            value: one_of("MODE", &["on", "off"], "'on' or 'off'"),
            doc: "compare the content of files whose timestamps changed",
            note: " [default=on]",
            more: "A command does not run again if its inputs and outputs have the content of its last run, whatever their \
                   timestamps; its outputs and its log entry then get new times. It does run again if an input was \
                   replaced by an older file with other content. Digests are kept in .tanto/contents. See docs/content.md. \
                   Under the name ninja the default is off.",
            ..long("content")
        };
    }
    cache: CacheMode {
        default: CacheMode::Off, CacheMode::Off;
        doctor: text::cache;
        flag Cache = values::cache, Flag {
            value: one_of("MODE", CacheMode::WORDS, "'off', 'on' or 'read'"),
            doc: "restore results of compiles from a cache",
            note: " [default=off]",
            more: "A compile by gcc or clang does not run if the cache has the result of the same command with the same \
                   inputs, also from another branch or checkout. Inputs are all files and variables that the compiler \
                   reads, and all names that it looks for. on: new results are stored in ~/.cache/tanto/cache. read: no \
                   result is stored. See docs/cache.md and tanto-cache(1).",
            ..long("cache")
        };
    }
    cache_size: u64 {
        default: 10 << 20, 10 << 20;
        doctor: text::size;
        flag CacheSize = values::cache_size, Flag {
            value: free("SIZE", "a size such as 10G"),
            doc: "keep at most SIZE in the cache",
            note: " [default=10G]",
            more: "The results that have been unused for the longest time are removed at the end of a build.",
            ..long("cache-size")
        };
    }
    cache_rules: Vec<Vec<u8>> {
        default: Vec::new(), Vec::new();
        doctor: text::rules;
        flag CacheRules = values::rules, Flag {
            value: free("RULES", "names of rules, separated by commas"),
            doc: "also cache the commands of these rules",
            note: " [default=none]",
            more: "RULES are names in the manifest, separated by commas, such as 'CUSTOM_COMMAND,protoc'; a * at the end of \
                   a name stands for any characters. The system calls of their commands are traced to find all inputs. \
                   Commands that use the network, the date or timestamps do not belong here. See docs/cache.md.",
            ..long("cache-rules")
        };
    }
    record: bool {
        default: true, true;
        doctor: text::on_or_off;
        flag Record = values::on_or_off, Flag {
            value: one_of("MODE", &["on", "off"], "'on' or 'off'"),
            doc: "keep a record of builds",
            note: " [default=on]",
            more: "A build that runs commands writes its events to .tanto/sessions and the costs of its commands to \
                   .tanto/history, from which the next build is planned; under the name ninja, to the user's \
                   cache. Only the user can read them. Old sessions are deleted automatically.",
            ..long("record")
        };
    }
}
