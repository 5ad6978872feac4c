//! Commands that compile one source with gcc or clang, and whether their results may be kept.

mod language;
mod options;
mod passed_on;
mod paths;
mod program;
mod refusal;
mod words;

pub use language::Language;
pub use paths::{MapKind, PathDependence, PrefixMap};
pub use program::{Family, is_tool};
pub use refusal::Refusal;

/// A compile that may be cached: one source, one object, options that are known.
///
/// Options are not enough. The caller must also refuse:
/// * sources that use the date or the time (`__DATE__`, `__TIME__`, `__TIMESTAMP__`), unless the clock is fixed;
/// * environments with variables that add options or outputs, see [`WRITING_VARIABLES`];
/// * a precompiled header ([`Language::is_header`]) of a program that is clang under another name, and any use of one, since
///   clang compares the times of the headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compile<'a> {
    /// The compiler as written.
    pub program: &'a [u8],
    /// By the name of the program.
    pub family: Family,
    pub source: &'a [u8],
    pub language: Language,
    pub output: &'a [u8],
    /// The file that gets the names of the headers, as make rules.
    pub depfile: Option<Vec<u8>>,
    /// Whether an option turns debug information on, and none turns it off later.
    pub emits_debug_info: bool,
    /// Whether the code is for the processor of this machine.
    pub is_native: bool,
    /// Whether the object is for optimization at link time. Those of gcc differ from run to run.
    pub is_for_lto: bool,
    /// The options that replace beginnings of paths in the object, in order.
    pub prefix_maps: Vec<PrefixMap<'a>>,
    /// Clang's name for the working directory in debug information.
    pub debug_directory: Option<&'a [u8]>,
    paths: paths::Paths<'a>,
}

/// Variables with which gcc or clang does more than its options say: it adds options, or writes other files.
pub const WRITING_VARIABLES: [&str; 13] = [
    "CCC_ADD_ARGS",
    "CCC_OVERRIDE_OPTIONS",
    "CC_LOG_DIAGNOSTICS",
    "CC_LOG_DIAGNOSTICS_FILE",
    "CC_PRINT_HEADERS",
    "CC_PRINT_HEADERS_FILE",
    "CC_PRINT_INTERNAL_STAT",
    "CC_PRINT_OPTIONS",
    "CC_PRINT_PROC_STAT",
    "DEPENDENCIES_OUTPUT",
    "GCC_COMPARE_DEBUG",
    "LIBCLANG_LOGGING",
    "SUNPRO_OUTPUT",
];

/// Reads the words of a command that no shell needs to read.
pub fn parse<'a>(words: &[&'a [u8]]) -> Result<Compile<'a>, Refusal> {
    let (program, rest) = words.split_first().ok_or(Refusal::NotACompiler)?;
    let family = Family::of_program(program).ok_or(Refusal::NotACompiler)?;
    if let Some(file) = rest.iter().find(|word| word.starts_with(b"@")) {
        return Err(Refusal::ResponseFile(refusal::text(file)));
    }
    words::read(rest)?.finish(program, family)
}

/// Words that use each listed option, for tests.
#[doc(hidden)]
pub fn samples() -> Vec<String> {
    options::samples().chain(words::SAMPLES.map(String::from)).collect()
}

#[cfg(test)]
mod tests;
