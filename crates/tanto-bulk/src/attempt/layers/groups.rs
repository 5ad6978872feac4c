//! Layers of many packages, made of the layers of each: a mount takes only so many, and looking into many takes time.
//! Files have two names then, not two copies. Does not know what the layers are for.
//!
//! Which packages come together depends on their names alone, so that two sets that have much in common also have groups
//! in common, though one has a package more: packages are in an order that rests on what they need, and a group ends
//! with a package whose name says so.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tanto_sys::fs::file;

use super::facts::Facts;
use super::store::{Held, Store, hex, make_dir};
use super::{Ground, Set, Trouble};

/// So many layers are left as they are.
const ALONE: usize = 12;
/// Not more groups than these.
pub(super) const MOST: usize = 16;
/// What a link takes on the disk, about.
const LINK: u64 = 64;
const DIRECTORY: u64 = 4096;

/// A package, and its layer.
type Member<'a> = (&'a Facts, &'a str);

/// The places of layers that together have what all packages of the set have. `names` are those of each package's layer.
pub(super) fn layers(store: &Store, held: &Held, set: &Set, names: &[String]) -> Result<Vec<PathBuf>, Trouble> {
    let members = members(set, names);
    if members.len() <= ALONE {
        return Ok(members.iter().map(|(_, name)| store.path(name)).collect());
    }
    let mut places = Vec::new();
    for group in cut(&members) {
        let name = name(group);
        if group.len() > 1 {
            held.more(store, &[&name])?;
            store.layer(&name, |dir| merge(store, group, dir))?;
        }
        places.push(store.path(&name));
    }
    Ok(places)
}

/// The layered packages, those first that need the least.
fn members<'a>(set: &'a Set, names: &'a [String]) -> Vec<Member<'a>> {
    let mut levels = vec![0usize; names.len()];
    for &it in &set.installed.order {
        for &user in &set.installed.needed_by[it] {
            levels[user] = levels[user].max(levels[it] + 1);
        }
    }
    let mut sorted = set.layered.clone();
    sorted.sort_unstable_by_key(|&it| (levels[it], &set.facts(it).name));
    sorted.into_iter().map(|it| (set.facts(it), &*names[it])).collect()
}

/// A group of one is what it is.
fn name(group: &[Member<'_>]) -> String {
    match group {
        [(_, name)] => (*name).to_owned(),
        _ => format!("group.{}", hex(group.iter().map(|(_, name)| *name).collect::<Vec<_>>().join("\n").as_bytes())),
    }
}

fn cut<'m, 'a>(members: &'m [Member<'a>]) -> Vec<&'m [Member<'a>]> {
    // Powers of two, so that sets of about the same size are cut alike.
    let length = (members.len() / ALONE).next_power_of_two().max(8);
    let ends = |&(facts, _): &Member<'_>| {
        let digest = hex(&facts.name);
        u64::from_str_radix(&digest[..8], 16).is_ok_and(|number| number % length as u64 == 0)
    };
    let mut groups: Vec<&[Member<'_>]> = members.split_inclusive(ends).collect();
    if groups.len() > MOST {
        let before: usize = groups[..MOST - 1].iter().map(|group| group.len()).sum();
        groups.truncate(MOST - 1);
        groups.push(&members[before..]);
    }
    groups
}

/// All files of the members get a second name below `dir`.
fn merge(store: &Store, group: &[Member<'_>], dir: &Path) -> Result<Facts, Trouble> {
    let mut merged = Facts::default();
    make_dir(&Ground::tree(dir))?;
    for (facts, name) in group {
        let from = store.path(name);
        for inner in &facts.dirs {
            match make_dir(&Ground::tree(dir).join(file::path(inner))) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error.into()),
                _ => merged.bytes += DIRECTORY,
            }
        }
        for path in &facts.files {
            let path = file::path(path);
            second_name(&Ground::tree(&from).join(path), &Ground::tree(dir).join(path))?;
        }
        merged.bytes += LINK * facts.files.len() as u64;
    }
    Ok(merged)
}

/// A file has so many names and no more, on some disks only one.
pub(super) fn second_name(file: &Path, name: &Path) -> Result<(), Trouble> {
    fs::hard_link(file, name).map_err(|error| match error.kind() {
        ErrorKind::TooManyLinks | ErrorKind::PermissionDenied | ErrorKind::Unsupported => {
            Trouble::Odd("a file in a layer cannot have another name".into())
        }
        _ => Trouble::Machine(error),
    })
}
