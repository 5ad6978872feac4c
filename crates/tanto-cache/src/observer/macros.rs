//! Names of included files that are the values of macros, as in `#include CONFIG_HEADER`.

use memchr::memmem;

use super::file_traits::begins_line;

/// How a file names the files that it includes.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum IncludedNames {
    /// By literals, and by these macros.
    OfMacros(Vec<Box<[u8]>>),
    /// Some may be made of several parts.
    Computed,
}

/// Finds how a file names included files. Assemblers include files, too.
pub(super) fn included_names(content: &[u8]) -> IncludedNames {
    const OF_ASSEMBLERS: [&[u8]; 2] = [b".incbin", b".include"];
    let mut macros = Vec::new();
    let is_plain = !OF_ASSEMBLERS.iter().any(|word| memmem::find(content, word).is_some())
        && [&b"include"[..], b"import", b"embed"].iter().all(|word| add_macros(content, word, &mut macros));
    if is_plain { IncludedNames::OfMacros(macros) } else { IncludedNames::Computed }
}

/// Returns false if a name is neither a literal nor a macro.
fn add_macros(content: &[u8], directive: &[u8], macros: &mut Vec<Box<[u8]>>) -> bool {
    for found in memmem::find_iter(content, directive) {
        let (before, after) = (content[..found].trim_ascii_end(), &content[found + directive.len()..]);
        let mark = [&b"#"[..], b"%:", b"??="].into_iter().find_map(|mark| before.strip_suffix(mark));
        let operand = after.strip_prefix(b"_next").unwrap_or(after).trim_ascii_start();
        // Nothing else can begin the name of a file, except literals.
        let may_be_computed = |byte: &u8| is_in_name(*byte) || b"/\\?".contains(byte);
        if !mark.is_some_and(begins_line) || !operand.first().is_some_and(may_be_computed) {
            continue;
        }
        match macro_name(operand) {
            Some(name) if macros.iter().any(|known| **known == *name) => {}
            Some(name) => macros.push(name.into()),
            None => return false,
        }
    }
    true
}

/// Returns the name that a line consists of, except for comments. Names that compilers define are not returned.
fn macro_name(operand: &[u8]) -> Option<&[u8]> {
    let line = operand.split(|&byte| byte == b'\n').next()?;
    let (name, rest) = line.split_at(line.iter().take_while(|byte| is_in_name(**byte)).count());
    let rest = rest.trim_ascii();
    let is_over = rest.is_empty() || rest.starts_with(b"//") || rest.starts_with(b"/*") && rest.ends_with(b"*/");
    (is_over && !name.is_empty() && !name.starts_with(b"__") && !line.contains(&b'\\')).then_some(name)
}

/// Returns whether a file may define a macro as anything but the relative name of a file.
pub(super) fn may_define_path(content: &[u8], name: &[u8]) -> bool {
    // Trigraphs can continue lines.
    if memmem::find(content, b"??/").is_some() {
        return true;
    }
    let text = spliced(content);
    let mut found = memmem::find_iter(&text, name).filter(|&at| {
        let end = at + name.len();
        !text[..at].last().is_some_and(|byte| is_in_name(*byte)) && !text.get(end).is_some_and(|byte| is_in_name(*byte))
    });
    // In a precompiled header, definitions cannot be told from uses.
    let is_binary = text.contains(&0);
    found.any(|at| is_binary || is_defined(&text[..at]) && !is_relative_name(&text[at + name.len()..]))
}

/// Returns whether a text ends in `define`, except for blanks and comments.
fn is_defined(mut before: &[u8]) -> bool {
    loop {
        before = before.trim_ascii_end();
        match before.strip_suffix(b"*/").map(|text| memmem::rfind(text, b"/*")) {
            None => break,
            Some(Some(start)) => before = &before[..start],
            Some(None) => return true,
        }
    }
    before.ends_with(b"define")
}

/// Returns whether a line is the literal name of a file, without directories above.
fn is_relative_name(rest: &[u8]) -> bool {
    let line = rest.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let value = line.trim_ascii();
    let begins = line.first().is_some_and(u8::is_ascii_whitespace);
    let literal = match value {
        [b'"', name @ .., b'"'] | [b'<', name @ .., b'>'] => name,
        _ => return false,
    };
    begins && !literal.is_empty() && !literal.starts_with(b"/") && !literal.iter().any(|byte| b"\"<>\\".contains(byte))
}

/// Joins lines that continue after a backslash.
fn spliced(content: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(content.len());
    for line in content.split_inclusive(|&byte| byte == b'\n') {
        match line.trim_ascii_end().strip_suffix(b"\\") {
            Some(part) if line.ends_with(b"\n") => text.extend_from_slice(part),
            _ => text.extend_from_slice(line),
        }
    }
    text
}

fn is_in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_that_name_files_are_found() {
        for (text, expected) in [
            ("#include \"a.h\"\n#include <b>\n", Some("")),
            ("# include A\n#import B // x\n%: embed C\t/* x */\n#include A\n", Some("A B C")),
            ("// to include A\n", Some("")),
            ("#include A(b)\n", None),
            ("#include A B\n", None),
            ("#include A\\\n(b)\n", None),
            ("#include \\\nA\n", None),
            ("#include /* */ A\n", None),
            ("#include A /* */ B /* */\n", Some("A")),
            ("#include __FILE__\n", None),
            ("#include\n", Some("")),
            ("/* of\n  #include's there */", Some("")),
            ("asm(\".incbin \\\"x\\\"\");", None),
        ] {
            let found = match included_names(text.as_bytes()) {
                IncludedNames::OfMacros(mut names) => {
                    names.sort();
                    Some(String::from_utf8(names.join(&b' ')).unwrap())
                }
                IncludedNames::Computed => None,
            };
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn definitions_that_may_be_paths_are_found() {
        for (text, expected) in [
            ("#if defined(A)\n#include A\n#endif\n", false),
            ("#define A \"a.h\"\n", false),
            ("#define A <dir/a.h> \n", false),
            ("#define AB X\n#define B A\n", false),
            ("#undef A\n", false),
            ("#define A \"/a.h\"\n", true),
            ("#define A B\n", true),
            ("#define A(x) \"a.h\"\n", true),
            ("#define A\"a.h\"\n", true),
            ("#define A \"a\" \"b\"\n", true),
            ("#define A <a> <b>\n", true),
            ("#define A\n", true),
            ("#define/* */ /**/ A B\n", true),
            ("#def\\\nine A B\n", true),
            ("#define \\\n  A B\n", true),
            ("x */ A", true),
            ("#define A \"a.h\"\n??/\n", true),
            ("gpch\0 A", true),
            ("gpch\0 AB", false),
        ] {
            assert_eq!(may_define_path(text.as_bytes(), b"A"), expected, "{text}");
        }
    }
}
