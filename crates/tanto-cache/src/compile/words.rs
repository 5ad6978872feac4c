//! Reads the words of a compile.

use super::language::Language;
use super::options::{self, Meaning};
use super::paths::{MapKind, Paths, PrefixMap};
use super::program::Family;
use super::refusal::{Refusal, text};
use super::{Compile, passed_on};

/// The role of an option's value.
#[derive(Debug, Clone, Copy)]
enum Role {
    Output,
    Language,
    Depfile,
    /// A path or a name that a prefix map changes wherever the object holds it.
    Mapped,
    /// A directory of system headers.
    SystemHeaders,
    /// Anything else.
    Verbatim,
    /// A list of files for which code differs.
    FileList,
    DebugDirectory,
    /// Of the form `name=number`.
    Parameter,
    Map(MapKind),
}

/// Where the value of an option is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// In the next word.
    Next,
    /// In the same word.
    Joined,
    Either,
}

const VALUED: [(&str, Form, Role); 38] = [
    ("-o", Form::Next, Role::Output),
    ("-x", Form::Either, Role::Language),
    ("-MF", Form::Either, Role::Depfile),
    ("-MT", Form::Either, Role::Mapped),
    ("-MQ", Form::Either, Role::Mapped),
    ("-I", Form::Either, Role::Mapped),
    ("-iquote", Form::Either, Role::Mapped),
    ("-include", Form::Next, Role::Mapped),
    ("-imacros", Form::Next, Role::Mapped),
    ("-isystem", Form::Either, Role::SystemHeaders),
    ("-idirafter", Form::Either, Role::SystemHeaders),
    ("-cxx-isystem", Form::Next, Role::SystemHeaders),
    ("-stdlib++-isystem", Form::Next, Role::SystemHeaders),
    ("-D", Form::Either, Role::Verbatim),
    ("-U", Form::Either, Role::Verbatim),
    ("-B", Form::Either, Role::Verbatim),
    ("-L", Form::Either, Role::Verbatim),
    ("-l", Form::Joined, Role::Verbatim),
    ("-Wl,", Form::Joined, Role::Verbatim),
    ("-isysroot", Form::Next, Role::Verbatim),
    ("--sysroot", Form::Next, Role::Verbatim),
    ("--sysroot=", Form::Joined, Role::Verbatim),
    ("-target", Form::Next, Role::Verbatim),
    ("--gcc-toolchain=", Form::Joined, Role::Verbatim),
    ("-fcrash-diagnostics-dir=", Form::Joined, Role::Verbatim),
    ("-fsanitize-ignorelist=", Form::Joined, Role::FileList),
    ("-fsanitize-blacklist=", Form::Joined, Role::FileList),
    ("-fdebug-compilation-dir", Form::Next, Role::DebugDirectory),
    ("-fdebug-compilation-dir=", Form::Joined, Role::DebugDirectory),
    ("-ffile-compilation-dir=", Form::Joined, Role::DebugDirectory),
    ("-fcoverage-compilation-dir=", Form::Joined, Role::Verbatim),
    ("--param", Form::Next, Role::Parameter),
    ("--param=", Form::Joined, Role::Parameter),
    ("-ffile-prefix-map=", Form::Joined, Role::Map(MapKind::All)),
    ("-fdebug-prefix-map=", Form::Joined, Role::Map(MapKind::Debug)),
    ("-fmacro-prefix-map=", Form::Joined, Role::Map(MapKind::Macro)),
    ("-fcoverage-prefix-map=", Form::Joined, Role::Map(MapKind::Coverage)),
    ("-fprofile-prefix-map=", Form::Joined, Role::Map(MapKind::Profile)),
];

