//! Reads bulk.toml.

use std::fs;
use std::io;
use std::path::Path;

use tanto_bulk::config::{Config, ConfigError, ConfigProblem};
use tanto_bulk::error::BulkError;

use crate::settings::config::ConfigFileError;
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
    Config::read(&text, dir).map_err(|error| render(path, &text, &error).into())
}

fn render(path: &Path, text: &str, error: &ConfigError) -> String {
    let message = match &error.problem {
        ConfigProblem::Unknown { kind, name, known } => modes::unknown(kind, name.as_bytes(), known.iter().copied()),
        problem => problem.to_string().into_bytes(),
    };
    let text = ConfigFileError { message, at: error.at }.render(path.as_os_str().as_encoded_bytes(), text.as_bytes());
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
