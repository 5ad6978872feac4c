//! Requests for dependencies: written to a file for `tanto bulk enter`, which provides them in its sandbox.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tanto_exec::sandbox::{self, SandboxDir};
use tanto_sys::fs::dir_tree;
use tanto_sys::process::lifecycle;

use super::store::make_dir;
use super::{Dependencies, InstallRoot, LayerError, LayerStore, NeedsPkgAdd, compose};
use crate::shell::quoted;

/// The dependencies of a package, and the store of their layers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LayerRequest {
    pub store: LayerStore,
    pub dependencies: Dependencies,
}

impl LayerRequest {
    /// Writes the request to a file. Fails if a path is not UTF-8, or a value contains a newline.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        let LayerRequest { store, dependencies } = self;
        let root = &store.root;
        let path = |path: &Path| path.to_str().map(str::to_owned);
        let one = [
            ("store", path(&store.dir)),
            ("size", Some(store.limit.to_string())),
            ("prefix", path(&root.prefix)),
            ("pkgdb", path(&root.pkgdb)),
            ("user", Some(root.as_user.to_string())),
            ("packages", path(&dependencies.packages)),
            ("suffix", Some(dependencies.suffix.clone())),
            ("pkg_add", Some(dependencies.pkg_add.clone())),
        ];
        let direct = dependencies.direct.iter().map(|name| ("direct", Some(name.clone())));
        let indirect = dependencies.indirect.iter().map(|name| ("indirect", Some(name.clone())));
        let mut text = String::new();
        for (key, value) in one.into_iter().chain(direct).chain(indirect) {
            let value = value.filter(|value| !value.contains('\n'));
            let value = value.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
            text += &format!("{key} {value}\n");
        }
        fs::write(file, text + "end \n")
    }

    /// Parses a request; `None` if it is incomplete.
    pub fn read(text: &str) -> Option<LayerRequest> {
        let lines: Vec<(&str, &str)> = text.lines().map(|line| line.split_once(' ')).collect::<Option<_>>()?;
        let all = |key: &str| lines.iter().filter(|line| line.0 == key).map(|line| line.1.to_owned()).collect();
        let one = |key: &str| lines.iter().find(|line| line.0 == key).map(|line| line.1.to_owned());
        one("end")?;
        let root =
            InstallRoot { prefix: one("prefix")?.into(), pkgdb: one("pkgdb")?.into(), as_user: one("user")? == "true" };
        Some(LayerRequest {
            store: LayerStore::new(one("store")?, root, one("size")?.parse().ok()?),
            dependencies: Dependencies {
                direct: all("direct"),
                indirect: all("indirect"),
                packages: one("packages")?.into(),
                suffix: one("suffix")?,
                pkg_add: one("pkg_add")?,
            },
        })
    }
}

/// Mounts the layers of a request in a mounted sandbox. Returns the command line that installs the packages that need
/// pkg_add, if there are any.
pub fn provide(place: &SandboxDir, request: &LayerRequest) -> Result<Option<String>, LayerError> {
    lifecycle::exit_with_parent()?;
    let root = &request.store.root;
    let private = place.private();
    dir_tree::remove(&private)?;
    make_dir(&private)?;
    let nothing = private.join("nothing");
    let lowest = |at: &Path| Ok::<_, io::Error>(place.layers(at)?.pop().unwrap_or_else(|| nothing.clone()));
    let prefix = lowest(&root.prefix)?;
    let pkgdb = match root.pkgdb_within() {
        Some(within) => prefix.join(within),
        None => lowest(&root.pkgdb)?,
    };
    let stack = compose(&request.store, &request.dependencies, (&prefix, &pkgdb), &private)?;
    let line = pkg_add_line(&request.dependencies, &root.pkgdb, &stack.needs_pkg_add);
    if line.as_ref().is_some_and(|line| line.len() > MAX_LINE) {
        return Err(LayerError::Unsupported("too many packages need pkg_add".into()));
    }
    let mut layers = vec![(&*root.prefix, &stack.prefix[..])];
    layers.extend(root.pkgdb_within().is_none().then_some((&*root.pkgdb, &stack.pkgdb[..])));
    let paths = |layers: &[PathBuf]| layers.iter().map(|layer| layer.as_os_str().len() + 1).sum::<usize>();
    if layers.iter().any(|(_, layers)| paths(layers) > MAX_PATHS) {
        return Err(LayerError::Unsupported("the paths of layers are too long".into()));
    }
    match sandbox::cover(place, &layers)? {
        true => Ok(line),
        false => Err(LayerError::Unsupported("a mount lies below the prefix or the database".into())),
    }
}

