//! Formats the monitor's findings.

use tanto_exec::job::report::{ProcessInfo, Termination};

/// Limit of processes listed.
const MOST_LINES: usize = 40;
/// Command lines are cut at this length, in bytes.
const LONGEST_LINE: usize = 200;

/// Ends the line above the processes.
pub const PROCESSES_SUFFIX: &[u8] = b", its processes were:";

/// Formats the reason for terminating a job, and its processes. The first line begins with `subject`.
pub fn termination(subject: &[u8], stopped: &Termination) -> Vec<u8> {
    let how = if stopped.killed { "; it had to be killed" } else { "" };
    let mut text = [subject, format!(" {}{how}\n", stopped.reason).as_bytes()].concat();
    if let Some(directory) = stopped.processes.first().and_then(|first| first.directory.as_ref()) {
        text.extend_from_slice(b"in ");
        text.extend(printable(directory));
        text.extend_from_slice(PROCESSES_SUFFIX);
        text.push(b'\n');
    }
    text.extend(tree(&stopped.processes));
    text
}

/// Formats a process tree, a line each: pid, state, processor time, memory, and the indented command.
pub fn tree(processes: &[ProcessInfo]) -> Vec<u8> {
    let mut text = Vec::new();
    for seen in processes.iter().take(MOST_LINES) {
        let (pid, state) = (seen.pid, state(seen.state));
        let (seconds, memory) = (seen.cpu_ms as f64 / 1000.0, seen.memory_kib as f64 / 1024.0);
        let indent = 2 * seen.depth.min(20) as usize;
        let head = format!("{pid:>9} {state:<8} {seconds:>8.2} s {memory:>8.1} MiB  {:indent$}", "");
        text.extend_from_slice(head.as_bytes());
        text.extend(printable(&seen.command));
        text.push(b'\n');
    }
    if let Some(more) = processes.len().checked_sub(MOST_LINES).filter(|&more| more > 0) {
        text.extend_from_slice(format!("          and {more} more\n").as_bytes());
    }
    text
}

fn state(letter: u8) -> &'static str {
    match letter {
        b'R' => "runs",
        b'S' | b'I' => "sleeps",
        b'D' => "in disk",
        b'T' | b't' => "stopped",
        b'Z' | b'X' | b'x' => "ended",
        _ => "?",
    }
}

/// Replaces control characters: command lines are untrusted.
fn printable(line: &[u8]) -> Vec<u8> {
    let mut text: Vec<u8> =
        line.iter().take(LONGEST_LINE).map(|&byte| if byte.is_ascii_control() { b' ' } else { byte }).collect();
    if line.len() > LONGEST_LINE {
        text.extend_from_slice(b"...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_exec::job::report::TerminationReason;

    fn seen(pid: u32, depth: u32, line: &str) -> ProcessInfo {
        ProcessInfo { pid, depth, state: b'S', cpu_ms: 1250, memory_kib: 1536, command: line.into(), directory: None }
    }

    #[test]
    fn a_tree_is_indented_and_harmless() {
        let text = tree(&[seen(7, 0, "sh -c x"), ProcessInfo { state: b'Z', ..seen(1234, 1, "a\x1b[2J\n") }]);
        let expected = "        7 sleeps       1.25 s      1.5 MiB  sh -c x\n     \
                        1234 ended        1.25 s      1.5 MiB    a [2J \n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn long_lists_are_cut() {
        let text = tree(&vec![seen(1, 0, &"x".repeat(5000)); 100]);
        assert!(text.ends_with(b"          and 60 more\n"));
        assert_eq!(text.iter().filter(|&&byte| byte == b'\n').count(), 41);
        assert!(text.len() < 41 * 300);
    }

    #[test]
    fn the_reason_is_shown() {
        let first = ProcessInfo { directory: Some(b"/d".to_vec()), ..seen(7, 0, "sh") };
        let ended =
            Termination { reason: TerminationReason::Timeout { after_ms: 1000 }, processes: vec![first], killed: true };
        let text = String::from_utf8(termination(b"tanto: 'sh'", &ended)).unwrap();
        assert!(
            text.starts_with("tanto: 'sh' not finished after 1s; it had to be killed\nin /d, its processes were:\n")
        );
    }
}
