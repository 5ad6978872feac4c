//! Features of the terminal on standard output.

use std::ffi::OsString;

pub struct Terminal {
    /// Lines can be overwritten.
    pub smart: bool,
    /// Colour sequences are wanted.
    pub color: bool,
    /// Text is UTF-8, and there are glyphs for it.
    pub unicode: bool,
    /// Returns the current width in columns, if known.
    pub columns: Box<dyn Fn() -> Option<usize>>,
}

impl Terminal {
    /// Determines the features as ninja does, from `TERM`, `NO_COLOR`, `CLICOLOR_FORCE` and `FORCE_COLOR`, which is the
    /// strongest. The encoding comes from `LC_ALL`, `LC_CTYPE` or `LANG`.
    pub fn detect(
        is_terminal: bool,
        lookup: impl Fn(&str) -> Option<OsString>,
        columns: Box<dyn Fn() -> Option<usize>>,
    ) -> Terminal {
        let smart = is_terminal && lookup("TERM").is_some_and(|term| term != "dumb");
        let is_on = |name| lookup(name).is_some_and(|value| value != "0");
        let color = is_on("FORCE_COLOR") || (!is_on("NO_COLOR") && (smart || is_on("CLICOLOR_FORCE")));
        let unicode = is_utf8(&lookup) && lookup("TERM").is_none_or(|term| term != "linux");
        Terminal { smart, color, unicode, columns }
    }
}

/// The first non-empty variable counts.
fn is_utf8(lookup: &impl Fn(&str) -> Option<OsString>) -> bool {
    let variable =
        ["LC_ALL", "LC_CTYPE", "LANG"].iter().filter_map(|name| lookup(name)).find(|value| !value.is_empty());
    let locale = variable.unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    locale.ends_with("utf-8") || locale.ends_with("utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(is_terminal: bool, environment: &[(&str, &str)]) -> (bool, bool) {
        let lookup = |name: &str| environment.iter().find(|pair| pair.0 == name).map(|pair| OsString::from(pair.1));
        let terminal = Terminal::detect(is_terminal, lookup, Box::new(|| None));
        (terminal.smart, terminal.color)
    }

    #[test]
    fn a_terminal_is_smart_unless_its_name_says_otherwise() {
        assert_eq!(detect(true, &[("TERM", "xterm")]), (true, true));
        assert_eq!(detect(true, &[("TERM", "")]), (true, true));
        assert_eq!(detect(true, &[("TERM", "dumb")]), (false, false));
        assert_eq!(detect(true, &[]), (false, false));
        assert_eq!(detect(false, &[("TERM", "xterm")]), (false, false));
    }

    #[test]
    fn the_locale_determines_the_encoding() {
        let detect = |environment: &[(&str, &str)]| {
            let lookup = |name: &str| environment.iter().find(|pair| pair.0 == name).map(|pair| OsString::from(pair.1));
            Terminal::detect(true, lookup, Box::new(|| None)).unicode
        };
        assert!(detect(&[("LANG", "de_DE.UTF-8")]));
        assert!(detect(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8"), ("LANG", "C")]));
        assert!(!detect(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]));
        assert!(!detect(&[]));
        assert!(!detect(&[("LANG", "de_DE.UTF-8"), ("TERM", "linux")]));
    }

    #[test]
    fn colour_variables_override_each_other() {
        let piped = |environment: &[(&str, &str)]| detect(false, environment).1;
        assert!(piped(&[("CLICOLOR_FORCE", "1")]));
        assert!(piped(&[("CLICOLOR_FORCE", "")]));
        assert!(!piped(&[("CLICOLOR_FORCE", "0")]));
        assert!(!piped(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
        assert!(piped(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "0")]));
        assert!(piped(&[("FORCE_COLOR", "1"), ("NO_COLOR", "1")]));
        assert!(!piped(&[("FORCE_COLOR", "0")]));
        assert_eq!(detect(true, &[("TERM", "xterm"), ("NO_COLOR", "")]), (true, false));
        assert_eq!(detect(true, &[("TERM", "xterm"), ("NO_COLOR", ""), ("FORCE_COLOR", "")]), (true, true));
    }
}
