//! Computes the mounts of a sandbox's template system.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use tanto_exec::sandbox::{Mount, MountKind};
use tanto_sys::fs::dir_tree;

use super::masks::Masks;
use crate::config::SandboxKind;

/// Directories of the machine itself that are used as a template. Others belong to its users.
const SYSTEM: [&str; 11] = ["bin", "etc", "lib", "lib32", "lib64", "libexec", "libx32", "opt", "sbin", "usr", "var"];
/// Directories that each sandbox replaces.
const OWN: [&str; 5] = ["dev", "proc", "run", "sys", "tmp"];
/// Each sandbox has a layer above it, or a copy without overlay mounts.
const ETC: &str = "etc";
/// Each sandbox has empty directories, or a layer above it.
const VAR: &str = "var";
const VAR_TMP: &str = "var/tmp";
const IN_VAR: [&str; 8] = ["cache", "db", "lib", "log", "mail", "run", "spool", "tmp"];
/// Contains links such as `mail`, which may lead to another of those directories.
const SPOOL: &str = "spool";
const SHARED: u32 = 0o1777;
/// Directories with more entries are mounted as a whole.
const MAX_PARTS: usize = 256;

/// Determines how a template is mounted.
#[derive(Clone, Copy)]
pub(super) struct MountPolicy<'a> {
    pub(super) root: &'a Path,
    /// Unpacked bootstrap kit, above the template.
    pub(super) kit: Option<&'a Path>,
    pub(super) masks: &'a Masks,
    /// The initial `/var`.
    pub(super) var: &'a Path,
    pub(super) kind: SandboxKind,
    /// Root only in a user namespace.
    pub(super) as_user: bool,
    /// Mount points that must exist. A directory that contains them, and nothing of the kit, is mounted read-only if
    /// possible, which is faster than an overlay.
    pub(super) points: &'a [PathBuf],
    /// Those of them with private mounts, which need not exist in the template.
    pub(super) private: &'a [PathBuf],
    pub(super) writable: bool,
    /// Overlay mounts are supported.
    pub(super) overlays: bool,
}

