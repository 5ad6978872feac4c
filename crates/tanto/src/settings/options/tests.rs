//! Tests of the options of `ninja` and `tanto build`, some of them against ninja itself.

use super::*;
use crate::settings::declaration::FLAGS;
use crate::settings::flags as table;
use crate::settings::flags::Group;
use crate::settings::parser::OptionParser;
use crate::settings::values::{Jobs, Memory, StatusFormat};
use crate::settings::{CommandLineError, EnvVars, Origin, options};
use std::collections::HashSet;
use std::process::{Command, Stdio};
use tanto_exec::command_output::CommandOutput;
use tanto_ninja::getopt::Getopt;
use tanto_record::views::ninja::Verbosity;

fn words(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|&word| word.into()).collect()
}

fn typed(args: &[&str]) -> Result<LowArgs, CommandLineError> {
    OptionParser { invocation: Invocation::Ninja, origin: Origin::CommandLine, posix: false, warn: &mut |_| {} }
        .read(&words(args))
}

/// The options as ninja, without variables and config files.
fn parsed(args: &[&str]) -> Options {
    let low = typed(args).unwrap_or_else(|error| panic!("{args:?}: {error:?}"));
    Options::of(Invocation::Ninja, low, None)
}

fn targets(args: &[&str]) -> Vec<String> {
    parsed(args).targets.into_iter().map(|target| String::from_utf8_lossy(&target).into_owned()).collect()
}

fn usage_error(args: &[&str]) -> String {
    match typed(args) {
        Err(CommandLineError::Usage(bad)) => String::from_utf8_lossy(&bad.message).into_owned(),
        other => panic!("{args:?}: {other:?}"),
    }
}

fn fatal(args: &[&str]) -> String {
    match typed(args) {
        Err(CommandLineError::Usage(bad)) => panic!("{args:?}: {bad:?}"),
        Err(error) => error.to_string(),
        Ok(low) => panic!("{args:?}: {low:?}"),
    }
}

#[test]
fn table_is_consistent() {
    let mut seen = HashSet::new();
    for flag in FLAGS {
        for name in [flag.short.map(|letter| (letter as char).to_string()), flag.long.map(str::to_owned)] {
            assert!(name.is_none_or(|name| seen.insert(name)), "{flag:?}");
        }
        assert!(!flag.names().is_empty() && !flag.doc.is_empty() && !flag.more.is_empty(), "{flag:?}");
        assert!(flag.key().is_none_or(|key| table::by_key(key.as_bytes()) == Some(flag)));
    }
}

#[test]
fn build_flags_are_unknown_to_ninja() {
    let known = |invocation| table::of_invocation(invocation).iter().filter(|flag| flag.group == Group::Build).count();
    assert_eq!(known(Invocation::Ninja), 0);
    assert!(
        known(Invocation::Tanto) > 0
            && table::of_invocation(Invocation::Ninja).len() + known(Invocation::Tanto) == FLAGS.len()
    );
    assert_eq!(usage_error(&["--watch"]), "unrecognized option '--watch'");
}

#[test]
fn watch_excludes_tools() {
    let typed = |args| {
        OptionParser { invocation: Invocation::Tanto, origin: Origin::CommandLine, posix: false, warn: &mut |_| {} }
            .read(&words(args))
    };
    assert!(typed(&["--watch"]).is_ok_and(|low| low.watch));
    assert!(matches!(typed(&["--watch", "-t", "clean"]), Err(CommandLineError::WatchWithTool)));
}

#[test]
fn follow_has_an_optional_target() {
    let typed = |args| {
        OptionParser { invocation: Invocation::Tanto, origin: Origin::CommandLine, posix: false, warn: &mut |_| {} }
            .read(&words(args))
    };
    let follow = |args| typed(args).map(|low| (low.follow, low.targets.len())).ok();
    assert_eq!(follow(&["--follow", "app"]), Some((Some(FollowTarget::Longest), 1)));
    assert_eq!(follow(&["--follow=app"]), Some((Some(FollowTarget::Target(b"app".to_vec())), 0)));
    assert_eq!(follow(&["app"]), Some((None, 1)));
    assert_eq!(usage_error(&["--follow"]), "unrecognized option '--follow'");
}

