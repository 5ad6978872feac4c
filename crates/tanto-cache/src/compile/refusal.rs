//! Reasons not to cache a command.

/// Why a command is not cached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("not a compile of gcc or clang")]
    NotACompiler,
    #[error("option {0}")]
    Option(String),
    #[error("option {0} without its value")]
    MissingValue(String),
    #[error("an empty word")]
    EmptyWord,
    #[error("reads options from {0}")]
    ResponseFile(String),
    #[error("links")]
    Links,
    #[error("no source")]
    NoSource,
    #[error("several sources")]
    SeveralSources,
    #[error("unknown language of {0}")]
    Language(String),
    #[error("reads standard input")]
    StandardInput,
    #[error("no output named by -o")]
    NoOutput,
    #[error("several outputs")]
    SeveralOutputs,
    #[error("writes to {0}")]
    SpecialOutput(String),
    #[error("prints to standard output")]
    StandardOutput,
    #[error("precompiles a header with clang")]
    ClangHeader,
}

/// A word of a command for a report.
pub(super) fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}
