//! Searches sources for constructs that restrict caching.

use std::sync::Arc;

use memchr::memmem;

use crate::places::{Hidden, Places};

use super::directives::{may_have_code, may_set_its_name};
use super::macros::{IncludedNames, included_names};

/// Constructs in a file that restrict caching of compiles that read it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FileTraits {
    /// It has gcc's `#pragma GCC dependency`, which compares the times of files.
    pub(crate) compares_times: bool,
    /// It has the path of the checkout, may make it from several macros to include a file, or may give itself a name in another
    /// checkout, where prefix maps change it.
    pub(crate) may_name_root: bool,
    /// The same for the working directory.
    pub(crate) may_name_directory: bool,
    /// It may put its own name into the object.
    pub(crate) may_name_itself: bool,
    /// Macros whose values are the names of files that it includes.
    pub(crate) included_macros: Arc<[Box<[u8]>]>,
}

impl FileTraits {
    pub(super) fn worst() -> FileTraits {
        FileTraits {
            compares_times: true,
            may_name_root: true,
            may_name_directory: true,
            may_name_itself: true,
            included_macros: Arc::default(),
        }
    }

    pub(super) fn of(content: &[u8], places: &Places) -> FileTraits {
        // A precompiled header has no directives any more.
        let is_text = !(content.starts_with(PRECOMPILED) && content[..content.len().min(TEXT_BYTES)].contains(&0));
        let (computes_names, included_macros) = match included_names(content) {
            _ if !is_text => (false, Vec::new()),
            IncludedNames::Computed => (true, Vec::new()),
            IncludedNames::OfMacros(macros) => (false, macros),
        };
        let sets_names = computes_names || is_text && may_set_its_name(content);
        let has = |hidden| sets_names || places.only(hidden).are_in(content);
        FileTraits {
            compares_times: is_text && compares_times(content),
            may_name_root: has(Hidden::Root),
            may_name_directory: has(Hidden::Directory),
            may_name_itself: may_have_code(content),
            included_macros: included_macros.into(),
        }
    }
}

/// The beginning of gcc's precompiled headers.
const PRECOMPILED: &[u8] = b"gpch";

/// They have NUL bytes before this place.
const TEXT_BYTES: usize = 256;

fn compares_times(mut rest: &[u8]) -> bool {
    while let Some(at) = memmem::find(rest, b"GCC") {
        rest = &rest[at + 1..];
        if memmem::find(&rest[..end_of_line(rest)], b"depend").is_some() {
            return true;
        }
    }
    false
}

/// The end of a line, which can have several parts.
fn end_of_line(text: &[u8]) -> usize {
    let is_end = |&(at, &byte): &(usize, &u8)| byte == b'\n' && !text[..at].ends_with(b"\\");
    text.iter().enumerate().find(is_end).map_or(text.len(), |(at, _)| at)
}

/// Returns whether there is nothing but blanks and comments between the last end of a line and the end of a text.
pub(super) fn begins_line(text: &[u8]) -> bool {
    let line = text.rsplit(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii();
    let begins_comment = line.len() > 1 && line.iter().all(|&byte| byte == b'/');
    // The end of a comment can be in two lines, and a byte order mark at the beginning.
    line.is_empty() || line.ends_with(b"/") && !begins_comment || line == b"\xef\xbb\xbf"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_of_files_can_forbid_to_cache() {
        let places = Places::new("/a/b", "/a/b/build");
        for (text, compares_times, may_name_root) in [
            ("#pragma GCC dependency \"x\"", true, false),
            ("_Pragma(\"GCC   dependency x\")", true, false),
            ("#pragma GCC /* */ dependency", true, false),
            ("#pragma GCC \\\n  dependency", true, false),
            ("// a dependency of GCC", false, false),
            ("GCC\ndependency", false, false),
            ("#include \"/a/b/c.h\"", false, true),
            ("#include \"c.h\"\n # include_next\t<d.h>\n#import <e>", false, false),
            ("#include NAME", false, false),
            ("%: include_next NAME(x)", false, true),
            ("#embed NAME", false, false),
            ("// to include this\n", false, false),
            (" * You should @c \\#include this file.\n", false, false),
            ("/* */ #include NAME", false, false),
            ("x\n\t#\tinclude NAME", false, false),
            ("asm(\".incbin \\\"\" NAME);", false, true),
            ("gpch\0 GCC depend #include NAME", false, false),
            ("\0\n#include NAME", false, false),
            ("", false, false),
        ] {
            let traits = FileTraits::of(text.as_bytes(), &places);
            assert_eq!((traits.compares_times, traits.may_name_root), (compares_times, may_name_root), "{text}");
        }
        for (text, may_name_root, may_name_directory) in
            [("/a/b/x", true, false), ("/a/b/build", true, true), ("#include X(Y)", true, true), ("/a", false, false)]
        {
            let traits = FileTraits::of(text.as_bytes(), &places);
            let found = (traits.may_name_root, traits.may_name_directory);
            assert_eq!(found, (may_name_root, may_name_directory), "{text}");
        }
    }
}
