//! Reads bulk.toml.

use std::fs;
use std::io;
use std::path::Path;

use tanto_bulk::config::{Config, ConfigError, ConfigProblem};
use tanto_bulk::error::BulkError;

use crate::settings;
use crate::settings::modes;

/// The default name of the configuration.
pub(super) const CONFIG: &str = "bulk.toml";

/// Reads a configuration. Errors point to the place in the file.
pub(super) fn read_config(path: &Path) -> Result<Config, BulkError> {
    let text = fs::read_to_string(path).map_err(|error| {
        let hint = if error.kind() == io::ErrorKind::NotFound { "; 'tanto bulk init' writes one" } else { "" };
        format!("{}{hint}", BulkError::io("reading ", path)(error))
    })?;
    let absolute = std::path::absolute(path).map_err(BulkError::io("reading ", path))?;
    let dir = absolute.parent().unwrap_or(&absolute);
    Config::read(&text, dir).map_err(|error| pointed(path, &text, &error).into())
}

fn pointed(path: &Path, text: &str, error: &ConfigError) -> String {
    let at = error.at.min(text.len());
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let line = text[start..].lines().next().unwrap_or_default();
    let number = u32::try_from(text[..at].matches('\n').count() + 1).unwrap_or(u32::MAX);
    let message = match &error.problem {
        ConfigProblem::Unknown { kind, name, known } => modes::unknown(kind, name.as_bytes(), known.iter().copied()),
        problem => problem.to_string().into_bytes(),
    };
    let wrong = settings::config::Wrong { message, at: at - start };
    let text = wrong.pointing(path.as_os_str().as_encoded_bytes(), number, line.as_bytes());
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_configuration_names_the_command_that_writes_one() {
        let error = read_config(Path::new("/nonexistent/bulk.toml")).unwrap_err().to_string();
        assert!(error.ends_with("No such file or directory; 'tanto bulk init' writes one"), "{error}");
    }
}
