//! Text format of plans and reports.

use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::{Mount, MountKind, Plan, Report};

const MEMORY: &[u8] = b"memory";
const AS_USER: &[u8] = b"as-user";
const READ_ONLY: &[u8] = b"read-only";
const FAULT: &str = "fault";
const SIGNAL: &str = "signal";
const LEFT: &str = "left";
const WRITTEN: &str = "written";

/// Writes one line per entry: name, path and details, separated by tabs.
pub(super) fn written(plan: &Plan) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    if let Some(bytes) = plan.memory {
        line(&mut text, MEMORY, &[&PathBuf::from(bytes.to_string())])?;
    }
    if plan.as_user {
        line(&mut text, AS_USER, &[])?;
    }
    if plan.read_only {
        line(&mut text, READ_ONLY, &[])?;
    }
    for Mount { at, kind } in &plan.mounts {
        let mode = PathBuf::from(match kind {
            MountKind::Private(mode) => mode.to_string(),
            _ => String::new(),
        });
        let (name, more): (&[u8], Vec<&Path>) = match kind {
            MountKind::ReadOnly(from) => (b"look", vec![from]),
            MountKind::ReadOnlyEntry(from) => (b"part", vec![from]),
            MountKind::Writable(from) => (b"share", vec![from]),
            MountKind::Private(_) => (b"own", vec![&mode]),
            MountKind::Overlay(lowers) => (b"over", lowers.iter().map(PathBuf::as_path).collect()),
            MountKind::Copy(lowers) => (b"copy", lowers.iter().map(PathBuf::as_path).collect()),
            MountKind::Symlink(to) => (b"link", vec![to]),
            MountKind::Hidden => (b"nothing", vec![]),
            MountKind::Devices => (b"devices", vec![]),
        };
        line(&mut text, name, &[&[at.as_path()], &more[..]].concat())?;
    }
    Ok(text)
}

fn line(text: &mut Vec<u8>, name: &[u8], words: &[&Path]) -> io::Result<()> {
    text.extend(name);
    for word in words {
        let word = word.as_os_str().as_bytes();
        if word.iter().any(|byte| b"\t\n".contains(byte)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a path contains a tab or a newline"));
        }
        text.push(b'\t');
        text.extend(word);
    }
    text.push(b'\n');
    Ok(())
}

/// Reads a plan; `None` if it is damaged.
pub(super) fn read(text: &[u8]) -> Option<Plan> {
    let mut plan = Plan::default();
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let mut words = line.strip_suffix(b"\n")?.split(|&byte| byte == b'\t');
        let name = words.next()?;
        let mut paths: Vec<PathBuf> = words.map(|word| std::ffi::OsString::from_vec(word.to_vec()).into()).collect();
        match name {
            MEMORY => plan.memory = Some(number(&paths)?),
            AS_USER => plan.as_user = true,
            READ_ONLY => plan.read_only = true,
            _ if paths.is_empty() => return None,
            _ => {
                let at = paths.remove(0);
                plan.add(at, mount_kind(name, paths)?);
            }
        }
    }
    Some(plan)
}

fn mount_kind(name: &[u8], mut more: Vec<PathBuf>) -> Option<MountKind> {
    let kind = match name {
        b"own" => MountKind::Private(u32::try_from(number(&more)?).ok()?),
        b"over" if !more.is_empty() => MountKind::Overlay(more),
        b"copy" if !more.is_empty() => MountKind::Copy(more),
        b"look" => MountKind::ReadOnly(more.pop()?),
        b"part" => MountKind::ReadOnlyEntry(more.pop()?),
        b"share" => MountKind::Writable(more.pop()?),
        b"link" => MountKind::Symlink(more.pop()?),
        b"nothing" => MountKind::Hidden,
        b"devices" => MountKind::Devices,
        _ => return None,
    };
    Some(kind)
}

fn number(paths: &[PathBuf]) -> Option<u64> {
    paths.first()?.to_str()?.parse().ok()
}

pub(super) fn reported(report: &Report) -> String {
    let mut text = String::new();
    // Command lines may contain any bytes.
    let mut line = |name: &str, value: &str| text += &format!("{name} {}\n", value.replace(char::is_control, " "));
    report.fault.iter().for_each(|fault| line(FAULT, fault));
    report.signal.iter().for_each(|signal| line(SIGNAL, &signal.to_string()));
    report.left.iter().for_each(|command| line(LEFT, command));
    report.written_kib.iter().for_each(|kib| line(WRITTEN, &kib.to_string()));
    text
}

pub(super) fn report(text: &[u8]) -> Report {
    let mut report = Report::default();
    for line in String::from_utf8_lossy(text).lines() {
        match line.split_once(' ') {
            Some((FAULT, fault)) => report.fault = Some(fault.to_owned()),
            Some((SIGNAL, signal)) => report.signal = signal.parse().ok(),
            Some((LEFT, command)) => report.left.push(command.to_owned()),
            Some((WRITTEN, kib)) => report.written_kib = kib.parse().ok(),
            _ => {}
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_round_trip() {
        let mut plan = Plan { memory: Some(1 << 33), as_user: true, read_only: true, ..Plan::default() };
        plan.add("/usr", MountKind::Overlay(vec!["/kit/usr".into(), "/usr".into()]));
        plan.add("/etc", MountKind::Copy(vec!["/etc".into()]));
        plan.add("/bin", MountKind::Symlink("usr/bin".into()));
        plan.add("/a place", MountKind::ReadOnly("/another".into()));
        plan.add("/usr/bin", MountKind::ReadOnlyEntry("/usr/bin".into()));
        plan.add("/log", MountKind::Writable("/clients/1/out".into()));
        plan.add("/tmp", MountKind::Private(0o1777));
        plan.add("/state", MountKind::Hidden);
        plan.add("/dev", MountKind::Devices);
        let text = written(&plan).unwrap();
        assert_eq!(read(&text), Some(plan));
        assert_eq!(read(&text[..text.len() - 1]), None, "it is torn");
    }

    #[test]
    fn invalid_plans_are_refused() {
        let mut plan = Plan::default();
        plan.add("/a\tb", MountKind::Hidden);
        assert!(written(&plan).is_err());
        for text in ["look\n", "look\t/x\n", "own\t/x\tlow\n", "over\t/x\n", "strange\t/x\n", "memory\tall\n", "\n"] {
            assert_eq!(read(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(read(b""), Some(Plan::default()));
    }

    #[test]
    fn reports_round_trip() {
        let left = vec!["sleep 600".into(), "odd\nfault name".into()];
        let full = Report { fault: Some("no mount".into()), signal: Some(9), left, written_kib: Some(7) };
        let read = report(reported(&full).as_bytes());
        assert_eq!((read.fault, read.signal, read.written_kib), (full.fault, full.signal, full.written_kib));
        assert_eq!(read.left, ["sleep 600", "odd fault name"]);
        assert_eq!(report(b"\xff\nnonsense"), Report::default());
    }
}