/// Abbreviations such as `ninja --h` select the same option as in ninja.
#[test]
fn own_flags_keep_ninjas_abbreviations() {
    let ninjas = || FLAGS.iter().filter(|flag| flag.is_ninjas()).filter_map(|flag| Some((flag, flag.long?)));
    for (flag, long) in ninjas() {
        for begin in (1..=long.len()).map(|length| &long[..length]) {
            let args = [format!("--{begin}=x").into_bytes()];
            let found = Getopt::new(FLAGS, &args, false).flag();
            match ninjas().filter(|(_, long)| long.starts_with(begin)).count() {
                1 if flag.value.is_some() => assert_eq!(found.map(|it| it.map(|it| it.0)), Ok(Some(flag)), "{begin}"),
                1 => assert!(found.is_err_and(|bad| bad.message.ends_with(b"doesn't allow an argument")), "{begin}"),
                _ => assert!(found.is_err_and(|bad| !bad.message.windows(4).any(|four| four == b"hang")), "{begin}"),
            }
        }
    }
}

#[test]
fn defaults() {
    let options = parsed(&[]);
    assert_eq!(options.manifest, b"build.ninja");
    assert_eq!(
        (options.settings.jobs.value, options.settings.jobs.is_on_command_line()),
        (Jobs::ProcessorsAndMore, false)
    );
    assert_eq!((options.settings.keep_going.value, options.settings.max_load.value), (1, None));
    assert_eq!(options.settings.verbosity.value, Verbosity::Normal);
    assert_eq!(options.settings.status.value, StatusFormat::Percent(b"[%f/%t] ".to_vec()));
    assert_eq!(options.settings.log_version.value, None);
    assert!(options.targets.is_empty() && options.tool.is_none() && options.dir.is_none());
}

#[test]
fn flags_and_targets_mix() {
    assert_eq!(targets(&["a", "-j2", "b"]), ["a", "b"]);
    assert_eq!(targets(&["a", "--", "-j2", "--", "b"]), ["a", "-j2", "--", "b"]);
    assert_eq!(targets(&["-", "-n"]), ["-"]);
    assert_eq!(targets(&["-n", ""]), [""]);
    let posix =
        OptionParser { invocation: Invocation::Ninja, origin: Origin::CommandLine, posix: true, warn: &mut |_| {} }
            .read(&words(&["-n", "a", "-j2"]));
    assert_eq!(posix.ok().map(|low| low.targets), Some(vec![b"a".to_vec(), b"-j2".to_vec()]));
}

#[test]
fn letters_bundle_and_values_join() {
    for args in [&["-vnj4"][..], &["-vnj", "4"], &["-v", "-n", "-j4"], &["--verb", "-nj", "+4"]] {
        let options = parsed(args);
        assert_eq!(options.settings.jobs.value, Jobs::AtMost(4), "{args:?}");
        assert!(options.dry_run && options.settings.verbosity.value == Verbosity::Verbose, "{args:?}");
    }
    let options = parsed(&["-Cdir", "-f", "x y", "-C", "other"]);
    assert_eq!((options.dir.as_deref(), &options.manifest[..]), (Some(&b"other"[..]), &b"x y"[..]));
    assert_eq!(parsed(&["--status=[$f=] "]).settings.status.value, StatusFormat::Variables(b"[$f=] ".to_vec()));
    assert_eq!(parsed(&["--stat", "-n"]).settings.status.value, StatusFormat::Variables(b"-n".to_vec()));
}

