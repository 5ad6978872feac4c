//! Parses command lines like glibc's `getopt_long`, for `ninja` and its tools: operands may precede flags, short flags
//! may be bundled, long names abbreviated.

use tanto_exec::text::suggest;

pub trait Flag: Sized + 'static {
    /// The short name.
    fn letter(&self) -> Option<u8>;

    /// The long name.
    fn name(&self) -> Option<&'static str>;

    fn takes_value(&self) -> bool;

    /// The value may be omitted; otherwise it must be joined to the name by `=`.
    fn value_is_optional(&self) -> bool {
        false
    }

    /// The flag is not part of ninja: an abbreviation selects it only if no other flag matches.
    fn gives_way(&self) -> bool {
        false
    }
}

/// A parser.
pub struct Getopt<'a, F: Flag> {
    known: &'static [F],
    args: &'a [Vec<u8>],
    /// The index of the next argument.
    next: usize,
    /// The rest of a bundle of short flags.
    bundle: &'a [u8],
    operands: Vec<&'a [u8]>,
    /// The first operand ends the flags.
    posix: bool,
}

/// An error, worded like `getopt_long`, without the program's name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bad {
    pub message: Vec<u8>,
    /// A similar option, for a hint.
    meant: Option<&'static str>,
}

impl Bad {
    fn of(parts: &[&[u8]]) -> Self {
        Bad { message: parts.concat(), meant: None }
    }

    /// Returns the message with `, did you mean ...?`, if there is a similar option.
    pub fn with_hint(self) -> Vec<u8> {
        let hint = self.meant.map(|meant| format!(", did you mean '--{meant}'?")).unwrap_or_default();
        [&self.message[..], hint.as_bytes()].concat()
    }
}

/// A flag and its value; empty if it has none.
pub type Found<'a, F> = (&'static F, &'a [u8]);

/// Returns whether `POSIXLY_CORRECT` is set: then the first operand ends the flags.
pub fn is_posix() -> bool {
    std::env::var_os("POSIXLY_CORRECT").is_some()
}

impl<'a, F: Flag> Getopt<'a, F> {
    /// `args` excludes the program's name. Ambiguity errors list long names in the order of `known`. If no flag has a
    /// long name, `--` has no special meaning at the start of an argument.
    pub fn new(known: &'static [F], args: &'a [Vec<u8>], posix: bool) -> Self {
        Getopt { known, args, next: 0, bundle: b"", operands: Vec::new(), posix }
    }

    /// Returns the next flag, or `None` when only operands are left.
    pub fn flag(&mut self) -> Result<Option<Found<'a, F>>, Bad> {
        if !self.bundle.is_empty() {
            return self.letter().map(Some);
        }
        while let Some(arg) = self.args.get(self.next) {
            self.next += 1;
            match arg.as_slice() {
                b"--" => break,
                [b'-', b'-', long @ ..] if self.known.iter().any(|flag| flag.name().is_some()) => {
                    return self.long(long).map(Some);
                }
                [b'-', bundle @ ..] if !bundle.is_empty() => {
                    self.bundle = bundle;
                    return self.letter().map(Some);
                }
                operand => self.operands.push(operand),
            }
            if self.posix {
                break;
            }
        }
        self.operands.extend(self.rest().iter().map(Vec::as_slice));
        self.next = self.args.len();
        Ok(None)
    }

    /// The argument that contained the last flag or its value.
    pub fn last(&self) -> &'a [u8] {
        self.next.checked_sub(1).and_then(|at| self.args.get(at)).map_or(b"", Vec::as_slice)
    }

    /// The arguments not parsed yet.
    pub fn rest(&self) -> &'a [Vec<u8>] {
        &self.args[self.next..]
    }

    /// The operands in order. Call after `flag` has returned `None`.
    pub fn into_operands(self) -> Vec<Vec<u8>> {
        self.operands.into_iter().map(<[u8]>::to_vec).collect()
    }

    fn letter(&mut self) -> Result<Found<'a, F>, Bad> {
        let (letter, left) = (self.bundle[0], &self.bundle[1..]);
        self.bundle = b"";
        let Some(flag) = self.known.iter().find(|flag| flag.letter() == Some(letter)) else {
            return Err(Bad::of(&[b"invalid option -- '", &[letter], b"'"]));
        };
        if !flag.takes_value() {
            self.bundle = left;
            return Ok((flag, b""));
        }
        if !left.is_empty() {
            return Ok((flag, left));
        }
        match self.argument() {
            Some(value) => Ok((flag, value)),
            None => Err(Bad::of(&[b"option requires an argument -- '", &[letter], b"'"])),
        }
    }

    fn long(&mut self, text: &'a [u8]) -> Result<Found<'a, F>, Bad> {
        let (name, value) = match text.iter().position(|&byte| byte == b'=') {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        let flag = find_long(self.known, name, text)?;
        let full = flag.name().unwrap_or_default().as_bytes();
        match (flag.takes_value(), value) {
            (false, None) => Ok((flag, b"")),
            (false, Some(_)) => Err(Bad::of(&[b"option '--", full, b"' doesn't allow an argument"])),
            (true, Some(value)) => Ok((flag, value)),
            (true, None) if flag.value_is_optional() => Ok((flag, b"")),
            (true, None) => match self.argument() {
                Some(value) => Ok((flag, value)),
                None => Err(Bad::of(&[b"option '--", full, b"' requires an argument"])),
            },
        }
    }

    fn argument(&mut self) -> Option<&'a [u8]> {
        let value = self.args.get(self.next)?;
        self.next += 1;
        Some(value)
    }
}

