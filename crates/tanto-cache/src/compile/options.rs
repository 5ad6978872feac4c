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

struct Listed {
    value: Value,
    meaning: Meaning,
}

static LIST: LazyLock<HashMap<Vec<u8>, Listed, RandomState>> = LazyLock::new(|| {
    let spellings = |line| spellings(line).map(move |word| (word.into_bytes(), listed(line)));
    lines().flat_map(spellings).collect()
});

/// Looks a whole word up. `None` if it is not listed.
pub(super) fn find(word: &[u8]) -> Option<Meaning> {
    if let Some(listed) = LIST.get(word) {
        return matches!(listed.value, Value::None).then_some(listed.meaning);
    }
    let end =
        word.iter().position(|&byte| byte == b'=').map(|equals| equals + 1).or_else(|| dash_before_value(word))?;
    let (name, value) = word.split_at(end);
    let listed = LIST.get(name)?;
    listed.value.accepts(value).then_some(listed.meaning)
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

fn lines() -> impl Iterator<Item = &'static str> {
    TEXT.lines().filter(|line| line.starts_with('-'))
}

/// `-fx` and `-fno-x` for `-f[no-]x`.
fn spellings(line: &str) -> impl Iterator<Item = String> {
    let word = line.split(' ').next().unwrap_or_default();
    let negative = word.contains("[no-]").then(|| word.replace("[no-]", "no-"));
    std::iter::once(word.replace("[no-]", "")).chain(negative)
}

fn values(line: &'static str) -> impl Iterator<Item = &'static str> {
    line.split(' ').skip(1).filter(|word| !word.starts_with([':', '+']))
}

fn listed(line: &'static str) -> Listed {
    let value = match values(line).next() {
        None => Value::None,
        Some("NUMBER") => Value::Number,
        Some("NAME") => Value::Name,
        Some(_) => Value::OneOf(values(line).collect()),
    };
    let meaning = match line.split(' ').find(|word| word.starts_with(':')) {
        None => Meaning::Plain,
        Some(":debug") => Meaning::Debug,
        Some(":nodebug") => Meaning::NoDebug,
        Some(_) => Meaning::Verbatim,
    };
    Listed { value, meaning }
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
