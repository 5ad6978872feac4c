//! Renews the certificate while the server runs. Another process does that: the server reads no key that signs certificates.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How the certificate is renewed.
#[derive(Clone, Debug)]
pub struct Renewal {
    /// Replaces the certificate if it is old. It reports failures to the server's standard error.
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    pub interval: Duration,
}

/// Starts the program each time that the interval has passed, until it is aborted.
pub(super) async fn run(renewal: Renewal, log: fn(&str)) {
    loop {
        tokio::time::sleep(renewal.interval).await;
        let mut command = Command::new(&renewal.program);
        command.args(&renewal.arguments).current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
        let failure = match tokio::task::spawn_blocking(move || command.status()).await.map_err(io::Error::other) {
            Ok(Ok(status)) if status.success() => continue,
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(error)) | Err(error) => error.to_string(),
        };
        log(&format!("the certificate of the server was not checked: {}: {failure}", renewal.program.display()));
    }
}
