//! The help texts of both doors, from the tables of flags and commands. Does not know where they are printed.

use crate::flags::door::Door;
use crate::flags::table::{FLAGS, Flag, Group};
use crate::settings::{Settings, layer::Layer};

/// `ninja -h`: ninja's own flags, laid out as ninja does.
pub fn ninja() -> String {
    let head = "usage: ninja [options] [targets...]\n\n\
                if targets are unspecified, builds the 'default' target (see manual).\n\noptions:\n";
    let groups: Vec<Group> =
        Group::ALL.into_iter().filter(|group| !matches!(group, Group::Own | Group::Build)).collect();
    head.to_owned() + &flags(&groups, Door::Ninja)
}

fn flags(groups: &[Group], door: Door) -> String {
    groups.iter().map(|group| section(*group, door)).collect::<Vec<_>>().join("\n")
}

fn section(group: Group, door: Door) -> String {
    let members: Vec<&Flag> = FLAGS.iter().filter(|flag| flag.group == group).collect();
    let width = members.iter().map(|flag| flag.label().len() + 2).max().unwrap_or(0).max(9);
    members.into_iter().map(|flag| entry(flag, width, door)).collect()
}

fn entry(flag: &Flag, width: usize, door: Door) -> String {
    let doc = flag.doc.to_owned() + &noted(flag, door);
    let mut lines = doc.lines();
    let first = format!("  {:<width$}{}\n", flag.label(), lines.next().unwrap_or_default());
    first + &lines.map(|line| format!("  {:width$}{line}\n", "")).collect::<String>()
}

/// The flag's note, with this machine's numbers in it.
fn noted(flag: &Flag, door: Door) -> String {
    if flag.note.contains("{jobs}") {
        let jobs = Settings::of(Layer::default(), door).jobs.value.limit(tanto_sys::machine::cpu::count);
        return flag.note.replace("{jobs}", &jobs.to_string());
    }
    flag.note.replace("{version}", door.version())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ninjas_text_has_ninjas_flags_only() {
        let text = ninja();
        for line in ["  -C DIR   change to DIR", "  -v, --verbose  show", "  --version      print", "  -w FLAG  adjust"]
        {
            assert!(text.contains(line), "{line}");
        }
        assert!(!text.contains("log-version"));
    }
}
