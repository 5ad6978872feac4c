//! Splits command lines that need no shell into exactly the words that a shell would make of them.
//!
//! Handles blanks, quotes and backslashes; everything else with a meaning is left to the shell. So are non-ASCII bytes,
//! whose meaning depends on the locale and the shell, and control characters, some of which shells use internally.

use tanto_sys::process::{Argv, Environment};

/// Lines of this length are too long for `/bin/sh -c`. They have to fail as in ninja.
const TOO_LONG: usize = 128 << 10;

/// Splits a line; returns false if it needs a shell, with unspecified `words`.
pub fn split(line: &[u8], words: &mut Argv) -> bool {
    words.clear();
    let is_plain = line.len() < TOO_LONG && line.iter().all(|&b| b == b'\t' || matches!(b, b' '..=b'~'));
    // The shell would parse these as its own options.
    let is_option = matches!(line.first(), Some(b'-' | b'+'));
    let split = is_plain && !is_option && Splitter { rest: line, words }.split().is_some();
    split && words.iter().next().is_some_and(names_program)
}

/// Returns a variable that forces all commands through a shell, if there is one: some change the shell's behavior, and
/// some shells drop variables with invalid names, such as bash's exported functions.
pub fn wants_the_shell(environment: &Environment) -> Option<&[u8]> {
    let path = environment.get(b"PATH");
    let odd = environment.iter().find(|(name, value)| match *name {
        b"ENV" | b"BASH_ENV" | b"SHELLOPTS" | b"BASHOPTS" | b"EXECIGNORE" => true,
        b"IFS" => *value != b" \t\n",
        b"PATH" => value.contains(&b'%'),
        _ => name[0].is_ascii_digit() || !name.iter().all(|&b| b == b'_' || b.is_ascii_alphanumeric()),
    });
    odd.map(|(name, _)| name).or(if path.is_none() { Some(b"PATH") } else { None })
}

struct Splitter<'a> {
    rest: &'a [u8],
    words: &'a mut Argv,
}

impl Splitter<'_> {
    /// `None`: needs a shell.
    fn split(&mut self) -> Option<()> {
        loop {
            self.rest = self.rest.trim_ascii_start();
            match self.rest.first() {
                None => return Some(()),
                // Starts a comment.
                Some(b'#') => return None,
                Some(_) => self.word()?,
            }
        }
    }

    fn word(&mut self) -> Option<()> {
        self.words.begin();
        while let Some(byte) = self.next().filter(|byte| !matches!(byte, b' ' | b'\t')) {
            match byte {
                b'\'' => self.single_quoted()?,
                b'"' => self.double_quoted()?,
                b'\\' => self.escaped()?,
                byte if is_literal(byte) => self.words.push(byte),
                _ => return None,
            }
        }
        self.words.end();
        Some(())
    }

    fn escaped(&mut self) -> Option<()> {
        let byte = self.next()?;
        self.words.push(byte);
        Some(())
    }

    fn single_quoted(&mut self) -> Option<()> {
        loop {
            match self.next()? {
                b'\'' => return Some(()),
                byte => self.words.push(byte),
            }
        }
    }

    fn double_quoted(&mut self) -> Option<()> {
        loop {
            match self.next()? {
                b'"' => return Some(()),
                b'$' | b'`' => return None,
                b'\\' => {
                    let byte = self.next()?;
                    if !matches!(byte, b'$' | b'`' | b'"' | b'\\') {
                        self.words.push(b'\\');
                    }
                    self.words.push(byte);
                }
                byte => self.words.push(byte),
            }
        }
    }

    fn next(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }
}

/// Returns whether the byte has no special meaning in any shell, anywhere in a word.
fn is_literal(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-+=:,./@%^#".contains(&byte)
}

/// Returns whether the name is that of a program, not of a builtin. Some shells take `%N` for a job, and a word with
/// `=` may be an assignment.
fn names_program(name: &[u8]) -> bool {
    let is_odd = name.is_empty() || name[0] == b'%' || name.contains(&b'=');
    !is_odd && (name.contains(&b'/') || OF_SHELLS.binary_search(&name).is_err())
}

/// Builtins and reserved words of POSIX, dash, bash, busybox ash, ksh, mksh and zsh. Names of punctuation are listed
/// only if the splitter accepts them.
#[rustfmt::skip]
const OF_SHELLS: [&[u8]; 130] = [
    b".", b":", b"alias", b"autoload", b"bg", b"bind", b"bindkey", b"break", b"builtin", b"bye", b"caller", b"case",
    b"cat", b"cd", b"chdir", b"command", b"compgen", b"complete", b"compopt", b"continue", b"coproc", b"declare",
    b"dirs", b"disable", b"disown", b"do", b"done", b"echo", b"echotc", b"elif", b"else", b"emulate", b"enable",
    b"end", b"esac", b"eval", b"exec", b"exit", b"export", b"false", b"fc", b"fg", b"fi", b"float", b"for",
    b"foreach", b"function", b"functions", b"getln", b"getopts", b"global", b"hash", b"help", b"hist", b"history",
    b"if", b"in", b"integer", b"jobs", b"kill", b"let", b"limit", b"local", b"log", b"logout", b"mapfile", b"mknod",
    b"nameref", b"nocorrect", b"noglob", b"popd", b"print", b"printf", b"pushd", b"pushln", b"pwd", b"r", b"read",
    b"readarray", b"readonly", b"realpath", b"rehash", b"rename", b"repeat", b"return", b"sched", b"select", b"set",
    b"setopt", b"shift", b"shopt", b"sleep", b"source", b"stop", b"suspend", b"test", b"then", b"time", b"times",
    b"trap", b"true", b"ttyctl", b"type", b"typeset", b"ulimit", b"umask", b"unalias", b"unfunction", b"unhash",
    b"unlimit", b"unset", b"unsetopt", b"until", b"vared", b"wait", b"whence", b"where", b"which", b"while", b"zcompile",
    b"zformat", b"zle", b"zmodload", b"zparseopts", b"zprof", b"zpty", b"zregexparse", b"zsocket", b"zstyle", b"ztcp",
];

#[cfg(test)]
mod tests;
