//! Merges layers of many packages into groups by hard links: a mount accepts few layers, and lookups in many are slow.
//!
//! Groups depend on package names only, so that similar sets of packages share most groups: packages are sorted by their
//! level of dependencies, and a hash of its name decides whether a package ends a group.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tanto_sys::fs::file;

use super::package_info::PackageInfo;
use super::store::{LayerPins, LayerStore, hex, make_dir};
use super::{InstallRoot, LayerError, PackageSet};

/// Up to this number, layers are not merged.
const MAX_UNGROUPED: usize = 12;
pub(super) const MAX_GROUPS: usize = 16;
/// Estimated disk usage in bytes.
const LINK: u64 = 64;
const DIRECTORY: u64 = 4096;

/// A package and the name of its layer.
type GroupMember<'a> = (&'a PackageInfo, &'a str);

/// Returns the paths of layers with the files of all packages. `names`: the layer of each package.
pub(super) fn layers(
    store: &LayerStore,
    pins: &LayerPins,
    set: &PackageSet,
    names: &[String],
) -> Result<Vec<PathBuf>, LayerError> {
    let members = members(set, names);
    if members.len() <= MAX_UNGROUPED {
        return Ok(members.iter().map(|(_, name)| store.path(name)).collect());
    }
    let mut places = Vec::new();
    for group in split(&members) {
        let name = group_name(group);
        if group.len() > 1 {
            pins.add(store, &[&name])?;
            store.layer(&name, |dir| merge(store, group, dir))?;
        }
        places.push(store.path(&name));
    }
    Ok(places)
}

/// Returns the packages in layers, sorted by their level of dependencies, then by name.
fn members<'a>(set: &'a PackageSet, names: &'a [String]) -> Vec<GroupMember<'a>> {
    let mut levels = vec![0usize; names.len()];
    for &it in &set.plan.order {
        for &user in &set.plan.needed_by[it] {
            levels[user] = levels[user].max(levels[it] + 1);
        }
    }
    let mut sorted = set.layered.clone();
    sorted.sort_unstable_by_key(|&it| (levels[it], &set.info(it).name));
    sorted.into_iter().map(|it| (set.info(it), &*names[it])).collect()
}

/// A group of one package is that package's layer.
fn group_name(group: &[GroupMember<'_>]) -> String {
    match group {
        [(_, name)] => (*name).to_owned(),
        _ => format!("group.{}", hex(group.iter().map(|(_, name)| *name).collect::<Vec<_>>().join("\n").as_bytes())),
    }
}

fn split<'m, 'a>(members: &'m [GroupMember<'a>]) -> Vec<&'m [GroupMember<'a>]> {
    // Powers of two, so that sets of similar size have the same groups.
    let length = (members.len() / MAX_UNGROUPED).next_power_of_two().max(8);
    let ends = |&(info, _): &GroupMember<'_>| {
        let digest = hex(&info.name);
        u64::from_str_radix(&digest[..8], 16).is_ok_and(|number| number % length as u64 == 0)
    };
    let mut groups: Vec<&[GroupMember<'_>]> = members.split_inclusive(ends).collect();
    if groups.len() > MAX_GROUPS {
        let before: usize = groups[..MAX_GROUPS - 1].iter().map(|group| group.len()).sum();
        groups.truncate(MAX_GROUPS - 1);
        groups.push(&members[before..]);
    }
    groups
}

/// Links all files of the members into `dir`.
fn merge(store: &LayerStore, group: &[GroupMember<'_>], dir: &Path) -> Result<PackageInfo, LayerError> {
    let mut merged = PackageInfo::default();
    make_dir(&InstallRoot::tree(dir))?;
    for (info, name) in group {
        let from = store.path(name);
        for inner in &info.dirs {
            match make_dir(&InstallRoot::tree(dir).join(file::path(inner))) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error.into()),
                _ => merged.bytes += DIRECTORY,
            }
        }
        for path in &info.files {
            let path = file::path(path);
            hard_link(&InstallRoot::tree(&from).join(path), &InstallRoot::tree(dir).join(path))?;
        }
        merged.bytes += LINK * info.files.len() as u64;
    }
    Ok(merged)
}

/// Links a file. File systems limit the number of links, some to one.
pub(super) fn hard_link(file: &Path, name: &Path) -> Result<(), LayerError> {
    fs::hard_link(file, name).map_err(|error| match error.kind() {
        ErrorKind::TooManyLinks | ErrorKind::PermissionDenied | ErrorKind::Unsupported => {
            LayerError::Unsupported("the file system refuses more hard links to a file".into())
        }
        _ => LayerError::Io(error),
    })
}
