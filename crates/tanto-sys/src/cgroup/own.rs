//! The control groups of this process.

use std::path::{Path, PathBuf};

use crate::cgroup_paths::{CgroupPaths, CgroupTree};

/// The versions of control groups in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hierarchy {
    /// Version 2 only.
    Unified,
    /// Version 1 with controllers, and version 2 beside it.
    Hybrid,
    /// Version 1 only.
    Legacy,
    /// No control groups, or none are visible.
    None,
}

/// The groups of this process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnCgroups {
    layout: Hierarchy,
    unified: Option<PathBuf>,
    memory: Option<PathBuf>,
}

impl OwnCgroups {
    /// Finds the groups in which this process is now.
    pub fn find() -> OwnCgroups {
        OwnCgroups::parse(&CgroupPaths::of_process(Path::new("/")))
    }

    fn parse(groups: &CgroupPaths) -> OwnCgroups {
        let layout = match (groups.has_mount_of("cgroup2"), groups.has_mount_of("cgroup")) {
            (true, false) => Hierarchy::Unified,
            (true, true) => Hierarchy::Hybrid,
            (false, true) => Hierarchy::Legacy,
            (false, false) => Hierarchy::None,
        };
        let place = |tree| groups.own_and_ancestors(tree).into_iter().next();
        OwnCgroups { layout, unified: place(CgroupTree::Unified), memory: place(CgroupTree::Of("memory")) }
    }

    pub fn hierarchy(&self) -> Hierarchy {
        self.layout
    }

    /// Returns the directory of the group in version 2's hierarchy.
    pub fn unified(&self) -> Option<&Path> {
        self.unified.as_deref()
    }

    /// Returns the directory of the group in version 1's memory hierarchy.
    pub fn memory(&self) -> Option<&Path> {
        self.memory.as_deref()
    }

    /// Returns the reason why groups cannot be created here, if there is one. Changes nothing.
    pub fn obstacle(&self) -> Option<std::io::Error> {
        let Some(unified) = self.unified() else { return Some(std::io::ErrorKind::Unsupported.into()) };
        super::is_ours(unified).err()
    }

    /// Returns whether groups created here could count memory. Changes nothing.
    pub fn could_count_memory(&self) -> bool {
        match (self.memory(), self.unified()) {
            (Some(memory), _) => super::is_ours(memory).is_ok(),
            (None, Some(unified)) => super::can_enable(unified, "memory"),
            (None, None) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(groups: &str, mounts: &str) -> CgroupPaths {
        CgroupPaths::new(Path::new("/"), groups.to_owned(), mounts.to_owned())
    }

    #[test]
    fn version_2_alone_is_unified() {
        let home = OwnCgroups::parse(&groups("0::/a\n", "25 30 0:23 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup rw\n"));
        assert_eq!((home.hierarchy(), home.unified()), (Hierarchy::Unified, Some(Path::new("/sys/fs/cgroup/a"))));
    }

    #[test]
    fn a_hybrid_machine_has_both() {
        let ours = "4:memory:/a\n1:name=systemd:/\n0::/b\n";
        let mounts = "30 25 0:26 / /g/memory rw - cgroup cgroup rw,memory\n31 25 0:27 / /g/unified rw - cgroup2 c rw\n";
        let home = OwnCgroups::parse(&groups(ours, mounts));
        assert_eq!(home.hierarchy(), Hierarchy::Hybrid);
        assert_eq!(home.unified(), Some(Path::new("/g/unified/b")));
        assert_eq!(home.memory(), Some(Path::new("/g/memory/a")));
        let old = OwnCgroups::parse(&groups(ours, mounts.lines().next().unwrap()));
        assert_eq!((old.hierarchy(), old.unified()), (Hierarchy::Legacy, None));
        assert_eq!(old.obstacle().unwrap().kind(), std::io::ErrorKind::Unsupported);
        assert_eq!(OwnCgroups::parse(&groups("", "")).hierarchy(), Hierarchy::None);
    }
}
