//! Provides dependencies without installing them: each package is unpacked once into a layer, and an overlay mount combines
//! the layers of all dependencies.
//!
//! Follows the rules of pkg_add (`install_plan.rs`). Packages with install scripts are still installed by pkg_add, and so
//! is everything if a set of packages is not supported: pkg_add then reports errors itself.

mod btree;
mod groups;
mod install_plan;
mod layer_request;
mod package_info;
mod pkgdb;
mod store;
mod unpack;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use self::install_plan::InstallPlan;
pub use self::layer_request::{LayerRequest, provide};
use self::package_info::PackageInfo;
pub use self::store::LayerStore;

/// The place where packages are installed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InstallRoot {
    pub prefix: PathBuf,
    /// The database of installed packages.
    pub pkgdb: PathBuf,
    /// Only one user exists: files cannot have other owners.
    pub as_user: bool,
}

/// The subdirectory of a layer that contains the package's directory of the database. It is hard-linked into the package's
/// private layer, because tools list the whole database often, which is slow across many layers.
const DB: &str = "db";

/// The dependencies of a package.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dependencies {
    /// In the order of the package.
    pub direct: Vec<String>,
    /// All others, transitively, in any order.
    pub indirect: Vec<String>,
    /// The directory of binary packages.
    pub packages: PathBuf,
    /// The suffix of binary packages.
    pub suffix: String,
    /// The pkg_add program.
    pub pkg_add: String,
}

/// Layers to mount over the install root.
#[derive(Clone, PartialEq, Eq, Debug)]
struct LayerStack {
    /// Layers of the prefix, uppermost first.
    prefix: Vec<PathBuf>,
    /// Layers of the database; empty if it is in the prefix.
    pkgdb: Vec<PathBuf>,
    /// Packages that pkg_add installs after mounting, in order.
    needs_pkg_add: Vec<NeedsPkgAdd>,
}

/// A package that pkg_add installs.
#[derive(Clone, PartialEq, Eq, Debug)]
struct NeedsPkgAdd {
    /// PKGNAME.
    name: String,
    /// Installed only as a dependency.
    automatic: bool,
    /// Packages in layers that depend on it.
    needed_by: Vec<String>,
}

/// An error of providing layers.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// pkg_add must install all dependencies.
    #[error("{0}")]
    Unsupported(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl InstallRoot {
    /// Returns the path of the database relative to the prefix, if it is inside.
    fn pkgdb_within(&self) -> Option<&Path> {
        self.pkgdb.strip_prefix(&self.prefix).ok()
    }

    /// Returns the part of a layer that is mounted on the prefix.
    fn tree(layer: &Path) -> PathBuf {
        layer.join("tree")
    }

    /// Returns the part of a private layer that is mounted on the database.
    fn db(&self, private: &Path) -> PathBuf {
        match self.pkgdb_within() {
            Some(within) => InstallRoot::tree(private).join(within),
            None => private.join(DB),
        }
    }
}

/// Composes the layers for a package. `lowest` are the bootstrap kit's directories for the prefix and the database.
/// `private` is an empty directory for the layer that only this package uses; its layers are pinned while it exists.
fn compose(
    store: &LayerStore,
    dependencies: &Dependencies,
    lowest: (&Path, &Path),
    private: &Path,
) -> Result<LayerStack, LayerError> {
    let root = &store.root;
    let kit = pkgdb::read_kit(&root.prefix, lowest.1)?;
    let pins = store.pin(private)?;
    let names: Vec<String> = dependencies.direct.iter().chain(&dependencies.indirect).cloned().collect();
    let mut layers = vec![String::new(); names.len()];
    let mut load = |package: usize| {
        let path = dependencies.packages.join(format!("{}{}", names[package], dependencies.suffix));
        let layer = store::layer_name(&names[package], &package_file(&path, &names[package])?);
        pins.add(store, &[&layer])?;
        layers[package].clone_from(&layer);
        store.layer(&layer, |dir| unpack::unpack(root, &path, dir))
    };
    let plan = install_plan::plan_install(&names, dependencies.direct.len(), &kit, &mut load)?;
    let layered = plan.order.iter().copied().filter(|&it| plan.packages[it].needs_pkg_add.is_none()).collect();
    let set = PackageSet { kit, layered, plan };
    pkgdb::check_conflicts(&set, lowest.0).map_err(LayerError::Unsupported)?;
    pkgdb::write(store, private, &set, &layers, lowest.1)?;
    let layers = groups::layers(store, &pins, &set, &layers)?;
    Ok(LayerStack {
        prefix: [private].into_iter().chain(layers.iter().map(PathBuf::as_path)).map(InstallRoot::tree).collect(),
        pkgdb: match root.pkgdb_within() {
            Some(_) => Vec::new(),
            None => vec![root.db(private)],
        },
        needs_pkg_add: set.needs_pkg_add(),
    })
}

fn package_file(path: &Path, name: &str) -> Result<fs::Metadata, LayerError> {
    fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => LayerError::Unsupported(format!("no binary package of {name}")),
        _ => LayerError::Io(error),
    })
}

/// Packages that are mounted together.
struct PackageSet {
    /// Packages of the bootstrap kit.
    kit: Vec<PackageInfo>,
    /// Packages in layers, in the order of installation.
    layered: Vec<usize>,
    plan: InstallPlan,
}

impl PackageSet {
    fn info(&self, package: usize) -> &PackageInfo {
        &self.plan.packages[package]
    }

    fn layered(&self) -> impl Iterator<Item = &PackageInfo> {
        self.layered.iter().map(|&package| self.info(package))
    }

    /// Returns those of these packages that are in layers.
    fn in_layers<'a>(&'a self, packages: &'a [usize]) -> impl Iterator<Item = usize> + 'a {
        packages.iter().copied().filter(|&package| self.info(package).needs_pkg_add.is_none())
    }

    fn needs_pkg_add(&self) -> Vec<NeedsPkgAdd> {
        let text = |package: usize| String::from_utf8_lossy(&self.info(package).name).into_owned();
        let order = self.plan.order.iter().copied();
        order
            .filter(|&package| self.info(package).needs_pkg_add.is_some())
            .map(|package| NeedsPkgAdd {
                name: text(package),
                automatic: self.plan.automatic[package],
                needed_by: self.in_layers(&self.plan.needed_by[package]).map(text).collect(),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
