//! A tool's flags as glibc's `getopt_long` reads them: flags and operands in any order, `--` ends the flags, long
//! names may be cut short. Does not know what the flags mean.

use std::io::{self, Write};

use super::{Context, Stop};

/// A long flag: its name, whether it takes a value, and the short flag that it stands for.
pub(super) type Long = (&'static str, bool, u8);

/// A tool's flags. `-h` asks for the usage in every tool.
pub(super) struct Flags {
    /// As `getopt` has them: letters, each with a `:` behind it if it takes a value.
    pub(super) short: &'static str,
    /// Without any, `--` begins no long flag.
    pub(super) long: &'static [Long],
    /// Printed for `-h` and after a mistake.
    pub(super) usage: &'static str,
}

/// What was read.
#[derive(Default, PartialEq, Eq, Debug)]
pub(super) struct Parsed {
    /// Each flag with its value, in the order of the command line.
    pub(super) flags: Vec<(u8, Vec<u8>)>,
    /// Everything else.
    pub(super) operands: Vec<Vec<u8>>,
}

impl Parsed {
    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags.iter().any(|(found, _)| *found == flag)
    }
}

/// Why reading ended early: help was asked for (no text), or there was a mistake.
struct Mistake(Vec<u8>);

struct Reader<'a> {
    flags: &'a Flags,
    args: std::slice::Iter<'a, Vec<u8>>,
    parsed: Parsed,
}

impl Flags {
    /// Reads the arguments. A mistake is reported as `getopt` does, by the name the tool was called.
    pub(super) fn parse(&self, context: &mut Context<'_, '_>, args: &[Vec<u8>]) -> Result<Parsed, Stop> {
        let posix = std::env::var_os("POSIXLY_CORRECT").is_some();
        match self.read(args, posix) {
            Ok(parsed) => Ok(parsed),
            Err(Mistake(text)) => {
                complain(context.err, &context.options.called, &text)?;
                Err(Stop::Usage(self.usage))
            }
        }
    }

    fn read(&self, args: &[Vec<u8>], posix: bool) -> Result<Parsed, Mistake> {
        let mut reader = Reader { flags: self, args: args.iter(), parsed: Parsed::default() };
        while let Some(arg) = reader.args.next() {
            match arg.as_slice() {
                b"--" => {
                    reader.take_rest();
                }
                [b'-', b'-', long @ ..] if !self.long.is_empty() => reader.long(long)?,
                [b'-', short @ ..] if !short.is_empty() => reader.short(short)?,
                operand => {
                    reader.parsed.operands.push(operand.to_vec());
                    if posix {
                        reader.take_rest();
                    }
                }
            }
        }
        Ok(reader.parsed)
    }
}

