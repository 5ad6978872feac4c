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
    const DIRECTIVES: [&[u8]; 3] = [b"include", b"import", b"embed"];
    let lower = content.to_ascii_lowercase();
    let has = |words: &[&[u8]]| words.iter().any(|word| memmem::find(&lower, word).is_some());
    let mut macros = Vec::new();
    let is_computed = has_assembler_directive(&lower)
        || has(&DIRECTIVES) && is_unusual(content)
        || tests_computed_name(content)
        || !DIRECTIVES.iter().all(|word| add_macros(content, word, &mut macros));
    if is_computed { IncludedNames::Computed } else { IncludedNames::OfMacros(macros) }
}

/// Returns whether an assembler may include files. `.include_path` would be a part of an expression in C.
fn has_assembler_directive(lower: &[u8]) -> bool {
    const DIRECTIVES: [&[u8]; 2] = [b".incbin", b".include"];
    let is_whole = |end: usize| !lower.get(end).is_some_and(|byte| is_in_name(*byte));
    DIRECTIVES.iter().any(|word| memmem::find_iter(lower, word).any(|at| is_whole(at + word.len())))
}

/// Returns whether a file has bytes that compilers take for blanks or ends of lines, but the functions here do not.
fn is_unusual(content: &[u8]) -> bool {
    let has_return = content.split(|&byte| byte == b'\n').any(|line| line[..line.len().max(1) - 1].contains(&b'\r'));
    has_return || content.contains(&b'\x0b') || memmem::find(content, b"%\\\n").is_some()
}

/// Returns whether a condition may ask for a file whose name is no literal.
fn tests_computed_name(content: &[u8]) -> bool {
    memmem::find_iter(content, b"__has_").any(|at| {
        let names: [&[u8]; 4] = [b"include_next", b"include", b"embed", b"import"];
        let (before, rest) = (&content[..at], &content[at + b"__has_".len()..]);
        let Some(rest) = names.iter().find_map(|name| rest.strip_prefix(*name)) else { return false };
        if ends_in_test_or_definition(before) {
            return false;
        }
        let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        match &rest[blanks..] {
            [b'(', operand @ ..] => !matches!(operand.trim_ascii_start().first(), Some(b'"' | b'<')),
            // The operand can follow a comment or in the next line.
            [b'/', b'*', ..] | [b'\\', ..] => true,
            _ => may_be_in_definition(before),
        }
    })
}

/// Returns whether a text ends in `defined`, `#ifdef` or the like: a name that follows has no operand. Many headers have
/// `#define __has_include(x) 0` for old compilers.
fn ends_in_test_or_definition(text: &[u8]) -> bool {
    const DIRECTIVES: [&[u8]; 4] = [b"ifdef", b"ifndef", b"define", b"undef"];
    let text = text.trim_ascii_end();
    let test = text.strip_suffix(b"(").unwrap_or(text).trim_ascii_end().strip_suffix(b"defined");
    test.is_some_and(|before| !before.last().is_some_and(|byte| is_in_name(*byte)))
        || DIRECTIVES.iter().filter_map(|name| text.strip_suffix(*name)).any(ends_in_mark_of_directive)
}

/// Returns whether a text may end in the value of a macro, which can begin before its last line.
fn may_be_in_definition(text: &[u8]) -> bool {
    let line = &text[memchr::memrchr(b'\n', text).map_or(0, |end| end + 1)..];
    let has = |word: &[u8]| memmem::find(line, word).is_some();
    let is_continued = text[..text.len() - line.len()].trim_ascii_end().last() == Some(&b'\\');
    has(b"define") || has(b"*/") || is_continued
}

/// Returns whether a text ends in `#`, at the beginning of a line, and blanks.
fn ends_in_mark_of_directive(text: &[u8]) -> bool {
    let text = text.trim_ascii_end();
    let line = [&b"#"[..], b"%:", b"??="].into_iter().find_map(|mark| text.strip_suffix(mark));
    line.is_some_and(begins_line)
}

/// Returns false if a name is neither a literal nor a macro.
fn add_macros(content: &[u8], directive: &[u8], macros: &mut Vec<Box<[u8]>>) -> bool {
    for found in memmem::find_iter(content, directive) {
        let (before, after) = (&content[..found], &content[found + directive.len()..]);
        if !ends_in_mark_of_directive(before) {
            continue;
        }
        let operand = after.strip_prefix(b"_next").unwrap_or(after);
        // As in a comment that begins with "#included".
        if operand.first().is_some_and(|byte| is_in_name(*byte)) {
            continue;
        }
        let operand = operand.trim_ascii_start();
        let line = operand.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let name = match line.first() {
            Some(b'"' | b'<') if line.contains(&b'\\') => return false,
            // No name of a file begins with the others, as in a comment about the "#include's".
            Some(b'"' | b'<' | b'\'' | b'.' | b',' | b';' | b')') | None => continue,
            Some(_) => macro_name(line),
        };
        match name {
            Some(name) if macros.iter().any(|known| **known == *name) => {}
            Some(name) => macros.push(name.into()),
            None => return false,
        }
    }
    true
}

