//! Error patterns: compilers, linkers, configure scripts, make, pkgsrc.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// A compiler, assembler or interpreter rejects a source file.
    Compiler,
    /// A linker finds no symbol or library.
    Linker,
    /// A configure script, CMake or Meson fails.
    Configure,
    /// A checksum differs.
    Checksum,
    /// A download fails.
    Fetch,
    /// A patch does not apply.
    Patch,
    /// pkgsrc's checks, such as those of installed files.
    Pkgsrc,
    /// pkg_add, pkg_delete or pkg_create fails.
    Package,
    /// make or ninja has no rule.
    Make,
    /// A file or program is missing, or access is denied.
    Missing,
    /// An exception of a script.
    Script,
    /// A crash, or memory or disk is exhausted.
    Crash,
    /// No pattern matches.
    Unknown,
}

impl ErrorKind {
    /// A description.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Compiler => "compiler",
            ErrorKind::Linker => "linker",
            ErrorKind::Configure => "configure",
            ErrorKind::Checksum => "checksum",
            ErrorKind::Fetch => "fetch",
            ErrorKind::Patch => "patch",
            ErrorKind::Pkgsrc => "pkgsrc",
            ErrorKind::Package => "package tools",
            ErrorKind::Make => "make",
            ErrorKind::Missing => "missing file",
            ErrorKind::Script => "script",
            ErrorKind::Crash => "crash",
            ErrorKind::Unknown => "unknown",
        }
    }
}

/// The meaning of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LineMeaning {
    /// A report of a failed command, after the command's own output.
    Failure,
    /// A certain error.
    Certain(ErrorKind),
    /// A possible error.
    Likely(ErrorKind),
    /// A warning with words of an error.
    Warning(ErrorKind),
}

use ErrorKind::{Checksum, Compiler, Configure, Crash, Fetch, Linker, Make, Missing, Package, Patch, Pkgsrc, Script};
use LineMeaning::{Certain, Failure, Likely};