impl MountPolicy<'_> {
    /// Returns the mounts of the template, and those that replace parts of it.
    pub(super) fn mounts(&self) -> io::Result<Vec<Mount>> {
        let within = mounted_below(self.root)?;
        let mut mounts = Vec::new();
        for name in names(self.root)? {
            let (from, at) = (self.root.join(&name), Path::new("/").join(&name));
            let data = fs::symlink_metadata(&from)?;
            if data.is_symlink() {
                mounts.push(Mount { at, kind: MountKind::Symlink(fs::read_link(&from)?) });
            } else if data.is_dir() {
                let inner: Vec<&PathBuf> = within.iter().filter(|path| path.starts_with(&from)).collect();
                // Only root may separate a directory from the mounts in it.
                let may_be_layer = self.overlays && (!self.as_user || inner.is_empty());
                let parts = self.parts(&at, &from);
                let kind = self.directory(&name, &at, from, (may_be_layer, parts.is_some()));
                let is_layer = matches!(kind, MountKind::Overlay(_));
                mounts.extend(self.hidden(&at));
                match (kind, parts) {
                    (MountKind::ReadOnly(_), Some(parts)) => mounts.extend(parts),
                    (kind, _) => mounts.push(Mount { at, kind }),
                }
                if is_layer {
                    mounts.extend(inner.into_iter().filter_map(|path| self.inner(path)));
                }
            }
        }
        mounts.extend(private_mounts(self.root));
        Ok(mounts)
    }

    /// Mounts a directory entry by entry if it contains private mounts: a mount point in the template itself could be removed
    /// outside, which removes the mount. `None`: the directory is mounted as a whole.
    fn parts(&self, at: &Path, from: &Path) -> Option<Vec<Mount>> {
        let mut parts = Vec::new();
        let has_private = self.private.iter().any(|it| it.starts_with(at));
        (has_private && self.add_parts(at, from, &mut parts).is_some()).then_some(parts)
    }

    fn add_parts(&self, at: &Path, from: &Path, parts: &mut Vec<Mount>) -> Option<()> {
        if self.private.iter().any(|it| it == at) {
            // A private mount hides it.
            return Some(());
        }
        if parts.len() == MAX_PARTS || at.to_str().is_none_or(|text| text.contains(['\t', '\n'])) {
            return None;
        }
        let link = fs::read_link(from);
        if !self.private.iter().any(|it| it.starts_with(at)) {
            let kind = link.map_or_else(|_| MountKind::ReadOnlyEntry(from.to_owned()), MountKind::Symlink);
            parts.push(Mount { at: at.to_owned(), kind });
            return Some(());
        }
        if link.is_ok() && !from.canonicalize().is_ok_and(|real| real.starts_with(self.root)) {
            return None;
        }
        for entry in fs::read_dir(from).ok()? {
            let name = entry.ok()?.file_name();
            self.add_parts(&at.join(&name), &from.join(&name), parts)?;
        }
        Some(())
    }

    fn directory(&self, name: &str, at: &Path, from: PathBuf, (may_be_layer, has_parts): (bool, bool)) -> MountKind {
        let kit = self.kit.map(|kit| kit.join(name)).filter(|dir| dir.is_dir());
        let mask = Some(self.masks.layer.join(name)).filter(|dir| dir.is_dir());
        let has_secrets = mask.is_some();
        // Only overlay sandboxes use the template's `/var`.
        let is_own_var = name == VAR && self.kind != SandboxKind::Overlay;
        let layers = || mask.into_iter().chain(kit).chain([from.clone()]).collect();
        let is_complete = self.is_complete(name, at, has_parts);
        match name {
            _ if is_complete && !self.writable && !has_secrets && !is_own_var => MountKind::ReadOnly(from),
            _ if self.kind == SandboxKind::Overlay && may_be_layer => MountKind::Overlay(layers()),
            // Copying it takes longer than all other mounts.
            ETC if may_be_layer => MountKind::Overlay(layers()),
            ETC => MountKind::Copy(layers()),
            VAR => MountKind::Copy(vec![self.var.to_owned()]),
            _ if !is_complete && may_be_layer => MountKind::Overlay(layers()),
            _ => MountKind::ReadOnly(from),
        }
    }

    /// Returns whether this directory of the template can be used as it is. `has_parts`: private mount points can be created.
    fn is_complete(&self, name: &str, at: &Path, has_parts: bool) -> bool {
        let is_there = |point: &PathBuf| inside(self.root, point).exists() || has_parts && self.private.contains(point);
        let leads_on = |kit: &Path| leads_only_to(&kit.join(name), kit, self.points);
        let has_tmp = name != VAR || self.root.join(VAR_TMP).is_dir();
        let mut points = self.points.iter().filter(|point| point.starts_with(at));
        has_tmp && points.all(is_there) && self.kit.is_none_or(leads_on)
    }

    /// Returns mounts that hide secret directories.
    fn hidden(&self, at: &Path) -> impl Iterator<Item = Mount> {
        let inside = self.masks.hidden.iter().filter(move |it| it.starts_with(at));
        inside.map(|it| Mount { at: it.clone(), kind: MountKind::Hidden })
    }

    /// Returns the mount for a mount point in the template.
    fn inner(&self, path: &Path) -> Option<Mount> {
        let at = Path::new("/").join(path.strip_prefix(self.root).ok()?);
        Some(Mount { at, kind: MountKind::ReadOnly(path.to_owned()) })
    }
}

/// Returns the path outside of a path in the sandbox.
fn inside(root: &Path, at: &Path) -> PathBuf {
    root.join(at.strip_prefix("/").unwrap_or(at))
}

/// Returns whether a directory of a kit contains only the parents of mount points.
fn leads_only_to(dir: &Path, kit: &Path, places: &[PathBuf]) -> bool {
    let places_in = |dir: &Path| places.iter().any(|place| inside(kit, place).starts_with(dir));
    if places.iter().any(|place| inside(kit, place) == dir) || fs::symlink_metadata(dir).is_err() {
        return true;
    }
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    places_in(dir) && entries.into_iter().all(|entry| leads_only_to(&entry.path(), kit, places))
}