/// The kernel allows 128 KiB for an argument.
const MAX_LINE: usize = 100_000;
/// The kernel allows 4 KiB for the options of a mount.
const MAX_PATHS: usize = 3_000;

/// Returns the line that calls pkg_add. It also registers installed packages in layers as users, which pkg_add cannot do.
fn pkg_add_line(dependencies: &Dependencies, pkgdb: &Path, needs_pkg_add: &[NeedsPkgAdd]) -> Option<String> {
    let (path, db) = (quoted(dependencies.packages.to_string_lossy()), quoted(pkgdb.to_string_lossy()));
    let lines: Vec<String> = needs_pkg_add
        .iter()
        .map(|it| {
            let automatic = if it.automatic { " -A" } else { "" };
            let mut line = format!("PKG_PATH={path} {} -K {db}{automatic} {}", dependencies.pkg_add, quoted(&it.name));
            if !it.needed_by.is_empty() {
                let users: Vec<_> = it.needed_by.iter().map(quoted).collect();
                line += &format!(" && printf '%s\\n' {} >>{db}/{}/+REQUIRED_BY", users.join(" "), quoted(&it.name));
            }
            line
        })
        .collect();
    (!lines.is_empty()).then(|| lines.join(" && "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    fn request() -> LayerRequest {
        let root = InstallRoot { prefix: "/usr/pkg".into(), pkgdb: "/var/db/a b".into(), as_user: true };
        let dependencies = Dependencies {
            direct: vec!["lib-1".into(), "app-2".into()],
            indirect: vec!["base-1".into()],
            packages: "/packages/All".into(),
            suffix: ".tgz".into(),
            pkg_add: "/usr/sbin/pkg_add -v".into(),
        };
        LayerRequest { store: LayerStore::new("/state/layers", root, 7), dependencies }
    }

    #[test]
    fn requests_round_trip() {
        let place = Scratch::new("layers-order");
        request().write(&place.at("needs")).unwrap();
        let text = fs::read_to_string(place.at("needs")).unwrap();
        assert_eq!(LayerRequest::read(&text), Some(request()));
        for length in 0..text.len() - 2 {
            assert_eq!(LayerRequest::read(&text[..length]), None, "{length}");
        }
        let mut odd = request();
        odd.dependencies.suffix = ".t\nz".into();
        assert!(odd.write(&place.at("needs")).is_err());
    }

    #[test]
    fn users_are_registered_after_pkg_add() {
        let needs_pkg_add = |name: &str, automatic, users: &[&str]| NeedsPkgAdd {
            name: name.into(),
            automatic,
            needed_by: users.iter().map(|&user| user.into()).collect(),
        };
        let line = |all: &[NeedsPkgAdd]| pkg_add_line(&request().dependencies, Path::new("/db"), all);
        assert_eq!(line(&[]), None);
        let line = line(&[needs_pkg_add("a-1", true, &["b-1", "c-1"]), needs_pkg_add("d-1", false, &[])]).unwrap();
        let add = "PKG_PATH=/packages/All /usr/sbin/pkg_add -v -K /db";
        assert_eq!(line, format!("{add} -A a-1 && printf '%s\\n' b-1 c-1 >>/db/a-1/+REQUIRED_BY && {add} d-1"));
    }
}
