//! Compares the observations of two programs.

use super::answers::Answer;
use super::case::{Played, Run, Seen};
use super::process::Ended;
use super::programs::TANTO;
use super::side::Side;
use super::tree::Tree;

/// All differences. Only the first run that differs is reported, since the others are consequences.
pub fn played(referee: &Side, want: &Played, subject: &Side, got: &Played) -> Vec<String> {
    for (at, (want, got)) in want.seen.iter().zip(&got.seen).enumerate() {
        let faults = seen(referee, want, subject, got);
        if !faults.is_empty() {
            return vec![format!("run {at} ({}):\n{}", call(&want.run), faults.join("\n"))];
        }
    }
    let pairs = want.answers.iter().zip(&got.answers);
    pairs.filter_map(|(want, got)| answer(referee, want, subject, got)).collect()
}

fn seen(referee: &Side, want: &Seen, subject: &Side, got: &Seen) -> Vec<String> {
    let mut faults = ended(&want.run, referee, &want.ended, subject, &got.ended);
    if want.tree != got.tree {
        faults.push(format!("trees differ (- referee, + subject):\n{}", trees(&want.tree, &got.tree)));
    }
    faults
}

fn answer(referee: &Side, want: &Answer, subject: &Side, got: &Answer) -> Option<String> {
    let mut faults = ended(&want.run, referee, &want.ended, subject, &got.ended);
    if let (Some(changed), true) = (&got.changed, subject.name() == TANTO) {
        // The reference ninja opens its logs even in read-only tools.
        if std::env::var_os("TANTO_SUBJECT").is_none() {
            faults.push(format!("it changed the tree:\n{changed}"));
        }
    }
    (!faults.is_empty()).then(|| format!("answer to {}:\n{}", call(&want.run), faults.join("\n")))
}

fn ended(run: &Run, referee: &Side, want: &Ended, subject: &Side, got: &Ended) -> Vec<String> {
    let mut faults = Vec::new();
    if want.code != got.code {
        faults.push(format!("exit code: referee {}, subject {}", want.code, got.code));
    }
    let out = [(referee, &want.out), (subject, &got.out)].map(|(side, bytes)| text(run, side, bytes));
    let in_order = Run { any_order: false, ..run.clone() };
    let err = [(referee, &want.err), (subject, &got.err)].map(|(side, bytes)| text(&in_order, side, bytes));
    if out[0] != out[1] {
        faults.push(differ("stdout", &out[0], &out[1]));
    }
    if !same_stderr(&err[0], &err[1]) {
        faults.push(differ("stderr", &err[0], &err[1]));
    }
    if !faults.is_empty() {
        faults.push(format!("(subject's stderr: {})", String::from_utf8_lossy(&got.err)));
    }
    faults
}

/// Compares only ninja's first line of errors that show a line with a caret. Tanto may show such a line when ninja has
/// an empty one.
fn same_stderr(want: &str, got: &str) -> bool {
    let first = want.lines().next().unwrap_or("");
    let points = want.contains("^ near here");
    let tells = first.starts_with("ninja: error: ") || first.starts_with("ninja: warning: ");
    if tells && (points || want.ends_with("\n\n")) {
        return got.lines().next() == Some(first) && (got.contains('^') || !points);
    }
    want == got
}

fn call(run: &Run) -> String {
    let mut text = run.env.iter().map(|(name, value)| format!("{name}={value} ")).collect::<String>();
    text.push_str(&format!("ninja {}", run.args.join(" ")));
    text
}

fn differ(what: &str, want: &str, got: &str) -> String {
    format!("{what} differs; referee:\n{}\nsubject:\n{}", indent(want), indent(got))
}

fn indent(text: &str) -> String {
    text.split('\n').map(|line| format!("    | {}", line.escape_debug())).collect::<Vec<_>>().join("\n")
}

pub fn trees(want: &Tree, got: &Tree) -> String {
    let mut lines = Vec::new();
    for (name, value) in &want.0 {
        if got.0.get(name) != Some(value) {
            lines.push(format!("  - {name}: {value}"));
        }
    }
    for (name, value) in &got.0 {
        if want.0.get(name) != Some(value) {
            lines.push(format!("  + {name}: {value}"));
        }
    }
    lines.join("\n")
}

/// Lines that Tanto adopted from ninja's master branch.
const FROM_MASTER: &[&str] = &["ninja explain: loading dyndep file "];

/// Removes directory names, times and pointers.
fn text(run: &Run, side: &Side, bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace(&*side.base().to_string_lossy(), "@");
    let text =
        text.split_inclusive('\n').filter(|line| !FROM_MASTER.iter().any(|m| line.starts_with(m))).collect::<String>();
    let mut text = numbers(&text.replace("1.13.2.git.kitware.jobserver-pipe-1", "1.13.2"));
    if let Some(view) = run.view {
        text = view(&text);
    }
    if run.any_order { sorted(&text) } else { text }
}

/// Replaces numbers of 15 digits or more, which are times, and numbers pointers after `0x` consecutively.
fn numbers(text: &str) -> String {
    let mut pointers: Vec<&str> = Vec::new();
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let is_pointer = rest.starts_with("0x");
        let skip = if is_pointer { 2 } else { 0 };
        let is_part = |c: char| if is_pointer { c.is_ascii_hexdigit() } else { c.is_ascii_digit() };
        let len = skip + rest[skip..].find(|c| !is_part(c)).unwrap_or(rest.len() - skip);
        let (number, after) = rest.split_at(len);
        match (is_pointer, len) {
            (true, 3..) => {
                let known = pointers.iter().position(|p| *p == number).unwrap_or(pointers.len());
                if known == pointers.len() {
                    pointers.push(number);
                }
                out.push_str(&format!("<p{known}>"));
            }
            (false, 15..) => out.push_str("<time>"),
            _ => out.push_str(number),
        }
        rest = after;
    }
    out + rest
}

/// Lines without counters, sorted.
fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().map(without_counter).collect();
    lines.sort_unstable();
    lines.join("\n")
}

fn without_counter(line: &str) -> &str {
    let Some((counter, rest)) = line.strip_prefix('[').and_then(|line| line.split_once("] ")) else { return line };
    if counter.chars().all(|c| c.is_ascii_digit() || c == '/') { rest } else { line }
}
