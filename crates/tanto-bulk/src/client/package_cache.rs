//! The packages that a client has downloaded or built, up to a size. Those that were not used for the longest time are removed first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tanto_protocol::{Digest, PackageBlob};

/// See the module. The order is that of the files' modification times in the next process.
pub struct PackageCache {
    /// Packages, by their digests.
    blobs: PathBuf,
    /// Links to them, with the names of packages.
    names: PathBuf,
    max_bytes: u64,
    packages: BTreeMap<Digest, Cached>,
    /// Counts the uses of all packages.
    uses: u64,
}

#[derive(Default)]
struct Cached {
    bytes: u64,
    /// The value of `uses` at the last use.
    last_use: u64,
    /// Files in `names` that may be links to it.
    links: BTreeSet<String>,
}

impl PackageCache {
    /// Finds the packages of earlier processes, also parts of downloads.
    pub fn open(blobs: &Path, names: &Path, max_bytes: u64) -> io::Result<PackageCache> {
        let mut found: Vec<(SystemTime, Digest, fs::Metadata)> = Vec::new();
        for entry in fs::read_dir(blobs)? {
            let path = entry?.path();
            let Some(digest) = path.file_stem().and_then(|name| name.to_str()?.parse().ok()) else { continue };
            let data = fs::symlink_metadata(&path)?;
            found.push((data.modified()?, digest, data));
        }
        found.sort_by_key(|(used, ..)| *used);
        let mut links = links(names)?;
        let (blobs, names) = (blobs.to_owned(), names.to_owned());
        let mut cache = PackageCache { blobs, names, max_bytes, packages: BTreeMap::new(), uses: 0 };
        for (_, digest, data) in found {
            cache.uses += 1;
            let package = cache.packages.entry(digest).or_default();
            package.bytes = package.bytes.saturating_add(data.len());
            package.last_use = cache.uses;
            package.links.append(&mut links.remove(&(data.dev(), data.ino())).unwrap_or_default());
        }
        Ok(cache)
    }

    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.blobs.join(digest.to_string())
    }

    /// A package is used, and downloaded before that if it is not there.
    pub fn use_package(&mut self, package: &PackageBlob) {
        self.uses += 1;
        let cached = self.packages.entry(package.digest).or_default();
        cached.bytes = package.size;
        cached.last_use = self.uses;
        // Only the next process needs it.
        let _ = File::open(self.path(&package.digest)).and_then(|file| file.set_modified(SystemTime::now()));
    }

    /// A package has a link.
    pub fn linked(&mut self, digest: Digest, name: String) {
        self.packages.entry(digest).or_default().links.insert(name);
    }

    /// Bytes of all packages beyond the maximum.
    pub fn excess(&self) -> u64 {
        sum(self.packages.values()).saturating_sub(self.max_bytes)
    }

    /// Bytes of the packages that can be removed.
    pub fn removable(&self, is_used: impl Fn(&Digest) -> bool) -> u64 {
        sum(self.packages.iter().filter(|(digest, _)| !is_used(digest)).map(|(_, it)| it))
    }

    /// Removes packages that are not used, until so many bytes are free again. Returns what was removed.
    pub fn remove(&mut self, bytes: u64, is_used: impl Fn(&Digest) -> bool) -> Vec<Digest> {
        let mut unused: Vec<(u64, Digest)> = self.packages.iter().map(|(digest, it)| (it.last_use, *digest)).collect();
        unused.retain(|(_, digest)| !is_used(digest));
        unused.sort_by_key(|(last_use, _)| Reverse(*last_use));
        let (mut removed, mut freed) = (Vec::new(), 0_u64);
        while freed < bytes
            && let Some((_, digest)) = unused.pop()
        {
            if let Some(package) = self.packages.remove(&digest) {
                self.remove_files(&digest, &package);
                freed = package.bytes.saturating_add(freed);
                removed.push(digest);
            }
        }
        removed
    }

    /// What cannot be removed is found by the next process. The links are first: without the package, none would be found.
    fn remove_files(&self, digest: &Digest, package: &Cached) {
        let path = self.path(digest);
        let inode = |path: &Path| fs::symlink_metadata(path).ok().map(|it| (it.dev(), it.ino()));
        let ours = inode(&path);
        for link in package.links.iter().map(|name| self.names.join(name)) {
            // It may be a link to another version.
            if ours.is_some() && inode(&link) == ours {
                let _ = fs::remove_file(link);
            }
        }
        let _ = fs::remove_file(&path);
        let _ = fs::remove_file(path.with_extension(PART));
    }
}

