//! Where this process stands in the trees of control groups. Does not know what a group is good for.

use std::fs;
use std::path::{Path, PathBuf};

/// Which trees this machine has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// Version 2 alone.
    Unified,
    /// Version 1's trees count, and version 2's is there too.
    Hybrid,
    /// Version 1 alone.
    Old,
    /// No control groups that we could see.
    None,
}

/// A tree: version 2's, or version 1's for one thing that is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tree {
    Unified,
    Of(&'static str),
}

/// The groups that this process is in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Home {
    layout: Layout,
    unified: Option<PathBuf>,
    memory: Option<PathBuf>,
}

impl Home {
    /// Those of this process, as it is now.
    pub fn find() -> Home {
        let text = |path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        Home::parse(&text("/proc/self/cgroup"), &text("/proc/self/mountinfo"))
    }

    fn parse(groups: &str, mounts: &str) -> Home {
        let place = |tree| directory(groups, mounts, tree).map(PathBuf::from);
        let kinds: Vec<&str> = mounts.lines().filter_map(|line| Some(Mount::parse(line)?.kind)).collect();
        let layout = match (kinds.contains(&"cgroup2"), kinds.contains(&"cgroup")) {
            (true, false) => Layout::Unified,
            (true, true) => Layout::Hybrid,
            (false, true) => Layout::Old,
            (false, false) => Layout::None,
        };
        Home { layout, unified: place(Tree::Unified), memory: place(Tree::Of("memory")) }
    }

    /// Which trees there are.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The directory of our group in version 2's tree.
    pub fn unified(&self) -> Option<&Path> {
        self.unified.as_deref()
    }

    /// The directory of our group in version 1's tree that counts memory.
    pub fn memory(&self) -> Option<&Path> {
        self.memory.as_deref()
    }

    /// Why we cannot make groups there, if we cannot. Only asks.
    pub fn obstacle(&self) -> Option<std::io::Error> {
        let Some(unified) = self.unified() else { return Some(std::io::ErrorKind::Unsupported.into()) };
        super::is_ours(unified).err()
    }

    /// Could memory be counted for groups of ours? Only asks.
    pub fn could_count_memory(&self) -> bool {
        match (self.memory(), self.unified()) {
            (Some(memory), _) => super::is_ours(memory).is_ok(),
            (None, Some(unified)) => super::could_open(unified, "memory"),
            (None, None) => false,
        }
    }
}

/// Where this process's group in that tree lies.
pub(crate) fn directory(groups: &str, mounts: &str, tree: Tree) -> Option<String> {
    let group = group_name(groups, tree)?;
    mounts.lines().filter_map(Mount::parse).find_map(|mount| mount.directory_of(group, tree))
}

/// From lines `number:subsystem,subsystem:/name`; version 2's is `0::/name`.
fn group_name(groups: &str, tree: Tree) -> Option<&str> {
    groups.lines().find_map(|line| {
        let (number, rest) = line.split_once(':')?;
        let (subsystems, name) = rest.split_once(':')?;
        let found = match tree {
            Tree::Of(subsystem) => subsystems.split(',').any(|s| s == subsystem),
            Tree::Unified => subsystems.is_empty() && number == "0",
        };
        found.then_some(name)
    })
}

/// What we want of a line of `mountinfo`.
struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    /// Six fields, any number of optional ones, a dash, three fields.
    fn parse(line: &'a str) -> Option<Mount<'a>> {
        let fields: Vec<&str> = line.split(' ').collect();
        let dash = 6 + fields.get(6..)?.iter().position(|&f| f == "-")?;
        let [kind, _source, options] = fields[dash + 1..] else { return None };
        Some(Mount { root: fields[3], point: fields[4], kind, options })
    }

    fn directory_of(&self, group: &str, tree: Tree) -> Option<String> {
        match tree {
            Tree::Unified if self.kind == "cgroup2" => {
                Some(format!("{}{}", self.point, if group == "/" { "" } else { group }))
            }
            Tree::Of(subsystem) if self.kind == "cgroup" && self.options.split(',').any(|o| o == subsystem) => {
                let below = group.strip_prefix(self.root)?;
                let outside = below == ".." || below.starts_with("../");
                (!outside).then(|| format!("{}/{below}", self.point))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: Tree = Tree::Of("cpu");
    const V1: &str = "12:cpuset:/x\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/\n";
    const V1_MOUNT: &str =
        "30 25 0:26 /docker /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n";

    #[test]
    fn version_2_group_is_below_its_mount() {
        let mounts = "25 30 0:23 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup rw\n";
        let at = |groups| directory(groups, mounts, Tree::Unified);
        assert_eq!(at("0::/\n").as_deref(), Some("/sys/fs/cgroup"));
        assert_eq!(at("1:cpu:/x\n0::/a/b\n").as_deref(), Some("/sys/fs/cgroup/a/b"));
        assert_eq!(at(V1), None);
        assert_eq!(Home::parse("0::/a\n", mounts).layout(), Layout::Unified);
    }

    #[test]
    fn version_1_group_is_translated_by_the_mount_root() {
        let at = |groups, mounts| directory(groups, mounts, CPU);
        assert_eq!(at(V1, V1_MOUNT).as_deref(), Some("/sys/fs/cgroup/cpu,cpuacct//abc"));
        assert_eq!(at("4:cpu:/other\n", V1_MOUNT), None);
        assert_eq!(at(V1, "30 25 0:26 /docker /x rw - cgroup cgroup rw,memory\n"), None);
        assert_eq!(at(V1, "garbage\n30 25 0:26 /docker /x rw - cgroup\n\n"), None);
    }

    #[test]
    fn a_hybrid_machine_has_both() {
        let groups = "4:memory:/a\n1:name=systemd:/\n0::/b\n";
        let mounts = "30 25 0:26 / /g/memory rw - cgroup cgroup rw,memory\n31 25 0:27 / /g/unified rw - cgroup2 c rw\n";
        let home = Home::parse(groups, mounts);
        assert_eq!(home.layout(), Layout::Hybrid);
        assert_eq!(home.unified(), Some(Path::new("/g/unified/b")));
        assert_eq!(home.memory(), Some(Path::new("/g/memory/a")));
        let old = Home::parse(groups, mounts.lines().next().unwrap());
        assert_eq!((old.layout(), old.unified()), (Layout::Old, None));
        assert_eq!(old.obstacle().unwrap().kind(), std::io::ErrorKind::Unsupported);
        assert_eq!(Home::parse("", "").layout(), Layout::None);
    }
}