/// Words that use each option that this module knows. `{root}` is a directory, `{list}` an empty file in it.
pub(super) const SAMPLES: [&str; 45] = [
    "-MD -MP -MT target -MQ quoted -MF other.d",
    "-MMD",
    "-MD",
    "-x c",
    "-x none",
    "-I {root} -I{root}",
    "-iquote {root} -iquote{root}",
    "-include {root}/list",
    "-imacros {root}/list",
    "-isystem {root} -isystem{root}",
    "-idirafter {root} -idirafter{root}",
    "-cxx-isystem {root}",
    "-stdlib++-isystem {root}",
    "-D A -DB=2 -U A -UB",
    "-B {root} -B{root}",
    "-L {root} -L{root} -lm -Wl,--as-needed,-z,now",
    "-isysroot /",
    "--sysroot / --sysroot=/",
    "-target x86_64-linux-gnu",
    "--gcc-toolchain=/usr -fcrash-diagnostics-dir={root}",
    "-fsanitize=address -fsanitize-ignorelist={root}/list",
    "-fsanitize=address -fsanitize-blacklist={root}/list",
    "-g -fdebug-compilation-dir .",
    "-g -fdebug-compilation-dir=.",
    "-g -ffile-compilation-dir=.",
    "-g -fcoverage-compilation-dir=.",
    "--param ssp-buffer-size=4",
    "--param=ssp-buffer-size=4",
    "-ffile-prefix-map={root}=NEW",
    "-g -ffile-prefix-map={root}=NEW",
    "-g3 -O2 -ffile-prefix-map={root}=NEW",
    "-g -gdwarf-4 -gz -ffile-prefix-map={root}=NEW",
    "-g -fdebug-prefix-map={root}=NEW -fmacro-prefix-map={root}=NEW",
    "-fcoverage-prefix-map={root}=NEW",
    "-fprofile-prefix-map={root}=NEW",
    "-Wall -Wextra -Wno-unused -Werror=format -Wformat=2 -Wno-error=shadow -W",
    "-Wp,-D_FORTIFY_SOURCE=2 -Wp,-D_GLIBCXX_ASSERTIONS,-UX",
    "-Wp,-MD,other.d",
    "-Wp,-MMD,other.d",
    "-Wa,--noexecstack -Wa,--compress-debug-sections",
    "-g -Wa,--compress-debug-sections=zlib,--noexecstack -ffile-prefix-map={root}=NEW",
    "-Wa,-mrelax-relocations=no",
    "-Wa,--fatal-warnings",
    "-g -flto -fdebug-prefix-map={root}=NEW",
    "-g -g0",
];

#[derive(Debug, Default)]
pub(super) struct Read<'a> {
    compiles: bool,
    sources: Vec<(&'a [u8], Option<Language>)>,
    language: Option<Language>,
    output: Option<&'a [u8]>,
    writes_depfile: bool,
    depfile: Option<&'a [u8]>,
    /// The depfile that -Wp,-MD names.
    preprocessor_depfile: Option<&'a [u8]>,
    emits_debug_info: bool,
    is_native: bool,
    is_for_lto: bool,
    prefix_maps: Vec<PrefixMap<'a>>,
    debug_directory: Option<&'a [u8]>,
    paths: Paths<'a>,
}

/// Reads all words but the first.
pub(super) fn read<'a>(words: &[&'a [u8]]) -> Result<Read<'a>, Refusal> {
    let mut read = Read::default();
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        read.word(word, &mut words)?;
    }
    Ok(read)
}

impl<'a> Read<'a> {
    fn word(&mut self, word: &'a [u8], rest: &mut impl Iterator<Item = &'a [u8]>) -> Result<(), Refusal> {
        match word {
            b"" => Err(Refusal::EmptyWord),
            b"-" => Err(Refusal::StandardInput),
            b"-S" | b"-E" | b"-M" | b"-MM" => Err(Refusal::StandardOutput),
            [b'-', ..] => self.option(word, rest),
            _ => {
                self.sources.push((word, self.language));
                Ok(())
            }
        }
    }

