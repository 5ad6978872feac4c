//! The text of `ninja -h`, in ninja's layout.

use super::declaration::{FLAGS, Layer, Settings};
use super::flags::{Flag, Group};
use crate::invocation::Invocation;

/// Lists ninja's own options.
pub fn text() -> String {
    let head = "usage: ninja [options] [targets...]\n\n\
                if targets are unspecified, builds the 'default' target (see manual).\n\noptions:\n";
    let groups: Vec<Group> =
        Group::ALL.into_iter().filter(|group| !matches!(group, Group::Own | Group::Build)).collect();
    head.to_owned() + &flags(&groups, Invocation::Ninja)
}

fn flags(groups: &[Group], invocation: Invocation) -> String {
    groups.iter().map(|group| section(*group, invocation)).collect::<Vec<_>>().join("\n")
}

fn section(group: Group, invocation: Invocation) -> String {
    let members: Vec<&Flag> = FLAGS.iter().filter(|flag| flag.group == group).collect();
    let width = members.iter().map(|flag| flag.label().len() + 2).max().unwrap_or(0).max(9);
    members.into_iter().map(|flag| entry(flag, width, invocation)).collect()
}

fn entry(flag: &Flag, width: usize, invocation: Invocation) -> String {
    let doc = flag.doc.to_owned() + &noted(flag, invocation);
    let mut lines = doc.lines();
    let first = format!("  {:<width$}{}\n", flag.label(), lines.next().unwrap_or_default());
    first + &lines.map(|line| format!("  {:width$}{line}\n", "")).collect::<String>()
}

fn noted(flag: &Flag, invocation: Invocation) -> String {
    if flag.note.contains("{jobs}") {
        let jobs = Settings::of(Layer::default(), invocation).jobs.value.limit(tanto_sys::machine::cpu::count);
        return flag.note.replace("{jobs}", &jobs.to_string());
    }
    flag.note.replace("{version}", invocation.version())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ninjas_text_has_ninjas_flags_only() {
        let text = text();
        for line in ["  -C DIR   change to DIR", "  -v, --verbose  show", "  --version      print", "  -w FLAG  adjust"]
        {
            assert!(text.contains(line), "{line}");
        }
        assert!(!text.contains("log-version"));
    }
}