/// Patterns: the parts of a line in their order. `^` at the start of the first part and `$` at the end of the last one
/// anchor to the line. The first match counts.
static SIGNS: &[(Option<LineMeaning>, &[&str])] = &[
    // False matches.
    (None, &["rror", "(ignored)"]),
    // A fatal check has its error in place of the result.
    (Some(Certain(Configure)), &["^checking ", "configure: error: "]),
    (None, &["^checking "]),
    (None, &["^pkg_add: Warning: "]),
    (None, &["^ERROR: ***"]),
    // Reports of failed commands.
    (Some(Failure), &["make", ": *** [", "] Error "]),
    (Some(Failure), &["make", ": *** [", "] Segmentation fault"]),
    (Some(Failure), &["make", ": *** [", "] Killed"]),
    (Some(Failure), &["^*** Error code "]),
    (Some(Failure), &["^*** [", "] Error code "]),
    (Some(Failure), &["^*** Signal "]),
    (Some(Failure), &["make: stopped in "]),
    (Some(Failure), &["make[", "]: stopped in "]),
    (Some(Failure), &["ninja: build stopped: "]),
    (Some(Failure), &["^FAILED: "]),
    (Some(Failure), &["collect2: error: ld returned "]),
    (Some(Failure), &["linker command failed with exit code "]),
    (Some(Failure), &["all warnings being treated as errors$"]),
    (Some(Failure), &["^error: could not compile "]),
    (Some(Failure), &["^error: aborting due to "]),
    (Some(Failure), &["Configuring incomplete, errors occurred"]),
    (Some(Failure), &["package addition", "failed$"]),
    // Checksums, files and patches.
    (Some(Certain(Checksum)), &["hecksum ", "mismatch"]),
    (Some(Certain(Checksum)), &["No checksum recorded for "]),
    (Some(Certain(Checksum)), &["o checksum file"]),
    (Some(Certain(Fetch)), &["Could not fetch the following file"]),
    (Some(Certain(Fetch)), &["nable to fetch "]),
    (Some(Certain(Fetch)), &["ailed to fetch "]),
    (Some(Certain(Patch)), &["hunk", " FAILED"]),
    (Some(Certain(Patch)), &["Hunk #", " FAILED"]),
    (Some(Certain(Patch)), &["^ERROR: Patch "]),
    (Some(Certain(Patch)), &["can't find file to patch"]),
    // Linkers, before compilers with similar messages.
    (Some(Certain(Linker)), &["undefined reference to "]),
    (Some(Certain(Linker)), &["cannot find -l"]),
    (Some(Certain(Linker)), &["multiple definition of "]),
    (Some(Certain(Linker)), &["undefined symbol"]),
    (Some(Certain(Linker)), &["DSO missing from command line"]),
    (Some(Certain(Linker)), &["relocation ", "can not be used when making "]),
    (Some(Certain(Linker)), &["ld: error: "]),
    (Some(Certain(Linker)), &["ld.lld: error: "]),
    (Some(Certain(Linker)), &["library not found for -l"]),
    (Some(Certain(Linker)), &["ymbol(s) not found"]),
    (Some(Certain(Linker)), &["file not recognized"]),
    // Configure scripts.
    (Some(Certain(Configure)), &["configure: error: "]),
    (Some(Certain(Configure)), &["^CMake Error"]),
    (Some(Certain(Configure)), &["meson.build:", ": ERROR: "]),
    (Some(Certain(Configure)), &["^No package '", "' found$"]),
    (Some(Certain(Configure)), &["not found in the pkg-config search path"]),
    // pkgsrc itself, and its tools.
    (Some(Certain(Pkgsrc)), &["^ERROR: "]),
    (Some(Certain(Package)), &["^pkg_add: "]),
    (Some(Certain(Package)), &["^pkg_create: "]),
    (Some(Certain(Package)), &["^pkg_delete: "]),
    // Crashes, before compilers that report them.
    (Some(Certain(Crash)), &["internal compiler error"]),
    (Some(Certain(Crash)), &["No space left on device"]),
    (Some(Certain(Crash)), &["Cannot allocate memory"]),
    (Some(Certain(Crash)), &["virtual memory exhausted"]),
    (Some(Certain(Crash)), &["out of memory"]),
    (Some(Certain(Crash)), &["Segmentation fault"]),
    (Some(Certain(Crash)), &["Bus error"]),
    (Some(Certain(Crash)), &["Illegal instruction"]),
    (Some(Certain(Crash)), &["^Killed$"]),
    (Some(Certain(Crash)), &["ssertion ", "failed"]),
    (Some(Certain(Crash)), &["panicked at "]),
    // make and ninja, about their files.
    (Some(Certain(Make)), &["make", ": *** "]),
    (Some(Certain(Make)), &["don't know how to make "]),
    (Some(Certain(Make)), &["make: \"", "\" line "]),
    (Some(Certain(Make)), &["ninja: error: "]),
    (Some(Certain(Make)), &["ninja: fatal: "]),
    // Compilers and interpreters.
    (Some(Certain(Compiler)), &[": error:"]),
    (Some(Certain(Compiler)), &[": fatal error:"]),
    (Some(Certain(Compiler)), &["^error: "]),
    (Some(Certain(Compiler)), &["^error["]),
    (Some(Certain(Compiler)), &["^Error: "]),
    (Some(Certain(Compiler)), &["^Fatal Error: "]),
    (Some(Certain(Compiler)), &[": Error: "]),
    (Some(Certain(Compiler)), &["syntax error"]),
    (Some(Certain(Compiler)), &[": error TS"]),
    (Some(Certain(Script)), &["Can't locate ", " in @INC"]),
    (Some(Certain(Script)), &["^BEGIN failed--compilation aborted"]),
    (Some(Certain(Missing)), &["command not found$"]),
    (Some(Likely(Missing)), &[": not found$"]),
    (Some(Likely(Missing)), &["No such file or directory"]),
    (Some(Likely(Missing)), &["ermission denied"]),
    (Some(Likely(Missing)), &["peration not permitted"]),
    (Some(Likely(Missing)), &["ead-only file system"]),
    (Some(Likely(Missing)), &["cannot stat "]),
    (Some(Likely(Missing)), &["cannot open "]),
    (Some(Likely(Missing)), &["is not there$"]),
    (Some(Likely(Fetch)), &["ould not resolve host"]),
    (Some(Likely(Fetch)), &["etwork is unreachable"]),
    (Some(Likely(Fetch)), &["failure in name resolution"]),
    (Some(Likely(Script)), &["rror: "]),
    (Some(Likely(Missing)), &["annot find "]),
    (Some(Likely(Missing)), &[" not found"]),
];

