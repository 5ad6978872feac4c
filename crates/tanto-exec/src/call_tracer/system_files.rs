//! Files of the kernel, and devices.

/// How a command may use a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Ordinary,
    /// No result depends on it, or its content is known otherwise.
    Ignored,
    /// Its content changes by itself.
    Volatile,
}

/// Files in `/proc/PID` about the process itself.
const OF_PROCESS: [&[u8]; 22] = [
    b"attr",
    b"auxv",
    b"cgroup",
    b"cmdline",
    b"comm",
    b"coredump_filter",
    b"environ",
    b"exe",
    b"fd",
    b"gid_map",
    b"limits",
    b"maps",
    b"mountinfo",
    b"mounts",
    b"oom_score_adj",
    b"personality",
    b"setgroups",
    b"smaps",
    b"stat",
    b"statm",
    b"status",
    b"uid_map",
];

/// Files about the machine, by which programs choose numbers of threads or sizes of buffers.
const OF_MACHINE: [&[u8]; 15] = [
    b"/proc/cpuinfo",
    b"/proc/filesystems",
    b"/proc/loadavg",
    b"/proc/meminfo",
    b"/proc/mounts",
    b"/proc/stat",
    b"/proc/sys/fs",
    b"/proc/sys/kernel",
    b"/proc/sys/vm",
    b"/proc/version",
    b"/sys/devices/system/cpu",
    b"/sys/devices/system/node",
    b"/sys/fs/cgroup",
    b"/sys/fs/selinux",
    b"/sys/kernel/mm",
];

/// Names of open files, and the terminal: shells look for it, but it is not for commands in the background.
const OF_DESCRIPTORS: [&[u8]; 5] = [b"/dev/fd", b"/dev/stdin", b"/dev/stdout", b"/dev/stderr", b"/dev/tty"];

pub(super) fn place(path: &[u8]) -> Place {
    let is_in = |dir: &&[u8]| path.strip_prefix(*dir).is_some_and(|rest| matches!(rest.first(), None | Some(b'/')));
    let is_descriptor = |dir: &&[u8]| {
        let rest = path.strip_prefix(*dir);
        rest.is_some_and(|rest| rest.strip_prefix(b"/").unwrap_or(rest).iter().all(u8::is_ascii_digit))
    };
    if OF_MACHINE.iter().any(is_in) || OF_DESCRIPTORS.iter().any(is_descriptor) {
        return Place::Ignored;
    }
    if let Some(rest) = path.strip_prefix(b"/proc/") {
        let components: Vec<&[u8]> = rest.split(|&byte| byte == b'/').filter(|it| !it.is_empty()).collect();
        return place_in_proc(&components);
    }
    if path.starts_with(b"/sys/") { Place::Volatile } else { Place::Ordinary }
}

fn place_in_proc(components: &[&[u8]]) -> Place {
    let is_number = |it: &[u8]| it.iter().all(u8::is_ascii_digit);
    let is_process = |it: &[u8]| [&b"self"[..], b"thread-self"].contains(&it) || is_number(it);
    match components {
        [process] if is_process(process) => Place::Ignored,
        [process, b"task", thread, rest @ ..] if is_process(process) && is_number(thread) => place_of_process(rest),
        [process, rest @ ..] if is_process(process) => place_of_process(rest),
        _ => Place::Volatile,
    }
}

fn place_of_process(components: &[&[u8]]) -> Place {
    match components {
        [] | [b"task"] => Place::Ignored,
        [name] if OF_PROCESS.contains(name) => Place::Ignored,
        // Nothing behind a directory that is open.
        [b"fd" | b"attr", _] => Place::Ignored,
        _ => Place::Volatile,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_distinguished() {
        for (path, expected) in [
            ("/usr/proc/x", Place::Ordinary),
            ("/proc", Place::Ordinary),
            ("/proc/self/fd/3", Place::Ignored),
            ("/proc/self/fd/3/file", Place::Volatile),
            ("/proc/self/cwd/file", Place::Volatile),
            ("/proc/12/root", Place::Volatile),
            ("/proc/self/task/9/comm", Place::Ignored),
            ("/proc/12/maps", Place::Ignored),
            ("/proc/cpuinfo", Place::Ignored),
            ("/proc/net/tcp", Place::Volatile),
            ("/sys/class/net", Place::Volatile),
            ("/sys/devices/system/cpu/online", Place::Ignored),
            ("/dev/fd", Place::Ignored),
            ("/dev/fd/12", Place::Ignored),
            ("/dev/fd/12/file", Place::Ordinary),
            ("/dev/stdin", Place::Ignored),
            ("/dev/null", Place::Ordinary),
        ] {
            assert_eq!(place(path.as_bytes()), expected, "{path}");
        }
    }
}
