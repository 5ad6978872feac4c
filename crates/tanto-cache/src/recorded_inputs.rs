//! Converts the record of a run into a list of inputs, or rejects it with a reason.

use std::collections::BTreeSet;
use std::fs;

use memchr::memmem;
use tanto_cas::ContentDigest;
use tanto_exec::input_recorder::input_list::{Input, InputList};
use tanto_sys::fs::file;
use tanto_sys::fs::fingerprint::Trust;
use tanto_sys::fs::stat::FileKind;

use crate::action::{Action, ActionKind, CompileFiles, Surroundings};
use crate::compile;
use crate::observer::{Aspect, FileTraits, Observer, Seen, Sighting};
use crate::variables;
use crate::ways::Ways;

/// Why a result is not stored.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum NotStored {
    #[error("its inputs are not all known: {0}")]
    Incomplete(&'static str),
    #[error("{0}")]
    Obstacle(String),
    #[error("it asked for the date or the time")]
    Calendar,
    #[error("it wrote {}, which is not declared", String::from_utf8_lossy(.0))]
    Wrote(Vec<u8>),
    #[error("it could not open {}", String::from_utf8_lossy(.0))]
    Failed(Vec<u8>),
    #[error("{} changed while it ran", String::from_utf8_lossy(.0))]
    Changed(Vec<u8>),
    #[error("{} cannot be compared", String::from_utf8_lossy(.0))]
    Unknown(Vec<u8>),
    #[error("its program is a script")]
    Script,
    #[error("another process than the compiler reads its source or writes its output")]
    Elsewhere,
    #[error("it runs {}, which is no compiler", String::from_utf8_lossy(.0))]
    OtherProgram(Vec<u8>),
    #[error("its output depends on the path of the checkout or of the build directory")]
    DependsOnPlace,
    #[error("the cache cannot be written: {0}")]
    Io(String),
    #[error("its output is missing, or is no regular file")]
    Output,
    #[error("its output is longer than 1 GiB")]
    OutputTooLong,
    #[error("it did not write all of its outputs")]
    NotWritten,
    #[error("its output has other permissions than a new file")]
    Permissions,
    #[error("clang compares the times of precompiled headers")]
    PrecompiledHeader,
    #[error("{} compares the times of files", String::from_utf8_lossy(.0))]
    ComparesTimes(Vec<u8>),
    #[error("its output text or its depfile has a control character")]
    ControlCharacter,
    #[error("its output text is too long")]
    TooMuchText,
}

/// A run whose inputs are examined.
pub(crate) struct Run<'r> {
    pub(crate) action: &'r Action,
    pub(crate) around: &'r Surroundings,
    /// The clock of file systems before the command started.
    pub(crate) began: i64,
    pub(crate) has_printed: bool,
}

/// The names of inputs, with whole paths.
pub(crate) type Names = BTreeSet<(Aspect, Vec<u8>)>;

