//! Lines whose words are made here and by real shells.

use super::*;
use std::path::Path;
use std::process::Command;
use tanto_testing::{Random, Scratch, seeds};

fn words_of(line: &str) -> Option<Vec<String>> {
    let mut words = Argv::default();
    let word = |word: &[u8]| String::from_utf8(word.to_vec()).unwrap();
    split(line.as_bytes(), &mut words).then(|| words.iter().map(word).collect())
}

#[test]
fn quotes_are_removed() {
    let words = |line| words_of(line).unwrap();
    assert_eq!(words("cc -c a.c"), ["cc", "-c", "a.c"]);
    assert_eq!(words("  \tcc\t a  "), ["cc", "a"]);
    assert_eq!(
        words(r#"cc '-DA="b c"' -DX=\"y\" "-I a" '' "" a''b"#),
        ["cc", r#"-DA="b c""#, "-DX=\"y\"", "-I a", "", "", "ab"]
    );
    assert_eq!(words(r#"cc "\a\\\"\$\`" \a\ \\\' '\'"#), ["cc", "\\a\\\"$`", "a \\'", "\\"]);
    assert_eq!(
        words("cc a#b 'x' -W=1,2:3@4%5^6 ' #$*~' \"#*~!\""),
        ["cc", "a#b", "x", "-W=1,2:3@4%5^6", " #$*~", "#*~!"]
    );
}

#[test]
fn shell_syntax_is_left_to_the_shell() {
    let lines = [
        "",
        " ",
        "cc;",
        "cc a&",
        "cc|x",
        "cc >x",
        "cc <x",
        "cc (x)",
        "cc $x",
        "cc \"$x\"",
        "cc `x`",
        "cc \"`x`\"",
        "cc *",
        "cc a?",
        "cc [a]",
        "cc ~",
        "cc a~",
        "cc {a}",
        "cc !",
        "cc #",
        "# cc",
        "cc a\\",
        "cc 'a",
        "cc \"a",
        "cc \"a\\",
        "cc a\nb",
        "cc 'a\nb'",
        "cc \\\na",
        "cc \u{e9}",
        "cc '\u{e9}'",
        "cc \x7f",
        "cc \r",
        "cc \0",
        "A=b cc",
        "a/b=c",
        "'A'=b",
        "%1",
        "''",
        "\"\" a",
        "-c",
        "+x a",
    ];
    for line in lines {
        assert_eq!(words_of(line), None, "{line:?}");
    }
    for name in ["cd", ":", ".", "e\\cho", "'test'", "if", "\"exit\"", "true"] {
        assert_eq!(words_of(&format!("{name} a")), None, "{name}");
        assert!(words_of(&format!("./{name} a")).is_some(), "{name}");
    }
    assert!(words_of(&format!("cc {}", "x".repeat(TOO_LONG - 4))).is_some());
    assert_eq!(words_of(&format!("cc {}", "x".repeat(TOO_LONG - 3))), None);
}

/// The shells that this machine has; the first is the one that commands get.
fn shells() -> Vec<Vec<&'static str>> {
    let known =
        [&["/bin/sh"][..], &["dash"], &["bash", "--posix"], &["busybox", "sh"], &["mksh"], &["zsh", "--emulate", "sh"]];
    let is_there = |shell: &&[&str]| Command::new(shell[0]).args(&shell[1..]).args(["-c", ":"]).output().is_ok();
    let there: Vec<_> = known.into_iter().filter(is_there).map(<[_]>::to_vec).collect();
    assert_eq!(there[0], ["/bin/sh"]);
    there
}

fn run_script(shell: &[&str], script: &Path) -> String {
    let ended = Command::new(shell[0]).args(&shell[1..]).arg(script).env_remove("ENV").output().unwrap();
    String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned()
}

/// Bytes that are likely to be accepted, and some that are not.
fn random_line(random: &mut Random) -> String {
    const PARTS: [&str; 46] = [
        " ", " ", "  ", "\t", "a", "b c", "-x", "-D", "=", "/", ".", ",", ":", "@", "%", "^", "+", "_", "#", " #", "'",
        "'", "\"", "\"", "''", "\"\"", "'a b'", "\"a b\"", "'\"'", "\"'\"", "'$x'", "'\\'", "\\\\", "\\\"", "\\'",
        "\\ ", "\\a", "\\#", "\\$", "\\`", "\\~", "\\*", "\\;", "\\|", "\\{", "\\\t",
    ];
    const SHELLS: [&str; 27] = [
        "$", "`", "*", "?", "[", "]", "~", "{", "}", "(", ")", "<", ">", "|", "&", ";", "!", "\\", "$x", "${x}",
        "$(x)", "\x01", "\x7f", "\u{e9}", "&&", "\r", "~/",
    ];
    let wild = random.chance(20);
    let mut line = String::from("f ");
    for _ in 0..random.below(14) {
        let parts = if wild && random.chance(25) { &SHELLS[..] } else { &PARTS[..] };
        line += random.pick::<&str>(parts);
    }
    line
}

#[test]
fn words_match_those_of_shells() {
    const LINES: usize = 200;
    let dir = Scratch::new("words");
    let (shells, mut accepted, mut all) = (shells(), 0, 0);
    for seed in seeds(100) {
        let mut random = Random::new(seed);
        let (mut script, mut expected, mut lines) = (String::new(), String::new(), Vec::new());
        for line in (0..LINES).map(|_| random_line(&mut random)) {
            all += 1;
            let Some(words) = words_of(&line) else { continue };
            accepted += 1;
            script += &format!("{line}\n");
            expected += &words[1..].iter().map(|word| format!("<{word}>")).chain(["\n".into()]).collect::<String>();
            lines.push(line);
        }
        dir.write("script", format!("f() {{ for word; do printf '<%s>' \"$word\"; done; printf '\\n'; }}\n{script}"));
        for shell in &shells {
            let actual = run_script(shell, &dir.at("script"));
            let differing =
                actual.lines().zip(expected.lines()).zip(&lines).find(|((actual, expected), _)| actual != expected);
            assert!(actual == expected, "seed {seed}, {shell:?}: {differing:?}");
        }
    }
    assert!(accepted * 4 > all, "only {accepted} of {all} lines were looked at");
}

#[test]
fn builtins_are_left_to_the_shell() {
    assert!(OF_SHELLS.is_sorted());
    let path = std::env::var("PATH").unwrap();
    let files = path.split(':').filter_map(|directory| std::fs::read_dir(directory).ok()).flatten();
    let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    let names: Vec<_> = names.filter(|name| name.bytes().all(is_literal)).collect();
    let dir = Scratch::new("builtins");
    dir.write("script", names.iter().map(|name| format!("type {name}\n")).collect::<String>());
    for shell in shells() {
        for line in run_script(&shell, &dir.at("script")).lines() {
            let Some((name, is)) = line.split_once(" is ") else { continue };
            let own = ["builtin", "reserved", "keyword", "function"].iter().any(|word| is.contains(word));
            assert!(!own || words_of(name).is_none(), "{shell:?}: {line}");
        }
    }
}

#[test]
fn some_environments_require_the_shell() {
    let allows = |name: &str, value: &str| {
        let path = ("PATH".into(), "/bin".into());
        let others: &[_] = if name == "PATH" { &[] } else { &[path] };
        wants_the_shell(&Environment::inherit_with(&[others, &[(name.into(), value.into())]].concat())).is_none()
    };
    let is_usual = allows("PATH", "/bin:/usr/bin");
    assert_eq!((allows("TANTO_TEST", "x"), allows("IFS", " \t\n")), (is_usual, is_usual));
    for (name, value) in [
        ("BASH_FUNC_f%%", "() { :; }"),
        ("ENV", "x"),
        ("BASH_ENV", "x"),
        ("SHELLOPTS", "xtrace"),
        ("IFS", ":"),
        ("a.b", "x"),
        ("1", "x"),
        ("PATH", "/bin%func"),
    ] {
        assert!(!allows(name, value), "{name}");
    }
}