#[test]
fn arguments_are_bytes() {
    let args = [b"-C\xff".to_vec(), b"\xfe".to_vec()];
    let low =
        OptionParser { invocation: Invocation::Ninja, origin: Origin::CommandLine, posix: false, warn: &mut |_| {} }
            .read(&args)
            .expect("sound");
    assert_eq!((low.dir, low.targets), (Some(b"\xff".to_vec()), vec![b"\xfe".to_vec()]));
}

#[test]
fn numbers_are_parsed_as_by_ninja() {
    for (value, jobs) in [
        ("0", Jobs::Unlimited),
        ("", Jobs::Unlimited),
        (" 7", Jobs::AtMost(7)),
        ("2147483646", Jobs::AtMost(2147483646)),
        ("2147483647", Jobs::Unlimited),
        ("99999999999999999999", Jobs::Unlimited),
    ] {
        let options = parsed(&["-j", value]);
        assert_eq!((options.settings.jobs.value, options.settings.jobs.is_on_command_line()), (jobs, true), "{value}");
    }
    for (value, failures) in [("3", 3), ("0", u32::MAX), ("-3", u32::MAX), ("", u32::MAX)] {
        assert_eq!(parsed(&["-k", value]).settings.keep_going.value, failures, "{value}");
    }
    for (value, load) in
        [("2.5", Some(2.5)), ("3x", Some(3.0)), ("0", None), ("-1", None), ("nan", None), ("inf", None)]
    {
        assert_eq!(parsed(&["-l", value]).settings.max_load.value, load, "{value}");
    }
    assert_eq!(fatal(&["-j", "-1"]), "invalid -j parameter");
    assert_eq!(fatal(&["-j4x"]), "invalid -j parameter");
    assert_eq!(fatal(&["-kx"]), "-k parameter not numeric; did you mean -k 0?");
    assert_eq!(fatal(&["-l", ""]), "-l parameter not numeric: did you mean -l 0.0?");
    assert_eq!(fatal(&["--log-version", "4"]), "invalid --log-version parameter: expected 5, 6 or 7");
    assert_eq!(parsed(&["--log-version", "5"]).settings.log_version.value, Some(5));
    let wrong = "invalid --memory parameter: expected 'auto', 'off' or a size such as 8G";
    for size in ["", "8", "G", "8X", "0G", "-1G", "1.5G", "8Gx", "99999999999T"] {
        assert_eq!(fatal(&["--memory", size]), wrong, "{size}");
    }
    for (size, kib) in [("8G", 8 << 20), ("512m", 512 << 10), ("3KiB", 3), ("1TB", 1 << 30)] {
        assert_eq!(parsed(&["--memory", size]).settings.memory.value, Memory::AtMost(kib), "{size}");
    }
    assert_eq!(
        [parsed(&[]).settings.memory.value, parsed(&["--memory=auto"]).settings.memory.value],
        [Memory::Off, Memory::Free]
    );
    assert_eq!(fatal(&["--record", "no"]), "invalid --record parameter: expected 'on' or 'off'");
    assert!(parsed(&[]).settings.record.value && !parsed(&["--record=off"]).settings.record.value);
}

#[test]
fn last_value_counts() {
    assert_eq!(parsed(&["-v", "--quiet"]).settings.verbosity.value, Verbosity::Quiet);
    assert_eq!(parsed(&["--quiet", "-v"]).settings.verbosity.value, Verbosity::Verbose);
    assert!(!parsed(&["-w", "phonycycle=err", "-w", "phonycycle=warn"]).phony_cycle_is_error);
    assert!(parsed(&["-wphonycycle=err"]).phony_cycle_is_error);
}

