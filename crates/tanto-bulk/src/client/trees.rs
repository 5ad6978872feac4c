//! The package trees of a client. Each attempt sees the one that its lease names; trees share unchanged files.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tanto_protocol::Digest;
use tanto_sys::fs::dir_tree;

/// Where the trees are.
#[derive(Clone, Debug)]
pub enum TreePlace {
    /// Each is in a directory of this one, named by its digest.
    Many(PathBuf),
    /// All attempts see the one in this directory.
    One(PathBuf),
}

/// See the module. Shared by the threads of all slots, and by all builds that the client takes part in.
pub struct Trees {
    place: TreePlace,
    state: Mutex<TreesState>,
    /// Signaled when a tree is there or no longer used.
    changed: Condvar,
}

#[derive(Default)]
struct TreesState {
    trees: BTreeMap<Digest, TreeState>,
    /// The tree that was made last. It is kept, because the next one shares files with it.
    latest: Option<Digest>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TreeState {
    /// It is being made or removed.
    Changing,
    Ready {
        users: usize,
    },
}

/// A tree that has to be made: the directory `TREE` in `dir`.
pub struct NewTree {
    pub manifest: Digest,
    pub dir: PathBuf,
    /// The manifest and the place of another tree. Without one, `dir` may have an older tree.
    pub base: Option<(Digest, PathBuf)>,
}

/// The directory of a tree in its place.
pub const TREE: &str = "tree";

impl Trees {
    /// Trees of an earlier process prove nothing: they are files to begin with.
    pub fn new(place: TreePlace) -> Trees {
        Trees { place, state: Mutex::default(), changed: Condvar::new() }
    }

    /// The directory of a tree.
    pub fn path(&self, tree: Digest) -> PathBuf {
        self.dir(tree).join(TREE)
    }

    fn dir(&self, tree: Digest) -> PathBuf {
        match &self.place {
            TreePlace::Many(dir) => dir.join(tree.to_string()),
            TreePlace::One(dir) => dir.clone(),
        }
    }

    /// Provides a tree until `release`. `make` is called if it is not there, by one thread at a time for each tree. Returns
    /// its value.
    pub fn provide<T, E>(&self, tree: Digest, make: impl FnOnce(&NewTree) -> Result<T, E>) -> Result<Option<T>, E> {
        let Some(base) = self.begin(tree) else { return Ok(None) };
        let base_dir = base.map(|base| (base, self.dir(base)));
        let made = make(&NewTree { manifest: tree, dir: self.dir(tree), base: base_dir });
        if made.is_err() && base.is_some() {
            // The next attempt makes it anew.
            let _ = dir_tree::remove(&self.dir(tree));
        }
        let mut state = self.lock();
        base.into_iter().for_each(|base| state.release(base));
        if made.is_ok() {
            state.trees.insert(tree, TreeState::Ready { users: 1 });
            state.latest = Some(tree);
        } else {
            state.trees.remove(&tree);
        }
        self.changed.notify_all();
        made.map(Some)
    }

