//! Tests of settings: precedence of sources, and errors.

use super::declaration::Settings;
use super::values::{Jobs, StatusFormat};
use super::*;
use tanto_exec::command_output::CommandOutput;
use tanto_ninja::snapshot::SnapshotPolicy;
use tanto_record::views::ninja::Verbosity;
use tanto_sys::threads::ThreadLimit;
use tanto_testing::Scratch;

fn ask(args: &[&str], around: &EnvVars) -> Result<Options, CommandOutput> {
    let args: Vec<Vec<u8>> = args.iter().map(|&arg| arg.into()).collect();
    options(Invocation::Ninja, &args, around, &mut |_| {})
        .map_err(|error| error.output(Invocation::Ninja, b"ninja", String::new))
}

fn complaint(args: &[&str], around: &EnvVars) -> String {
    let stop = ask(args, around).expect_err("an error");
    assert_eq!(stop.code, 1);
    String::from_utf8(stop.err).expect("text")
}

fn variable(flags: &str) -> EnvVars {
    EnvVars::from([(FLAGS_VARIABLE, flags)])
}

#[test]
fn sources_have_a_precedence() {
    let folder = Scratch::new("order");
    folder.write(
        "home/.config/tanto/config",
        b"jobs = 1\nkeep-going = 1\nmax-load = 1\nlog-version = 5\nquiet = \"yes\"\n",
    );
    folder.write("build/.tanto/config", b"jobs = 2\nkeep-going = 2\nmax-load = 2\nlog-version = 6\n");
    let build = format!("{}/build", folder.text());
    let home = folder.at("home").display().to_string();
    let around = EnvVars::from([
        ("TANTO_FLAGS", "-k3 -l 3 -d explain -n"),
        ("TANTO_LOG_VERSION", "7"),
        ("TANTO_THREADS", "1"),
        ("TANTO_SNAPSHOT", "off"),
        ("HOME", &home),
    ]);
    let options = ask(&["-C", &build, "-l4", "-d", "stats"], &around).expect("sound");
    assert_eq!(options.settings.max_load.value, Some(4.0), "the command line");
    assert_eq!(options.settings.keep_going.value, 3, "TANTO_FLAGS");
    assert_eq!(
        (options.settings.log_version.value, options.settings.threads.value),
        (Some(7), ThreadLimit::ONE),
        "their own variables"
    );
    assert_eq!(options.settings.snapshots.value, SnapshotPolicy::Off);
    assert_eq!(options.settings.jobs.value, Jobs::AtMost(2), "the build directory's file");
    assert_eq!(options.settings.verbosity.value, Verbosity::Quiet, "the user's file");
    assert!(options.debug.explain && options.debug.stats && options.dry_run);
}

#[test]
fn typed_jobs_are_on_the_command_line() {
    assert!(!ask(&[], &variable("-j3")).expect("sound").settings.jobs.is_on_command_line());
    assert!(ask(&["-j3"], &variable("-j3")).expect("sound").settings.jobs.is_on_command_line());
}

#[test]
fn status_has_three_sources() {
    let around = EnvVars::from([("NINJA_STATUS", "")]);
    assert_eq!(ask(&[], &around).expect("sound").settings.status.value, StatusFormat::Percent(Vec::new()));
    let around = EnvVars::from([("NINJA_STATUS", ""), ("TANTO_FLAGS", "--status '$total '")]);
    assert_eq!(ask(&[], &around).expect("sound").settings.status.value, StatusFormat::Variables(b"$total ".to_vec()));
    assert_eq!(
        ask(&["--status", ""], &around).expect("sound").settings.status.value,
        StatusFormat::Variables(Vec::new())
    );
}

