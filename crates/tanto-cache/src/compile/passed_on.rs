//! Options that the compiler passes to the preprocessor or the assembler.

use super::refusal::{Refusal, text};

const ASSEMBLER: [&[u8]; 17] = [
    b"--noexecstack",
    b"--execstack",
    b"--fatal-warnings",
    b"--no-warn",
    b"--compress-debug-sections",
    b"--compress-debug-sections=none",
    b"--compress-debug-sections=zlib",
    b"--compress-debug-sections=zlib-gnu",
    b"--compress-debug-sections=zstd",
    b"--nocompress-debug-sections",
    b"-mrelax-relocations=no",
    b"-mrelax-relocations=yes",
    b"-mbranches-within-32B-boundaries",
    b"-mx86-used-note=no",
    b"-mx86-used-note=yes",
    b"--32",
    b"--64",
];

pub(super) fn check_assembler(word: &[u8]) -> Result<(), Refusal> {
    let is_known = |part: &[u8]| ASSEMBLER.contains(&part);
    if parts(word).all(is_known) { Ok(()) } else { Err(Refusal::Option(text(word))) }
}

/// The depfile that an option for the preprocessor names. Refuses all but that and macros.
pub(super) fn preprocessor_depfile(word: &[u8]) -> Result<Option<&[u8]>, Refusal> {
    let is_macro = |part: &[u8]| part.len() > 2 && (part.starts_with(b"-D") || part.starts_with(b"-U"));
    match parts(word).collect::<Vec<_>>()[..] {
        [b"-MD" | b"-MMD", file] if !file.is_empty() => Ok(Some(file)),
        ref parts if parts.iter().all(|part| is_macro(part)) => Ok(None),
        _ => Err(Refusal::Option(text(word))),
    }
}

/// The options after `-Wp,` or `-Wa,`.
fn parts(word: &[u8]) -> impl Iterator<Item = &[u8]> {
    word.split(|&byte| byte == b',').skip(1)
}
