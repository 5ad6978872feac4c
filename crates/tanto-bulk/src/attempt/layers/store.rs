//! Where layers are kept: each whole or not at all, under a limit, the one first out that was not used for longest. Several
//! processes use it at the same time. Does not know what is in a layer.
//!
//! Layers do not outlive the machine's run: what was written may be gone when its power was.

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

use super::facts::Facts;
use super::{Ground, Trouble};

/// The layers of a build.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Store {
    dir: PathBuf,
    ground: Ground,
    /// In bytes; 0: none.
    limit: u64,
}

/// What one who composes layers uses.
pub(super) struct Held {
    file: PathBuf,
}

impl Held {
    /// These stay.
    pub fn more(&self, store: &Store, names: &[&str]) -> io::Result<()> {
        let _lock = store.lock()?;
        OpenOptions::new().append(true).open(&self.file)?.write_all((names.join("\n") + "\n").as_bytes())
    }
}

const FACTS: &str = "facts";
/// So much of the limit is used after others had to go.
const KEPT_OF_8: u64 = 7;

impl Store {
    /// The store in this directory, for what is installed there, with so many bytes; 0: any number.
    pub fn new(dir: impl Into<PathBuf>, ground: Ground, limit: u64) -> Store {
        Store { dir: dir.into(), ground, limit }
    }

    /// Where packages are installed.
    pub fn ground(&self) -> &Ground {
        &self.ground
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Makes the store, or what a build has left of it, fit to use. Nobody uses it yet.
    pub fn begin(&self) -> io::Result<()> {
        let made = format!("1\n{}{}", self.ground.key(), boot_id());
        if fs::read(self.dir.join("made")).ok().as_deref() != Some(made.as_bytes()) && self.dir.exists() {
            fs::remove_dir_all(&self.dir)?;
        }
        for name in ["new", "gone", "users"] {
            remove(&self.dir.join(name))?;
            fs::create_dir_all(self.dir.join(name))?;
        }
        fs::create_dir_all(self.dir.join("layers"))?;
        fs::write(self.dir.join("made"), made)?;
        self.make_room()
    }

    /// A layer's place.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.join("layers").join(name)
    }

    /// Who is known by `own`, as long as that is there, says from now on which layers are used.
    pub(super) fn hold(&self, own: &Path) -> io::Result<Held> {
        let own = own.as_os_str().as_bytes();
        let held = Held { file: self.dir.join("users").join(hex(own)) };
        let _lock = self.lock()?;
        fs::write(&held.file, [own, b"\n"].concat())?;
        Ok(held)
    }

