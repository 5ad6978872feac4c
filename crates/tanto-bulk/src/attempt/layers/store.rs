//! Stores layers in a directory with a size limit, atomically; evicts the least recently used ones. Several processes use it
//! at the same time.
//!
//! A store is discarded after a reboot, because layers are not synced to the disk.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use tanto_sys::fs::lock;
use tanto_sys::process::pid_identity::boot_id;

use super::package_info::PackageInfo;
use super::{InstallRoot, LayerError};

/// A store of layers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LayerStore {
    pub(super) dir: PathBuf,
    pub(super) root: InstallRoot,
    /// Bytes; 0: unlimited.
    pub(super) limit: u64,
}

/// The layers in use by one package, which are not evicted.
pub(super) struct LayerPins {
    file: PathBuf,
}

impl LayerPins {
    /// Pins more layers.
    pub fn add(&self, store: &LayerStore, names: &[&str]) -> io::Result<()> {
        let _lock = store.lock()?;
        OpenOptions::new().append(true).open(&self.file)?.write_all((names.join("\n") + "\n").as_bytes())
    }
}

const INFO: &str = "info";
/// Eighths of the limit that remain used after an eviction.
const KEPT_EIGHTHS: u64 = 7;

impl LayerStore {
    /// `limit`: bytes; 0: unlimited.
    pub fn new(dir: impl Into<PathBuf>, root: InstallRoot, limit: u64) -> LayerStore {
        LayerStore { dir: dir.into(), root, limit }
    }

    /// Creates the store, or prepares that of an earlier build. No process may use it yet.
    pub fn begin(&self) -> io::Result<()> {
        let InstallRoot { prefix, pkgdb, as_user } = &self.root;
        let made = format!("2\n{}\n{}\n{as_user}\n{}", prefix.display(), pkgdb.display(), boot_id());
        if fs::read(self.dir.join("made")).ok().as_deref() != Some(made.as_bytes()) && self.dir.exists() {
            fs::remove_dir_all(&self.dir)?;
        }
        for name in ["new", "gone", "users"] {
            remove(&self.dir.join(name))?;
            fs::create_dir_all(self.dir.join(name))?;
        }
        fs::create_dir_all(self.dir.join("layers"))?;
        fs::write(self.dir.join("made"), made)?;
        self.evict()
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.join("layers").join(name)
    }

    /// Starts to pin layers for the package with the directory `private`. The pins end when that is removed.
    pub(super) fn pin(&self, private: &Path) -> io::Result<LayerPins> {
        let private = private.as_os_str().as_bytes();
        let pins = LayerPins { file: self.dir.join("users").join(hex(private)) };
        let _lock = self.lock()?;
        fs::write(&pins.file, [private, b"\n"].concat())?;
        Ok(pins)
    }