#[test]
fn tool_ends_the_flags() {
    let call = |args| parsed(args).tool.map(|call| (call.tool.name, call.argv0, call.args)).expect("a tool");
    assert_eq!(
        call(&["-t", "clean", "-n", "--", "x"]),
        ("clean", b"clean".to_vec(), vec![b"-n".to_vec(), b"--".to_vec(), b"x".to_vec()])
    );
    assert_eq!(call(&["-vtclean"]), ("clean", b"-vtclean".to_vec(), vec![]));
    let options = parsed(&["a", "-n", "-t", "deps", "b"]);
    assert!(options.dry_run && options.targets.is_empty());
    assert_eq!(options.tool.map(|call| call.args), Some(vec![b"b".to_vec()]));
    assert_eq!(fatal(&["-t", "cle", "--bad"]), "unknown tool 'cle', did you mean 'clean'?");
    assert_eq!(fatal(&["-t", "msvc"]), "unknown tool 'msvc'");
}

#[test]
fn modes_and_warnings() {
    let options = parsed(&["-d", "stats", "-dexplain", "-d", "keeprsp", "-d", "nostatcache"]);
    assert_eq!(options.debug, Debug { stats: true, explain: true, keep_depfile: false, keep_rsp: true });
    assert!(parsed(&["-d", "keepdepfile"]).debug.keep_depfile);
    assert_eq!(fatal(&["-d", "stat"]), "unknown debug setting 'stat', did you mean 'stats'?");
    assert_eq!(fatal(&["-w", "phonycycle"]), "unknown warning flag 'phonycycle'");
    let mut warnings = Vec::new();
    let mut warn = |text: &[u8]| warnings.push(text.to_vec());
    let args = words(&["-w", "dupbuild=err", "-w", "depfilemulti=warn", "-j", "x"]);
    assert!(
        OptionParser { invocation: Invocation::Ninja, origin: Origin::CommandLine, posix: false, warn: &mut warn }
            .read(&args)
            .is_err()
    );
    assert_eq!(warnings, [&b"deprecated warning 'dupbuild'"[..], b"deprecated warning 'depfilemulti'"]);
}

#[test]
fn usage_errors_are_getopts() {
    assert_eq!(usage_error(&["-nx"]), "invalid option -- 'x'");
    assert_eq!(usage_error(&["-n=3"]), "invalid option -- '='");
    assert_eq!(usage_error(&["-vj"]), "option requires an argument -- 'j'");
    assert_eq!(usage_error(&["--foo=3"]), "unrecognized option '--foo=3'");
    assert_eq!(usage_error(&["---"]), "unrecognized option '---'");
    assert_eq!(usage_error(&["--hel=3"]), "option '--help' doesn't allow an argument");
    assert_eq!(usage_error(&["--status"]), "option '--status' requires an argument");
    assert_eq!(usage_error(&["--ve=1"]), "option '--ve=1' is ambiguous; possibilities: '--version' '--verbose'");
}

#[test]
fn help_and_version_depend_on_the_name() {
    let version = |invocation| CommandLineError::Version.output(invocation, b"ninja", String::new).out;
    assert_eq!(version(Invocation::Ninja), b"1.13.2.git.kitware.jobserver-pipe-1\n");
    assert_eq!(version(Invocation::Tanto), concat!("tanto ", env!("CARGO_PKG_VERSION"), "\n").as_bytes());
    let help = CommandLineError::Help.output(Invocation::Ninja, b"ninja", String::new);
    assert!(help.out.is_empty() && help.err.starts_with(b"usage: ninja [options]") && help.code == 1);
    let help = CommandLineError::Help.output(Invocation::Tanto, b"tanto build", || "Bring targets up to date".into());
    assert!(help.err.is_empty() && help.out.starts_with(b"Bring targets up to date") && help.code == 0);
    let usage = || typed(&["--recrd"]).expect_err("there is none");
    let fatal = CommandLineError::UnclosedQuote.output(Invocation::Ninja, b"./ninja", String::new);
    assert_eq!((&fatal.err[..], fatal.code), (&b"ninja: fatal: a quote is not closed\n"[..], 1));
    assert!(
        usage()
            .output(Invocation::Ninja, b"./ninja", String::new)
            .err
            .starts_with(b"./ninja: unrecognized option '--recrd'\nusage: ")
    );
    let hint = b"tanto: error: unrecognized option '--recrd', did you mean '--record'?\n";
    assert!(usage().output(Invocation::Tanto, b"tanto build", String::new).err.starts_with(hint));
}

