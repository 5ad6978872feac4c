//! Recognizes the commands that have to run in a required worker: those that compile.

use super::response;

/// Returns whether this line calls a compiler with `-c`, directly or in a response file. Links do not count, because
/// most use another linker.
pub(super) fn compiles(line: &[u8]) -> bool {
    let is_between = |byte: &u8| byte.is_ascii_whitespace() || b";&|()'\"`".contains(byte);
    let mut words = line.split(is_between);
    words.any(is_compiler) && words.any(is_compile_option)
}

fn is_compile_option(word: &[u8]) -> bool {
    word == b"-c" || word.strip_prefix(b"@").is_some_and(|file| response::contains(file, b"-c"))
}

/// `cc`, `x86_64-linux-gnu-g++-12`, `/usr/bin/clang-19` and the like.
fn is_compiler(word: &[u8]) -> bool {
    const NAMES: [&[u8]; 6] = [b"cc", b"CC", b"c++", b"g++", b"clang", b"clang++"];
    let file = word.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let digits = file.iter().rev().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    let name = &file[..file.len() - digits];
    let name = if digits > 0 { name.strip_suffix(b"-").unwrap_or(name) } else { name };
    NAMES.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn compiles_are_recognized() {
        for line in [
            "gcc -c a.c",
            "/usr/bin/clang-14 -O2 -c a.c -o a.o",
            "ccache x86_64-linux-gnu-g++-12.2 -c a.cc",
            "cd sub && c++ -c 'a b.cc'",
            "sh -c 'cc -g -c a.c'",
        ] {
            assert!(compiles(line.as_bytes()), "{line}");
        }
        for line in ["gcc a.o -o a", "ar cr a.a a.o", "sh -c 'cc a.o'", "clang-format -c a.c", "rustc -c a.rs", ""] {
            assert!(!compiles(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn options_in_response_files_are_seen() {
        let dir = Scratch::new("required-response-file");
        let file = dir.at("args.rsp").display().to_string();
        for (text, expected) in [("-O2\n'-c' a.c", true), ("a.o -o a", false)] {
            std::fs::write(&file, text).unwrap();
            for line in [format!("gcc @{file}"), format!("sh -c 'clang-14 -g @{file} -o x'")] {
                assert_eq!(compiles(line.as_bytes()), expected, "{line}: {text}");
            }
        }
        assert!(!compiles(format!("gcc @{file}.none").as_bytes()));
    }
}