impl Reader<'_> {
    fn take_rest(&mut self) {
        self.parsed.operands.extend(self.args.by_ref().cloned());
    }

    fn add(&mut self, flag: u8, value: Vec<u8>) -> Result<(), Mistake> {
        if flag == b'h' {
            return Err(Mistake(Vec::new()));
        }
        self.parsed.flags.push((flag, value));
        Ok(())
    }

    /// A group of letters; the first that takes a value takes the rest of the group, or the next argument.
    fn short(&mut self, group: &[u8]) -> Result<(), Mistake> {
        for (i, letter) in group.iter().enumerate() {
            match self.short_takes_value(*letter) {
                None => return Err(mistake(&[b"invalid option -- '", &[*letter], b"'"])),
                Some(false) => self.add(*letter, Vec::new())?,
                Some(true) if i + 1 < group.len() => return self.add(*letter, group[i + 1..].to_vec()),
                Some(true) => {
                    let value = self
                        .args
                        .next()
                        .ok_or_else(|| mistake(&[b"option requires an argument -- '", &[*letter], b"'"]))?;
                    return self.add(*letter, value.clone());
                }
            }
        }
        Ok(())
    }

    fn short_takes_value(&self, letter: u8) -> Option<bool> {
        let all = self.flags.short.as_bytes();
        let at = all.iter().position(|known| *known == letter && letter != b':')?;
        Some(all.get(at + 1) == Some(&b':'))
    }

    /// `name` or `name=value`, without the dashes.
    fn long(&mut self, text: &[u8]) -> Result<(), Mistake> {
        let equals = text.iter().position(|byte| *byte == b'=');
        let given = equals.map(|at| text[at + 1..].to_vec());
        let (name, takes_value, flag) = self.find_long(text, &text[..equals.unwrap_or(text.len())])?;
        match (takes_value, given) {
            (false, None) => self.add(flag, Vec::new()),
            (false, Some(_)) => Err(mistake(&[b"option '--", name.as_bytes(), b"' doesn't allow an argument"])),
            (true, Some(value)) => self.add(flag, value),
            (true, None) => {
                let value = self
                    .args
                    .next()
                    .ok_or_else(|| mistake(&[b"option '--", name.as_bytes(), b"' requires an argument"]))?;
                self.add(flag, value.clone())
            }
        }
    }

    /// The long flag of this name, or the only one whose name begins so. `text` is for the message.
    fn find_long(&self, text: &[u8], name: &[u8]) -> Result<Long, Mistake> {
        let all = self.flags.long;
        if let Some(exact) = all.iter().find(|long| long.0.as_bytes() == name) {
            return Ok(*exact);
        }
        let alike: Vec<&Long> = all.iter().filter(|long| long.0.as_bytes().starts_with(name)).collect();
        match alike[..] {
            [] => Err(mistake(&[b"unrecognized option '--", text, b"'"])),
            [one] => Ok(*one),
            _ => {
                let names: String = alike.iter().map(|long| format!(" '--{}'", long.0)).collect();
                Err(mistake(&[b"option '--", text, b"' is ambiguous; possibilities:", names.as_bytes()]))
            }
        }
    }
}

fn mistake(parts: &[&[u8]]) -> Mistake {
    Mistake(parts.concat())
}

fn complain(err: &mut dyn Write, called: &[u8], text: &[u8]) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    err.write_all(&[called, b": ", text, b"\n"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: Flags = Flags {
        short: "d:hx0",
        long: &[("delimiter", true, b'd'), ("print0", false, b'0'), ("print", false, b'x'), ("dark", false, b'x')],
        usage: "",
    };

    fn read(line: &str) -> Result<Parsed, String> {
        let args: Vec<Vec<u8>> = line.split(' ').filter(|arg| !arg.is_empty()).map(|arg| arg.into()).collect();
        FLAGS.read(&args, false).map_err(|Mistake(text)| String::from_utf8(text).unwrap())
    }

    fn ok(line: &str) -> String {
        let parsed = read(line).unwrap();
        let flags = parsed.flags.iter().map(|(f, v)| format!("{}={} ", *f as char, String::from_utf8_lossy(v)));
        let operands: Vec<_> = parsed.operands.iter().map(|o| String::from_utf8_lossy(o)).collect();
        format!("{}[{}]", flags.collect::<String>(), operands.join(" "))
    }

    #[test]
    fn flags_and_operands_come_in_any_order() {
        assert_eq!(ok("a -x0 b -d, c -d ; --print0"), "x= 0= d=, d=; 0= [a b c]");
        assert_eq!(ok("-x -- -0 --print0"), "x= [-0 --print0]");
        assert_eq!(ok("- -x"), "x= [-]");
    }

    #[test]
    fn long_names_may_be_cut_short_unless_ambiguous() {
        assert_eq!(ok("--de=: --print --print0"), "d=: x= 0= []");
        assert_eq!(ok("--delimiter -x"), "d=-x []");
        assert_eq!(read("--d=1").unwrap_err(), "option '--d=1' is ambiguous; possibilities: '--delimiter' '--dark'");
    }

    #[test]
    fn mistakes_read_as_glibcs() {
        assert_eq!(read("-q").unwrap_err(), "invalid option -- 'q'");
        assert_eq!(read("-:").unwrap_err(), "invalid option -- ':'");
        assert_eq!(read("-d").unwrap_err(), "option requires an argument -- 'd'");
        assert_eq!(read("--nope=3").unwrap_err(), "unrecognized option '--nope=3'");
        assert_eq!(read("--print0=3").unwrap_err(), "option '--print0' doesn't allow an argument");
        assert_eq!(read("--delim").unwrap_err(), "option '--delimiter' requires an argument");
        assert_eq!(read("-xh -q").unwrap_err(), "");
    }
}