/// Command lines that end before a manifest is read have ninja's output and exit code. Of the usage text, only the lines
/// before the options are compared.
#[test]
fn ninja_gives_the_same_errors() {
    let Some(referee) = std::env::var_os("TANTO_REFEREE") else {
        println!("skipped: TANTO_REFEREE names no ninja to compare with");
        return;
    };
    let name = referee.to_string_lossy().into_owned();
    let lines: &[&[&str]] = &[
        &["--version"],
        &["--versio"],
        &["-h"],
        &["--he"],
        &["-x"],
        &["-vx"],
        &["-v=3"],
        &["-?"],
        &["-:"],
        &["-W", "x"],
        &["--foo"],
        &["--foo=bar"],
        &["---"],
        &["--v"],
        &["--ve=3"],
        &["--help=3"],
        &["--qui=1"],
        &["-j"],
        &["-nC"],
        &["-j4x"],
        &["-j", "-1"],
        &["-j", " "],
        &["-k", "x"],
        &["-k", "0x1"],
        &["-l", "x"],
        &["-l", ""],
        &["-l", "."],
        &["-d", "list"],
        &["-dlist"],
        &["-w", "list"],
        &["-t", "list"],
        &["-tlist", "-x"],
        &["-d", "foo"],
        &["-d", ""],
        &["-d", "explan"],
        &["-d", "keep"],
        &["-w", "phonycycle"],
        &["-w", "phonycycle=er"],
        &["-w", "dupbuild"],
        &["-t", "cle"],
        &["-t", ""],
        &["-t", "urtl"],
        &["-t", "wincodepage"],
        &["-t", "compdb-target"],
        &["-w", "dupbuild=err", "-j", "x"],
        &["a", "-x", "b"],
        &["-C", "/nonexistent", "-d", "list"],
        &["--version", "-x"],
        &["-x", "--version"],
        &["a", "--version"],
    ];
    for args in lines {
        let theirs = Command::new(&referee).args(*args).stdin(Stdio::null()).output().expect("the referee runs");
        let ours = ninja_output(&name, args);
        assert_eq!(ours.code, theirs.status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(255), "{args:?}");
        assert_eq!(before_usage(&ours.err), before_usage(&theirs.stderr), "{args:?}");
        assert_eq!(String::from_utf8_lossy(&ours.out), String::from_utf8_lossy(&theirs.stdout), "{args:?}");
    }
}

fn ninja_output(program: &str, args: &[&str]) -> CommandOutput {
    let mut warnings = Vec::new();
    let mut warn = |text: &[u8]| warnings.extend_from_slice(&[b"ninja: warning: ", text, b"\n"].concat());
    let result = options(Invocation::Ninja, &words(args), &EnvVars::default(), &mut warn);
    let error = result.err().unwrap_or_else(|| panic!("{args:?} goes on to a build"));
    let mut stop = error.output(Invocation::Ninja, program.as_bytes(), String::new);
    warnings.append(&mut stop.err);
    stop.err = warnings;
    stop
}

fn before_usage(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text).into_owned();
    match text.split_once("options:\n") {
        Some((head, _)) => head.to_owned(),
        None => text,
    }
}

#[test]
fn usage_lists_every_flag_of_ninja() {
    let text = String::from_utf8_lossy(&CommandLineError::Help.output(Invocation::Ninja, b"ninja", String::new).err)
        .into_owned();
    for flag in FLAGS.iter().filter(|flag| flag.is_ninjas()) {
        assert!(text.contains(&format!("\n  {} ", flag.label())), "{flag:?}");
    }
}