    /// Returns the information about a layer. If it is missing, `make` fills an empty directory, which becomes the layer.
    pub(super) fn layer(
        &self,
        name: &str,
        make: impl FnOnce(&Path) -> Result<PackageInfo, LayerError>,
    ) -> Result<PackageInfo, LayerError> {
        let place = self.path(name);
        match fs::read(place.join(INFO)) {
            Ok(text) => {
                if let Some(info) = PackageInfo::read(&text) {
                    let _ = File::open(&place).and_then(|dir| dir.set_modified(SystemTime::now()));
                    return Ok(info);
                }
                self.discard(&place)?;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        let new = self.unused("new");
        make_dir(&new)?;
        let made = make(&new).and_then(|info| self.keep(&new, &place, &info).map(|()| info).map_err(LayerError::from));
        made.inspect_err(|_| drop(remove(&new)))
    }

    fn keep(&self, new: &Path, place: &Path, info: &PackageInfo) -> io::Result<()> {
        fs::write(new.join(INFO), info.text())?;
        match fs::rename(new, place) {
            // Another process was faster.
            Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::DirectoryNotEmpty) => {
                remove(new)
            }
            Err(error) => Err(error),
            Ok(()) => self.account(info.bytes),
        }
    }

    /// Adds to the total, and evicts layers above the limit.
    fn account(&self, bytes: u64) -> io::Result<()> {
        let total = {
            let _lock = self.lock()?;
            let path = self.dir.join("total");
            let before = fs::read_to_string(&path).ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
            let total = before.saturating_add(bytes);
            fs::write(path, total.to_string())?;
            total
        };
        if self.limit > 0 && total > self.limit { self.evict() } else { Ok(()) }
    }

    /// Computes the total. Above the limit, evicts layers that are not pinned, least recently used first.
    fn evict(&self) -> io::Result<()> {
        let gone = self.unused("gone");
        {
            let _lock = self.lock()?;
            let mut layers = self.layers()?;
            let mut total: u64 = layers.iter().map(|layer| layer.bytes).sum();
            if self.limit > 0 && total > self.limit {
                layers.sort_unstable_by_key(|layer| layer.used);
                fs::create_dir(&gone)?;
                let pinned = self.pinned()?;
                let enough = self.limit / 8 * KEPT_EIGHTHS;
                for layer in layers.iter().filter(|layer| !pinned.contains(&layer.name)) {
                    if total <= enough {
                        break;
                    }
                    fs::rename(self.dir.join("layers").join(&layer.name), gone.join(&layer.name))?;
                    total -= layer.bytes;
                }
            }
            fs::write(self.dir.join("total"), total.to_string())?;
        }
        remove(&gone)
    }

    fn layers(&self) -> io::Result<Vec<StoredLayer>> {
        let mut layers = Vec::new();
        for entry in fs::read_dir(self.dir.join("layers"))? {
            let entry = entry?;
            let info = fs::read(entry.path().join(INFO)).ok().and_then(|text| PackageInfo::read(&text));
            let used = entry.metadata()?.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            layers.push(StoredLayer { name: entry.file_name(), used, bytes: info.map_or(0, |info| info.bytes) });
        }
        Ok(layers)
    }

    /// Returns the pinned layers. Removes pins of packages that have ended.
    fn pinned(&self) -> io::Result<HashSet<OsString>> {
        let mut pinned = HashSet::new();
        for entry in fs::read_dir(self.dir.join("users"))? {
            let path = entry?.path();
            let text = fs::read(&path)?;
            let mut lines = text.split(|&byte| byte == b'\n').map(|line| std::ffi::OsStr::from_bytes(line).to_owned());
            match lines.next() {
                Some(private) if Path::new(&private).exists() => pinned.extend(lines),
                _ => fs::remove_file(&path)?,
            }
        }
        Ok(pinned)
    }

    fn discard(&self, place: &Path) -> io::Result<()> {
        let gone = self.unused("gone");
        match fs::rename(place, &gone) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => remove(&gone),
        }
    }

    fn lock(&self) -> io::Result<File> {
        const PATIENCE: Duration = Duration::from_secs(1);
        let file = lock::open_lock_file(&self.dir.join("lock"))?;
        lock::lock_exclusive(&file, PATIENCE, || {})?;
        Ok(file)
    }

    /// Returns an unused path.
    fn unused(&self, kind: &str) -> PathBuf {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.dir.join(kind).join(format!("{}-{number}", std::process::id()))
    }
}

struct StoredLayer {
    name: OsString,
    used: SystemTime,
    bytes: u64,
}

/// Returns the name of a package's layer, which depends on the identity of its file.
pub(super) fn layer_name(package: &str, data: &Metadata) -> String {
    let (mtime, ctime) = ((data.mtime(), data.mtime_nsec()), (data.ctime(), data.ctime_nsec()));
    let stamp = format!("{} {} {} {mtime:?} {ctime:?}", data.dev(), data.ino(), data.size());
    format!("{package}.{}", &hex(stamp.as_bytes())[..16])
}

/// Returns a hash of 32 hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Creates a directory that all users can read.
pub(super) fn make_dir(dir: &Path) -> io::Result<()> {
    fs::create_dir(dir)?;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755))
}

fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    fn store(place: &Scratch, limit: u64) -> LayerStore {
        let root = InstallRoot { prefix: "/pkg".into(), pkgdb: "/db".into(), as_user: false };
        let store = LayerStore::new(place.at("layers"), root, limit);
        store.begin().unwrap();
        store
    }

    fn add(store: &LayerStore, name: &str, bytes: u64) -> bool {
        let mut made = false;
        let info = PackageInfo { name: name.into(), bytes, ..PackageInfo::default() };
        let info = store.layer(name, |dir| {
            made = true;
            fs::write(dir.join("x"), name)?;
            Ok(info.clone())
        });
        assert_eq!(info.unwrap().name, name.as_bytes());
        // The order of use is that of times.
        std::thread::sleep(Duration::from_millis(15));
        made
    }

    fn there(store: &LayerStore) -> Vec<String> {
        let mut names: Vec<_> = store.layers().unwrap().into_iter().map(|it| it.name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn layers_are_made_once_and_atomically() {
        let place = Scratch::new("layers-once");
        let store = store(&place, 0);
        assert!(add(&store, "a", 10) && !add(&store, "a", 10));
        let failed = store.layer("b", |dir| {
            fs::write(dir.join("x"), "half")?;
            Err(io::Error::from_raw_os_error(28).into())
        });
        assert!(matches!(failed, Err(LayerError::Io(_))) && there(&store) == ["a"]);
        assert_eq!(fs::read_dir(place.at("layers/new")).unwrap().count(), 0, "an incomplete layer remains");
        // Damaged layers are made again.
        fs::write(place.at("layers/layers/a/info"), "tanto layer 1\n").unwrap();
        assert!(add(&store, "a", 10));
    }

    #[test]
    fn concurrent_makers_of_a_layer_agree() {
        let place = Scratch::new("layers-both");
        let store = store(&place, 0);
        let info = store.layer("a", |_| {
            assert!(add(&store, "a", 1));
            Ok(PackageInfo { name: b"a".to_vec(), ..PackageInfo::default() })
        });
        assert!(info.is_ok() && there(&store) == ["a"] && place.at("layers/layers/a/x").exists());
        assert_eq!(fs::read_dir(place.at("layers/new")).unwrap().count(), 0);
    }

    #[test]
    fn least_recently_used_layers_are_evicted_unless_pinned() {
        let place = Scratch::new("layers-limit");
        let store = store(&place, 110);
        place.write("slot/x", "");
        store.pin(&place.at("slot")).unwrap().add(&store, &["a"]).unwrap();
        for name in ["a", "b", "c"] {
            assert!(add(&store, name, 30));
        }
        assert!(!add(&store, "b", 30), "it is used again");
        add(&store, "d", 30);
        assert_eq!(there(&store), ["a", "b", "d"]);
        fs::remove_dir_all(place.at("slot")).unwrap();
        add(&store, "e", 30);
        assert_eq!(
            (there(&store), fs::read(place.at("layers/total")).unwrap()),
            (vec!["b".into(), "d".into(), "e".into()], b"90".to_vec())
        );
        assert_eq!(fs::read_dir(place.at("layers/gone")).unwrap().count(), 0);
    }

    #[test]
    fn only_complete_layers_of_a_killed_build_are_reused() {
        let place = Scratch::new("layers-again");
        let store = store(&place, 0);
        add(&store, "a", 30);
        place.write("layers/new/1-1/tree/x", "half");
        place.write("layers/total", "wrong");
        store.begin().unwrap();
        assert_eq!((there(&store), fs::read(place.at("layers/total")).unwrap()), (vec!["a".into()], b"30".to_vec()));
        assert!(!place.at("layers/new/1-1").exists());
        let elsewhere = InstallRoot { prefix: "/other".into(), ..store.root.clone() };
        let other = LayerStore::new(place.at("layers"), elsewhere, 0);
        other.begin().unwrap();
        assert_eq!(there(&other), [""; 0]);
    }

    #[test]
    fn replaced_file_has_another_layer() {
        let place = Scratch::new("layers-name");
        place.write("a", "x");
        let name = || layer_name("lib-1", &fs::metadata(place.at("a")).unwrap());
        let first = name();
        assert_eq!(name(), first);
        place.write("b", "x");
        fs::rename(place.at("b"), place.at("a")).unwrap();
        assert_ne!(name(), first);
    }
}
