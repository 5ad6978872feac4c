//! Makes the package tree equal to the one that another machine has pushed to the server.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use tanto_cas::manifest::ManifestLimits;
use tanto_cas::store::StoreLimits;
use tanto_cas::tree::{Applied, DigestCache, ScanOptions, sync};
use tanto_cas::{Manifest, Store};
use tanto_protocol::{Digest, Message, PUSHED_TREES, PushedTree};
use tanto_sys::fs::file::write_atomically;
use tanto_sys::fs::lock;

use crate::config::Config;
use crate::error::BulkError;

/// The digests of the files of the tree, in the state directory.
pub const DIGESTS: &str = "tree-digests";
/// The file in the state directory with the path of the tree and the digest of its manifest.
const MADE: &str = "pushed-tree";
/// Between two looks for a tree.
const INTERVAL: Duration = Duration::from_millis(500);

/// What happens if no tree was pushed yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IfAbsent {
    Wait,
    Fail,
}

/// Returns the only digest that the tree may have.
pub fn pinned(config: &Config) -> Result<Option<Digest>, BulkError> {
    match config.tree_digest.as_str() {
        "" => Ok(None),
        text => {
            let malformed = |_| format!("tree_digest = \"{text}\": expected 64 lowercase hexadecimal digits");
            Ok(text.parse().map(Some).map_err(malformed)?)
        }
    }
}

/// Refuses a tree with another digest than the pinned one.
pub fn check_pin(pinned: Option<Digest>, manifest: Digest) -> Result<(), BulkError> {
    match pinned.filter(|pinned| *pinned != manifest) {
        None => Ok(()),
        Some(pinned) => {
            Err(format!("the package tree has the digest {manifest}, but 'tree_digest' requires {pinned}").into())
        }
    }
}

/// Makes `pkgsrc` equal to the tree that was pushed last, if the configuration asks for that.
pub fn update(config: &Config, absent: IfAbsent) -> Result<(), BulkError> {
    if !config.pushed_tree {
        return Ok(());
    }
    if config.listen.is_empty() {
        return Err("with 'pushed_tree', set 'listen' too: the tree is pushed to the server".into());
    }
    let target = TreeTarget::new(config);
    target.check()?;
    let pinned = pinned(config)?;
    let _guard = lock_tree(config)?;
    let tree = pushed(&config.server_dir().join(PUSHED_TREES).join(&config.build_name), absent)?;
    check_pin(pinned, tree.manifest)?;
    let applied = target.fill(&config.server_dir().join("blobs"), &tree)?;
    if applied != Applied::default() {
        let Applied { written, removed, .. } = applied;
        let PushedTree { manifest, name } = tree;
        eprintln!("tanto: package tree {manifest} of {name}: {written} files written, {removed} removed");
    }
    Ok(())
}

/// Excludes other processes that change the tree.
fn lock_tree(config: &Config) -> Result<fs::File, BulkError> {
    let path = Path::new(&config.state).join("pushed-tree.lock");
    let guard = lock::open_lock_file(&path).map_err(BulkError::io("opening ", &path))?;
    lock::lock_exclusive(&guard, Duration::MAX, || ()).map_err(BulkError::io("locking ", &path))?;
    Ok(guard)
}

/// Reads which tree was pushed last.
fn pushed(path: &Path, absent: IfAbsent) -> Result<PushedTree, BulkError> {
    let mut is_told = false;
    loop {
        match fs::read(path) {
            Ok(text) => {
                let tree = PushedTree::decode(&text);
                return tree.map_err(|error| format!("{}: {error}", path.display()).into());
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(BulkError::io("reading ", path)(error));
            }
            Err(_) if absent == IfAbsent::Fail => {
                return Err(
                    "no package tree was pushed yet: use 'tanto bulk push-tree' on a machine that has it".into()
                );
            }
            Err(_) => {}
        }
        if !std::mem::replace(&mut is_told, true) {
            eprintln!("tanto: waiting for a package tree: use 'tanto bulk push-tree' on a machine that has it");
        }
        thread::sleep(INTERVAL);
    }
}

/// The directory of the package tree.
struct TreeTarget {
    root: PathBuf,
    /// Says whether this build has made it.
    made: PathBuf,
    digests: PathBuf,
}

impl TreeTarget {
    fn new(config: &Config) -> TreeTarget {
        let state = Path::new(&config.state);
        TreeTarget { root: PathBuf::from(&config.pkgsrc), made: state.join(MADE), digests: state.join(DIGESTS) }
    }

