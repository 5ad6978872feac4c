//! Parts of statements: words, separators, values, paths.

use std::fmt::Write;

use super::Author;

pub(super) const VARIABLES: [&str; 9] = ["v0", "v1", "v2", "dir", "e", "n", "name", "v-1_x", "d.t"];
const WORDS: [&str; 18] =
    ["a", "bc", "x/y", "1", "-I.", "'q'", "\"", "#", ": ", "|", "=", "$$", "$ ", "$:", "é", "&&", "build a: b", "   "];

impl Author<'_> {
    pub(super) fn wrong(&mut self) -> bool {
        self.random.below(1000) < self.taste.wrong
    }

    /// Picks from the first list, or from the second for an error.
    pub(super) fn either(&mut self, sound: &[&'static str], wrong: &[&'static str]) -> &'static str {
        let texts = if self.wrong() { wrong } else { sound };
        self.random.pick::<&str>(texts)
    }

    pub(super) fn write_either(&mut self, sound: &[&'static str], wrong: &[&'static str]) {
        let text = self.either(sound, wrong);
        self.text.push_str(text);
    }

    pub(super) fn one_of(&mut self, texts: &[&str]) {
        self.text.push_str(self.random.pick::<&str>(texts));
    }

    pub(super) fn line_end(&mut self) {
        let with_return = self.random.chance(self.taste.returns);
        self.text.push_str(if with_return { "\r\n" } else { "\n" });
    }

    /// Ends a line, with optional comments. More of the statement may follow.
    pub(super) fn end(&mut self) {
        self.line_end();
        if self.random.chance(self.taste.comments) {
            self.one_of(&["# comment", "  # indented", "#", "# goes on $", "# build a: b"]);
            self.line_end();
        }
        if self.wrong() {
            self.one_of(&["\n", "  \n", "\r\n", "\r", "\t\n", " x\n"]);
        }
    }

    /// Separates words, mostly by a space.
    pub(super) fn space(&mut self) {
        self.text.push(' ');
        if self.random.chance(self.taste.blanks) {
            let more = *self.random.pick(&["   ", "$\n", "$\n    ", "$\r\n  ", "$\n$\n ", "$\nbuild$\n "]);
            // A word that is not always allowed.
            let more = if more.contains("build") && !self.wrong() { "$\n" } else { more };
            self.text.push_str(more);
        }
    }

    pub(super) fn words(&mut self, words: &[&str]) {
        for (number, word) in words.iter().enumerate() {
            if number > 0 {
                self.space();
            }
            self.text.push_str(word);
        }
    }

    pub(super) fn value(&mut self) {
        for _ in 0..self.random.below(5) {
            if self.random.chance(self.taste.variables) {
                self.reference(&VARIABLES);
            } else {
                self.one_of(&WORDS);
            }
            if self.random.chance(50) {
                self.space();
            }
        }
    }

    pub(super) fn reference(&mut self, names: &[&str]) {
        let name = *self.random.pick(names);
        if name.contains('.') || self.random.chance(30) {
            let _ = write!(self.text, "${{{name}}}");
        } else {
            let _ = write!(self.text, "${name}");
        }
    }

    /// Appends a path, without a space before it.
    pub(super) fn path(&mut self, name: &str) {
        if self.random.chance(self.taste.variables) {
            match self.random.below(4) {
                0 => {
                    self.reference(&["v0", "v1", "dir", "d.t", "unset"]);
                    self.text.push('/');
                }
                1 => self.text.push_str("$dir/"),
                2 => self.text.push_str("${e}"),
                _ => {}
            }
        } else if self.random.chance(10) {
            self.one_of(&["./", "x/../", ".//", "/abs/", "../", "../../x/", "y/./", "$ ", "$:", "$$"]);
        }
        self.text.push_str(name);
        if self.random.chance(3) {
            self.one_of(&["/", "/.", "$ z", "$\n", "$\n   b", "${e}"]);
        }
        if self.wrong() {
            self.one_of(&["\t", "$", "$!", ":", " $e", "\0", "${}", "\r"]);
        }
    }

    pub(super) fn paths(&mut self, separator: &str, most: usize) {
        let count = self.random.below(most + 1);
        if count > 0 && !separator.is_empty() {
            self.space();
            self.text.push_str(separator);
        }
        for _ in 0..count {
            self.space();
            let name = match self.random.below(6) {
                0 => "s0".to_owned(),
                1 => "very/long/path/of/a/source/file.cc".to_owned(),
                2 => format!("d1/s{}", self.random.below(4)),
                // Possibly one that comes later.
                _ => format!("o{}", 1 + self.random.below(self.last + 2)),
            };
            self.path(&name);
        }
    }

    pub(super) fn indented(&mut self, name: &str, value: &str) {
        self.one_of(&["  ", " ", "    ", "  "]);
        self.words(&[name, "=", value]);
        self.end();
    }
}