    /// Waits until a tree is there, or it is this thread's turn to make it: returns the tree to begin with then, which is
    /// in use.
    fn begin(&self, tree: Digest) -> Option<Option<Digest>> {
        let mut state = self.lock();
        loop {
            match (state.trees.get(&tree).copied(), &self.place) {
                (Some(TreeState::Ready { users }), _) => {
                    state.trees.insert(tree, TreeState::Ready { users: users + 1 });
                    return None;
                }
                (None, TreePlace::Many(_)) => {
                    let base = state.latest;
                    base.into_iter().for_each(|base| state.take(base));
                    state.trees.insert(tree, TreeState::Changing);
                    return Some(base);
                }
                (None, TreePlace::One(_)) if state.trees.values().all(|it| *it == TreeState::Ready { users: 0 }) => {
                    state.trees = BTreeMap::from([(tree, TreeState::Changing)]);
                    state.latest = None;
                    return Some(None);
                }
                (Some(TreeState::Changing), _) | (None, TreePlace::One(_)) => {}
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The attempt that saw this tree has ended.
    pub fn release(&self, tree: Digest) {
        self.lock().release(tree);
        self.changed.notify_all();
    }

    /// Removes trees that are not used, except the latest. A failure is not an error: the next process tries again.
    pub fn remove_unused(&self) {
        let TreePlace::Many(_) = self.place else { return };
        for tree in self.take_unused() {
            let _ = dir_tree::remove(&self.dir(tree));
            self.lock().trees.remove(&tree);
            self.changed.notify_all();
        }
    }

    fn take_unused(&self) -> Vec<Digest> {
        let mut state = self.lock();
        let latest = state.latest;
        let unused = state
            .trees
            .iter_mut()
            .filter(|(tree, state)| **state == TreeState::Ready { users: 0 } && latest != Some(**tree));
        unused
            .map(|(tree, state)| {
                *state = TreeState::Changing;
                *tree
            })
            .collect()
    }

    /// Makes an old tree of an earlier process the begin of this one, and removes the others.
    pub fn adopt_old(&self, tree: Digest) -> io::Result<()> {
        let TreePlace::Many(dir) = &self.place else { return Ok(()) };
        fs::create_dir_all(dir)?;
        let own = self.dir(tree);
        let others = fs::read_dir(dir)?.flatten().map(|entry| entry.path()).filter(|path| *path != own);
        for other in others.collect::<Vec<_>>() {
            if own.exists() {
                dir_tree::remove(&other)?;
            } else {
                fs::rename(&other, &own)?;
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, TreesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TreesState {
    fn take(&mut self, tree: Digest) {
        if let Some(TreeState::Ready { users }) = self.trees.get_mut(&tree) {
            *users += 1;
        }
    }

    fn release(&mut self, tree: Digest) {
        if let Some(TreeState::Ready { users }) = self.trees.get_mut(&tree) {
            *users -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;
    use tanto_testing::Scratch;

    fn tree(number: u8) -> Digest {
        Digest([number; 32])
    }

    /// Provides a tree. Returns its base if it was made.
    fn provide(trees: &Trees, number: u8) -> Option<Option<Digest>> {
        let made = trees.provide(tree(number), |new| {
            fs::create_dir_all(new.dir.join(TREE)).unwrap();
            Ok::<_, Infallible>(new.base.as_ref().map(|(base, _)| *base))
        });
        let Ok(made) = made;
        made
    }

    fn names(place: &Scratch) -> Vec<PathBuf> {
        let mut names: Vec<_> = fs::read_dir(place.at("trees")).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        names
    }

    #[test]
    fn unused_trees_are_removed_except_the_latest() {
        let place = Scratch::new("client-trees");
        let trees = Trees::new(TreePlace::Many(place.at("trees")));
        assert_eq!(provide(&trees, 1), Some(None));
        assert_eq!(provide(&trees, 1), None, "it is there");
        assert_eq!(provide(&trees, 2), Some(Some(tree(1))));
        trees.release(tree(1));
        trees.remove_unused();
        assert_eq!(names(&place), [tree(1), tree(2)].map(|tree| trees.dir(tree)), "an attempt sees it");
        trees.release(tree(1));
        trees.release(tree(2));
        trees.remove_unused();
        assert_eq!(names(&place), [trees.dir(tree(2))]);
        assert_eq!(provide(&trees, 1), Some(Some(tree(2))));
        // A tree that could not be made is not there.
        let fail = |new: &NewTree| {
            fs::create_dir_all(new.dir.join(TREE)).unwrap();
            Err::<(), _>("no")
        };
        assert_eq!(trees.provide(tree(3), fail), Err("no"));
        trees.remove_unused();
        assert_eq!(names(&place), [trees.dir(tree(1))], "it was made last");
        assert_eq!(provide(&trees, 3), Some(Some(tree(1))));
    }

    #[test]
    fn one_directory_has_one_tree_at_a_time() {
        let place = Scratch::new("client-one-tree");
        let trees = Trees::new(TreePlace::One(place.at("tree")));
        assert_eq!(provide(&trees, 1), Some(None));
        thread::scope(|scope| {
            let second = scope.spawn(|| provide(&trees, 2));
            assert_eq!(provide(&trees, 1), None);
            trees.release(tree(1));
            assert!(!second.is_finished(), "an attempt sees the first");
            trees.release(tree(1));
            assert_eq!(second.join().unwrap(), Some(None), "its files are replaced");
        });
    }

    #[test]
    fn threads_make_a_tree_once() {
        let place = Scratch::new("client-trees-once");
        let trees = Trees::new(TreePlace::Many(place.at("trees")));
        let made = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let count = |_: &NewTree| Ok::<_, Infallible>(made.fetch_add(1, Ordering::Relaxed));
                    let Ok(_) = trees.provide(tree(1), count);
                });
            }
        });
        assert_eq!(made.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_tree_of_an_earlier_process_is_a_begin() {
        let place = Scratch::new("client-trees-adopted");
        let trees = || Trees::new(TreePlace::Many(place.at("trees")));
        place.write("trees/old/tree/file", "old");
        trees().adopt_old(tree(1)).unwrap();
        assert_eq!(fs::read_to_string(trees().path(tree(1)).join("file")).unwrap(), "old");
        place.write("trees/other/tree/file", "other");
        trees().adopt_old(tree(1)).unwrap();
        assert_eq!(names(&place), [trees().dir(tree(1))]);
        assert_eq!(provide(&trees(), 1), Some(None), "it has to be compared first");
    }
}