impl Run<'_> {
    /// Returns the inputs of the run. They were the same before it and after it.
    pub(crate) fn inputs(&self, list: &InputList, observer: &mut Observer) -> Result<Names, NotStored> {
        if let Some(obstacle) = list.obstacle() {
            return Err(NotStored::Obstacle(obstacle.to_string()));
        }
        if let Some(missing) = list.missing() {
            return Err(NotStored::Incomplete(missing));
        }
        observer.distrust_all();
        let mut names = Names::new();
        let own = self.own_files(list)?;
        let mut ways = Ways::new(self.began, &self.around.cwd);
        for input in list.inputs() {
            self.add(input, list, &own, &mut names, observer, &mut ways)?;
        }
        if self.action.is_traced() && !self.has_written_all(list) {
            return Err(NotStored::NotWritten);
        }
        if let ActionKind::Compile(compile) = &self.action.kind {
            self.add_program(compile, list, &mut names, observer)?;
            self.check_included_macros(compile, list, observer)?;
        }
        Ok(names)
    }

    /// Rejects files that may include others by paths that are made of several macros: they are the same in another checkout.
    fn check_included_macros(
        &self,
        compile: &CompileFiles,
        list: &InputList,
        observer: &mut Observer,
    ) -> Result<(), NotStored> {
        if self.action.places.are_none() {
            return Ok(());
        }
        let mut files: Vec<(&[u8], ContentDigest)> = Vec::new();
        let mut macros = BTreeSet::new();
        for input in list.inputs() {
            if let Input::Read(name) = input
                && let Seen::File(file) = &observer.see(Aspect::Content, name).seen
            {
                let digest = file.digest;
                macros.extend(observer.traits_of(name, digest, &self.around.places).included_macros.iter().cloned());
                files.push((name, digest));
            }
        }
        let is_defined = |name: &[u8]| {
            memmem::find(&compile.words, name).is_some()
                || files.iter().any(|(path, digest)| observer.may_define_path(path, *digest, name))
        };
        if macros.iter().map(|name| &**name).any(is_defined) { Err(NotStored::DependsOnPlace) } else { Ok(()) }
    }

    /// Returns whether no output is one of before.
    fn has_written_all(&self, list: &InputList) -> bool {
        let mut outputs = self.action.outputs.iter().chain(&self.action.depfile);
        outputs.all(|output| list.inputs().contains(&Input::Written(self.around.absolute(output))))
    }

    /// The files that the command writes, and those that it wrote and removed.
    fn own_files(&self, list: &InputList) -> Result<BTreeSet<Vec<u8>>, NotStored> {
        let declared = self.action.outputs.iter().chain(&self.action.depfile).chain(self.action.rspfile());
        let mut own: BTreeSet<Vec<u8>> = declared.map(|path| self.around.absolute(path)).collect();
        for input in list.inputs() {
            if let Input::Written(path) = input
                && !own.contains(path)
                && path != b"/dev/null"
            {
                if fs::symlink_metadata(file::path(path)).is_ok() {
                    return Err(NotStored::Wrote(path.clone()));
                }
                own.insert(path.clone());
            }
        }
        Ok(own)
    }

    fn add(
        &self,
        input: &Input,
        list: &InputList,
        own: &BTreeSet<Vec<u8>>,
        names: &mut Names,
        observer: &mut Observer,
        ways: &mut Ways<'_>,
    ) -> Result<(), NotStored> {
        let (aspect, name) = match input {
            Input::Written(_) | Input::OutputAbsent => return Ok(()),
            Input::Calendar => return Err(NotStored::Calendar),
            Input::Variable(name, value) => return self.add_variable(name, value.as_deref(), names, observer),
            Input::Failed(path, _) if own.contains(path) => return Ok(()),
            Input::Failed(path, _) => return Err(NotStored::Failed(path.clone())),
            Input::Program(path) | Input::Library(path) | Input::Read(path) | Input::Directory(path) => {
                (Aspect::Content, path)
            }
            Input::Exists(path) | Input::Absent(path) => (Aspect::Presence, path),
            Input::Link(path, _) => (Aspect::Link, path),
            Input::Resolved(path, _) => (Aspect::Resolved, path),
            Input::Permissions(path, _) => (Aspect::Permissions, path),
        };
        let is_temporary = self.around.is_temporary_dir(name) && !matches!(input, Input::Directory(_));
        if own.contains(name) || is_temporary || is_about_itself(name) {
            return Ok(());
        }
        if self.action.places.are_like(name) || self.leads_into_directory(input) {
            return Err(NotStored::DependsOnPlace);
        }
        let sighting = observer.see(aspect, name).clone();
        if !self.is_unchanged(input, name, &sighting, ways)? {
            return Err(NotStored::Changed(name.clone()));
        }
        if let ActionKind::Compile(compile) = &self.action.kind {
            self.check_file(compile, input, list, name, &sighting.seen, observer)?;
        }
        names.insert((aspect, name.clone()));
        Ok(())
    }

    /// Rejects files with constructs whose meaning depends on times or places.
    fn check_file(
        &self,
        compile: &CompileFiles,
        input: &Input,
        list: &InputList,
        name: &[u8],
        seen: &Seen,
        observer: &mut Observer,
    ) -> Result<(), NotStored> {
        match (seen, input) {
            (Seen::File(file), Input::Read(_)) => {
                self.check_content(compile, name, &observer.traits_of(name, file.digest, &self.around.places))
            }
            (Seen::Present(stat), Input::Exists(_)) => {
                // Clang reads a file once, but knows it by all of its names.
                let may_be_included =
                    stat.kind == FileKind::File && !list.inputs().contains(&Input::Read(name.to_vec()));
                let is_bad = may_be_included && self.is_checked_for_its_name(compile, name);
                if is_bad { Err(NotStored::DependsOnPlace) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the command has observed the same as this sighting after it.
    fn is_unchanged(
        &self,
        input: &Input,
        name: &[u8],
        Sighting { seen, since, .. }: &Sighting,
        ways: &mut Ways<'_>,
    ) -> Result<bool, NotStored> {
        match (seen, input) {
            (Seen::Unknown, _) => Err(NotStored::Unknown(name.to_vec())),
            (Seen::File(file), _) if file.trust == Trust::Never => Err(NotStored::Unknown(name.to_vec())),
            (Seen::File(file), Input::Read(_) | Input::Program(_) | Input::Library(_)) => {
                Ok(file.trust == Trust::Known && self.is_old(*since, file.stat.ctime, name, ways))
            }
            (Seen::Directory { stat, .. }, Input::Directory(_) | Input::Read(_)) => {
                Ok(stat.ctime < self.began && self.is_old(*since, stat.ctime, name, ways))
            }
            (Seen::Text(now), Input::Link(_, then) | Input::Resolved(_, then) | Input::Permissions(_, then)) => {
                Ok(now == then)
            }
            (Seen::Nothing, Input::Absent(_))
            | (Seen::Present(_), Input::Exists(_))
            | (Seen::Device, Input::Read(_)) => Ok(true),
            _ => Ok(false),
        }
    }

    /// Returns whether a file or directory, and the way to it, have not changed since the command started.
    fn is_old(&self, since: i64, ctime: i64, name: &[u8], ways: &mut Ways<'_>) -> bool {
        let is_old = since < self.began || ctime < self.began && ways.has_old_dirs(name);
        is_old && ways.has_old_links(name)
    }

    fn check_content(&self, compile: &CompileFiles, name: &[u8], traits: &FileTraits) -> Result<(), NotStored> {
        if traits.compares_times {
            return Err(NotStored::ComparesTimes(name.to_vec()));
        }
        let places = &self.action.places;
        let depends_on_place = traits.may_name_root && places.root().is_some()
            || traits.may_name_directory && places.directory().is_some()
            || traits.may_name_itself && self.is_checked_for_its_name(compile, name);
        if depends_on_place { Err(NotStored::DependsOnPlace) } else { Ok(()) }
    }

    /// Returns whether the compiler may know a file by a name in the working directory that is hidden, and that no option replaces.
    fn is_checked_for_its_name(&self, compile: &CompileFiles, name: &[u8]) -> bool {
        compile.forbids_own_names && self.action.places.has_in_directory(name)
    }

    /// Returns whether something elsewhere is in the working directory, which is hidden: a compiler can use its real path.
    fn leads_into_directory(&self, input: &Input) -> bool {
        let is_in_directory = |path: &[u8]| self.action.places.has_in_directory(path);
        match input {
            Input::Link(path, target) | Input::Resolved(path, target) => {
                is_in_directory(target) && !is_in_directory(path)
            }
            Input::Program(path) => is_in_directory(path),
            _ => false,
        }
    }

    /// A variable that is not as the command got it was set by a program of the command for another one.
    fn add_variable(
        &self,
        name: &[u8],
        value: Option<&[u8]>,
        names: &mut Names,
        observer: &mut Observer,
    ) -> Result<(), NotStored> {
        if variables::is_irrelevant(name, self.has_printed) {
            return Ok(());
        }
        let given = match &observer.see(Aspect::Variable, name).seen {
            Seen::Text(text) => Some(text.clone()),
            _ => None,
        };
        if given.as_deref() == value {
            if name != b"PWD" && value.is_some_and(|value| self.action.places.are_in(value)) {
                return Err(NotStored::DependsOnPlace);
            }
            names.insert((Aspect::Variable, name.to_vec()));
        } else if name == b"PWD" {
            return Err(NotStored::Changed(b"the variable PWD".to_vec()));
        }
        Ok(())
    }

    /// The path of the program may be a link: it has to lead to the program that ran.
    fn add_program(
        &self,
        compile: &CompileFiles,
        list: &InputList,
        names: &mut Names,
        observer: &mut Observer,
    ) -> Result<(), NotStored> {
        let path = &compile.program;
        let Seen::Text(real) = &observer.see(Aspect::Resolved, path).seen else {
            return Err(NotStored::Changed(path.clone()));
        };
        if !list.inputs().contains(&Input::Program(real.clone())) {
            return Err(NotStored::Script);
        }
        self.check_programs(compile, list)?;
        let is_clang = file_name(real).windows(5).any(|part| part == b"clang");
        let is_precompiled = |(aspect, name): &(Aspect, Vec<u8>)| {
            *aspect == Aspect::Content && PRECOMPILED.iter().any(|end| name.ends_with(end))
        };
        if is_clang && (compile.is_header || names.iter().any(is_precompiled)) {
            return Err(NotStored::PrecompiledHeader);
        }
        names.insert((Aspect::Resolved, path.clone()));
        Ok(())
    }

    /// The compiler itself reads the source and writes the output, and only compilers and their parts run.
    fn check_programs(&self, compile: &CompileFiles, list: &InputList) -> Result<(), NotStored> {
        let absolute = |path: &[u8]| self.around.absolute(path);
        let has_read = list.inputs().contains(&Input::Read(absolute(&compile.source)));
        let written = self.action.outputs.iter().map(|output| Input::Written(absolute(output)));
        let has_written = written.into_iter().all(|output| list.inputs().contains(&output));
        if !has_read || !has_written {
            return Err(NotStored::Elsewhere);
        }
        for input in list.inputs() {
            if let Input::Program(path) = input
                && !compile::is_tool(file_name(path))
            {
                return Err(NotStored::OtherProgram(path.clone()));
            }
        }
        Ok(())
    }
}

/// Ends of the names of precompiled headers and modules.
const PRECOMPILED: [&[u8]; 3] = [b".gch", b".pch", b".pcm"];

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

/// Names that each process sees in its own way. The programs are inputs anyway.
fn is_about_itself(path: &[u8]) -> bool {
    path == b"/proc/self/exe" || path.starts_with(b"/proc/self/fd/")
}