    /// What is known of a layer. It is made if it is not there: in an empty directory, which then becomes the layer.
    pub(super) fn layer(
        &self,
        name: &str,
        make: impl FnOnce(&Path) -> Result<Facts, Trouble>,
    ) -> Result<Facts, Trouble> {
        let place = self.path(name);
        match fs::read(place.join(FACTS)) {
            Ok(text) => {
                if let Some(facts) = Facts::read(&text) {
                    let _ = File::open(&place).and_then(|dir| dir.set_modified(SystemTime::now()));
                    return Ok(facts);
                }
                self.discard(&place)?;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        let new = self.unused("new");
        make_dir(&new)?;
        let made = make(&new).and_then(|facts| self.keep(&new, &place, &facts).map(|()| facts).map_err(Trouble::from));
        made.inspect_err(|_| drop(remove(&new)))
    }

    fn keep(&self, new: &Path, place: &Path, facts: &Facts) -> io::Result<()> {
        fs::write(new.join(FACTS), facts.text())?;
        match fs::rename(new, place) {
            // Somebody else was faster.
            Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::DirectoryNotEmpty) => {
                remove(new)
            }
            Err(error) => Err(error),
            Ok(()) => self.account(facts.bytes),
        }
    }

    /// Notes that there is more.
    fn account(&self, bytes: u64) -> io::Result<()> {
        let total = {
            let _lock = self.lock()?;
            let path = self.dir.join("total");
            let before = fs::read_to_string(&path).ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
            let total = before.saturating_add(bytes);
            fs::write(path, total.to_string())?;
            total
        };
        if self.limit > 0 && total > self.limit { self.make_room() } else { Ok(()) }
    }

    /// Counts what there is. If it is too much, those go that nobody uses, from the one on that was last used first.
    fn make_room(&self) -> io::Result<()> {
        let gone = self.unused("gone");
        {
            let _lock = self.lock()?;
            let mut layers = self.layers()?;
            let mut total: u64 = layers.iter().map(|layer| layer.bytes).sum();
            if self.limit > 0 && total > self.limit {
                layers.sort_unstable_by_key(|layer| layer.used);
                fs::create_dir(&gone)?;
                let held = self.held()?;
                let enough = self.limit / 8 * KEPT_OF_8;
                for layer in layers.iter().filter(|layer| !held.contains(&layer.name)) {
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

    fn layers(&self) -> io::Result<Vec<Kept>> {
        let mut layers = Vec::new();
        for entry in fs::read_dir(self.dir.join("layers"))? {
            let entry = entry?;
            let facts = fs::read(entry.path().join(FACTS)).ok().and_then(|text| Facts::read(&text));
            let used = entry.metadata()?.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            layers.push(Kept { name: entry.file_name(), used, bytes: facts.map_or(0, |facts| facts.bytes) });
        }
        Ok(layers)
    }

    /// All layers that somebody uses. Whose own place is gone uses none.
    fn held(&self) -> io::Result<HashSet<OsString>> {
        let mut held = HashSet::new();
        for entry in fs::read_dir(self.dir.join("users"))? {
            let path = entry?.path();
            let text = fs::read(&path)?;
            let mut lines = text.split(|&byte| byte == b'\n').map(|line| std::ffi::OsStr::from_bytes(line).to_owned());
            match lines.next() {
                Some(own) if Path::new(&own).exists() => held.extend(lines),
                _ => fs::remove_file(&path)?,
            }
        }
        Ok(held)
    }

    fn discard(&self, place: &Path) -> io::Result<()> {
        let gone = self.unused("gone");
        match fs::rename(place, &gone) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => remove(&gone),
        }
    }

    /// Only one at a time counts, and says what it uses.
    fn lock(&self) -> io::Result<File> {
        const PATIENCE: Duration = Duration::from_secs(1);
        let file = lock::open_lock_file(&self.dir.join("lock"))?;
        lock::lock_exclusive(&file, PATIENCE, || {})?;
        Ok(file)
    }

    /// A path that nobody has.
    fn unused(&self, kind: &str) -> PathBuf {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.dir.join(kind).join(format!("{}-{number}", std::process::id()))
    }
}

struct Kept {
    name: OsString,
    used: SystemTime,
    bytes: u64,
}

/// The layer of a package whose file is like this. A file that is replaced has another.
pub(super) fn name(package: &str, data: &Metadata) -> String {
    let (mtime, ctime) = ((data.mtime(), data.mtime_nsec()), (data.ctime(), data.ctime_nsec()));
    let stamp = format!("{} {} {} {mtime:?} {ctime:?}", data.dev(), data.ino(), data.size());
    format!("{package}.{}", &hex(stamp.as_bytes())[..16])
}

/// 32 letters that stand for some bytes.
pub(super) fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes a directory that all may see.
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

    fn store(place: &Scratch, limit: u64) -> Store {
        let ground = Ground { prefix: "/pkg".into(), pkgdb: "/db".into(), as_user: false };
        let store = Store::new(place.at("layers"), ground, limit);
        store.begin().unwrap();
        store
    }

    fn add(store: &Store, name: &str, bytes: u64) -> bool {
        let mut made = false;
        let facts = Facts { name: name.into(), bytes, ..Facts::default() };
        let facts = store.layer(name, |dir| {
            made = true;
            fs::write(dir.join("x"), name)?;
            Ok(facts.clone())
        });
        assert_eq!(facts.unwrap().name, name.as_bytes());
        // Which was used last is told by times.
        std::thread::sleep(Duration::from_millis(15));
        made
    }

    fn there(store: &Store) -> Vec<String> {
        let mut names: Vec<_> = store.layers().unwrap().into_iter().map(|it| it.name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_layer_is_made_once_and_whole() {
        let place = Scratch::new("layers-once");
        let store = store(&place, 0);
        assert!(add(&store, "a", 10) && !add(&store, "a", 10));
        let failed = store.layer("b", |dir| {
            fs::write(dir.join("x"), "half")?;
            Err(io::Error::from_raw_os_error(28).into())
        });
        assert!(matches!(failed, Err(Trouble::Machine(_))) && there(&store) == ["a"]);
        assert_eq!(fs::read_dir(place.at("layers/new")).unwrap().count(), 0, "half a layer is there");
        // What is damaged is made anew.
        fs::write(place.at("layers/layers/a/facts"), "tanto layer 1\n").unwrap();
        assert!(add(&store, "a", 10));
    }

    #[test]
    fn two_make_the_same_at_the_same_time() {
        let place = Scratch::new("layers-both");
        let store = store(&place, 0);
        let facts = store.layer("a", |_| {
            assert!(add(&store, "a", 1));
            Ok(Facts { name: b"a".to_vec(), ..Facts::default() })
        });
        assert!(facts.is_ok() && there(&store) == ["a"] && place.at("layers/layers/a/x").exists());
        assert_eq!(fs::read_dir(place.at("layers/new")).unwrap().count(), 0);
    }

    #[test]
    fn what_was_not_used_for_longest_goes_unless_somebody_uses_it() {
        let place = Scratch::new("layers-limit");
        let store = store(&place, 110);
        place.write("slot/x", "");
        store.hold(&place.at("slot")).unwrap().more(&store, &["a"]).unwrap();
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
    fn what_a_killed_build_left_half_is_removed_and_the_rest_is_used() {
        let place = Scratch::new("layers-again");
        let store = store(&place, 0);
        add(&store, "a", 30);
        place.write("layers/new/1-1/tree/x", "half");
        place.write("layers/total", "wrong");
        store.begin().unwrap();
        assert_eq!((there(&store), fs::read(place.at("layers/total")).unwrap()), (vec!["a".into()], b"30".to_vec()));
        assert!(!place.at("layers/new/1-1").exists());
        let elsewhere = Ground { prefix: "/other".into(), ..store.ground.clone() };
        let other = Store::new(place.at("layers"), elsewhere, 0);
        other.begin().unwrap();
        assert_eq!(there(&other), [""; 0]);
    }

    #[test]
    fn a_file_that_is_replaced_has_another_layer() {
        let place = Scratch::new("layers-name");
        place.write("a", "x");
        let name = || name("lib-1", &fs::metadata(place.at("a")).unwrap());
        let first = name();
        assert_eq!(name(), first);
        place.write("b", "x");
        fs::rename(place.at("b"), place.at("a")).unwrap();
        assert_ne!(name(), first);
    }
}