    fn option(&mut self, word: &'a [u8], rest: &mut impl Iterator<Item = &'a [u8]>) -> Result<(), Refusal> {
        match word {
            b"-c" => self.compiles = true,
            b"-MD" | b"-MMD" => self.writes_depfile = true,
            b"-MP" => {}
            _ if word.starts_with(b"-Wp,") => self.for_preprocessor(word)?,
            _ if word.starts_with(b"-Wa,") => passed_on::check_assembler(word)?,
            _ if is_warning(word) => {}
            _ => match options::find(word) {
                Some(meaning) => self.listed(word, meaning),
                None => self.valued(word, rest)?,
            },
        }
        Ok(())
    }

    fn listed(&mut self, word: &[u8], meaning: Meaning) {
        match meaning {
            Meaning::Plain => {}
            Meaning::Debug => self.emits_debug_info = true,
            Meaning::NoDebug => self.emits_debug_info = false,
            Meaning::Verbatim => self.paths.are_verbatim = true,
        }
        self.is_native |= is_native(word);
        self.is_for_lto |= word.starts_with(b"-flto");
        self.paths.wrap_messages |= word.starts_with(b"-fmessage-length=") && word != b"-fmessage-length=0";
        match word {
            b"-fno-canonical-system-headers" => self.paths.keeps_system_headers = true,
            b"-fcanonical-system-headers" => self.paths.keeps_system_headers = false,
            _ => {}
        }
    }

    fn for_preprocessor(&mut self, word: &'a [u8]) -> Result<(), Refusal> {
        self.paths.verbatim.push(word);
        let Some(depfile) = passed_on::preprocessor_depfile(word)? else { return Ok(()) };
        match self.preprocessor_depfile.replace(depfile) {
            None => Ok(()),
            Some(_) => Err(Refusal::Option(text(word))),
        }
    }

    fn valued(&mut self, word: &'a [u8], rest: &mut impl Iterator<Item = &'a [u8]>) -> Result<(), Refusal> {
        let unknown = || Refusal::Option(text(word));
        let next = VALUED.iter().find(|(name, form, _)| *form != Form::Joined && name.as_bytes() == word);
        if let Some(&(_, _, role)) = next {
            let value = rest.next().ok_or_else(|| Refusal::MissingValue(text(word)))?;
            return if value.is_empty() { Err(Refusal::EmptyWord) } else { self.value(role, value, value) };
        }
        let joined = |(name, form, _): &&(&str, Form, Role)| *form != Form::Next && word.starts_with(name.as_bytes());
        let &(name, _, role) = VALUED.iter().filter(joined).max_by_key(|(name, ..)| name.len()).ok_or_else(unknown)?;
        match &word[name.len()..] {
            [] | [b'-', ..] if !name.ends_with(',') => Err(unknown()),
            value => self.value(role, value, word),
        }
    }