    /// Refuses a directory with files that were not pushed: they would be removed.
    fn check(&self) -> Result<(), BulkError> {
        let made = fs::read_to_string(&self.made).unwrap_or_default();
        if made.lines().next() == self.root.to_str() {
            return Ok(());
        }
        let is_empty = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            entries => entries.map_err(BulkError::io("reading ", &self.root))?.next().is_none(),
        };
        if is_empty {
            return Ok(());
        }
        let root = self.root.display();
        Err(format!("{root} has other files, which 'pushed_tree' would remove: set 'pkgsrc' to a new directory").into())
    }

    /// Makes the directory equal to a tree, whose blobs are in the store of the server.
    fn fill(&self, blobs: &Path, tree: &PushedTree) -> Result<Applied, BulkError> {
        let failed = |error: &dyn std::fmt::Display| {
            BulkError::Invalid(format!(
                "cannot make {} equal to the tree of {}: {error}",
                self.root.display(),
                tree.name
            ))
        };
        let options = ScanOptions::default();
        let store = Store::open(blobs, StoreLimits::default()).map_err(|error| failed(&error))?;
        let text = store.read_to_vec(&tanto_cas::Digest(tree.manifest.0), options.limits.text_bytes as u64);
        let text = text.map_err(|error| failed(&error))?;
        let wanted = Manifest::parse(&text, &ManifestLimits::default()).map_err(|error| failed(&error))?;
        // Before the first file, so that an interrupted call can be repeated.
        let made = format!("{}\n{}\n", self.root.display(), tree.manifest);
        write_atomically(&self.made, |file| file.write_all(made.as_bytes()))
            .map_err(BulkError::io("writing ", &self.made))?;
        let mut cache = DigestCache::load(&self.digests);
        let applied = sync(&store, &wanted, &self.root, &options, &mut cache).map_err(|error| failed(&error))?;
        // The next scan calculates digests again.
        let _ = cache.save(&self.digests);
        Ok(applied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_cas::store::Durability;
    use tanto_testing::Scratch;

    /// A build to which the directory `from` was pushed.
    struct Pushed {
        place: Scratch,
        config: Config,
    }

    impl Pushed {
        fn new(name: &str) -> Pushed {
            let place = Scratch::new(name);
            let text = |path: &str| place.at(path).to_string_lossy().into_owned();
            let config = Config {
                listen: "127.0.0.1:1".into(),
                pushed_tree: true,
                pkgsrc: text("pkgsrc"),
                state: text("state"),
                ..Config::default()
            };
            fs::create_dir_all(place.at("state/serve/trees")).unwrap();
            Pushed { place, config }
        }

        /// Returns the digest of the manifest.
        fn push(&self) -> Digest {
            let store = Store::open(&self.place.at("state/serve/blobs"), StoreLimits::default()).unwrap();
            let from = self.place.at("from");
            let manifest = tanto_cas::tree::scan(&from, &ScanOptions::default(), &mut DigestCache::default()).unwrap();
            for entry in manifest.entries() {
                let path = from.join(String::from_utf8(entry.path.clone()).unwrap());
                store.put_file(&path, None, u64::MAX, Durability::Process).unwrap();
            }
            let text = manifest.text();
            store.add(&mut &text[..], text.len() as u64, Durability::Process).unwrap();
            let tree = PushedTree { manifest: Digest(manifest.digest().0), name: "laptop".into() };
            self.place.write("state/serve/trees/build", tree.encode().unwrap());
            tree.manifest
        }

        fn update(&self) -> Result<(), String> {
            update(&self.config, IfAbsent::Fail).map_err(|error| error.to_string())
        }

        fn read(&self, path: &str) -> Option<String> {
            fs::read_to_string(self.place.at("pkgsrc").join(path)).ok()
        }
    }

    #[test]
    fn the_tree_follows_the_last_push() {
        let pushed = Pushed::new("pushed-tree");
        pushed.place.write("from/a/p/Makefile", "one");
        assert!(pushed.update().unwrap_err().contains("no package tree was pushed yet"));
        pushed.push();
        pushed.update().unwrap();
        assert_eq!(pushed.read("a/p/Makefile").as_deref(), Some("one"));
        pushed.place.write("pkgsrc/a/p/own", "somebody wrote it");
        pushed.place.write("from/a/q/Makefile", "two");
        fs::remove_dir_all(pushed.place.at("from/a/p")).unwrap();
        pushed.push();
        pushed.update().unwrap();
        assert_eq!((pushed.read("a/p/own"), pushed.read("a/q/Makefile").as_deref()), (None, Some("two")));
    }

    #[test]
    fn other_files_are_not_removed() {
        let pushed = Pushed::new("pushed-tree-other");
        pushed.place.write("from/a/p/Makefile", "one");
        pushed.push();
        pushed.place.write("pkgsrc/precious", "mine");
        assert!(pushed.update().unwrap_err().contains("has other files"));
        assert_eq!(pushed.read("precious").as_deref(), Some("mine"));
        fs::remove_file(pushed.place.at("pkgsrc/precious")).unwrap();
        pushed.update().unwrap();
        assert_eq!(pushed.read("a/p/Makefile").as_deref(), Some("one"));
    }

    #[test]
    fn only_the_pinned_tree_is_used() {
        let mut pushed = Pushed::new("pushed-tree-pin");
        pushed.place.write("from/a/p/Makefile", "one");
        let first = pushed.push();
        pushed.config.tree_digest = "1".repeat(64);
        let why = pushed.update().unwrap_err();
        assert!(why.contains(&first.to_string()) && why.contains(&"1".repeat(64)), "{why}");
        assert_eq!(pushed.read("a/p/Makefile"), None);
        pushed.config.tree_digest = first.to_string();
        pushed.update().unwrap();
        pushed.config.tree_digest = "1234".into();
        assert!(pushed.update().unwrap_err().contains("64 lowercase"));
    }
}
