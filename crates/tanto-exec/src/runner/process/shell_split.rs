//! Which command lines need no shell, and the words of those: exactly the words that a shell would make of them. Does
//! not know how a command is run.
//!
//! What a shell gives a meaning to is left to the shell: this knows blanks, quotes and backslashes. So are bytes that
//! are not ASCII, which mean one thing or another by the locale and by the shell; and control characters, some of which
//! shells use inside.

use tanto_sys::process::{Argv, Environment};

/// From so many bytes on a line is too long for `/bin/sh -c`. It stays so, lest a tree that Tanto builds is none that
/// ninja can build.
const TOO_LONG: usize = 128 << 10;

/// Makes words of a line. False where that is the shell's business; then they may be anything.
pub fn split(line: &[u8], words: &mut Argv) -> bool {
    words.clear();
    let is_plain = line.len() < TOO_LONG && line.iter().all(|&b| b == b'\t' || matches!(b, b' '..=b'~'));
    // What begins so the shell would take for its own options.
    let is_option = matches!(line.first(), Some(b'-' | b'+'));
    let split = is_plain && !is_option && Splitter { rest: line, words }.split().is_some();
    split && words.iter().next().is_some_and(names_program)
}

/// The variable for which every command in this environment has a shell, if there is one. Some make a shell do more than
/// run the words, and some shells drop those whose names are none that a shell can use, among them the functions that
/// bash exports.
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
    /// None: what follows is the shell's.
    fn split(&mut self) -> Option<()> {
        loop {
            self.rest = self.rest.trim_ascii_start();
            match self.rest.first() {
                None => return Some(()),
                // A comment.
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

/// Does the byte stand for itself in every shell, wherever it comes in a word?
fn is_literal(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-+=:,./@%^#".contains(&byte)
}

/// Is a command of this name a program, and nothing that a shell does itself? Some shells take a number after `%` for
/// one of their jobs; and what has a `=` may be an assignment.
fn names_program(name: &[u8]) -> bool {
    let is_odd = name.is_empty() || name[0] == b'%' || name.contains(&b'=');
    !is_odd && (name.contains(&b'/') || OF_SHELLS.binary_search(&name).is_err())
}

/// Builtins and reserved words: those of POSIX, dash, bash, busybox's ash, ksh, mksh and zsh. Those of signs alone
/// (`:`, `.`, `[`) are here where the splitter lets them through.
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
