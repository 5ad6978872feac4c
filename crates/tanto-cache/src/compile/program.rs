//! Names of compilers.

/// The kind of a compiler, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Gcc,
    Clang,
    /// Called cc or c++.
    Unknown,
}

const NAMES: [(&[u8], Family); 6] = [
    (b"cc", Family::Unknown),
    (b"c++", Family::Unknown),
    (b"gcc", Family::Gcc),
    (b"g++", Family::Gcc),
    (b"clang", Family::Clang),
    (b"clang++", Family::Clang),
];

impl Family {
    /// Recognizes names such as `gcc`, `/usr/bin/clang++-19` and `aarch64-linux-gnu-g++-12`.
    pub(super) fn of_program(program: &[u8]) -> Option<Family> {
        let base = program.rsplit(|&byte| byte == b'/').next()?;
        let name = without_version(base);
        let matches = |known: &[u8]| name.strip_suffix(known).is_some_and(is_target);
        NAMES.iter().find(|(known, _)| matches(known)).map(|&(_, family)| family)
    }
}

/// Programs that compilers start: the compiler proper, and the assembler.
const PARTS: [&[u8]; 3] = [b"cc1", b"cc1plus", b"as"];

/// Whether a program of this name is a compiler or a part of one.
pub fn is_tool(name: &[u8]) -> bool {
    let plain = without_version(name);
    let matches = |known: &&[u8]| plain.strip_suffix(*known).is_some_and(is_target);
    Family::of_program(name).is_some() || PARTS.iter().any(matches)
}

fn without_version(name: &[u8]) -> &[u8] {
    let end = name.iter().rposition(|byte| !byte.is_ascii_digit() && *byte != b'.').map_or(0, |last| last + 1);
    match name[..end].strip_suffix(b"-") {
        Some(rest) if end < name.len() => rest,
        _ => name,
    }
}

/// `aarch64-linux-gnu-`, or nothing.
fn is_target(prefix: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    prefix.is_empty() || (prefix.ends_with(b"-") && prefix.len() > 1 && prefix.iter().all(is_part))
}
