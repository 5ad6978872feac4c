//! What whoever enters a sandbox is told of a package's needs, as a file, and how these come into the sandbox. Does not know
//! who asks.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tanto_exec::sandbox::{self, SandboxDir};
use tanto_sys::fs::dir_tree;
use tanto_sys::process::lifecycle;

use super::store::make_dir;
use super::{Ground, Needs, Scripted, Store, Trouble, compose};
use crate::shell::quoted;

/// What is needed, and where layers of it are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    /// Where layers are kept.
    pub store: Store,
    /// What is needed.
    pub needs: Needs,
}

impl Order {
    /// Writes it down.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        let Order { store, needs } = self;
        let ground = store.ground();
        let path = |path: &Path| path.to_str().map(str::to_owned);
        let one = [
            ("store", path(store.dir())),
            ("size", Some(store.limit().to_string())),
            ("prefix", path(&ground.prefix)),
            ("pkgdb", path(&ground.pkgdb)),
            ("user", Some(ground.as_user.to_string())),
            ("packages", path(&needs.packages)),
            ("suffix", Some(needs.suffix.clone())),
            ("pkg_add", Some(needs.pkg_add.clone())),
        ];
        let named = needs.named.iter().map(|name| ("named", Some(name.clone())));
        let deeper = needs.deeper.iter().map(|name| ("deeper", Some(name.clone())));
        let mut text = String::new();
        for (key, value) in one.into_iter().chain(named).chain(deeper) {
            let value = value.filter(|value| !value.contains('\n'));
            let value = value.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
            text += &format!("{key} {value}\n");
        }
        fs::write(file, text + "end \n")
    }

    /// Reads it; none if it is not whole.
    pub fn read(text: &str) -> Option<Order> {
        let lines: Vec<(&str, &str)> = text.lines().map(|line| line.split_once(' ')).collect::<Option<_>>()?;
        let all = |key: &str| lines.iter().filter(|line| line.0 == key).map(|line| line.1.to_owned()).collect();
        let one = |key: &str| lines.iter().find(|line| line.0 == key).map(|line| line.1.to_owned());
        one("end")?;
        let ground =
            Ground { prefix: one("prefix")?.into(), pkgdb: one("pkgdb")?.into(), as_user: one("user")? == "true" };
        Some(Order {
            store: Store::new(one("store")?, ground, one("size")?.parse().ok()?),
            needs: Needs {
                named: all("named"),
                deeper: all("deeper"),
                packages: one("packages")?.into(),
                suffix: one("suffix")?,
                pkg_add: one("pkg_add")?,
            },
        })
    }
}

/// Brings what is needed into a sandbox that is mounted. Says what is to be run in it then, if anything is.
pub fn provide(place: &SandboxDir, order: &Order) -> Result<Option<String>, Trouble> {
    lifecycle::exit_with_parent()?;
    let ground = order.store.ground();
    let own = place.private();
    dir_tree::remove(&own)?;
    make_dir(&own)?;
    let nothing = own.join("nothing");
    let lowest = |at: &Path| Ok::<_, io::Error>(place.layers(at)?.pop().unwrap_or_else(|| nothing.clone()));
    let prefix = lowest(&ground.prefix)?;
    let pkgdb = match ground.pkgdb_within() {
        Some(within) => prefix.join(within),
        None => lowest(&ground.pkgdb)?,
    };
    let composed = compose(&order.store, &order.needs, (&prefix, &pkgdb), &own)?;
    let line = line(&order.needs, &ground.pkgdb, &composed.scripted);
    if line.as_ref().is_some_and(|line| line.len() > LONGEST_LINE) {
        return Err(Trouble::Odd("too much is left to pkg_add".into()));
    }
    let mut layers = vec![(&*ground.prefix, &composed.prefix[..])];
    layers.extend(ground.pkgdb_within().is_none().then_some((&*ground.pkgdb, &composed.pkgdb[..])));
    let paths = |layers: &[PathBuf]| layers.iter().map(|layer| layer.as_os_str().len() + 1).sum::<usize>();
    if layers.iter().any(|(_, layers)| paths(layers) > LONGEST_PATHS) {
        return Err(Trouble::Odd("the paths of layers are too long".into()));
    }
    match sandbox::cover(place, &layers)? {
        true => Ok(line),
        false => Err(Trouble::Odd("something is mounted where packages are installed".into())),
    }
}

/// One word for a program has 128 KiB at most.
const LONGEST_LINE: usize = 100_000;
/// What is told of a mount has 4 KiB at most.
const LONGEST_PATHS: usize = 3_000;

/// What pkg_add does not know is who needs what it installs, and is there already.
fn line(needs: &Needs, pkgdb: &Path, scripted: &[Scripted]) -> Option<String> {
    let (path, db) = (quoted(&needs.packages.to_string_lossy()), quoted(&pkgdb.to_string_lossy()));
    let lines: Vec<String> = scripted
        .iter()
        .map(|it| {
            let automatic = if it.automatic { " -A" } else { "" };
            let mut line = format!("PKG_PATH={path} {} -K {db}{automatic} {}", needs.pkg_add, quoted(&it.name));
            if !it.needed_by.is_empty() {
                let users: Vec<String> = it.needed_by.iter().map(|user| quoted(user)).collect();
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

    fn order() -> Order {
        let ground = Ground { prefix: "/usr/pkg".into(), pkgdb: "/var/db/a b".into(), as_user: true };
        let needs = Needs {
            named: vec!["lib-1".into(), "app-2".into()],
            deeper: vec!["base-1".into()],
            packages: "/packages/All".into(),
            suffix: ".tgz".into(),
            pkg_add: "/usr/sbin/pkg_add -v".into(),
        };
        Order { store: Store::new("/state/layers", ground, 7), needs }
    }

    #[test]
    fn an_order_is_read_as_it_was_written() {
        let place = Scratch::new("layers-order");
        order().write(&place.at("needs")).unwrap();
        let text = fs::read_to_string(place.at("needs")).unwrap();
        assert_eq!(Order::read(&text), Some(order()));
        for length in 0..text.len() - 2 {
            assert_eq!(Order::read(&text[..length]), None, "{length}");
        }
        let mut odd = order();
        odd.needs.suffix = ".t\nz".into();
        assert!(odd.write(&place.at("needs")).is_err());
    }

    #[test]
    fn who_needs_it_is_noted_behind_what_pkg_add_installs() {
        let scripted = |name: &str, automatic, users: &[&str]| Scripted {
            name: name.into(),
            automatic,
            needed_by: users.iter().map(|&user| user.into()).collect(),
        };
        let line = |all: &[Scripted]| line(&order().needs, Path::new("/db"), all);
        assert_eq!(line(&[]), None);
        let told = line(&[scripted("a-1", true, &["b-1", "c-1"]), scripted("d-1", false, &[])]).unwrap();
        let add = "PKG_PATH=/packages/All /usr/sbin/pkg_add -v -K /db";
        assert_eq!(told, format!("{add} -A a-1 && printf '%s\\n' b-1 c-1 >>/db/a-1/+REQUIRED_BY && {add} d-1"));
    }
}
