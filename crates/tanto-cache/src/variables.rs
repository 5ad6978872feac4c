//! Which variables of the environment a compile depends on, besides those that it is seen to read.

use tanto_sys::process::Environment;

use crate::compile::WRITING_VARIABLES;

/// Variables that the C library reads itself.
const OF_LIBRARY: [&[u8]; 8] = [
    b"LANG",
    b"LANGUAGE",
    b"LOCPATH",
    b"NLSPATH",
    b"GCONV_PATH",
    b"GLIBC_TUNABLES",
    b"POSIXLY_CORRECT",
    b"OUTPUT_CHARSET",
];

/// Beginnings of variables that the C library and the dynamic loader read themselves.
const LIBRARY_PREFIXES: [&[u8]; 2] = [b"LC_", b"LD_"];

/// Variables that name directories in which compilers look for headers and programs.
const SEARCH_PATHS: [&[u8]; 7] = [
    b"CPATH",
    b"C_INCLUDE_PATH",
    b"CPLUS_INCLUDE_PATH",
    b"OBJC_INCLUDE_PATH",
    b"COMPILER_PATH",
    b"GCC_EXEC_PREFIX",
    b"LIBRARY_PATH",
];

/// Variables that name directories for temporary files, on which no result depends.
const TEMPORARY: [&[u8]; 3] = [b"TMPDIR", b"TMP", b"TEMP"];

/// Variables that only change how messages look.
const OF_MESSAGES: [&[u8]; 12] = [
    b"TERM",
    b"COLORTERM",
    b"COLUMNS",
    b"LINES",
    b"VTE_VERSION",
    b"TERM_PROGRAM",
    b"GCC_COLORS",
    b"GCC_URLS",
    b"TERM_URLS",
    b"CLICOLOR",
    b"CLICOLOR_FORCE",
    b"NO_COLOR",
];

/// Variables that name a terminal, a login, or a job of a CI system, or are set by shells. No number or commit is among them
/// that commands put into version texts.
const OF_SESSION: [&[u8]; 43] = [
    b"_",
    b"SHLVL",
    b"OLDPWD",
    b"TERM",
    b"COLORTERM",
    b"TERM_PROGRAM",
    b"TERM_PROGRAM_VERSION",
    b"TERM_SESSION_ID",
    b"VTE_VERSION",
    b"WINDOWID",
    b"WINDOWPATH",
    b"DISPLAY",
    b"WAYLAND_DISPLAY",
    b"XAUTHORITY",
    b"DBUS_SESSION_BUS_ADDRESS",
    b"SSH_AUTH_SOCK",
    b"SSH_AGENT_PID",
    b"SSH_CLIENT",
    b"SSH_CONNECTION",
    b"SSH_TTY",
    b"GPG_TTY",
    b"TMUX",
    b"TMUX_PANE",
    b"STY",
    b"INVOCATION_ID",
    b"JOURNAL_STREAM",
    b"CARGO_MAKEFLAGS",
    b"BUILDKITE_JOB_ID",
    b"CI_BUILD_ID",
    b"CI_BUILD_TOKEN",
    b"CI_JOB_ID",
    b"CI_JOB_STARTED_AT",
    b"CI_JOB_TOKEN",
    b"CI_JOB_URL",
    b"CI_PIPELINE_CREATED_AT",
    b"CI_PIPELINE_ID",
    b"CI_PIPELINE_URL",
    b"GITHUB_ACTION",
    b"GITHUB_RUN_ATTEMPT",
    b"GITHUB_RUN_ID",
    b"GITHUB_TOKEN",
    b"HUDSON_COOKIE",
    b"JENKINS_NODE_COOKIE",
];

const SESSION_PREFIXES: [&[u8]; 5] = [b"TANTO_", b"XDG_SESSION_", b"ACTIONS_", b"RUNNER_TRACKING", b"KONSOLE_"];

