//! What a package needs, installed without installing it: each package is unpacked once, into a layer, and a package that
//! is to be built sees the layers of all that it needs as one. What runs a script when it is installed still is.
//! Does not know what is mounted, nor who builds what.
//!
//! The rules are pkg_add's (`install.rs`); what they do not foresee is left to pkg_add itself, which then tells what is
//! wrong, if anything is.

mod byfile;
mod facts;
mod groups;
mod install;
mod mount_plan;
mod set;
mod store;
mod unpack;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use self::facts::Facts;
use self::install::Installed;
pub use self::mount_plan::{Order, provide};
pub use self::store::Store;

/// Where packages are installed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ground {
    /// The prefix.
    pub prefix: PathBuf,
    /// The database of what is installed.
    pub pkgdb: PathBuf,
    /// Nobody can own a file but who runs this.
    pub as_user: bool,
}

/// A package's directory in the database is in this one of its layer. It is seen by a second name in what each package has
/// for itself: tools look through the whole database again and again, and would look through all layers.
const DB: &str = "db";

/// What a package needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Needs {
    /// What it names, in its order.
    pub named: Vec<String>,
    /// All that these need besides, and what that needs, in any order.
    pub deeper: Vec<String>,
    /// Where binary packages are.
    pub packages: PathBuf,
    /// Ends their names.
    pub suffix: String,
    /// What installs them.
    pub pkg_add: String,
}

/// What is to be seen where packages are installed.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Composed {
    /// The layers of the prefix, the uppermost first.
    prefix: Vec<PathBuf>,
    /// Those of the database; none if it is in the prefix.
    pkgdb: Vec<PathBuf>,
    /// What pkg_add has to install then, in this order.
    scripted: Vec<Scripted>,
}

/// A package that pkg_add installs.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Scripted {
    /// PKGNAME.
    name: String,
    /// It is there because others need it.
    automatic: bool,
    /// Which of those that are there already need it.
    needed_by: Vec<String>,
}

/// Why nothing was composed.
#[derive(Debug)]
pub enum Trouble {
    /// It is a case for pkg_add; says why.
    Odd(String),
    /// The machine refused something.
    Machine(io::Error),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Machine(error)
    }
}

impl Ground {
    /// Where the database is below the prefix, if it is there.
    fn pkgdb_within(&self) -> Option<&Path> {
        self.pkgdb.strip_prefix(&self.prefix).ok()
    }

    /// The part of a layer that is seen in the prefix.
    fn tree(layer: &Path) -> PathBuf {
        layer.join("tree")
    }

    /// The part of what only one package has that is seen in the database.
    fn db(&self, own: &Path) -> PathBuf {
        match self.pkgdb_within() {
            Some(within) => Ground::tree(own).join(within),
            None => own.join(DB),
        }
    }

    fn key(&self) -> String {
        format!("{}\n{}\n{}\n", self.prefix.display(), self.pkgdb.display(), self.as_user)
    }
}

/// Layers for a package. `lowest` are the directories that the bootstrap kit has for the prefix and for the database; `own` is
/// an empty place for what only this package has: how those that it needs belong together. Who uses the layers is
/// known by `own`, as long as that is there.
fn compose(store: &Store, needs: &Needs, lowest: (&Path, &Path), own: &Path) -> Result<Composed, Trouble> {
    let ground = store.ground();
    let kit = set::kit(&ground.prefix, lowest.1)?;
    let held = store.hold(own)?;
    let names: Vec<String> = needs.named.iter().chain(&needs.deeper).cloned().collect();
    let mut layers = vec![String::new(); names.len()];
    let mut ask = |it: usize| {
        let path = needs.packages.join(format!("{}{}", names[it], needs.suffix));
        let layer = store::name(&names[it], &package_file(&path, &names[it])?);
        held.more(store, &[&layer])?;
        layers[it].clone_from(&layer);
        store.layer(&layer, |dir| unpack::unpack(ground, &path, dir))
    };
    let installed = install::install(&names, needs.named.len(), &kit, &mut ask)?;
    let layered = installed.order.iter().copied().filter(|&it| installed.known[it].through.is_none()).collect();
    let set = Set { kit, layered, installed };
    set::check(&set, lowest.0).map_err(Trouble::Odd)?;
    set::write(store, own, &set, &layers, lowest.1)?;
    let layers = groups::layers(store, &held, &set, &layers)?;
    Ok(Composed {
        prefix: [own].into_iter().chain(layers.iter().map(PathBuf::as_path)).map(Ground::tree).collect(),
        pkgdb: match ground.pkgdb_within() {
            Some(_) => Vec::new(),
            None => vec![ground.db(own)],
        },
        scripted: set.scripted(),
    })
}

fn package_file(path: &Path, name: &str) -> Result<fs::Metadata, Trouble> {
    fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Trouble::Odd(format!("there is no package of {name}")),
        _ => Trouble::Machine(error),
    })
}

/// Packages that are seen together.
struct Set {
    kit: Vec<Facts>,
    /// Those that are in layers, in the order in which they were installed.
    layered: Vec<usize>,
    installed: Installed,
}

impl Set {
    fn facts(&self, it: usize) -> &Facts {
        &self.installed.known[it]
    }

    fn layered(&self) -> impl Iterator<Item = &Facts> {
        self.layered.iter().map(|&it| self.facts(it))
    }

    fn is_scripted(&self, it: usize) -> bool {
        self.facts(it).through.is_some()
    }

    fn scripted(&self) -> Vec<Scripted> {
        let text = |it: usize| String::from_utf8_lossy(&self.facts(it).name).into_owned();
        let scripted = self.installed.order.iter().copied().filter(|&it| self.is_scripted(it));
        let users = |it: usize| self.installed.needed_by[it].iter().copied().filter(|&user| !self.is_scripted(user));
        scripted
            .map(|it| Scripted {
                name: text(it),
                automatic: self.installed.automatic[it],
                needed_by: users(it).map(text).collect(),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