    /// `word` is for reports.
    fn value(&mut self, role: Role, value: &'a [u8], word: &'a [u8]) -> Result<(), Refusal> {
        match role {
            Role::Output if self.output.is_some() => return Err(Refusal::SeveralOutputs),
            Role::Output => self.output = Some(value),
            Role::Language => self.language = Language::of_option(value)?,
            Role::Depfile => self.depfile = Some(value),
            Role::Mapped => self.paths.mapped.push(value),
            Role::SystemHeaders => self.paths.system_headers.push(value),
            Role::Verbatim => self.paths.verbatim.push(value),
            Role::FileList => {
                self.paths.are_verbatim = true;
                self.paths.verbatim.push(value);
            }
            Role::DebugDirectory => {
                self.paths.verbatim.push(value);
                self.debug_directory = Some(value);
            }
            Role::Parameter if !is_parameter(value) => return Err(Refusal::Option(text(word))),
            Role::Parameter => {}
            Role::Map(kind) => {
                let map = PrefixMap::parse(kind, value).ok_or_else(|| Refusal::Option(text(word)))?;
                self.prefix_maps.push(map);
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self, program: &'a [u8], family: Family) -> Result<Compile<'a>, Refusal> {
        let (source, language) = self.source()?;
        if language.is_header() && family == Family::Clang {
            return Err(Refusal::ClangHeader);
        }
        let output = written(self.output.ok_or(Refusal::NoOutput)?)?;
        let depfile = self.depfile(language, output)?;
        if language.is_header() && !output.ends_with(b".gch") || depfile.as_deref() == Some(output) {
            return Err(Refusal::SpecialOutput(text(output)));
        }
        self.paths.mapped.extend([source, output]);
        self.paths.mapped.extend(self.depfile);
        self.paths.verbatim.push(program);
        Ok(Compile {
            program,
            family,
            source,
            language,
            output,
            depfile,
            emits_debug_info: self.emits_debug_info,
            is_native: self.is_native,
            is_for_lto: self.is_for_lto,
            prefix_maps: self.prefix_maps,
            debug_directory: self.debug_directory,
            paths: self.paths,
        })
    }

    fn source(&self) -> Result<(&'a [u8], Language), Refusal> {
        let &(source, language) = self.sources.first().ok_or(Refusal::NoSource)?;
        let language = language.map_or_else(|| Language::of_source(source), Ok);
        let is_header = language.as_ref().is_ok_and(|language| language.is_header());
        match self.sources.len() {
            _ if !self.compiles && !is_header => Err(Refusal::Links),
            1 => Ok((source, language?)),
            _ => Err(Refusal::SeveralSources),
        }
    }

    fn depfile(&self, language: Language, output: &[u8]) -> Result<Option<Vec<u8>>, Refusal> {
        let named = match (self.preprocessor_depfile, self.writes_depfile || self.depfile.is_some()) {
            (Some(_), true) => return Err(Refusal::Option("-Wp,-MD".into())),
            (Some(depfile), false) => Some(depfile),
            (None, _) => self.depfile.filter(|_| self.writes_depfile),
        };
        if let Some(depfile) = named {
            written(depfile)?;
        }
        let default = || self.writes_depfile.then(|| default_depfile(output));
        Ok(named.map(<[u8]>::to_vec).or_else(default).filter(|_| language.has_headers()))
    }
}

/// The object's name with the extension `.d`.
fn default_depfile(output: &[u8]) -> Vec<u8> {
    let base = output.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let end = output[base..].iter().rposition(|&byte| byte == b'.').map_or(output.len(), |dot| base + dot);
    [&output[..end], b".d"].concat()
}

fn written(path: &[u8]) -> Result<&[u8], Refusal> {
    let is_special = path == b"-" || path.starts_with(b"/dev/") || path.starts_with(b"/proc/");
    if is_special { Err(Refusal::SpecialOutput(text(path))) } else { Ok(path) }
}

/// `-Wall`, `-Wformat=2`: those with a comma after the first letter are not warnings.
fn is_warning(word: &[u8]) -> bool {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-+".contains(byte);
    let is_value = |byte: &u8| is_name(byte) || b".,:".contains(byte);
    let Some(warning) = word.strip_prefix(b"-W") else { return false };
    let end = warning.iter().position(|&byte| byte == b'=').unwrap_or(warning.len());
    let (name, value) = warning.split_at(end);
    name.iter().all(is_name) && value.iter().skip(1).all(is_value)
}

fn is_native(word: &[u8]) -> bool {
    let names: [&[u8]; 3] = [b"-march=native", b"-mtune=native", b"-mcpu=native"];
    names.iter().any(|name| word.starts_with(name))
}

fn is_parameter(value: &[u8]) -> bool {
    let end = value.iter().position(|&byte| byte == b'=').unwrap_or(0);
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    end > 0 && value[..end].iter().all(is_name) && value[end + 1..].iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    //! Tests of the lists.

    use super::*;

    #[test]
    fn a_sample_uses_each_option() {
        for (name, form, _) in VALUED {
            let is_use = |word: &str| word == name || (form != Form::Next && word.starts_with(name));
            let is_used = SAMPLES.iter().flat_map(|sample| sample.split(' ')).any(is_use);
            assert!(is_used || ["-o", "-l"].contains(&name), "{name}");
        }
    }
}