#[test]
fn variables_are_checked() {
    assert_eq!(
        complaint(&[], &variable("-C x")),
        "ninja: fatal: TANTO_FLAGS: -C is permitted on the command line only\n"
    );
    assert_eq!(
        complaint(&[], &variable("-t clean")),
        "ninja: fatal: TANTO_FLAGS: -t is permitted on the command line only\n"
    );
    assert_eq!(
        complaint(&[], &variable("--help")),
        "ninja: fatal: TANTO_FLAGS: -h, --help is permitted on the command line only\n"
    );
    assert_eq!(complaint(&[], &variable("all")), "ninja: fatal: TANTO_FLAGS: 'all' is not an option\n");
    assert_eq!(complaint(&[], &variable("'-j")), "ninja: fatal: TANTO_FLAGS: a quote is not closed\n");
    assert_eq!(complaint(&[], &variable("--foo")), "ninja: fatal: TANTO_FLAGS: unrecognized option '--foo'\n");
    assert_eq!(complaint(&[], &variable("-jx")), "ninja: fatal: TANTO_FLAGS: invalid -j parameter\n");
    assert_eq!(complaint(&[], &variable("-dx")), "ninja: error: TANTO_FLAGS: unknown debug setting 'x'\n");
    let around = EnvVars::from([("TANTO_LOG_VERSION", "4")]);
    assert_eq!(complaint(&[], &around), "ninja: fatal: TANTO_LOG_VERSION: expected 5, 6 or 7\n");
    for threads in ["0", "-1", "two", ""] {
        let around = EnvVars::from([("TANTO_THREADS", threads)]);
        assert_eq!(complaint(&[], &around), "ninja: fatal: TANTO_THREADS: expected a number above 0\n", "{threads}");
    }
    let around = EnvVars::from([("TANTO_SNAPSHOT", "on")]);
    assert_eq!(complaint(&[], &around), "ninja: fatal: TANTO_SNAPSHOT: expected 'auto', 'always' or 'off'\n");
}

#[test]
fn config_errors_name_the_line() {
    let folder = Scratch::new("bad");
    folder.write(".tanto/config", b"# mine\njobs = 'x'\n");
    let expected = format!(
        "ninja: error: {}/.tanto/config:2: expected a number, 0 for no limit\njobs = 'x'\n       ^\n",
        folder.text()
    );
    assert_eq!(complaint(&["-C", folder.text()], &EnvVars::default()), expected);
    folder.write(".tanto/config", [b'#'; MAX_CONFIG_BYTES as usize + 1]);
    let expected = format!("ninja: error: reading {}/.tanto/config: larger than 64 KiB\n", folder.text());
    assert_eq!(complaint(&["-C", folder.text()], &EnvVars::default()), expected);
}

#[test]
fn missing_files_are_ignored() {
    let folder = Scratch::new("none");
    folder.write("file", b"");
    let file = format!("{}/file", folder.text());
    for home in ["/nonexistent", &file, "relative", ""] {
        let around = EnvVars::from([("HOME", home)]);
        assert!(ask(&["-C", &file], &around).is_ok(), "{home}");
    }
    folder.write("dir/tanto/config/x", b"");
    let around = EnvVars::from([("XDG_CONFIG_HOME", folder.at("dir").display().to_string().as_str())]);
    assert!(complaint(&[], &around).contains("Is a directory"));
}

#[test]
fn user_file_follows_xdg() {
    let around = |config: Option<&str>, home: Option<&str>| {
        let named = [("XDG_CONFIG_HOME", config), ("HOME", home)];
        let set = named.into_iter().filter_map(|(name, value)| Some((name, value?.into())));
        let around = EnvVars(set.collect());
        around.user_file().map(|path| path.display().to_string())
    };
    assert_eq!(around(Some("/x"), Some("/h")).as_deref(), Some("/x/tanto/config"));
    assert_eq!(around(Some(""), Some("/h")).as_deref(), Some("/h/.config/tanto/config"));
    assert_eq!(around(Some("rel"), Some("/h")).as_deref(), Some("/h/.config/tanto/config"));
    assert_eq!(around(None, None), None);
}

#[test]
fn default_jobs_depend_on_the_name() {
    let jobs = |invocation| Settings::of(Layer::default(), invocation).jobs.value;
    let table: &[(usize, usize, usize)] = &[(0, 2, 1), (1, 2, 1), (2, 3, 2), (3, 5, 3), (64, 66, 64)];
    for &(processors, ninja, tanto) in table {
        assert_eq!(jobs(Invocation::Ninja).limit(|| processors), ninja);
        assert_eq!(jobs(Invocation::Tanto).limit(|| processors), tanto);
    }
}
