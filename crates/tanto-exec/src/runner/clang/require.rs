//! Which commands have to run in a worker that is required: those that compile.

/// Does this line call a compiler to make an object? Links are none: most are another linker's.
pub(super) fn compiles(line: &[u8]) -> bool {
    let is_between = |byte: &u8| byte.is_ascii_whitespace() || b";&|()'\"`".contains(byte);
    let mut words = line.split(is_between);
    words.any(is_compiler) && words.any(|word| word == b"-c")
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

    #[test]
    fn compiles_are_known_by_their_words() {
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
}
