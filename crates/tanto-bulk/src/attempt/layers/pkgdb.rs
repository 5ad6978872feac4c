//! Checks a set of packages for conflicts, and writes its package database.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tanto_sys::fs::file;

use super::groups::hard_link;
use super::package_info::PackageInfo;
use super::store::{LayerStore, make_dir};
use super::{DB, InstallRoot, LayerError, PackageSet, btree};
use crate::package::archive::plist::Plist;

const INDEX: &str = "pkgdb.byfile.db";

/// Reads the packages of the bootstrap kit from its database. Files of packages in another prefix have absolute paths.
pub(super) fn read_kit(prefix: &Path, db: &Path) -> io::Result<Vec<PackageInfo>> {
    let mut kit = Vec::new();
    let entries = match fs::read_dir(db) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(kit),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        let text = fs::read(entry.path().join("+CONTENTS")).unwrap_or_default();
        let plist = Plist::new(&text);
        let mut info = PackageInfo { name: entry.file_name().into_encoded_bytes(), ..PackageInfo::of(plist) };
        if let Some(other) = plist.prefix().filter(|&other| file::path(other) != prefix) {
            let whole = |path: &mut Vec<u8>| *path = [other, b"/", path].concat();
            info.files.iter_mut().chain(&mut info.own_dirs).for_each(whole);
        }
        kit.push(info);
    }
    kit.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(kit)
}

/// Checks that these packages can be mounted together above the kit's prefix. An error names the conflicting paths.
pub(super) fn check_conflicts(set: &PackageSet, lowest: &Path) -> Result<(), String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut owners: HashMap<&[u8], &PackageInfo> = HashMap::new();
    for info in set.kit.iter().chain(set.layered()) {
        for file in &info.files {
            if let Some(other) = owners.insert(file, info) {
                return Err(format!("{} and {} both contain {}", text(&other.name), text(&info.name), text(file)));
            }
        }
    }
    let mut seen = HashSet::new();
    for dir in set.layered().flat_map(|info| &info.dirs).filter(|dir| seen.insert(*dir)) {
        if let Some(other) = owners.get(&dir[..]) {
            return Err(format!("{} is a directory, and also a file of {}", text(dir), text(&other.name)));
        }
        if fs::symlink_metadata(lowest.join(file::path(dir))).is_ok_and(|data| !data.is_dir()) {
            return Err(format!("{} is not a directory in the bootstrap kit", text(dir)));
        }
    }
    Ok(())
}

/// Writes the private layer: the database of all packages, and their relations. `names`: the layer of each package.
/// `lowest`: the kit's database.
pub(super) fn write(
    store: &LayerStore,
    private: &Path,
    set: &PackageSet,
    names: &[String],
    lowest: &Path,
) -> Result<(), LayerError> {
    let root = &store.root;
    let db = root.db(private);
    make_dir(&InstallRoot::tree(private))?;
    let mut above: Vec<&Path> = db.ancestors().take_while(|dir| !dir.exists()).collect();
    above.reverse();
    above.into_iter().try_for_each(make_dir)?;
    let plan = &set.plan;
    for &it in &set.layered {
        let name = file::path(&set.info(it).name);
        let dir = db.join(name);
        make_dir(&dir)?;
        for entry in fs::read_dir(store.path(&names[it]).join(DB).join(name))? {
            let entry = entry?;
            let name = dir.join(entry.file_name());
            match hard_link(&entry.path(), &name) {
                // The private layer is in memory.
                Err(LayerError::Io(error)) if error.kind() == io::ErrorKind::CrossesDevices => {
                    fs::copy(entry.path(), &name)?;
                }
                linked => linked?,
            }
        }
        let users = users(set, &plan.needed_by[it]);
        if !users.is_empty() {
            put(&dir, "+REQUIRED_BY", &users)?;
        }
        if plan.automatic[it] {
            put(&dir, "+INSTALLED_INFO", b"automatic=yes\n")?;
        }
    }
    for (info, needed_by) in set.kit.iter().zip(&plan.kit_needed_by) {
        let users = users(set, needed_by);
        if !users.is_empty() {
            let name = file::path(&info.name);
            let before = fs::read(lowest.join(name).join("+REQUIRED_BY")).unwrap_or_default();
            put(&db.join(name), "+REQUIRED_BY", &[before, users].concat())?;
        }
    }
    // Tools of a kit without an index use none.
    if lowest.join(INDEX).exists() {
        put(&db, INDEX, &path_index(root, set)?)?;
    }
    Ok(())
}

/// Returns `+REQUIRED_BY` without packages that pkg_add installs: it adds them itself.
fn users(set: &PackageSet, users: &[usize]) -> Vec<u8> {
    set.in_layers(users).flat_map(|user| [&set.info(user).name[..], b"\n"].concat()).collect()
}

fn put(dir: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    if !dir.is_dir() {
        make_dir(dir)?;
    }
    let path = dir.join(name);
    fs::write(&path, content)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644))
}

/// Returns the index of paths: each file maps to its package, each directory of `@pkgdir` to all packages with it.
fn path_index(root: &InstallRoot, set: &PackageSet) -> Result<Vec<u8>, LayerError> {
    let mut entries: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut dirs: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    let prefix = root.prefix.as_os_str().as_encoded_bytes();
    let key = |path: &[u8]| match path {
        [b'/', ..] => path.to_vec(),
        _ => [prefix, b"/", path].concat(),
    };
    for info in set.kit.iter().chain(set.layered()) {
        entries.extend(info.files.iter().map(|file| (key(file), info.name.clone())));
        for dir in &info.own_dirs {
            let names = dirs.entry(key(dir)).or_insert_with(|| b"@pkgdir".to_vec());
            names.push(b' ');
            names.extend_from_slice(&info.name);
        }
    }
    entries.extend(dirs);
    entries.sort_unstable();
    if entries.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err(LayerError::Unsupported("a file and a directory have the same path".into()));
    }
    let sorted = entries.iter().map(|(key, value)| (key.clone(), &value[..]));
    btree::encode(sorted).ok_or_else(|| LayerError::Unsupported("a path is too long for pkgdb.byfile.db".into()))
}
