//! Reads and creates bulk.toml.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use tanto_exec::text::place::message_at;
use tanto_exec::text::suggest::unknown;

use super::{Config, ConfigError, ConfigProblem};
use crate::error::BulkError;

/// The default name of the configuration.
const CONFIG: &str = "bulk.toml";

/// Writes a configuration with every key and its default. Returns a message.
pub fn create_config(dir: &Path) -> Result<String, BulkError> {
    let path = dir.join(CONFIG);
    let write = || {
        fs::create_dir_all(dir)?;
        File::create_new(&path)?.write_all(Config::default().text().as_bytes())
    };
    write().map_err(BulkError::io("writing ", &path))?;
    Ok(format!("{}: set 'pkgsrc' to the tree, then run 'tanto bulk scan'\n", path.display()))
}

/// Reads a configuration. Errors point to the place in the file.
pub fn read_config(path: &Path) -> Result<Config, BulkError> {
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
        ConfigProblem::Unknown { kind, name, known } => unknown(kind, name.as_bytes(), known.iter().copied()),
        problem => problem.to_string().into_bytes(),
    };
    let text = message_at(path.as_os_str().as_encoded_bytes(), text.as_bytes(), error.at, &message);
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
