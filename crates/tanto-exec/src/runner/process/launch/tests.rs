//! Compares commands that start without the shell with the same commands in a shell.

use super::*;
use tanto_testing::{Random, Scratch, seeds};

/// Exit, output, and whether the command started without the shell.
type Outcome = (Exit, String, bool);

fn run(starter: &mut Starter, line: &str) -> Outcome {
    let Started { mut child, direct, .. } =
        starter.start(&Command { line: line.into(), ..Command::default() }).unwrap();
    let (mut output, mut buffer) = (Vec::new(), [0; 1000]);
    while let length @ 1.. = child.read_output(&mut buffer).unwrap() {
        output.extend_from_slice(&buffer[..length]);
    }
    let exit = match child.wait().unwrap().status {
        ExitStatus::Killed { signal, dumped } if direct => starter.exit_of_killed(signal, dumped, &mut output),
        status => crate::runner::process::task::exit(status),
    };
    (exit, String::from_utf8_lossy(&output).into_owned(), direct)
}

/// A starter that may skip the shell, and one that never does.
struct Pair {
    free: Starter,
    bound: Starter,
}

impl Pair {
    /// With programs of all kinds in the `PATH`.
    fn new(dir: &Scratch) -> Pair {
        dir.program("script", "echo a script without a first line \"$@\"");
        dir.write("refused", "");
        dir.program("empty", "");
        dir.program("lost", "#!/none\n");
        dir.program("binary", "\x7fELF");
        dir.program("die", "#!/bin/sh\nulimit -c 0\necho $1\nkill -$1 $$\n");
        dir.program("args", "#!/bin/sh\nprintf '<%s>' \"$@\"\nexit $#\n");
        dir.program("cd", "");
        std::fs::create_dir(dir.at("directory")).unwrap();
        let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
        let starter = || Starter::new(Environment::inherit_with(&[("PATH".into(), path.clone().into())]), None);
        let (free, bound) = (starter(), Starter { direct: false, ..starter() });
        assert!(free.direct, "the environment of the tests requires a shell");
        Pair { free, bound }
    }

    /// Returns whether the command started without the shell. Both starters must behave the same.
    fn run(&mut self, line: &str) -> bool {
        let (exit, output, direct) = run(&mut self.free, line);
        assert_eq!((exit, output, false), run(&mut self.bound, line), "{line}");
        direct
    }
}

#[test]
fn direct_commands_behave_as_in_a_shell() {
    let dir = Scratch::new("as-with-the-shell");
    let mut pair = Pair::new(&dir);
    for line in ["args", "args a 'b c' \"d\" \\e", "expr 1 + 1", "/bin/sh -c 'exit 3'", "args \"\"", "  args x"] {
        assert!(pair.run(line), "{line}");
    }
    for line in [
        "script",
        "script x",
        "refused",
        "empty",
        "lost",
        "binary",
        "directory",
        "none",
        "none 'x y'",
        "cd /",
        "args $HOME",
        "exit 7",
    ] {
        assert!(!pair.run(line), "{line}");
    }
    for name in ["script", "refused", "empty", "lost", "binary", "directory", "none", "directory/x", "script/x"] {
        assert!(!pair.run(&format!("{}/{name} x", dir.path().display())), "{name}");
    }
    assert!(!pair.run(""));
    assert!(!pair.run("args 'x"));
}

#[test]
fn signals_are_reported_like_the_shell() {
    let dir = Scratch::new("deaths");
    let mut pair = Pair::new(&dir);
    for signal in
        ["HUP", "INT", "QUIT", "ILL", "ABRT", "KILL", "SEGV", "PIPE", "ALRM", "TERM", "USR1", "BUS", "SYS", "40"]
    {
        assert!(pair.run(&format!("die {signal}")), "{signal}");
    }
}

#[test]
fn signals_are_kept_if_the_shell_execs() {
    let dir = Scratch::new("bash");
    let mut starter = Pair::new(&dir).free;
    starter.shell_outlives_command = Some(false);
    assert_eq!(run(&mut starter, "die TERM"), (Exit::Signal(15), "TERM\n".into(), true));
}

#[test]
fn direct_commands_have_the_environment_of_the_shell() {
    let dir = Scratch::new("environment");
    let mut pair = Pair::new(&dir);
    let sorted = |starter: &mut Starter| {
        let (_, output, direct) = run(starter, "/usr/bin/env");
        // Set by bash, if it is the shell.
        let own = |line: &&str| !["_=", "SHLVL=", "OLDPWD="].iter().any(|name| line.starts_with(name));
        let mut lines: Vec<_> = output.lines().filter(own).map(str::to_owned).collect();
        lines.sort_unstable();
        (direct, lines)
    };
    let (free, bound) = (sorted(&mut pair.free), sorted(&mut pair.bound));
    assert_eq!((free.0, bound.0), (true, false));
    assert_eq!(free.1, bound.1);
}

#[test]
fn console_commands_use_the_shell() {
    let mut starter = Starter::new(Environment::inherit_with(&[]), None);
    let Started { mut child, direct, .. } =
        starter.start(&Command { line: b"/bin/true".into(), console: true, ..Command::default() }).unwrap();
    assert!(!direct);
    child.wait().unwrap();
}

#[test]
fn random_lines_behave_as_in_a_shell() {
    const NAMES: [&str; 16] = [
        "args",
        "args",
        "args ",
        "script",
        "none",
        "refused",
        "lost",
        "die TERM",
        "cd",
        "'args'",
        "\"args\"",
        "true",
        "echo",
        "/bin/echo",
        "A=b args",
        "",
    ];
    const PARTS: [&str; 28] = [
        " ", " ", " ", "\t", "a", "b c", "''", "'x y'", "\"x y\"", "'\"'", "\\ ", "\\a", "\"\\\"\"", "=", "#", "-n",
        "x", "y", "/", ".", "'", "\"", "\\", ";", "$PWD", "*", "~", "!",
    ];
    let dir = Scratch::new("any-line");
    let mut pair = Pair::new(&dir);
    let mut direct = 0;
    for seed in seeds(200) {
        let mut random = Random::new(seed);
        let parts: String = (0..random.below(6)).map(|_| *random.pick(&PARTS)).collect();
        let line = format!("{} {parts}", random.pick(&NAMES));
        direct += usize::from(pair.run(&line));
    }
    assert!(direct > 0, "all lines went to the shell");
}

#[test]
fn variables_of_a_record_last_for_one_command() {
    let environment = Environment::inherit_with(&[("LD_PRELOAD".into(), "users.so".into())]);
    let mut starter = Starter::new(environment, None);
    starter.record([("LD_PRELOAD", "own.so:users.so".into()), ("TANTO_RECORD", "/record".into())]);
    let get = |starter: &Starter, name: &[u8]| starter.launcher.environment().get(name).map(<[u8]>::to_vec);
    assert_eq!(get(&starter, b"LD_PRELOAD"), Some(b"own.so:users.so".to_vec()));
    assert_eq!(get(&starter, b"TANTO_RECORD"), Some(b"/record".to_vec()));
    starter.end_record();
    assert_eq!(get(&starter, b"LD_PRELOAD"), Some(b"users.so".to_vec()));
    assert_eq!(get(&starter, b"TANTO_RECORD"), None);
}
