//! What a set of packages has besides what each has for itself: who needs whom, which file is whose. Does not know how
//! packages were unpacked.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tanto_sys::fs::file;

use super::facts::Facts;
use super::groups::second_name;
use super::store::{Store, make_dir};
use super::{DB, Ground, Set, Trouble, byfile};
use crate::package::archive::plist::Plist;

const BYFILE: &str = "pkgdb.byfile.db";

/// The packages of the bootstrap kit, as its database has them. Files of one that is in another prefix have whole paths.
pub(super) fn kit(prefix: &Path, db: &Path) -> io::Result<Vec<Facts>> {
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
        let mut facts = Facts { name: entry.file_name().into_encoded_bytes(), ..Facts::of(plist) };
        if let Some(other) = plist.prefix().filter(|&other| file::path(other) != prefix) {
            let whole = |path: &mut Vec<u8>| *path = [other, b"/", path].concat();
            facts.files.iter_mut().chain(&mut facts.own_dirs).for_each(whole);
        }
        kit.push(facts);
    }
    kit.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(kit)
}

/// Can these be seen as one, with the kit's prefix below? Says what is in whose way.
pub(super) fn check(set: &Set, lowest: &Path) -> Result<(), String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut owners: HashMap<&[u8], &Facts> = HashMap::new();
    for facts in set.kit.iter().chain(set.layered()) {
        for file in &facts.files {
            if let Some(other) = owners.insert(file, facts) {
                return Err(format!("{} and {} both have {}", text(&other.name), text(&facts.name), text(file)));
            }
        }
    }
    let mut seen = std::collections::HashSet::new();
    for dir in set.layered().flat_map(|facts| &facts.dirs).filter(|dir| seen.insert(*dir)) {
        if let Some(other) = owners.get(&dir[..]) {
            return Err(format!("{} is a directory, and a file of {}", text(dir), text(&other.name)));
        }
        if fs::symlink_metadata(lowest.join(file::path(dir))).is_ok_and(|data| !data.is_dir()) {
            return Err(format!("{} is no directory in the bootstrap kit", text(dir)));
        }
    }
    Ok(())
}

/// Writes the layer that has what is true of the set only, and the database of all its packages, whose layers have these
/// names. `lowest` is the kit's database.
pub(super) fn write(store: &Store, own: &Path, set: &Set, names: &[String], lowest: &Path) -> Result<(), Trouble> {
    let ground = store.ground();
    let db = ground.db(own);
    make_dir(&Ground::tree(own))?;
    let mut above: Vec<&Path> = db.ancestors().take_while(|dir| !dir.exists()).collect();
    above.reverse();
    above.into_iter().try_for_each(make_dir)?;
    let installed = &set.installed;
    for &it in &set.layered {
        let name = file::path(&set.facts(it).name);
        let dir = db.join(name);
        make_dir(&dir)?;
        for entry in fs::read_dir(store.path(&names[it]).join(DB).join(name))? {
            let entry = entry?;
            let name = dir.join(entry.file_name());
            match second_name(&entry.path(), &name) {
                // What is written is in memory.
                Err(Trouble::Machine(error)) if error.kind() == io::ErrorKind::CrossesDevices => {
                    fs::copy(entry.path(), &name)?;
                }
                named => named?,
            }
        }
        let users = users(set, &installed.needed_by[it]);
        if !users.is_empty() {
            put(&dir, "+REQUIRED_BY", &users)?;
        }
        if installed.automatic[it] {
            put(&dir, "+INSTALLED_INFO", b"automatic=yes\n")?;
        }
    }
    for (facts, needed_by) in set.kit.iter().zip(&installed.kit_needed_by) {
        let users = users(set, needed_by);
        if !users.is_empty() {
            let name = file::path(&facts.name);
            let before = fs::read(lowest.join(name).join("+REQUIRED_BY")).unwrap_or_default();
            put(&db.join(name), "+REQUIRED_BY", &[before, users].concat())?;
        }
    }
    // Without one in the kit, its tools do without.
    if lowest.join(BYFILE).exists() {
        put(&db, BYFILE, &by_file(ground, set)?)?;
    }
    Ok(())
}

/// Those of the layers that need a package. Whom pkg_add installs it also enters.
fn users(set: &Set, users: &[usize]) -> Vec<u8> {
    let layered = users.iter().filter(|&&user| !set.is_scripted(user));
    layered.flat_map(|&user| [&set.facts(user).name[..], b"\n"].concat()).collect()
}

fn put(dir: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    if !dir.is_dir() {
        make_dir(dir)?;
    }
    let path = dir.join(name);
    fs::write(&path, content)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644))
}

/// A file has its package's name, a directory the names of all packages that have it.
fn by_file(ground: &Ground, set: &Set) -> Result<Vec<u8>, Trouble> {
    let mut entries: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut dirs: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    let prefix = ground.prefix.as_os_str().as_encoded_bytes();
    let key = |path: &[u8]| match path {
        [b'/', ..] => path.to_vec(),
        _ => [prefix, b"/", path].concat(),
    };
    for facts in set.kit.iter().chain(set.layered()) {
        entries.extend(facts.files.iter().map(|file| (key(file), facts.name.clone())));
        for dir in &facts.own_dirs {
            let names = dirs.entry(key(dir)).or_insert_with(|| b"@pkgdir".to_vec());
            names.push(b' ');
            names.extend_from_slice(&facts.name);
        }
    }
    entries.extend(dirs);
    entries.sort_unstable();
    if entries.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err(Trouble::Odd("a file and a directory have the same name".into()));
    }
    let sorted = entries.iter().map(|(key, value)| (key.clone(), &value[..]));
    byfile::file(sorted).ok_or_else(|| Trouble::Odd("a file's name is too long".into()))
}
