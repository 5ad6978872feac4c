//! Statements of all kinds, mostly valid.

use std::fmt::Write;

use super::words::VARIABLES;
use super::{Author, name_of};

const RULES: [&str; 5] = ["r0", "r1", "r2", "r3.x", "build"];
const RESERVED: [&str; 10] =
    ["command", "depfile", "deps", "description", "dyndep", "generator", "restat", "rspfile", "pool", "in"];

/// Lines of rules.
const OF_RULES: [(&str, &str); 13] = [
    ("depfile", "$out.d"),
    ("depfile", "$description.d"),
    ("deps", "gcc"),
    ("description", "D $out $v1 $unknown"),
    ("description", ""),
    ("description", "$depfile"),
    ("generator", "1"),
    ("restat", "$v2"),
    ("msvc_deps_prefix", "x$ y"),
    ("pool", "p0"),
    ("dyndep", "$e"),
    ("rspfile", "$out.rsp"),
    ("command", "again $in"),
];

impl Author<'_> {
    pub(super) fn file(&mut self, file: usize) -> Vec<u8> {
        self.text.clear();
        self.targets.clear();
        if file == 0 {
            self.head();
        }
        let most = if self.taste.is_long { 400 } else { 25 };
        for _ in 0..self.random.below(most) {
            self.statement(file);
        }
        if self.random.chance(5) {
            self.text.truncate(self.text.trim_end().len());
        }
        std::mem::take(&mut self.text).into_bytes()
    }

    /// The beginning of most manifests; hardly any is valid without it.
    fn head(&mut self) {
        for variable in VARIABLES {
            if self.random.chance(40) {
                self.variable(variable);
            }
        }
        for rule in RULES {
            if !self.wrong() {
                self.rule(rule);
            }
        }
        for pool in ["p0", "p1"] {
            if !self.wrong() {
                self.pool(pool);
            }
        }
    }

    fn statement(&mut self, file: usize) {
        match self.random.below(if self.taste.is_long { 40 } else { 20 }) {
            0..3 => {
                let variable = *self.random.pick(&VARIABLES);
                self.variable(variable);
            }
            3 => self.rule_or_pool(file),
            4 => self.default(),
            5 => self.blank(),
            6 => self.oddity(),
            7..9 => self.include(file),
            9 => self.phony(),
            _ => self.build(file),
        }
    }

    fn variable(&mut self, name: &str) {
        self.text.push_str(name);
        let sound = ["=", " =", "= ", " = ", " = ", " = "];
        self.write_either(&sound, &["", "==", ":", "= $", "= $!", "= ${v0"]);
        match name {
            "n" => self.text += &self.random.below(self.count + 1).to_string(),
            "name" => self.text += &name_of(1 + self.random.below(self.count)),
            "e" if !self.wrong() => {}
            "dir" => self.one_of(&["d1", "d2", "d1/d3", ".", "d4/../d5", "$dir/x", "$v0"]),
            "dyndep" => self.text.push_str("dd"),
            "pool" => self.write_either(&["p0", "p1", "console", "", "$e"], &["p9", "consol", "$out", "$v1"]),
            _ => self.value(),
        }
        self.end();
    }

    fn rule(&mut self, name: &str) {
        self.words(&["rule", name]);
        self.end();
        if !self.wrong() {
            self.indented("command", "c $in -o $out $v0 ${d.t} $in_newline $depfile");
        }
        for _ in 0..self.random.below(4) {
            let (name, value) = *self.random.pick(&OF_RULES);
            self.indented(name, value);
            if name == "rspfile" && !self.wrong() {
                self.indented("rspfile_content", "$in_newline $v0");
            }
        }
        if self.wrong() {
            self.indented("comand", "x");
        }
    }

    fn pool(&mut self, name: &str) {
        self.words(&["pool", name]);
        self.end();
        let depth = self.either(&["0", "1", "4", "$e 3", "7x"], &["-1", "$v0", ""]);
        self.indented("depth", depth);
        if self.wrong() {
            self.indented("width", "1");
        }
    }

    /// Most have a new name or their own scope.
    fn rule_or_pool(&mut self, file: usize) {
        let name = format!("s{file}-{}", self.text.len());
        if self.random.chance(30) {
            let name = if self.wrong() { "p0" } else { &name };
            return self.pool(name);
        }
        let shadows = self.wrong() || (file > 0 && self.random.chance(20));
        let name = if shadows { *self.random.pick(&RULES) } else { &name };
        self.rule(name);
    }

    fn new_output(&mut self) -> String {
        self.last += 1;
        let number = if self.wrong() { self.random.below(self.last) } else { self.last };
        if self.random.chance(20) { format!("d/long-name-of-an-output/o{number}") } else { format!("o{number}") }
    }

    fn build(&mut self, file: usize) {
        self.words(&["build", ""]);
        self.outputs(file);
        self.write_either(&[":"], &["", "::", "|"]);
        let rule = self.either(&RULES, &["r9"]);
        self.words(&["", rule]);
        self.paths("", 3);
        self.paths("|", 2);
        let has_dyndep = self.random.chance(5);
        if has_dyndep && !self.wrong() {
            self.words(&["", "||", "dd"]);
        } else {
            self.paths("||", 2);
        }
        self.paths("|@", 1);
        self.end();
        if has_dyndep {
            let path = *self.random.pick(&["dd", "./dd", "x/../dd"]);
            self.indented("dyndep", path);
        }
        self.bindings();
    }

    fn outputs(&mut self, file: usize) {
        for number in 0..1 + self.random.below(3) {
            if number > 0 {
                self.space();
            }
            if file > 0 && !self.wrong() {
                self.text.push_str("$dir/");
            }
            let out = self.new_output();
            self.path(&out);
        }
        if self.random.chance(15) {
            let out = self.new_output();
            self.words(&["", "|", &out]);
            self.targets.push(out);
        }
    }

    fn bindings(&mut self) {
        if self.random.chance(60) {
            return;
        }
        for _ in 0..self.random.below(4) {
            let is_reserved = self.random.chance(25);
            let name = if is_reserved { *self.random.pick(&RESERVED) } else { *self.random.pick(&VARIABLES) };
            if name != "dyndep" {
                self.one_of(&["  ", " ", "        "]);
                self.variable(name);
            }
        }
    }

    /// A group, which may name itself.
    fn phony(&mut self) {
        let out = self.new_output();
        self.words(&["build", &out]);
        self.words(&[":", "phony"]);
        if self.random.chance(40) {
            self.words(&["", &out]);
        }
        self.paths("", 3);
        let has_dyndep = self.random.chance(5);
        self.paths("||", 1);
        self.end();
        if has_dyndep {
            let path = self.either(&["$e"], &["dd"]);
            self.indented("dyndep", path);
        }
        self.targets.push(out);
    }

    fn default(&mut self) {
        if self.targets.is_empty() && !self.wrong() {
            return self.blank();
        }
        self.words(&["default"]);
        for _ in 0..1 + self.random.below(2) {
            let is_unknown = self.targets.is_empty() || self.wrong();
            let unknown = format!("o{}", self.last + 2);
            let target = if is_unknown { unknown } else { self.random.pick(&self.targets).clone() };
            self.words(&["", &target]);
        }
        if self.wrong() {
            self.one_of(&[":", " $e", "\t", " $"]);
        }
        self.end();
    }

    /// Includes a later file, except for errors. Its outputs get their own directory.
    fn include(&mut self, file: usize) {
        let later = self.count - file - 1;
        if later == 0 && !self.wrong() {
            return self.blank();
        }
        let is_wrong = later == 0 || self.wrong();
        let inner = if is_wrong { self.random.below(self.count + 1) } else { file + 1 + self.random.below(later) };
        if !self.wrong() {
            let _ = writeln!(self.text, "dir = i{}", self.text.len());
        }
        let path = self.include_path(inner);
        let keyword = if self.random.chance(60) { "subninja" } else { "include" };
        self.words(&[keyword, &path]);
        if self.wrong() {
            self.one_of(&[" x", " |", "$", "\t"]);
        }
        self.end();
    }

    fn include_path(&mut self, inner: usize) -> String {
        let name = name_of(inner);
        match self.random.below(10) {
            0 | 1 if inner > 0 => {
                let _ = writeln!(self.text, "n = {inner}");
                "f$n.ninja".to_owned()
            }
            2 | 3 => {
                let _ = writeln!(self.text, "name = {name}");
                "$name".to_owned()
            }
            4 => format!("${{e}}{name}"),
            5 if self.wrong() => format!("./{name}"),
            6 if self.wrong() => "$name".to_owned(),
            _ => name,
        }
    }

    fn blank(&mut self) {
        self.one_of(&["", "   ", "# comment", "  # indented comment", "#$"]);
        self.line_end();
    }

    /// Rare statements.
    fn oddity(&mut self) {
        if self.wrong() {
            self.one_of(&[
                "nonsense",
                "build",
                "build a",
                "build a:",
                "rule",
                "rule r9 x",
                "rule phony",
                "pool",
                ": x",
            ]);
            self.one_of(&[
                "default",
                "default $",
                "include",
                "subninja $x",
                "|",
                "= 1",
                "v0",
                "\tx",
                "?",
                "",
                "  x = 1",
            ]);
            return self.line_end();
        }
        match self.random.below(3) {
            0 => {
                let version = self.either(&["1.3", "1.13", "0.9"], &["9.1"]);
                self.words(&["ninja_required_version", "=", version]);
                self.end();
            }
            1 => {
                let reserved = *self.random.pick(&RESERVED);
                self.variable(reserved);
            }
            _ => self.blank(),
        }
    }
}