/// Finds the flag with this long name, or the only one with this prefix. `text` is the argument with its value, for
/// messages.
fn find_long<F: Flag>(known: &'static [F], name: &[u8], text: &[u8]) -> Result<&'static F, Bad> {
    let named = || known.iter().filter_map(|flag| Some((flag, flag.name()?)));
    if let Some((flag, _)) = named().find(|(_, long)| long.as_bytes() == name) {
        return Ok(flag);
    }
    let begin = || named().filter(|(_, long)| long.as_bytes().starts_with(name));
    let all_give_way = begin().all(|(flag, _)| flag.gives_way());
    let meant = || begin().filter(|(flag, _)| all_give_way || !flag.gives_way());
    let mut first_two = meant();
    match (first_two.next(), first_two.next()) {
        (Some((flag, _)), None) => Ok(flag),
        (None, _) => {
            let near = suggest::closest(name, named().map(|(_, long)| long.as_bytes()));
            let meant = named().map(|(_, long)| long).find(|long| near == Some(long.as_bytes()));
            Err(Bad { meant, ..Bad::of(&[b"unrecognized option '--", text, b"'"]) })
        }
        (Some(_), Some(_)) => {
            let names: String = meant().map(|(_, long)| format!(" '--{long}'")).collect();
            Err(Bad::of(&[b"option '--", text, b"' is ambiguous; possibilities:", names.as_bytes()]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Small(Option<u8>, Option<&'static str>, bool);

    /// Flags that give way.
    const YOUNGER: &[&str] = &["dusk", "later"];

    impl Flag for Small {
        fn letter(&self) -> Option<u8> {
            self.0
        }

        fn name(&self) -> Option<&'static str> {
            self.1
        }

        fn takes_value(&self) -> bool {
            self.2
        }

        fn gives_way(&self) -> bool {
            self.1.is_some_and(|name| YOUNGER.contains(&name))
        }

        fn value_is_optional(&self) -> bool {
            self.1 == Some("maybe")
        }
    }

    static KNOWN: &[Small] = &[
        Small(Some(b'd'), Some("delimiter"), true),
        Small(Some(b'0'), Some("print0"), false),
        Small(Some(b'x'), None, false),
        Small(None, Some("print"), false),
        Small(None, Some("dark"), false),
        Small(None, Some("dusk"), false),
        Small(None, Some("later"), false),
        Small(None, Some("maybe"), true),
    ];

    /// Returns each flag with its value, then the operands.
    fn read(known: &'static [Small], line: &str, posix: bool) -> Result<String, String> {
        let args: Vec<Vec<u8>> = line.split(' ').filter(|arg| !arg.is_empty()).map(|arg| arg.into()).collect();
        let mut getopt = Getopt::new(known, &args, posix);
        let mut text = String::new();
        while let Some((flag, value)) = getopt.flag().map_err(|bad| String::from_utf8(bad.message).unwrap())? {
            let name = flag.name().map_or_else(|| char::from(flag.letter().unwrap()).to_string(), str::to_owned);
            text += &format!("{name}={} ", String::from_utf8_lossy(value));
        }
        let operands = getopt.into_operands().join(&b' ');
        Ok(format!("{text}[{}]", String::from_utf8_lossy(&operands)))
    }

    fn ok(line: &str) -> String {
        read(KNOWN, line, false).unwrap()
    }

    fn bad(line: &str) -> String {
        read(KNOWN, line, false).unwrap_err()
    }

    #[test]
    fn flags_and_operands_come_in_any_order() {
        assert_eq!(ok("a -x0 b -d, c -d ; --print0"), "x= print0= delimiter=, delimiter=; print0= [a b c]");
        assert_eq!(ok("-x -- -0 --print0 --"), "x= [-0 --print0 --]");
        assert_eq!(ok("- -x"), "x= [-]");
        assert_eq!(read(KNOWN, "-x a -0", true).unwrap(), "x= [a -0]");
    }

    #[test]
    fn letters_bundle_and_values_join() {
        assert_eq!(ok("-x0d-x b"), "x= print0= delimiter=-x [b]");
        assert_eq!(ok("-xd -0"), "x= delimiter=-0 []");
    }

    #[test]
    fn unambiguous_abbreviations_are_accepted() {
        assert_eq!(ok("--de=: --print --print0"), "delimiter=: print= print0= []");
        assert_eq!(ok("--delimiter -x"), "delimiter=-x []");
        assert_eq!(bad("--d=1"), "option '--d=1' is ambiguous; possibilities: '--delimiter' '--dark'");
    }

    #[test]
    fn new_flags_do_not_break_abbreviations() {
        assert_eq!(ok("--da --du --dusk --l"), "dark= dusk= dusk= later= []");
        static TWO: &[Small] = &[Small(None, Some("dark"), false), Small(None, Some("dusk"), false)];
        assert_eq!(read(TWO, "--d", false).unwrap(), "dark= []");
    }

    #[test]
    fn optional_value_is_joined_or_omitted() {
        assert_eq!(ok("--maybe a --maybe=b"), "maybe= maybe=b [a]");
    }

    #[test]
    fn errors_match_glibc() {
        assert_eq!(bad("-q"), "invalid option -- 'q'");
        assert_eq!(bad("-:"), "invalid option -- ':'");
        assert_eq!(bad("-d"), "option requires an argument -- 'd'");
        assert_eq!(bad("--nope=3"), "unrecognized option '--nope=3'");
        assert_eq!(bad("---"), "unrecognized option '---'");
        assert_eq!(bad("--print0=3"), "option '--print0' doesn't allow an argument");
        assert_eq!(bad("--delim"), "option '--delimiter' requires an argument");
    }

    #[test]
    fn similar_name_is_suggested() {
        let hint = |arg: &str| {
            let args = [arg.as_bytes().to_vec()];
            let bad = Getopt::new(KNOWN, &args, false).flag().err().unwrap();
            String::from_utf8(bad.with_hint()).unwrap()
        };
        assert_eq!(hint("--delimitr=3"), "unrecognized option '--delimitr=3', did you mean '--delimiter'?");
        assert_eq!(hint("--nothing-like-it"), "unrecognized option '--nothing-like-it'");
        assert_eq!(hint("-q"), "invalid option -- 'q'");
    }

    #[test]
    fn without_long_names_two_dashes_are_short_flags() {
        static LETTERS: &[Small] = &[Small(Some(b'x'), None, false)];
        assert_eq!(read(LETTERS, "--x", false).unwrap_err(), "invalid option -- '-'");
        assert_eq!(read(LETTERS, "-x -- --x", false).unwrap(), "x= [--x]");
    }

    #[test]
    fn last_argument_contains_the_flag_or_its_value() {
        let args = [b"-xd".to_vec(), b"v".to_vec(), b"-q".to_vec()];
        let mut getopt = Getopt::new(KNOWN, &args, false);
        assert_eq!(getopt.last(), b"");
        assert!(getopt.flag().is_ok_and(|found| found.is_some()));
        assert_eq!(getopt.last(), b"-xd");
        assert!(getopt.flag().is_ok_and(|found| found.is_some_and(|(_, value)| value == b"v")));
        assert_eq!((getopt.last(), getopt.rest()), (&b"v"[..], &args[2..]));
    }
}