/// Returns the name that a line consists of, except for a comment. Names that compilers define are not returned.
fn macro_name(line: &[u8]) -> Option<&[u8]> {
    let (name, rest) = line.split_at(line.iter().take_while(|byte| is_in_name(**byte)).count());
    let rest = rest.trim_ascii();
    let is_comment = |rest: &[u8]| memmem::find(rest, b"*/").is_some_and(|end| end + 2 == rest.len());
    let is_over = rest.is_empty() || rest.starts_with(b"//") || rest.strip_prefix(b"/*").is_some_and(is_comment);
    (is_over && !name.is_empty() && !name.starts_with(b"_") && !line.contains(&b'\\')).then_some(name)
}

/// Returns whether a file may define a macro as anything but the relative name of a file.
pub(super) fn may_define_path(path: &[u8], content: &[u8], name: &[u8]) -> bool {
    // In precompiled headers and files with options of the compiler, definitions cannot be told from uses.
    if content.contains(&0) || path.ends_with(b".cfg") || path.ends_with(b"/specs") {
        return memmem::find(content, name).is_some();
    }
    // Trigraphs can continue lines.
    if is_unusual(content) || memmem::find(content, b"??/").is_some() {
        return true;
    }
    let text = spliced(content);
    memmem::find_iter(&text, name)
        .any(|at| may_be_definition(&text[..at]) && !is_use(&text[..at], &text[at + name.len()..]))
}

/// Returns whether a text may end in `define`.
fn may_be_definition(before: &[u8]) -> bool {
    let text = before.trim_ascii_end();
    // Some compilers take other bytes for blanks.
    text.ends_with(b"define") || text.ends_with(b"*/") || !text.last().is_none_or(u8::is_ascii)
}

/// Returns whether a name is a part of another one, or is defined as the literal name of a file in quotes, which is not
/// expanded as one in brackets is.
fn is_use(before: &[u8], rest: &[u8]) -> bool {
    if rest.first().is_some_and(|byte| is_in_name(*byte)) {
        return true;
    }
    let is_directly = before.trim_ascii_end().ends_with(b"define");
    let line = rest.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let is_relative = match line.trim_ascii() {
        [b'"', name @ .., b'"'] => !name.starts_with(b"/") && !name.iter().any(|byte| b"\"\\".contains(byte)),
        _ => false,
    };
    is_directly && is_relative && line.first().is_some_and(u8::is_ascii_whitespace)
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
    byte.is_ascii_alphanumeric() || byte == b'_'
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
            ("#include A /* */ B /* */\n", None),
            ("#include A /*/\n", None),
            ("#include\x0bA\n", None),
            ("#include\0A\n", None),
            ("#include $A\n", None),
            ("#include \u{e9}\n", None),
            ("#include \u{a0}A\n", None),
            ("#include _Pragma\n", None),
            ("#include A\r#include A(b)\r", None),
            ("#include \"a\\\nb.h\"\n", None),
            ("%\\\n:include A(b)\n", None),
            (".INCBIN \"x\"\n", None),
            ("#if __has_include(A(b))\n", None),
            ("#if __has_include_next ( A )\n", None),
            ("#ifndef __has_include\n# define __has_include(x) 0\n#endif\n", Some("")),
            ("#define HAS(x) __has_include(x)\n", None),
            ("#if 1 define __has_include(x)\n", None),
            ("#define HAS __has_include\n#if HAS(A(b))\n", None),
            ("#define HAS \\\n __has_include\n", None),
            ("#define HAS /*\n*/ __has_include\n", None),
            ("#if __has_include/**/(A(b))\n", None),
            ("#if __has_include\\\n(A(b))\n", None),
            ("#define A is_defined(__has_include)\n", None),
            (
                "#ifdef __has_include\n#if defined ( __has_include ) || defined __has_embed\n#undef __has_import\n",
                Some(""),
            ),
            ("#endif // __has_include\n/* The\n  __has_include argument */", Some("")),
            ("// #included by a.h, #includes b.h\n", Some("")),
            ("// #include the other\n", Some("")),
            ("/**/#include the other\n", None),
            ("asm(\".include x\")\n", None),
            ("a.include_path = a.IncludePath\n", Some("")),
            (
                "#if defined __has_include && __has_include(<a>) && __has_include( \"b\")\n#if __has_feature(x)\n",
                Some(""),
            ),
            ("/* *\\\n/ #include A(b)\n", None),
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
            ("#define A <B/a.h> \n", true),
            ("#define /* /* */ A B\n", true),
            ("#define/**/A \"a.h\"\n", true),
            ("#define\x0bA B\n", true),
            ("#def\\\x0b\nine A B\n", true),
            ("#define \\\rA B\n", true),
            ("#define\u{a0}A B\n", true),
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
            ("gpch\0 B", false),
        ] {
            assert_eq!(may_define_path(b"/a.h", text.as_bytes(), b"A"), expected, "{text}");
        }
        for (path, text, expected) in
            [("/x/specs", "*cpp: -DA=B", true), ("/x/clang.cfg", "-D A=B", true), ("/x/clang.cfg", "-D B", false)]
        {
            assert_eq!(may_define_path(path.as_bytes(), text.as_bytes(), b"A"), expected, "{text}");
        }
    }
}