/// Returns the variables that the C library and the dynamic loader read, sorted.
pub(crate) fn of_library(environment: &Environment) -> Vec<u8> {
    let is_one = |text: &&[u8]| {
        let name = text.split(|&byte| byte == b'=').next().unwrap_or_default();
        OF_LIBRARY.contains(&name) || LIBRARY_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    let mut variables: Vec<&[u8]> = environment.strings().filter(is_one).collect();
    variables.sort_unstable();
    variables.join(&0)
}

/// Returns all variables on which a result of any command may depend, sorted.
pub(crate) fn of_commands(environment: &Environment) -> Vec<u8> {
    let is_one = |text: &&[u8]| {
        let name = text.split(|&byte| byte == b'=').next().unwrap_or_default();
        !OF_SESSION.contains(&name) && !SESSION_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    let mut variables: Vec<Vec<u8>> = environment.strings().filter(is_one).map(without_job_slots).collect();
    variables.retain(|variable| !variable.is_empty());
    variables.sort_unstable();
    variables.join(&0)
}

/// Removes the job slots of this build from MAKEFLAGS.
fn without_job_slots(variable: &[u8]) -> Vec<u8> {
    let Some(flags) = variable.strip_prefix(b"MAKEFLAGS=") else { return variable.to_vec() };
    let is_other = |word: &&[u8]| !word.is_empty() && !word.starts_with(b"-j") && !word.starts_with(b"--jobserver");
    let words: Vec<&[u8]> = flags.split(|&byte| byte == b' ').filter(is_other).collect();
    if words.is_empty() { Vec::new() } else { [b"MAKEFLAGS=", &words.join(&b' ')[..]].concat() }
}

/// Returns a variable with which compilers do more than their command line says, if one is set.
pub(crate) fn forbidden(environment: &Environment) -> Option<&'static str> {
    ["LD_AUDIT"].into_iter().chain(WRITING_VARIABLES).find(|name| environment.get(name.as_bytes()).is_some())
}

/// Returns the directories that variables name for headers and programs.
pub(crate) fn searched_dirs(environment: &Environment) -> impl Iterator<Item = &[u8]> {
    let values = SEARCH_PATHS.iter().filter_map(|name| environment.get(name)).filter(|value| !value.is_empty());
    values.flat_map(|value| value.split(|&byte| byte == b':'))
}

/// Returns the directories for temporary files.
pub(crate) fn temporary_dirs(environment: &Environment) -> impl Iterator<Item = &[u8]> {
    TEMPORARY.iter().filter_map(|name| environment.get(name))
}

/// Returns whether no result depends on a variable, although compilers read it.
pub(crate) fn is_irrelevant(name: &[u8], has_printed: bool) -> bool {
    // Only linkers use the job slots in MAKEFLAGS. The user's LD_PRELOAD is among those of the library.
    TEMPORARY.contains(&name)
        || name.starts_with(b"TANTO_")
        || [&b"MAKEFLAGS"[..], b"LD_PRELOAD"].contains(&name)
        || !has_printed && OF_MESSAGES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let set: Vec<_> = variables.iter().map(|&(name, value)| (name.into(), value.into())).collect();
        let mut environment = Environment::inherit_with(&set);
        for name in ["LANG", "LANGUAGE", "LC_ALL", "CPATH", "TMPDIR", "MAKEFLAGS", "COLUMNS"] {
            if !variables.iter().any(|(set, _)| *set == name) {
                environment.remove(name);
            }
        }
        environment
    }

    #[test]
    fn variables_of_the_library_are_part_of_the_key() {
        let of = |variables: &[(&str, &str)]| of_library(&environment(variables));
        assert_ne!(of(&[]), of(&[("LANG", "C")]));
        assert_ne!(of(&[("LANG", "C")]), of(&[("LANG", "C.UTF-8")]));
        assert_ne!(of(&[("LC_MESSAGES", "C")]), of(&[("LC_CTYPE", "C")]));
        assert_ne!(of(&[]), of(&[("LD_LIBRARY_PATH", "/x")]));
        assert_eq!(of(&[]), of(&[("CI_JOB_ID", "7"), ("SHLVL", "2")]));
    }

    #[test]
    fn job_slots_and_terminals_are_no_part_of_the_key_of_commands() {
        let of = |variables: &[(&str, &str)]| of_commands(&environment(variables));
        let plain = of(&[]);
        assert_eq!(of(&[("MAKEFLAGS", " -j4 --jobserver-auth=3,4"), ("SSH_TTY", "x"), ("TANTO_X", "y")]), plain);
        assert_ne!(of(&[("MAKEFLAGS", " -j4 -- X=2")]), plain);
        assert_ne!(of(&[("COLUMNS", "40")]), plain);
    }

    #[test]
    fn directories_are_split_and_forbidden_variables_found() {
        let environment = environment(&[("CPATH", "/a::b"), ("TMPDIR", "/t"), ("CC_PRINT_OPTIONS", "1")]);
        assert_eq!(searched_dirs(&environment).collect::<Vec<_>>(), [&b"/a"[..], b"", b"b"]);
        assert!(temporary_dirs(&environment).any(|dir| dir == b"/t"));
        assert_eq!(forbidden(&environment), Some("CC_PRINT_OPTIONS"));
    }

    #[test]
    fn terminals_matter_only_for_messages() {
        assert!(is_irrelevant(b"TERM", false) && !is_irrelevant(b"TERM", true));
        assert!(is_irrelevant(b"TMPDIR", true) && !is_irrelevant(b"CPATH", false));
    }
}
