//! Tests of the settings: which source goes before which, and what a bad one says.

use super::*;
use crate::flags;
use crate::flags::Options;
use crate::flags::stop::Stop;
use tanto_testing::Scratch;

fn ask(args: &[&str], around: &Surroundings) -> Result<Options, Stop> {
    let args: Vec<Vec<u8>> = args.iter().map(|&arg| arg.into()).collect();
    flags::options(Door::Ninja, b"ninja", &args, around, &mut |_| {})
}

fn complaint(args: &[&str], around: &Surroundings) -> String {
    let stop = ask(args, around).expect_err("an error");
    assert_eq!(stop.code, 1);
    String::from_utf8(stop.err).expect("text")
}

fn variable(flags: &str) -> Surroundings {
    Surroundings { flags: Some(flags.into()), ..Surroundings::default() }
}

#[test]
fn each_source_goes_before_those_below_it() {
    let folder = Scratch::new("order");
    folder
        .write("home/.config/tanto/config", b"jobs = 1\nkeep-going = 1\nmax-load = 1\nlog-version = 5\nquiet = yes\n");
    folder.write("build/.tanto/config", b"jobs = 2\nkeep-going = 2\nmax-load = 2\nlog-version = 6\n");
    let build = format!("{}/build", folder.text());
    let around = Surroundings {
        flags: Some("-k3 -l 3 -d explain -n".into()),
        log_version: Some("7".into()),
        threads: Some("1".into()),
        snapshots: Some("off".into()),
        home: Some(folder.at("home").into()),
        ..Surroundings::default()
    };
    let options = ask(&["-C", &build, "-l4", "-d", "stats"], &around).expect("sound");
    assert_eq!(options.max_load, Some(4.0), "the command line");
    assert_eq!(options.keep_going, 3, "TANTO_FLAGS");
    assert_eq!((options.log_version, options.threads), (Some(7), ThreadLimit::ONE), "their own variables");
    assert_eq!(options.snapshots, SnapshotPolicy::Off);
    assert_eq!(options.jobs, Jobs::AtMost(2), "the build directory's file");
    assert_eq!(options.verbosity, Verbosity::Quiet, "the user's file");
    assert!(options.debug.explain && options.debug.stats && options.dry_run);
}

#[test]
fn only_a_typed_number_of_jobs_leaves_the_jobserver() {
    assert!(!ask(&[], &variable("-j3")).expect("sound").typed_jobs);
    assert!(ask(&["-j3"], &variable("-j3")).expect("sound").typed_jobs);
}

#[test]
fn the_status_has_three_sources() {
    let mut around = Surroundings { ninja_status: Some("".into()), ..Surroundings::default() };
    assert_eq!(ask(&[], &around).expect("sound").status, StatusFormat::Percent(Vec::new()));
    around.flags = Some("--status '$total '".into());
    assert_eq!(ask(&[], &around).expect("sound").status, StatusFormat::Variables(b"$total ".to_vec()));
    assert_eq!(ask(&["--status", ""], &around).expect("sound").status, StatusFormat::Variables(Vec::new()));
}

#[test]
fn the_variable_takes_flags_that_fit_every_build() {
    assert_eq!(complaint(&[], &variable("-C x")), "ninja: fatal: TANTO_FLAGS: -C goes on the command line only\n");
    assert_eq!(complaint(&[], &variable("-t clean")), "ninja: fatal: TANTO_FLAGS: -t goes on the command line only\n");
    assert_eq!(
        complaint(&[], &variable("--help")),
        "ninja: fatal: TANTO_FLAGS: -h, --help goes on the command line only\n"
    );
    assert_eq!(complaint(&[], &variable("all")), "ninja: fatal: TANTO_FLAGS: 'all' is no flag\n");
    assert_eq!(complaint(&[], &variable("'-j")), "ninja: fatal: TANTO_FLAGS: a quote is not closed\n");
    assert_eq!(complaint(&[], &variable("--foo")), "ninja: fatal: TANTO_FLAGS: unrecognized option '--foo'\n");
    assert_eq!(complaint(&[], &variable("-jx")), "ninja: fatal: TANTO_FLAGS: invalid -j parameter\n");
    assert_eq!(complaint(&[], &variable("-dx")), "ninja: error: TANTO_FLAGS: unknown debug setting 'x'\n");
    let around = Surroundings { log_version: Some("4".into()), ..Surroundings::default() };
    assert_eq!(complaint(&[], &around), "ninja: fatal: TANTO_LOG_VERSION: expected 5, 6 or 7\n");
    for threads in ["0", "-1", "two", ""] {
        let around = Surroundings { threads: Some(threads.into()), ..Surroundings::default() };
        assert_eq!(complaint(&[], &around), "ninja: fatal: TANTO_THREADS: expected a number above 0\n", "{threads}");
    }
    let around = Surroundings { snapshots: Some("on".into()), ..Surroundings::default() };
    assert_eq!(complaint(&[], &around), "ninja: fatal: TANTO_SNAPSHOT: expected 'auto', 'always' or 'off'\n");
}

#[test]
fn a_bad_file_is_pointed_at() {
    let folder = Scratch::new("bad");
    folder.write(".tanto/config", b"# mine\njobs = x\n");
    let expected = format!(
        "ninja: error: {}/.tanto/config:2: expected a number, 0 for no limit\njobs = x\n       ^\n",
        folder.text()
    );
    assert_eq!(complaint(&["-C", folder.text()], &Surroundings::default()), expected);
    folder.write(".tanto/config", [b'#'; LARGEST_FILE as usize + 1]);
    let expected = format!("ninja: error: reading {}/.tanto/config: larger than 64 KiB\n", folder.text());
    assert_eq!(complaint(&["-C", folder.text()], &Surroundings::default()), expected);
}

#[test]
fn a_file_that_is_not_there_says_nothing() {
    let folder = Scratch::new("none");
    folder.write("file", b"");
    let file = format!("{}/file", folder.text());
    for home in ["/nonexistent", &file, "relative", ""] {
        let around = Surroundings { home: Some(home.into()), ..Surroundings::default() };
        assert!(ask(&["-C", &file], &around).is_ok(), "{home}");
    }
    folder.write("dir/tanto/config/x", b"");
    let around = Surroundings { config_home: Some(folder.at("dir").into()), ..Surroundings::default() };
    assert!(complaint(&[], &around).contains("Is a directory"));
}

#[test]
fn the_users_file_is_where_xdg_says() {
    let around = |config: Option<&str>, home: Option<&str>| {
        let around = Surroundings {
            config_home: config.map(OsString::from),
            home: home.map(OsString::from),
            ..Surroundings::default()
        };
        around.user_file().map(|path| path.display().to_string())
    };
    assert_eq!(around(Some("/x"), Some("/h")).as_deref(), Some("/x/tanto/config"));
    assert_eq!(around(Some(""), Some("/h")).as_deref(), Some("/h/.config/tanto/config"));
    assert_eq!(around(Some("rel"), Some("/h")).as_deref(), Some("/h/.config/tanto/config"));
    assert_eq!(around(None, None), None);
}

#[test]
fn defaults_are_the_doors() {
    let jobs = |door| Settings::of(Layer::default(), door).jobs.value;
    let table: &[(usize, usize, usize)] = &[(0, 2, 1), (1, 2, 1), (2, 3, 2), (3, 5, 3), (64, 66, 64)];
    for &(processors, ninja, tanto) in table {
        assert_eq!(jobs(Door::Ninja).limit(|| processors), ninja);
        assert_eq!(jobs(Door::Tanto).limit(|| processors), tanto);
    }
}
