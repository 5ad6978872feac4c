//! Whether an object depends on the place of the tree that it was compiled in.

use super::{Compile, Family};

/// Which paths a prefix map changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapKind {
    All,
    Debug,
    Macro,
    Profile,
    Coverage,
}

/// An option such as `-ffile-prefix-map=OLD=NEW`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixMap<'a> {
    pub kind: MapKind,
    pub old: &'a [u8],
    pub new: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathDependence {
    /// The same command in another place gives the same object.
    Independent,
    /// The object does not hold the place, unless a file in it puts its own name there.
    UnlessNamed,
    /// The object may hold the place.
    Dependent,
}

/// The words of a compile by how paths in them get into the object.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Paths<'a> {
    /// Paths that prefix maps change.
    pub mapped: Vec<&'a [u8]>,
    pub system_headers: Vec<&'a [u8]>,
    pub verbatim: Vec<&'a [u8]>,
    /// Whether no prefix map is known to change all paths, because of an option.
    pub are_verbatim: bool,
    /// Whether lines of messages are broken where they get too long, which depends on the lengths of paths.
    pub wrap_messages: bool,
    /// Whether gcc keeps the names of system headers as they are.
    pub keeps_system_headers: bool,
}

impl<'a> PrefixMap<'a> {
    /// Compilers disagree on which `=` of several separates the two.
    pub(super) fn parse(kind: MapKind, value: &'a [u8]) -> Option<PrefixMap<'a>> {
        let mut parts = value.split(|&byte| byte == b'=');
        match (parts.next()?, parts.next()?, parts.next()) {
            (old, new, None) if !old.is_empty() => Some(PrefixMap { kind, old, new }),
            _ => None,
        }
    }

    fn is_for(&self, kind: MapKind) -> bool {
        self.kind == MapKind::All || self.kind == kind
    }

    /// Whether the map changes all paths in `root`, and the root itself if it is the working directory.
    fn covers(&self, root: &[u8], cwd: &[u8]) -> bool {
        match self.old.strip_prefix(root) {
            Some(b"") => !(self.new.is_empty() && root == cwd),
            Some(b"/") => root != cwd,
            _ => false,
        }
    }

    /// Whether the map does the same in every other place: it has nothing to do with the root, or is about paths in it.
    fn moves_with(&self, root: &[u8]) -> bool {
        let is_apart = !contains(self.old, root) && !root.starts_with(self.old);
        !contains(self.new, root) && (is_apart || is_in(self.old, root))
    }

    /// Whether the map does the same in another working directory, or is about a directory around it.
    fn may_change_directory(&self, cwd: &[u8]) -> bool {
        !contains(self.new, cwd) && (!contains(self.old, cwd) || is_in(self.old, cwd))
    }
}

impl Compile<'_> {
    /// Whether an equal command for a tree elsewhere gives the same object: `root`, in all words, and the working directory `cwd`
    /// in it, are replaced by another absolute path. The answer holds only if it is the same for the other root.
    ///
    /// This is about the object: depfiles and messages do hold the paths. Both roots must be real paths, which the variable PWD
    /// does not contradict, and no file that the compiler reads may be in a directory whose path merely begins like the root, as
    /// `/src2/a.h` does for `/src`: prefix maps change it, too.
    pub fn path_dependence(&self, root: &[u8], cwd: &[u8]) -> PathDependence {
        let is_root = root.len() > 1 && root.starts_with(b"/") && !root.ends_with(b"/") && is_in(cwd, root);
        if is_root && self.is_reproducible() && !self.may_shorten_system_headers(root) && self.is_movable(root, cwd) {
            PathDependence::Independent
        } else {
            PathDependence::Dependent
        }
    }

