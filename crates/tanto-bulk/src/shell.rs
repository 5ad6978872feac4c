//! Quoting for the shell, and running shell commands.

use std::borrow::Cow;
use std::fmt::Write;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

/// Quotes a word if necessary.
pub(crate) fn quoted<'a>(word: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
    let word = word.into();
    let plain = |byte: u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.' | b'_' | b'/' | b',' | b'@' | b'=' | b':')
    };
    if !word.is_empty() && word.bytes().all(plain) {
        word
    } else {
        Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
    }
}

/// Formats ` --KEY=VALUE` for each pair.
pub(crate) fn options(all: &[(&str, &str)]) -> String {
    let mut words = String::new();
    for (key, value) in all {
        let _ = write!(words, " {}", quoted(format!("--{key}={value}")));
    }
    words
}

/// Parses the words of `options`. Absent keys are empty; `None` if there are other words.
pub(crate) fn values<const N: usize>(words: &[Vec<u8>], keys: [&str; N]) -> Option<[String; N]> {
    let mut values = keys.map(|_| String::new());
    for word in words {
        let (key, value) = std::str::from_utf8(word).ok()?.strip_prefix("--")?.split_once('=')?;
        let at = keys.iter().position(|it| *it == key)?;
        value.clone_into(&mut values[at]);
    }
    Some(values)
}

/// A shell command without input.
pub(crate) fn shell(line: &str) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", line]).stdin(Stdio::null());
    shell
}

/// Runs a command with `$0` and `$1`, `$2` ...
pub(crate) fn run(line: &str, name: &str, words: &[&str]) -> io::Result<ExitStatus> {
    shell(line).arg(name).args(words).status()
}

/// Returns the standard output of a command. An error has both outputs.
pub(crate) fn output(mut command: Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{:?}: {error}", command.get_program()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&[output.stdout, output.stderr].concat())),
    }
}

/// The exit code as a shell reports it.
pub(crate) fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Splits a command line with a real shell.
    pub(crate) fn words(line: &str) -> Vec<Vec<u8>> {
        let stdout = shell(&format!("printf '%s\\0' {line}")).output().unwrap().stdout;
        stdout.split_inclusive(|&byte| byte == 0).map(|word| word[..word.len() - 1].to_vec()).collect()
    }

    #[test]
    fn special_words_are_quoted() {
        assert_eq!([quoted("a'b c"), quoted(""), quoted("x=1")], [r"'a'\''b c'", "''", "x=1"]);
    }

    #[test]
    fn options_round_trip() {
        let line = options(&[("a", "it's"), ("b", ""), ("c-d", "x=y\nz")]);
        let read = |keys| values(&words(&line), keys);
        assert_eq!(read(["a", "c-d", "b", "e"]), Some(["it's", "x=y\nz", "", ""].map(str::to_owned)));
        assert_eq!(values(&words(&line), ["a", "b"]), None);
        assert_eq!(values(&words("odd"), ["odd"]), None);
    }

    #[test]
    fn commands_get_arguments_and_return_exit_codes() {
        assert_eq!(code(run("test \"$0 $1 $2\" = 'n a b' && exit 3", "n", &["a", "b"]).unwrap()), 3);
        assert_eq!(code(run("kill -9 $$", "", &[]).unwrap()), 137);
    }
}
