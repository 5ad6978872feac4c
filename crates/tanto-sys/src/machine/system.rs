//! The names of the machine and its system, as `uname` reports them.

use rustix::system::uname;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SystemName {
    /// The operating system, such as `Linux`.
    pub system: String,
    /// The release of the kernel.
    pub release: String,
    /// The host name.
    pub host: String,
    /// The hardware, such as `x86_64`.
    pub architecture: String,
}

impl SystemName {
    pub fn query() -> SystemName {
        let names = uname();
        let text = |name: &std::ffi::CStr| name.to_string_lossy().into_owned();
        SystemName {
            system: text(names.sysname()),
            release: text(names.release()),
            host: text(names.nodename()),
            architecture: text(names.machine()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_kernel() {
        let names = SystemName::query();
        let file = |name: &str| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap();
        assert_eq!(names.system, file("ostype").trim());
        assert_eq!(names.release, file("osrelease").trim());
        assert_eq!(names.host, file("hostname").trim());
        assert!(!names.architecture.is_empty());
    }
}
