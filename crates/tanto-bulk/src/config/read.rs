//! Parses configurations.

use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{DISK_LIMIT, Field, KEYS, Key, OF_STAGES};
use super::lease_times;
use super::{Config, Limits, NO_SANDBOX, SandboxKind, Scratch, Stage};

/// An error in a configuration file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// The byte offset.
    pub at: usize,
    pub problem: ConfigProblem,
}

#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ConfigProblem {
    #[error("unknown {kind} '{name}'")]
    Unknown {
        /// `key` or `stage`.
        kind: &'static str,
        name: String,
        known: Vec<&'static str>,
    },
    #[error("{0}")]
    Message(String),
}

/// Most labels of a machine, most trusted clients, and most patterns of packages.
const MAX_LABELS: usize = 64;
const MAX_PATTERNS: usize = 1_000;
/// 100 %, in the unit of shares.
const WHOLE: u32 = 10_000;
/// The limit of counts.
const MAX_COUNT: usize = 4096;
pub(super) const STAGE: &str = "stage";
pub(super) const PLACE: &str = "place";
pub(super) const ENVIRONMENT: &str = "environment";
/// The scan has limits like a stage.
const SCAN: &str = "scan";

pub(super) fn read(text: &str) -> Result<Config, ConfigError> {
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(text.len(), |span| span.start);
        ConfigError { at, problem: ConfigProblem::Message(error.message().to_owned()) }
    })?;
    let mut config = Config::default();
    let mut stage_tables = None;
    for (name, value) in sorted(table.get_ref()) {
        match KEYS.iter().find(|key| key.name == name.get_ref().as_ref()) {
            Some(key) => set(&mut config, key, value)?,
            None if name.get_ref() == STAGE => stage_tables = Some(value),
            None if name.get_ref() == PLACE => place(&mut config, value)?,
            None if name.get_ref() == ENVIRONMENT => environment(&mut config, value)?,
            None => return Err(unknown("key", name, KEYS.iter().map(|key| key.name))),
        }
    }
    // Limits of all stages apply to single stages, wherever they are set.
    stage_tables.map_or(Ok(()), |value| stages(&mut config, value))?;
    lease_times::check(&config, table.get_ref())?;
    Ok(config)
}

type Name<'t> = Spanned<toml::de::DeString<'t>>;
pub(super) type Value<'t> = Spanned<DeValue<'t>>;

/// Sorts by offset, so that the first error is reported.
fn sorted<'a, 't>(table: &'a DeTable<'t>) -> Vec<(&'a Name<'t>, &'a Value<'t>)> {
    let mut pairs: Vec<_> = table.iter().collect();
    pairs.sort_by_key(|(name, _)| name.span().start);
    pairs
}

fn unknown(kind: &'static str, name: &Name<'_>, known: impl Iterator<Item = &'static str>) -> ConfigError {
    let text = name.get_ref().clone().into_owned();
    ConfigError { at: name.span().start, problem: ConfigProblem::Unknown { kind, name: text, known: known.collect() } }
}

pub(super) fn error_at(value: &Value<'_>, why: &str) -> ConfigError {
    ConfigError { at: value.span().start, problem: ConfigProblem::Message(why.to_owned()) }
}

fn set(config: &mut Config, key: &Key, value: &Value<'_>) -> Result<(), ConfigError> {
    match key.field {
        Field::Path(field) | Field::Program(field) => {
            let text = text(value)?;
            if text.is_empty() && !field(&mut Config::default()).is_empty() {
                return Err(error_at(value, "expected a non-empty value"));
            }
            *field(config) = text;
        }
        Field::Text(field) => *field(config) = text(value)?,
        Field::Sandbox(field) => {
            let text = text(value)?;
            if text != NO_SANDBOX && SandboxKind::named(&text).is_none() {
                let why = "expected \"bind\", \"overlay\", \"tmpfs\" or \"none\"";
                return Err(error_at(value, why));
            }
            *field(config) = text;
        }
        Field::Flag(field) => {
            *field(config) = value.get_ref().as_bool().ok_or_else(|| error_at(value, "expected true or false"))?;
        }
        Field::Count(field) => *field(config) = count(value)?,
        Field::Share(field) => *field(config) = share(value)?,
        Field::Labels(field) => *field(config) = labels(value)?,
        Field::Time(field) => *field(config) = time(value)?,
        Field::Size(field) => *field(config) = size(value)?,
        Field::Scratch(field) => *field(config) = scratch(value)?,
        Field::Address(field) => *field(config) = address(value)?,
        Field::Url(field) => *field(config) = url(value)?,
        Field::Name(field) => *field(config) = checked_name(value)?,
    }
    Ok(())
}