/// Creates a `/var` with the template's directories, owners and modes, which packages check, and the usual directories.
pub(super) fn make_var(template: &Path, var: &Path) -> io::Result<()> {
    for dir in [PathBuf::from(VAR), Path::new(VAR).join(SPOOL)] {
        let from = template.join(&dir);
        if from.is_dir() {
            dir_tree::copy_outline(&from, &var.join(dir.strip_prefix(VAR).unwrap_or(&dir)))?;
        }
    }
    let is_missing = |path: &PathBuf| fs::symlink_metadata(path).is_err();
    IN_VAR.iter().map(|name| var.join(name)).filter(is_missing).try_for_each(fs::create_dir_all)
}

/// Returns the names of the template's directories to mount.
fn names(template: &Path) -> io::Result<Vec<String>> {
    if template == Path::new("/") {
        return Ok(SYSTEM
            .iter()
            .filter(|name| fs::symlink_metadata(template.join(name)).is_ok())
            .map(|&it| it.into())
            .collect());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(template)? {
        let name = entry?
            .file_name()
            .into_string()
            .map_err(|_| io::Error::other("the template contains a file name that is not UTF-8"))?;
        if !OWN.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn private_mounts(template: &Path) -> Vec<Mount> {
    let own = |at: &str, mode| Mount { at: at.into(), kind: MountKind::Private(mode) };
    let mut mounts = vec![own("/run", 0o755), own("/tmp", SHARED), own("/var/tmp", SHARED)];
    mounts.push(Mount { at: "/dev".into(), kind: MountKind::Devices });
    mounts.push(Mount { at: "/sys".into(), kind: MountKind::ReadOnly("/sys".into()) });
    // It may be a link into `/run`, which each sandbox replaces.
    let names = Path::new("/etc/resolv.conf");
    if let Ok(real) = names.canonicalize()
        && template == Path::new("/")
        && real.starts_with("/run")
    {
        mounts.push(Mount { at: real.clone(), kind: MountKind::ReadOnly(real) });
    }
    mounts
}

/// Returns the outermost mount points below a directory.
fn mounted_below(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let mut places: Vec<PathBuf> = table.lines().filter_map(|line| Some(unescaped(line.split(' ').nth(4)?))).collect();
    places.retain(|place| place != dir && place.starts_with(dir) && place.exists());
    places.sort_by_key(|place| depth(place));
    let mut outer: Vec<PathBuf> = Vec::new();
    for place in places {
        if !outer.iter().any(|it| place.starts_with(it)) {
            outer.push(place);
        }
    }
    Ok(outer)
}

/// Returns the number of components of a path.
pub(super) fn depth(path: &Path) -> usize {
    path.components().filter(|part| matches!(part, Component::Normal(_))).count()
}

/// Decodes octal escapes such as `\040`.
fn unescaped(field: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = field.as_bytes();
    while let Some((&first, more)) = rest.split_first() {
        let code = (first == b'\\').then(|| more.get(..3)).flatten().and_then(|it| std::str::from_utf8(it).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &more[3..];
            }
            None => {
                bytes.push(first);
                rest = more;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use tanto_testing::Scratch;

    #[test]
    fn var_has_empty_directories_of_the_template() {
        let place = Scratch::new("sandbox-var");
        place.write("root/var/mail/someone", "");
        place.write("root/var/spool/lpd/job", "");
        symlink("../mail", place.at("root/var/spool/mail")).unwrap();
        fs::set_permissions(place.at("root/var/mail"), fs::Permissions::from_mode(0o2775)).unwrap();
        make_var(&place.at("root"), &place.at("var")).unwrap();
        assert_eq!(place.at("var/mail").metadata().unwrap().permissions().mode() & 0o7777, 0o2775);
        assert!(place.at("var/db").is_dir() && place.at("var/spool/mail").is_dir());
        assert!(!place.at("var/mail/someone").exists() && !place.at("var/spool/lpd/job").exists());
        make_var(&place.at("none"), &place.at("other")).unwrap();
        assert!(place.at("other/mail").is_dir());
    }

    #[test]
    fn directory_with_private_mounts_is_mounted_in_parts() {
        let place = Scratch::new("sandbox-parts");
        for file in ["system/usr/bin/x", "system/usr/pkg/old", "system/usr/local/y", "system/opt/x", "system/usr/file"]
        {
            place.write(file, "");
        }
        symlink("bin", place.at("system/usr/sbin")).unwrap();
        let private = ["/usr/pkg", "/usr/local/work/deep", "/opt"].map(PathBuf::from);
        let (root, var) = (place.at("system"), place.at("var"));
        let policy = MountPolicy {
            root: &root,
            kit: None,
            var: &var,
            kind: SandboxKind::Bind,
            as_user: false,
            points: &private,
            private: &private,
            masks: &Masks::default(),
            writable: true,
            overlays: true,
        };
        let shown = |policy: &MountPolicy<'_>| {
            let mounts = policy.mounts().unwrap();
            let of_template = mounts.iter().filter(|it| it.at.starts_with("/usr") || it.at.starts_with("/opt"));
            let mut shown: Vec<String> =
                of_template.map(|it| format!("{} {:?}", it.at.display(), it.kind).replace(place.text(), "")).collect();
            shown.sort_unstable();
            shown
        };
        let parts = [
            r#"/usr/bin ReadOnlyEntry("/system/usr/bin")"#,
            r#"/usr/file ReadOnlyEntry("/system/usr/file")"#,
            r#"/usr/local/y ReadOnlyEntry("/system/usr/local/y")"#,
            r#"/usr/sbin Symlink("bin")"#,
        ];
        assert_eq!(shown(&policy), parts);
        assert_eq!(shown(&MountPolicy { overlays: false, ..policy }), parts);
        assert_eq!(shown(&MountPolicy { kind: SandboxKind::Overlay, writable: false, ..policy }), parts);
        let layered = [r#"/opt Overlay(["/system/opt"])"#, r#"/usr Overlay(["/system/usr"])"#];
        assert_eq!(shown(&MountPolicy { kind: SandboxKind::Overlay, ..policy }), layered);
        for number in 0..MAX_PARTS {
            place.write(&format!("system/usr/local/{number}"), "");
        }
        assert_eq!(shown(&policy), [r#"/usr Overlay(["/system/usr"])"#], "too many parts");
    }

    #[test]
    fn complete_directories_are_mounted_read_only() {
        let place = Scratch::new("sandbox-looks");
        for file in ["root/usr/pkg/x", "root/etc/x", "root/opt/x", "kit/usr/pkg/bin/x", "kit/etc/y"] {
            place.write(file, "");
        }
        let points = ["/usr/pkg", "/opt/tree"].map(PathBuf::from);
        let (root, kit, var) = (place.at("root"), place.at("kit"), place.at("var"));
        let policy = MountPolicy {
            root: &root,
            kit: Some(&kit),
            var: &var,
            kind: SandboxKind::Overlay,
            as_user: false,
            points: &points,
            private: &[],
            masks: &Masks::default(),
            writable: true,
            overlays: true,
        };
        let layers = |policy: &MountPolicy<'_>| {
            let mounts = policy.mounts().unwrap();
            let is_layer =
                |at: &str| mounts.iter().any(|it| it.at == Path::new(at) && matches!(it.kind, MountKind::Overlay(_)));
            ["/etc", "/opt", "/usr"].map(is_layer)
        };
        assert_eq!(layers(&policy), [true, true, true]);
        // The kit adds a file to /etc, and /opt lacks a mount point.
        assert_eq!(layers(&MountPolicy { writable: false, ..policy }), [true, true, false]);
        let bound = MountPolicy { kind: SandboxKind::Bind, ..policy };
        assert_eq!(layers(&bound), [true, true, false]);
        assert_eq!(layers(&MountPolicy { overlays: false, ..bound }), [false, false, false]);
        place.write("kit/usr/share/y", "");
        assert_eq!(layers(&MountPolicy { writable: false, ..policy }), [true, true, true]);
        assert_eq!(layers(&bound), [true, true, true]);
    }
}
