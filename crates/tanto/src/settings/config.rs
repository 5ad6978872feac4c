//! The config files: lines of `key = value`, `#` before a comment. Does not know which files there are, nor what a
//! value means.

use tanto_ninja::suggest;

use crate::flags::table::{self, FLAGS, Flag};
use crate::settings::layer::{ConfigFile, Layer, Origin};

/// Reads a config file. The error says where and points: the file and the line, the line itself, and a caret.
pub fn parse(path: &[u8], text: &[u8], file: ConfigFile) -> Result<Layer, Vec<u8>> {
    let mut layer = Layer::default();
    for (number, line) in (1..).zip(text.split(|&byte| byte == b'\n')) {
        let origin = Origin::File(file, number);
        take(&mut layer, line, origin).map_err(|wrong| wrong.pointing(path, number, line))?;
    }
    Ok(layer)
}

/// What is wrong with a line, and from which byte on.
pub struct Wrong {
    /// For the user.
    pub message: Vec<u8>,
    /// The byte of the line.
    pub at: usize,
}

impl Wrong {
    /// The place, the message, the line, and a caret below the byte.
    pub fn pointing(self, path: &[u8], number: u32, line: &[u8]) -> Vec<u8> {
        // Tabs stay tabs, so that the caret stands where the terminal puts the byte.
        let blank = line.iter().take(self.at).map(|&byte| if byte == b'\t' { b'\t' } else { b' ' });
        let blank: Vec<u8> = blank.collect();
        let place = format!(":{number}: ");
        [path, place.as_bytes(), &self.message, b"\n", line.trim_ascii_end(), b"\n", &blank, b"^"].concat()
    }
}

fn take(layer: &mut Layer, line: &[u8], origin: Origin) -> Result<(), Wrong> {
    let start = line.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(line.len());
    if matches!(line.get(start), None | Some(b'#')) {
        return Ok(());
    }
    let Some(equals) = line.iter().position(|&byte| byte == b'=') else {
        return Err(Wrong { message: "expected 'key = value'".into(), at: line.trim_ascii_end().len() });
    };
    let flag = known(line[start..equals].trim_ascii_end()).map_err(|message| Wrong { message, at: start })?;
    let value = &line[equals + 1..];
    if layer.say(flag.id, unquoted(value.trim_ascii()), origin) {
        return Ok(());
    }
    let at = equals + 1 + (value.len() - value.trim_ascii_start().len());
    Err(Wrong { message: format!("expected {}", expected(flag)).into_bytes(), at })
}

fn known(key: &[u8]) -> Result<&'static Flag, Vec<u8>> {
    table::by_key(key).ok_or_else(|| {
        let keys = FLAGS.iter().filter_map(Flag::key).map(str::as_bytes);
        [b"unknown key '", key, b"'", suggest::did_you_mean(key, keys).as_slice()].concat()
    })
}

/// What a config file's value of this flag has to be.
pub fn expected(flag: &Flag) -> &'static str {
    flag.value.map_or("'yes' or 'no'", |value| value.expected)
}

/// Without the quotes around it, which keep spaces at a value's ends.
fn unquoted(value: &[u8]) -> &[u8] {
    match value {
        [b'"', inner @ .., b'"'] => inner,
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::layer::{Jobs, Said, StatusFormat};
    use tanto_record::views::ninja::Verbosity;

    fn error(text: &str) -> String {
        let message = parse(b"dir/.tanto/config", text.as_bytes(), ConfigFile::Build).expect_err(text);
        String::from_utf8(message).expect("text")
    }

    #[test]
    fn reads_keys_comments_and_quotes() {
        let text = b"# all of them\n\n  jobs = 4\r\nkeep-going=0\n\tquiet = yes\nstatus = \"[$f] \"\n#end";
        let layer = parse(b"c", text, ConfigFile::User).expect("sound");
        let at = |line| Origin::File(ConfigFile::User, line);
        assert_eq!(layer.jobs, Some(Said { value: Jobs::AtMost(4), origin: at(3) }));
        assert_eq!(layer.keep_going, Some(Said { value: u32::MAX, origin: at(4) }));
        assert_eq!(layer.verbosity, Some(Said { value: Verbosity::Quiet, origin: at(5) }));
        assert_eq!(layer.status, Some(Said { value: StatusFormat::Variables(b"[$f] ".to_vec()), origin: at(6) }));
        assert_eq!(layer.max_load, None);
    }

    #[test]
    fn no_takes_a_switch_back() {
        let layer = parse(b"c", b"verbose = no\n", ConfigFile::Build).expect("sound");
        assert_eq!(layer.verbosity.map(|said| said.value), Some(Verbosity::Normal));
    }

    #[test]
    fn errors_point() {
        assert_eq!(
            error("jobs = 1\n  job = 4\n"),
            "dir/.tanto/config:2: unknown key 'job', did you mean 'jobs'?\n  job = 4\n  ^"
        );
        assert_eq!(error("directory = x"), "dir/.tanto/config:1: unknown key 'directory'\ndirectory = x\n^");
        assert_eq!(
            error("\tjobs =  many"),
            "dir/.tanto/config:1: expected a number, 0 for no limit\n\tjobs =  many\n\t        ^"
        );
        assert_eq!(error("quiet = 1"), "dir/.tanto/config:1: expected 'yes' or 'no'\nquiet = 1\n        ^");
        assert_eq!(error("quiet \r\n"), "dir/.tanto/config:1: expected 'key = value'\nquiet\n     ^");
        assert_eq!(error("= 3"), "dir/.tanto/config:1: unknown key ''\n= 3\n^");
        assert_eq!(
            error("log-version = 4"),
            "dir/.tanto/config:1: expected 5, 6 or 7\nlog-version = 4\n              ^"
        );
    }
}
