//! Prints the output of a running package, on this machine or another one.

use std::io::{self, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::control_socket::{self, AskError, Request};
use super::queries::LastRun;
use crate::config::Config;
use crate::error::BulkError;

const INTERVAL: Duration = Duration::from_millis(500);
/// How long the first output of a client may take: it hears of the question with its next heartbeat.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The size of the position before the text.
const POSITION: usize = 8;

/// The text of a package after a position, and the position of its end.
struct Part {
    end: u64,
    text: Vec<u8>,
}

/// Why there is no more text.
enum End {
    /// The package is not being built.
    Refused(String),
    NoBuild,
}

fn ask(config: &Config, package: &str, position: u64) -> Result<Result<Part, End>, BulkError> {
    let request = Request::Follow { package: package.to_owned(), position };
    let answer = match control_socket::ask(Path::new(&config.state), &request) {
        Ok(answer) => answer,
        Err(AskError::NoBuild) => return Ok(Err(End::NoBuild)),
        Err(error) => return Err(error.message().into()),
    };
    Ok(match answer.out.split_first_chunk::<POSITION>() {
        Some((end, text)) if answer.code == 0 => Ok(Part { end: u64::from_le_bytes(*end), text: text.to_vec() }),
        _ => Err(End::Refused(String::from_utf8_lossy(&answer.err).into_owned())),
    })
}

/// Prints the output of a running package until its build has ended. Returns a last line.
pub fn follow(config: &Config, word: &str) -> Result<String, BulkError> {
    let package = LastRun::read(config)?.find(word)?.name.clone();
    let mut position = 0;
    let mut out = io::stdout().lock();
    loop {
        match ask(config, &package, position)? {
            Ok(part) => {
                // A closed output ends it.
                if out.write_all(&part.text).and_then(|()| out.flush()).is_err() {
                    return Ok(String::new());
                }
                position = part.end;
            }
            Err(End::Refused(why)) if position == 0 => return Err(why.into()),
            Err(End::NoBuild) if position == 0 => return Err("no bulk build is running".into()),
            Err(_) => {
                let state = LastRun::read(config)?.find(&package)?.state.clone();
                return Ok(format!("==> {package} is no longer being built: {state}\n"));
            }
        }
        thread::sleep(INTERVAL);
    }
}

/// Returns the end of the output of a package on another machine.
pub(super) fn remote_log(config: &Config, package: &str) -> Result<String, BulkError> {
    let started = Instant::now();
    loop {
        match ask(config, package, 0)? {
            Ok(part) if !part.text.is_empty() => return Ok(String::from_utf8_lossy(&part.text).into_owned()),
            Ok(_) if started.elapsed() > LONGEST_WAIT => {
                return Err(format!("{package} has printed nothing yet").into());
            }
            Ok(_) => thread::sleep(INTERVAL),
            Err(End::Refused(why)) => return Err(why.into()),
            Err(End::NoBuild) => return Err("no bulk build is running".into()),
        }
    }
}
