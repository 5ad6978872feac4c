//! The times after which clients are lost and their packages restart.

use tanto_exec::text::units::ExactDuration;
use toml::de::DeTable;

use super::Config;
use super::read::{ConfigError, ConfigProblem, error_at};

const SECOND: i64 = 1_000;
const DAY: i64 = 86_400 * SECOND;
/// Heartbeats that may be lost before a client counts as lost.
const MIN_HEARTBEATS: i64 = 3;

/// The keys, with the least and largest value in milliseconds.
const RANGES: [(&str, i64, i64); 4] = [
    ("client_heartbeat", SECOND, 600 * SECOND),
    ("client_lost_after", MIN_HEARTBEATS * SECOND, DAY),
    ("client_restart_min", SECOND, 7 * DAY),
    ("client_restart_max", SECOND, 7 * DAY),
];

/// Checks each time, and that they fit together.
pub(super) fn check(config: &Config, table: &DeTable<'_>) -> Result<(), ConfigError> {
    let times =
        [config.client_heartbeat, config.client_lost_after, config.client_restart_min, config.client_restart_max];
    for ((key, least, largest), time) in RANGES.into_iter().zip(times) {
        if !(least..=largest).contains(&time.unwrap_or(0)) {
            let why = format!("expected a time from {} to {}", ExactDuration(least), ExactDuration(largest));
            return Err(error(table, &[key], why));
        }
    }
    let [heartbeat, lost_after, min, max] = times.map(|time| time.unwrap_or(0));
    if lost_after < MIN_HEARTBEATS * heartbeat {
        let why = format!("client_lost_after, {}, is less than three heartbeats", ExactDuration(lost_after));
        return Err(error(table, &["client_lost_after", "client_heartbeat"], why));
    }
    if min > max {
        let why = format!("client_restart_min is more than client_restart_max, {}", ExactDuration(max));
        return Err(error(table, &["client_restart_min", "client_restart_max"], why));
    }
    Ok(())
}

/// An error at the first of the keys that is set.
fn error(table: &DeTable<'_>, keys: &[&str], why: String) -> ConfigError {
    match keys.iter().find_map(|&key| table.get(key)) {
        Some(value) => error_at(value, &why),
        None => ConfigError { at: 0, problem: ConfigProblem::Message(why) },
    }
}
