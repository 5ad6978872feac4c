//! Config files: TOML, with the keys of settings at the top level.

use tanto_exec::text::place::{line_number, message_at};
use tanto_exec::text::suggest;
use toml::de::{DeTable, DeValue};

use super::declaration::{FLAGS, Layer};
use super::flags::{self, Flag};
use super::{ConfigFile, Origin};

/// An error in a config file.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub struct ConfigFileError {
    problem: ConfigFileProblem,
    /// The offset of the faulty byte.
    at: usize,
    /// The content of the file.
    text: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigFileProblem {
    #[error("not UTF-8")]
    NotUtf8,
    #[error("unknown key '{key}'{}", similar_key(key))]
    UnknownKey { key: String },
    #[error("expected {}", expected(.0))]
    InvalidValue(&'static Flag),
    #[error("text needs quotes: {key} = \"{value}\"")]
    Unquoted { key: String, value: String },
    #[error("{0}")]
    Syntax(String),
}

impl ConfigFileError {
    /// The message, with its place in the file.
    pub fn render(&self, path: &[u8]) -> Vec<u8> {
        message_at(path, &self.text, self.at, self.problem.to_string().as_bytes())
    }
}

fn similar_key(key: &str) -> String {
    let keys = FLAGS.iter().filter_map(Flag::key).map(str::as_bytes);
    String::from_utf8_lossy(&suggest::did_you_mean(key.as_bytes(), keys)).into_owned()
}

/// Reads a config file.
pub fn parse(bytes: &[u8], file: ConfigFile) -> Result<Layer, ConfigFileError> {
    read(bytes, file).map_err(|(problem, at)| ConfigFileError { problem, at, text: bytes.to_vec() })
}

/// The error has the offset of the faulty byte.
fn read(bytes: &[u8], file: ConfigFile) -> Result<Layer, (ConfigFileProblem, usize)> {
    let text = std::str::from_utf8(bytes).map_err(|error| (ConfigFileProblem::NotUtf8, error.valid_up_to()))?;
    let table = DeTable::parse(text).map_err(|error| syntax_error(text, &error))?;
    // In the order of the file, so that the first error is reported.
    let mut entries: Vec<_> = table.get_ref().iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let mut layer = Layer::default();
    for (key, value) in entries {
        let (name, at) = (key.get_ref(), key.span().start);
        let flag = flags::by_key(name.as_bytes())
            .ok_or_else(|| (ConfigFileProblem::UnknownKey { key: name.to_string() }, at))?;
        let origin = Origin::File(file, line_number(bytes, at));
        if !spellings(value.get_ref()).iter().any(|value| layer.set(flag.id, value.as_bytes(), origin)) {
            return Err((ConfigFileProblem::InvalidValue(flag), value.span().start));
        }
    }
    Ok(layer)
}

/// The forms of a value on the command line.
fn spellings(value: &DeValue<'_>) -> Vec<String> {
    match value {
        DeValue::String(text) => vec![text.to_string()],
        DeValue::Integer(number) => vec![number.to_string()],
        DeValue::Float(number) => vec![number.to_string()],
        DeValue::Boolean(true) => vec!["yes".to_owned(), "on".to_owned()],
        DeValue::Boolean(false) => vec!["no".to_owned(), "off".to_owned()],
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => Vec::new(),
    }
}

/// The parser's message, or the quoted form of a value that lacks quotes, which older versions of Tanto accepted.
fn syntax_error(text: &str, error: &toml::de::Error) -> (ConfigFileProblem, usize) {
    let at = error.span().map_or(text.len(), |span| span.start);
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let line = text[start..].lines().next().unwrap_or_default();
    // A line that is valid by itself, such as a duplicate, does not lack quotes.
    let invalid = Some(line).filter(|line| DeTable::parse(line).is_err());
    let unquoted = invalid.and_then(|line| line.split_once('=')).map(|(key, value)| (key.trim(), value.trim())).filter(
        |(key, value)| {
            flags::by_key(key.as_bytes()).is_some() && !value.is_empty() && !value.contains(['"', '\'', '#'])
        },
    );
    match unquoted {
        Some((key, value)) => {
            let at = start + line.find('=').map_or(0, |equals| equals + 1);
            let at = at + text[at..].len() - text[at..].trim_start().len();
            (ConfigFileProblem::Unquoted { key: key.to_owned(), value: value.to_owned() }, at)
        }
        None => (ConfigFileProblem::Syntax(error.message().to_owned()), at),
    }
}

/// The form of a setting's values.
fn expected(flag: &Flag) -> &'static str {
    flag.value.map_or("'yes' or 'no'", |value| value.expected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Sourced;
    use crate::settings::values::{Jobs, StatusFormat};
    use tanto_record::views::ninja::Verbosity;

    fn error(text: &str) -> String {
        let error = parse(text.as_bytes(), ConfigFile::Build).expect_err(text);
        String::from_utf8(error.render(b"dir/.tanto/config")).expect("text")
    }

    #[test]
    fn reads_keys_comments_and_quotes() {
        let text = b"# all of them\n\n  jobs = 4\r\nkeep-going=0\n\tquiet = \"yes\"\nstatus = \"[$f] \"\n#end";
        let layer = parse(text, ConfigFile::User).expect("sound");
        let at = |line| Origin::File(ConfigFile::User, line);
        assert_eq!(layer.jobs, Some(Sourced { value: Jobs::AtMost(4), origin: at(3) }));
        assert_eq!(layer.keep_going, Some(Sourced { value: u32::MAX, origin: at(4) }));
        assert_eq!(layer.verbosity, Some(Sourced { value: Verbosity::Quiet, origin: at(5) }));
        assert_eq!(layer.status, Some(Sourced { value: StatusFormat::Variables(b"[$f] ".to_vec()), origin: at(6) }));
        assert_eq!(layer.max_load, None);
    }

    #[test]
    fn no_turns_a_switch_off() {
        let layer = parse(b"verbose = \"no\"\n", ConfigFile::Build).expect("sound");
        assert_eq!(layer.verbosity.map(|sourced| sourced.value), Some(Verbosity::Normal));
    }

    #[test]
    fn errors_have_a_caret() {
        assert_eq!(
            error("jobs = 1\n  job = 4\n"),
            "dir/.tanto/config:2: unknown key 'job', did you mean 'jobs'?\n  job = 4\n  ^"
        );
        assert_eq!(error("directory = 1"), "dir/.tanto/config:1: unknown key 'directory'\ndirectory = 1\n^");
        assert_eq!(
            error("\tjobs =  'many'"),
            "dir/.tanto/config:1: expected a number, 0 for no limit\n\tjobs =  'many'\n\t        ^"
        );
        assert_eq!(error("[jobs]"), "dir/.tanto/config:1: expected a number, 0 for no limit\n[jobs]\n^");
        assert_eq!(error("quiet = 1"), "dir/.tanto/config:1: expected 'yes' or 'no'\nquiet = 1\n        ^");
        assert!(error("quiet \r\n").starts_with("dir/.tanto/config:1: "));
        let twice = error("jobs = 1\njobs = 2");
        assert!(twice.starts_with("dir/.tanto/config:2: ") && twice.contains("duplicate key"), "{twice}");
        assert!(error("= 3").starts_with("dir/.tanto/config:1: "));
        assert_eq!(
            error("log-version = 4"),
            "dir/.tanto/config:1: expected 5, 6 or 7\nlog-version = 4\n              ^"
        );
    }
    #[test]
    fn text_without_quotes_is_refused_with_the_quoted_form() {
        assert_eq!(
            error("jobs = 4\nmemory =  8G\n"),
            "dir/.tanto/config:2: text needs quotes: memory = \"8G\"\nmemory =  8G\n          ^"
        );
        assert_eq!(
            error("quiet = yes"),
            "dir/.tanto/config:1: text needs quotes: quiet = \"yes\"\nquiet = yes\n        ^"
        );
        let text = b"hang-timeout = 90s";
        assert!(
            parse(text, ConfigFile::User).is_err_and(|error| error.to_string().starts_with("text needs quotes: hang"))
        );
    }

    #[test]
    fn switches_are_booleans_too() {
        let layer = parse(b"verbose = true\nrecord = false\nmax-load = 2.5\n", ConfigFile::Build).expect("sound");
        assert_eq!(layer.verbosity.map(|sourced| sourced.value), Some(Verbosity::Verbose));
        assert_eq!(layer.record.map(|sourced| sourced.value), Some(false));
        assert_eq!(layer.max_load.map(|sourced| sourced.value), Some(Some(2.5)));
    }
}
