//! Words as a shell reads them, and lines that it runs for us. Does not know of which command.

use std::fmt::Write;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

/// One word for the shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+-._/,@=:".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// ` --KEY=VALUE` for each.
pub(crate) fn options(all: &[(&str, &str)]) -> String {
    let mut words = String::new();
    for (key, value) in all {
        let _ = write!(words, " {}", quoted(&format!("--{key}={value}")));
    }
    words
}

/// The values of these keys in such words; empty where a key is not said. None if others are.
pub(crate) fn values<const N: usize>(words: &[Vec<u8>], keys: [&str; N]) -> Option<[String; N]> {
    let mut values = keys.map(|_| String::new());
    for word in words {
        let (key, value) = std::str::from_utf8(word).ok()?.strip_prefix("--")?.split_once('=')?;
        let at = keys.iter().position(|it| *it == key)?;
        value.clone_into(&mut values[at]);
    }
    Some(values)
}

/// A shell with a line, which has no input.
pub(crate) fn shell(line: &str) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", line]).stdin(Stdio::null());
    shell
}

/// Runs a line under this name, with these as `$1` and so on.
pub(crate) fn run(line: &str, name: &str, words: &[&str]) -> io::Result<ExitStatus> {
    shell(line).arg(name).args(words).status()
}

/// What a command prints; if it fails, with what it says of that.
pub(crate) fn said(mut command: Command) -> Result<String, String> {
    let said = command.output().map_err(|error| format!("{:?}: {error}", command.get_program()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    match said.status.success() {
        true => Ok(text(&said.stdout)),
        false => Err(text(&[said.stdout, said.stderr].concat())),
    }
}

/// As a shell tells how something ended.
pub(crate) fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The words of a command line, as a real shell finds them.
    pub(crate) fn words(line: &str) -> Vec<Vec<u8>> {
        let said = shell(&format!("printf '%s\\0' {line}")).output().unwrap().stdout;
        said.split_inclusive(|&byte| byte == 0).map(|word| word[..word.len() - 1].to_vec()).collect()
    }

    #[test]
    fn odd_words_are_quoted() {
        assert_eq!([quoted("a'b c"), quoted(""), quoted("x=1")], [r"'a'\''b c'", "''", "x=1"]);
    }

    #[test]
    fn what_is_said_of_keys_is_found_again() {
        let said = options(&[("a", "it's"), ("b", ""), ("c-d", "x=y\nz")]);
        let read = |keys| values(&words(&said), keys);
        assert_eq!(read(["a", "c-d", "b", "e"]), Some(["it's", "x=y\nz", "", ""].map(str::to_owned)));
        assert_eq!(values(&words(&said), ["a", "b"]), None);
        assert_eq!(values(&words("odd"), ["odd"]), None);
    }

    #[test]
    fn lines_get_words_and_say_how_they_ended() {
        assert_eq!(code(run("test \"$0 $1 $2\" = 'n a b' && exit 3", "n", &["a", "b"]).unwrap()), 3);
        assert_eq!(code(run("kill -9 $$", "", &[]).unwrap()), 137);
    }
}
