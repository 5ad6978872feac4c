//! The directories of the control groups that limit this process: its own groups and their ancestors.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A hierarchy: version 2's, or that of a controller in version 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CgroupTree {
    Unified,
    Of(&'static str),
}

/// Longest file that is read to its end, in bytes.
const MAX_LENGTH: u64 = 1 << 20;

/// `/proc/self/cgroup` and `/proc/self/mountinfo`.
pub(crate) struct CgroupPaths {
    root: PathBuf,
    groups: String,
    mounts: String,
}

impl CgroupPaths {
    /// Reads the files of this process below `root` (`/`, except in tests).
    pub(crate) fn of_process(root: &Path) -> CgroupPaths {
        let text_at = |path| read_small_file(&root.join(path)).unwrap_or_default();
        CgroupPaths::new(root, text_at("proc/self/cgroup"), text_at("proc/self/mountinfo"))
    }

    pub(crate) fn new(root: &Path, groups: String, mounts: String) -> CgroupPaths {
        CgroupPaths { root: root.into(), groups, mounts }
    }

    /// Returns whether a file system of this kind is mounted.
    pub(crate) fn has_mount_of(&self, kind: &str) -> bool {
        self.mounts.lines().filter_map(Mount::parse).any(|mount| mount.kind == kind)
    }

    /// Returns the directory of this process's group and of all visible ancestors, innermost first.
    pub(crate) fn own_and_ancestors(&self, tree: CgroupTree) -> Vec<PathBuf> {
        let Some(group) = name(&self.groups, tree) else { return Vec::new() };
        let mounts = self.mounts.lines().filter_map(Mount::parse);
        let Some((point, below)) = mounts.filter_map(|it| Some((it.point, it.below(group, tree)?))).next() else {
            return Vec::new();
        };
        let point = self.root.join(point.trim_start_matches('/'));
        let parts: Vec<&str> = below.split('/').filter(|part| !part.is_empty()).collect();
        (0..=parts.len()).rev().map(|count| point.join(parts[..count].join("/"))).collect()
    }
}

/// Reads a small file; `None` if it cannot be read.
pub(crate) fn read_small_file(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_LENGTH).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Parses lines `number:subsystem,subsystem:/name`; `0::/name` is version 2.
fn name(groups: &str, tree: CgroupTree) -> Option<&str> {
    groups.lines().find_map(|line| {
        let (number, rest) = line.split_once(':')?;
        let (subsystems, name) = rest.split_once(':')?;
        let found = match tree {
            CgroupTree::Of(subsystem) => subsystems.split(',').any(|s| s == subsystem),
            CgroupTree::Unified => subsystems.is_empty() && number == "0",
        };
        found.then_some(name)
    })
}

/// A line of `mountinfo`.
struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    /// Six fields, any number of optional fields, a dash, three fields.
    fn parse(line: &'a str) -> Option<Mount<'a>> {
        let fields: Vec<&str> = line.split(' ').collect();
        let dash = 6 + fields.get(6..)?.iter().position(|&f| f == "-")?;
        let [kind, _source, options] = fields[dash + 1..] else { return None };
        Some(Mount { root: fields[3], point: fields[4], kind, options })
    }

    /// Returns the group's path below this mount; `None` if the mount is another hierarchy or does not contain the
    /// group.
    fn below<'g>(&self, group: &'g str, tree: CgroupTree) -> Option<&'g str> {
        let is_tree = match tree {
            CgroupTree::Unified => self.kind == "cgroup2",
            CgroupTree::Of(subsystem) => self.kind == "cgroup" && self.options.split(',').any(|o| o == subsystem),
        };
        // In a container, the mount often starts at the container's group, while the name is relative to the host's
        // root.
        let below = match self.root {
            "/" => group,
            root => group.strip_prefix(root).filter(|rest| rest.is_empty() || rest.starts_with('/'))?,
        };
        let is_outside = below.split('/').any(|part| part == "..");
        (is_tree && !is_outside).then_some(below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    const V1: &str = "12:cpuset:/x\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/\n";
    const V1_MOUNT: &str =
        "30 25 0:26 /docker /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n";
    const V2_MOUNT: &str = "25 30 0:23 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup rw\n";

    fn around(groups: &str, mounts: &str, tree: CgroupTree) -> Vec<String> {
        let it = CgroupPaths::new(Path::new("/"), groups.into(), mounts.into());
        it.own_and_ancestors(tree).into_iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn version_2_groups_lie_below_their_mount() {
        let at = |groups| around(groups, V2_MOUNT, CgroupTree::Unified);
        assert_eq!(at("0::/\n"), ["/sys/fs/cgroup/"]);
        assert_eq!(at("1:cpu:/x\n0::/a/b\n"), ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup/"]);
        assert_eq!(at(V1), [""; 0]);
        assert_eq!(at("0::/../a\n"), [""; 0]);
    }

    #[test]
    fn a_group_is_translated_by_the_mount_root() {
        let at = |groups, mounts| around(groups, mounts, CgroupTree::Of("cpu"));
        let mount = "/sys/fs/cgroup/cpu,cpuacct";
        assert_eq!(at(V1, V1_MOUNT), [format!("{mount}/abc"), format!("{mount}/")]);
        assert_eq!(at("4:cpu:/docker\n", V1_MOUNT), [format!("{mount}/")]);
        assert_eq!(at("4:cpu:/other\n", V1_MOUNT), [""; 0]);
        assert_eq!(at("4:cpu:/dockerx\n", V1_MOUNT), [""; 0]);
        assert_eq!(at(V1, "30 25 0:26 /docker /x rw - cgroup cgroup rw,memory\n"), [""; 0]);
        assert_eq!(at(V1, "garbage\n30 25 0:26 /docker /x rw - cgroup\n\n"), [""; 0]);
        let unified = "25 30 0:23 /box /c rw - cgroup2 cgroup rw\n";
        assert_eq!(around("0::/box/a\n", unified, CgroupTree::Unified), ["/c/a", "/c/"]);
    }

    #[test]
    fn files_are_read_below_the_root() {
        let root = Scratch::new("groups");
        root.write("proc/self/cgroup", "0::/a\n");
        root.write("proc/self/mountinfo", V2_MOUNT);
        let around = CgroupPaths::of_process(root.path()).own_and_ancestors(CgroupTree::Unified);
        assert_eq!(around, [root.at("sys/fs/cgroup/a"), root.at("sys/fs/cgroup/")]);
        assert_eq!(read_small_file(&root.at("nothing")), None);
    }
}