    /// Whether an equal command with another working directory gives the same object: `cwd`, in all words, is replaced by another
    /// absolute path, and relative paths mean files in that directory. The conditions are those of `path_dependence`.
    pub fn directory_dependence(&self, cwd: &[u8]) -> PathDependence {
        let is_place = cwd.len() > 1 && cwd.starts_with(b"/") && !cwd.ends_with(b"/");
        let is_named = self.mapped().any(|path| contains(path, cwd));
        let may_move = is_place
            && self.is_reproducible()
            && !self.may_shorten_system_headers(cwd)
            && !self.keeps_root(cwd, is_named)
            && self.mapped().all(|path| !contains(path, cwd) || is_in(path, cwd))
            && self.prefix_maps.iter().all(|map| map.may_change_directory(cwd));
        let is_recorded = self.emits_debug_info && (is_named || self.debug_directory.is_none());
        match may_move && (!is_recorded || self.maps_directory(MapKind::Debug, cwd)) {
            true if is_named && !self.maps_directory(MapKind::Macro, cwd) => PathDependence::UnlessNamed,
            true => PathDependence::Independent,
            false => PathDependence::Dependent,
        }
    }

    /// Whether the map of the working directory is the one of several that changes it. In gcc, and for debug information in
    /// clang 19, the last map wins; in clang otherwise the longest one.
    fn maps_directory(&self, kind: MapKind, cwd: &[u8]) -> bool {
        let last = self.prefix_maps.iter().rfind(|map| map.is_for(kind) && cwd.starts_with(map.old));
        last.is_some_and(|map| map.covers(cwd, cwd))
    }

    /// Whether lengths of paths do not matter, and two runs give the same. Precompiled headers differ from run to run, as do gcc's objects for LTO. The assembler of clang 14 applies no prefix map to
    /// the working directory.
    fn is_reproducible(&self) -> bool {
        let is_known_assembler = self.family == Family::Gcc || !self.language.is_assembler();
        !self.language.is_header()
            && !self.paths.wrap_messages
            && (!self.is_for_lto || self.family == Family::Clang)
            && (!self.emits_debug_info || is_known_assembler)
    }

    /// Gcc uses the real path of a system header if that is shorter than its name, so that the length of the root matters: for
    /// relative names, and for links to places out of the tree.
    fn may_shorten_system_headers(&self, root: &[u8]) -> bool {
        let is_elsewhere = |path: &&[u8]| path.starts_with(b"/") && !contains(path, root);
        self.family != Family::Clang
            && !self.paths.keeps_system_headers
            && !self.paths.system_headers.iter().all(is_elsewhere)
    }

    fn is_movable(&self, root: &[u8], cwd: &[u8]) -> bool {
        let covers = |kind| self.prefix_maps.iter().any(|map| map.is_for(kind) && map.covers(root, cwd));
        let names_cwd = self.emits_debug_info && self.debug_directory.is_none();
        let names_root = self.mapped().any(|path| contains(path, root));
        let needs_debug_map = names_cwd || (names_root && self.emits_debug_info);
        !self.keeps_root(root, names_root)
            && self.mapped().all(|path| !contains(path, root) || is_in(path, root))
            && self.prefix_maps.iter().all(|map| map.moves_with(root))
            && (!names_root || covers(MapKind::Macro))
            && (!needs_debug_map || covers(MapKind::Debug))
    }

    /// Whether the object may hold the root from the words, whatever the prefix maps are.
    fn keeps_root(&self, root: &[u8], names_root: bool) -> bool {
        let maps_root = self.prefix_maps.iter().any(|map| contains(map.old, root));
        let is_in_other_word = self.paths.verbatim.iter().any(|word| contains(word, root));
        is_in_other_word || (self.paths.are_verbatim && (names_root || maps_root)) || (self.is_for_lto && names_root)
    }

    fn mapped(&self) -> impl Iterator<Item = &[u8]> {
        self.paths.mapped.iter().chain(&self.paths.system_headers).copied()
    }
}

/// Whether a path is `root` or in it. Prefix maps also match `/root2` for `/root`.
fn is_in(path: &[u8], root: &[u8]) -> bool {
    let Some(rest) = path.strip_prefix(root) else { return false };
    (rest.is_empty() || rest.starts_with(b"/")) && !contains(rest, root)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