/// The suffix of a package that is not yet whole.
pub const PART: &str = "part";

fn sum<'a>(packages: impl Iterator<Item = &'a Cached>) -> u64 {
    packages.map(|it| it.bytes).fold(0, u64::saturating_add)
}

/// The names of the files in a directory, by their inodes.
fn links(dir: &Path) -> io::Result<BTreeMap<(u64, u64), BTreeSet<String>>> {
    let mut links: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let (data, Ok(name)) = (entry.metadata()?, entry.file_name().into_string()) else { continue };
        links.entry((data.dev(), data.ino())).or_default().insert(name);
    }
    Ok(links)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    fn package(number: u8, size: u64) -> PackageBlob {
        PackageBlob { name: format!("p{number}-1"), digest: Digest([number; 32]), size }
    }

    /// Uses a package that may be there.
    fn provide(cache: &mut PackageCache, number: u8, size: u64) {
        let package = package(number, size);
        cache.use_package(&package);
        let (path, link) = (cache.path(&package.digest), format!("p{number}-1.tgz"));
        if !path.exists() {
            fs::write(&path, vec![0; size as usize]).unwrap();
            fs::hard_link(&path, cache.names.join(&link)).unwrap();
            cache.linked(package.digest, link);
        }
    }

    fn open(place: &Scratch, max_bytes: u64) -> PackageCache {
        fs::create_dir_all(place.at("blobs")).unwrap();
        fs::create_dir_all(place.at("All")).unwrap();
        PackageCache::open(&place.at("blobs"), &place.at("All"), max_bytes).unwrap()
    }

    fn numbers(place: &Scratch, dir: &str) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(place.at(dir)).unwrap().map(|it| it.unwrap().file_name()).collect();
        names.sort();
        names.iter().map(|name| name.to_string_lossy()[..2].to_owned()).collect()
    }

    #[test]
    fn the_packages_that_were_not_used_for_the_longest_time_are_removed() {
        let place = Scratch::new("package-cache");
        let mut cache = open(&place, 1_000);
        for number in [1, 2, 3, 4, 1] {
            provide(&mut cache, number, 400);
        }
        assert_eq!(cache.excess(), 600);
        let is_used = |digest: &Digest| digest.0[0] == 2;
        assert_eq!(cache.removable(is_used), 1_200);
        assert_eq!(cache.remove(cache.excess(), is_used), [Digest([3; 32]), Digest([4; 32])]);
        assert_eq!((cache.excess(), cache.remove(0, |_| false)), (0, Vec::new()));
        assert_eq!(numbers(&place, "blobs"), ["01", "02"]);
        assert_eq!(numbers(&place, "All"), ["p1", "p2"]);
        assert_eq!(cache.remove(u64::MAX, is_used), [Digest([1; 32])], "it is all that is not used");
    }

    #[test]
    fn the_next_process_knows_packages_links_and_parts() {
        let place = Scratch::new("package-cache-next");
        let mut cache = open(&place, 1_000);
        for number in [1, 2, 1] {
            provide(&mut cache, number, 400);
        }
        place.write(&format!("blobs/{}.part", Digest([3; 32])), "begin");
        place.write("blobs/other", "no package");
        let set = |number: u8, seconds| {
            let file = File::open(cache.path(&Digest([number; 32]))).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
        };
        set(1, 200);
        set(2, 100);
        let mut cache = open(&place, 1_000);
        assert_eq!(cache.removable(|_| false), 805);
        assert_eq!(cache.remove(1, |_| false), [Digest([2; 32])]);
        assert_eq!(numbers(&place, "All"), ["p1"]);
        assert_eq!(cache.remove(u64::MAX, |_| false).len(), 2);
        assert_eq!((numbers(&place, "blobs"), numbers(&place, "All")), (vec!["ot".to_owned()], Vec::new()));
    }

    #[test]
    fn a_link_to_another_version_stays() {
        let place = Scratch::new("package-cache-versions");
        let mut cache = open(&place, 1_000);
        provide(&mut cache, 1, 400);
        fs::remove_file(place.at("All/p1-1.tgz")).unwrap();
        place.write("All/p1-1.tgz", "another version");
        assert_eq!(cache.remove(1, |_| false), [Digest([1; 32])]);
        assert_eq!(numbers(&place, "All"), ["p1"]);
    }
}
