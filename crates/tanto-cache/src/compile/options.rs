//! The list of options with a fixed form, from options.txt.

use std::sync::LazyLock;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

const TEXT: &str = include_str!("options.txt");

/// The effect of a listed option on the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Plain,
    Debug,
    NoDebug,
    Verbatim,
}

#[derive(Debug)]
enum Value {
    None,
    OneOf(Vec<&'static str>),
    Number,
    Name,
}

/// The lines by their first word.
static LINES: LazyLock<HashMap<&'static [u8], &'static str, RandomState>> =
    LazyLock::new(|| lines().map(|line| (first_word(line).as_bytes(), line)).collect());

/// Looks a whole word up. `None` if it is not listed.
pub(super) fn find(word: &[u8]) -> Option<Meaning> {
    if let Some(line) = line_of(word) {
        return matches!(value(line), Value::None).then(|| meaning(line));
    }
    let end =
        word.iter().position(|&byte| byte == b'=').map(|equals| equals + 1).or_else(|| dash_before_value(word))?;
    let (name, text) = word.split_at(end);
    let line = line_of(name)?;
    value(line).accepts(text).then(|| meaning(line))
}

/// Returns the line of `-fx`, and `-f[no-]x` for `-fx` and `-fno-x`.
fn line_of(name: &[u8]) -> Option<&'static str> {
    if let Some(line) = LINES.get(name) {
        return Some(line);
    }
    let (letter, rest) = name.split_at_checked(2)?;
    let rest = rest.strip_prefix(b"no-").unwrap_or(rest);
    LINES.get(&*[letter, b"[no-]", rest].concat()).copied()
}

/// Where the value of options such as `-fno-builtin-printf` begins.
fn dash_before_value(word: &[u8]) -> Option<usize> {
    let prefixes: [&[u8]; 2] = [b"-fno-builtin-", b"-ftemplate-depth-"];
    prefixes.iter().find(|prefix| word.starts_with(prefix)).map(|prefix| prefix.len())
}

impl Value {
    fn accepts(&self, value: &[u8]) -> bool {
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-+.,:=".contains(byte);
        !value.is_empty()
            && match self {
                Value::None => false,
                Value::OneOf(values) => values.iter().any(|known| known.as_bytes() == value),
                Value::Number => value.iter().all(u8::is_ascii_digit),
                Value::Name => value.iter().all(is_name),
            }
    }
}

fn first_word(line: &'static str) -> &'static str {
    line.split(' ').next().unwrap_or_default()
}

fn lines() -> impl Iterator<Item = &'static str> {
    TEXT.lines().filter(|line| line.starts_with('-'))
}

/// `-fx` and `-fno-x` for `-f[no-]x`.
fn spellings(line: &'static str) -> impl Iterator<Item = String> {
    let word = first_word(line);
    let negative = word.contains("[no-]").then(|| word.replace("[no-]", "no-"));
    std::iter::once(word.replace("[no-]", "")).chain(negative)
}

fn values(line: &'static str) -> impl Iterator<Item = &'static str> {
    line.split(' ').skip(1).filter(|word| !word.starts_with([':', '+']))
}

fn value(line: &'static str) -> Value {
    match values(line).next() {
        None => Value::None,
        Some("NUMBER") => Value::Number,
        Some("NAME") => Value::Name,
        Some(_) => Value::OneOf(values(line).collect()),
    }
}

fn meaning(line: &'static str) -> Meaning {
    match line.split(' ').find(|word| word.starts_with(':')) {
        None => Meaning::Plain,
        Some(":debug") => Meaning::Debug,
        Some(":nodebug") => Meaning::NoDebug,
        Some(_) => Meaning::Verbatim,
    }
}

/// Lines of words: each spelling with each value, and the other words that the test needs.
pub(super) fn samples() -> impl Iterator<Item = String> {
    let mut target = "";
    TEXT.lines().flat_map(move |line| match line.strip_prefix("target ") {
        Some(name) => {
            target = name;
            Vec::new()
        }
        None if line.starts_with('-') => line_samples(line, target),
        None => Vec::new(),
    })
}

fn line_samples(line: &'static str, target: &str) -> Vec<String> {
    let more: String =
        line.split(' ').filter_map(|word| word.strip_prefix('+')).map(|word| format!(" {word}")).collect();
    let target = if target.is_empty() { String::new() } else { format!(" --target={target}") };
    let mut values: Vec<&str> = values(line).filter(|value| !["NAME", "NUMBER"].contains(value)).collect();
    if values.is_empty() {
        values.push("");
    }
    let with_values =
        |word: String| values.iter().map(|value| format!("{word}{value}{more}{target}")).collect::<Vec<_>>();
    spellings(line).flat_map(with_values).collect()
}