fn text(value: &Value<'_>) -> Result<String, ConfigError> {
    let text = value.get_ref().as_str().ok_or_else(|| error_at(value, "expected a string in quotes"))?;
    if text.contains('\0') { Err(error_at(value, "a string cannot contain NUL")) } else { Ok(text.to_owned()) }
}

fn address(value: &Value<'_>) -> Result<String, ConfigError> {
    let text = text(value)?;
    let is_address = text.is_empty() || text.parse::<std::net::SocketAddr>().is_ok();
    if is_address { Ok(text) } else { Err(error_at(value, "expected an address such as \"0.0.0.0:8443\"")) }
}

fn url(value: &Value<'_>) -> Result<String, ConfigError> {
    let text = text(value)?;
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let has_host = |rest: &str| rest.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[');
    // User names and queries would need more than an address.
    let is_plain = |rest: &str| rest.bytes().all(|it| it.is_ascii_graphic() && !b"?#@".contains(&it));
    let is_url = rest.is_some_and(|rest| has_host(rest) && is_plain(rest)) && text.len() <= tanto_protocol::MAX_URL;
    let why = "expected a URL such as \"http://cache.example.org/cas\"";
    if text.is_empty() || is_url { Ok(text) } else { Err(error_at(value, why)) }
}

fn labels(value: &Value<'_>) -> Result<Vec<String>, ConfigError> {
    let list = value.get_ref().as_array().ok_or_else(|| error_at(value, "expected a list such as [\"big\"]"))?;
    if list.len() > MAX_LABELS {
        return Err(error_at(value, &format!("expected at most {MAX_LABELS} names")));
    }
    list.iter().map(checked_name).collect()
}

fn place(config: &mut Config, value: &Value<'_>) -> Result<(), ConfigError> {
    let table = value.get_ref().as_table().ok_or_else(|| error_at(value, "expected a table [place]"))?;
    if table.len() > MAX_PATTERNS {
        return Err(error_at(value, &format!("expected at most {MAX_PATTERNS} patterns")));
    }
    for (pattern, label) in sorted(table) {
        config.place.insert(pattern.get_ref().clone().into_owned(), checked_name(label)?);
    }
    Ok(())
}

/// The name of a build or a label.
fn checked_name(value: &Value<'_>) -> Result<String, ConfigError> {
    let text = text(value)?;
    let why = "expected a name of 1 to 63 of a-z, 0-9, '.', '_' and '-'";
    if tanto_protocol::is_client_name(&text) { Ok(text) } else { Err(error_at(value, why)) }
}

fn count(value: &Value<'_>) -> Result<usize, ConfigError> {
    let number = value.get_ref().as_integer();
    let number = number.and_then(|it| usize::from_str_radix(it.as_str(), it.radix()).ok());
    number
        .filter(|&it| it <= MAX_COUNT)
        .ok_or_else(|| error_at(value, &format!("expected a number from 0 to {MAX_COUNT}")))
}

/// Parses a share in hundredths of a percent.
fn share(value: &Value<'_>) -> Result<u32, ConfigError> {
    let error = || error_at(value, "expected a share from \"0%\" to \"100%\", such as \"2%\" or \"0.25%\"");
    let text = value.get_ref().as_str().and_then(|text| text.strip_suffix('%')).ok_or_else(error)?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || whole.len() > 3 || fraction.len() > 2 {
        return Err(error());
    }
    let number: u32 = format!("{whole}{fraction:0<2}").parse().map_err(|_| error())?;
    if number <= WHOLE { Ok(number) } else { Err(error()) }
}

/// Parses a time in milliseconds; `None` for no limit.
fn time(value: &Value<'_>) -> Result<Option<i64>, ConfigError> {
    let error = || error_at(value, "expected a time such as \"90s\" or \"1h30m\", \"0\" for none");
    let text = value.get_ref().as_str().ok_or_else(error)?;
    let ms = milliseconds(text).ok_or_else(error)?;
    Ok((ms > 0).then_some(ms))
}

/// The units of sizes, each 1024 times the one before.
pub(super) const UNITS: [char; 4] = ['K', 'M', 'G', 'T'];

pub(super) const AUTO: &str = "auto";

fn scratch(value: &Value<'_>) -> Result<Scratch, ConfigError> {
    if value.get_ref().as_str() == Some(AUTO) {
        return Ok(Scratch::Auto);
    }
    let error = |_| error_at(value, "expected a size such as \"512M\" or \"8G\", \"0\" for none, or \"auto\"");
    Ok(size(value).map_err(error)?.map_or(Scratch::Disk, Scratch::Most))
}

/// Parses a size in bytes; `None` for no limit.
fn size(value: &Value<'_>) -> Result<Option<u64>, ConfigError> {
    let error = || error_at(value, "expected a size such as \"512M\" or \"8G\", \"0\" for none");
    let text = value.get_ref().as_str().ok_or_else(error)?;
    let bytes = if text == "0" { 0 } else { bytes(text).ok_or_else(error)? };
    Ok((bytes > 0).then_some(bytes))
}

fn bytes(text: &str) -> Option<u64> {
    let unit = text.chars().last()?;
    let times = 1024_u64.pow(1 + u32::try_from(UNITS.iter().position(|&it| it == unit)?).ok()?);
    text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(times)
}

fn milliseconds(text: &str) -> Option<i64> {
    if text == "0" {
        return Some(0);
    }
    let (mut sum, mut rest) = (0_i64, text);
    while !rest.is_empty() {
        let digits = rest.find(|it: char| !it.is_ascii_digit())?;
        let number: i64 = rest[..digits].parse().ok()?;
        let seconds = match rest.as_bytes()[digits] {
            b'd' => 86_400,
            b'h' => 3600,
            b'm' => 60,
            b's' => 1,
            _ => return None,
        };
        sum = sum.checked_add(number.checked_mul(seconds * 1000)?)?;
        rest = &rest[digits + 1..];
    }
    (!text.is_empty()).then_some(sum)
}

fn environment(config: &mut Config, value: &Value<'_>) -> Result<(), ConfigError> {
    let table = value.get_ref().as_table().ok_or_else(|| error_at(value, "expected a table [environment]"))?;
    for (name, value) in sorted(table) {
        let is_name = |text: &str| text.chars().all(|it| it.is_ascii_alphanumeric() || it == '_');
        let variable = name.get_ref().as_ref();
        if !is_name(variable) || variable.is_empty() || variable.starts_with(|it: char| it.is_ascii_digit()) {
            let why = "expected a variable name of letters, digits and '_'".to_owned();
            return Err(ConfigError { at: name.span().start, problem: ConfigProblem::Message(why) });
        }
        config.environment.insert(variable.to_owned(), text(value)?);
    }
    Ok(())
}

fn stages(config: &mut Config, value: &Value<'_>) -> Result<(), ConfigError> {
    let error = |value| error_at(value, "expected a table [stage.NAME]");
    let names = || Stage::ALL.into_iter().map(Stage::name).chain([SCAN]);
    for (name, value) in sorted(value.get_ref().as_table().ok_or_else(|| error(value))?) {
        if !names().any(|it| name.get_ref() == it) {
            return Err(unknown("stage", name, names()));
        }
        let limits = limits(config, name.get_ref(), value.get_ref().as_table().ok_or_else(|| error(value))?)?;
        config.stages.insert(name.get_ref().clone().into_owned(), limits);
    }
    Ok(())
}

/// The limits of a stage: its own, and those of all stages for the rest.
fn limits(config: &Config, stage: &str, table: &DeTable<'_>) -> Result<Limits, ConfigError> {
    let writes = Stage::ALL.into_iter().any(|it| it.name() == stage && it.writes());
    let known = || OF_STAGES.into_iter().filter(move |&key| writes || key != DISK_LIMIT);
    let mut stage_config = config.clone();
    for (name, value) in sorted(table) {
        let key = known().find(|&key| name.get_ref() == key).ok_or_else(|| unknown("key", name, known()))?;
        KEYS.iter().find(|it| it.name == key).map_or(Ok(()), |key| set(&mut stage_config, key, value))?;
    }
    Ok(stage_config.limits)
}