/// Matches a line; `None` without an error.
pub(super) fn sign(line: &[u8]) -> Option<LineMeaning> {
    if is_exception(line) {
        return Some(Certain(Script));
    }
    if is_go(line) {
        return Some(Certain(Compiler));
    }
    let sign = SIGNS.iter().find(|(_, parts)| has(line, parts)).and_then(|&(sign, _)| sign)?;
    Some(match sign {
        Certain(kind) | Likely(kind) if is_warning(line) => LineMeaning::Warning(kind),
        sign => sign,
    })
}

/// Whether the line is marked as a warning before any error.
fn is_warning(line: &[u8]) -> bool {
    let marks = ["warning: ", "Warning: ", "WARNING: ", "CMake Warning"];
    let first = marks.iter().filter_map(|mark| memchr::memmem::find(line, mark.as_bytes())).min();
    first.is_some_and(|at| memchr::memmem::find(&line[..at], b"rror: ").is_none())
}

/// Whether the parts are in the line in this order.
fn has(line: &[u8], parts: &[&str]) -> bool {
    let mut at = 0;
    parts.iter().enumerate().all(|(number, part)| {
        let (is_first, is_last) = (number == 0, number + 1 == parts.len());
        let found = match (part.strip_prefix('^'), part.strip_suffix('$')) {
            (Some(part), _) if is_first => head(line, part),
            (_, Some(part)) if is_last => line[at..].ends_with(part.as_bytes()).then_some(line.len()),
            _ => memchr::memmem::find(&line[at..], part.as_bytes()).map(|place| at + place + part.len()),
        };
        at = found.unwrap_or(at);
        found.is_some()
    })
}

/// The end of a part at the start of the line, or of the whole line.
fn head(line: &[u8], part: &str) -> Option<usize> {
    match part.strip_suffix('$') {
        Some(whole) => (line == whole.as_bytes()).then_some(line.len()),
        None => line.starts_with(part.as_bytes()).then_some(part.len()),
    }
}

/// Exceptions of Python and others: `package.SomeError: why`.
fn is_exception(line: &[u8]) -> bool {
    let Some(at) = memchr::memmem::find(line, b"Error: ") else { return false };
    let name = &line[..at];
    name.first().is_some_and(u8::is_ascii_alphabetic)
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._".contains(byte))
}

/// Errors of Go's compiler: `dir/file.go:12:3: why`, without a word such as error.
fn is_go(line: &[u8]) -> bool {
    let Some(at) = memchr::memmem::find(line, b".go:") else { return false };
    let mut numbers = line[at + 4..].splitn(3, |&byte| byte == b':');
    let is_number = |part: Option<&[u8]>| part.is_some_and(|it| !it.is_empty() && it.iter().all(u8::is_ascii_digit));
    is_number(numbers.next())
        && is_number(numbers.next())
        && numbers.next().is_some_and(|rest| rest.starts_with(b" "))
        && !line[..at].contains(&b' ')
}
