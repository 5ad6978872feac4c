//! Languages of sources.

use super::refusal::{Refusal, text};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    C,
    Cxx,
    CHeader,
    CxxHeader,
    /// Output of a preprocessor.
    Preprocessed,
    Assembler,
    AssemblerWithCpp,
}

const BY_OPTION: [(&[u8], Language); 8] = [
    (b"c", Language::C),
    (b"c++", Language::Cxx),
    (b"c-header", Language::CHeader),
    (b"c++-header", Language::CxxHeader),
    (b"cpp-output", Language::Preprocessed),
    (b"c++-cpp-output", Language::Preprocessed),
    (b"assembler", Language::Assembler),
    (b"assembler-with-cpp", Language::AssemblerWithCpp),
];

const BY_EXTENSION: [(&[u8], Language); 17] = [
    (b"c", Language::C),
    (b"cc", Language::Cxx),
    (b"cp", Language::Cxx),
    (b"cpp", Language::Cxx),
    (b"cxx", Language::Cxx),
    (b"c++", Language::Cxx),
    (b"C", Language::Cxx),
    (b"CPP", Language::Cxx),
    (b"i", Language::Preprocessed),
    (b"ii", Language::Preprocessed),
    (b"s", Language::Assembler),
    (b"S", Language::AssemblerWithCpp),
    (b"h", Language::CHeader),
    (b"hh", Language::CxxHeader),
    (b"hpp", Language::CxxHeader),
    (b"hxx", Language::CxxHeader),
    (b"H", Language::CxxHeader),
];

impl Language {
    /// The language that `-x NAME` sets; `none` lets the extensions decide again.
    pub(super) fn of_option(name: &[u8]) -> Result<Option<Language>, Refusal> {
        if name == b"none" {
            return Ok(None);
        }
        let known = BY_OPTION.iter().find(|(known, _)| *known == name);
        known.map(|&(_, language)| Some(language)).ok_or_else(|| Refusal::Option(format!("-x {}", text(name))))
    }

    pub(super) fn of_source(source: &[u8]) -> Result<Language, Refusal> {
        let base = source.rsplit(|&byte| byte == b'/').next().unwrap_or(source);
        let extension = base.iter().rposition(|&byte| byte == b'.').map_or(&b""[..], |dot| &base[dot + 1..]);
        let known = BY_EXTENSION.iter().find(|(known, _)| *known == extension);
        known.map(|&(_, language)| language).ok_or_else(|| Refusal::Language(text(source)))
    }

    /// Whether the result is a precompiled header.
    pub fn is_header(self) -> bool {
        matches!(self, Language::CHeader | Language::CxxHeader)
    }

    pub(super) fn is_assembler(self) -> bool {
        matches!(self, Language::Assembler | Language::AssemblerWithCpp)
    }

    /// Whether compilers write a depfile: not if there is nothing to preprocess.
    pub(super) fn has_headers(self) -> bool {
        !matches!(self, Language::Preprocessed | Language::Assembler)
    }
}
