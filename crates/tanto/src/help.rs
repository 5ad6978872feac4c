//! The help texts of both doors, from the tables of flags and commands. Does not know where they are printed.

use crate::bench::{self, MEASUREMENTS, Measurement};
use crate::bulk::{TASKS, Task};
use crate::commands::{self, COMMANDS, Command};
use crate::flags::door::Door;
use crate::flags::table::{FLAGS, Flag, Group};
use crate::settings::{Settings, layer::Layer};

/// The longest line of a paragraph.
const WIDTH: usize = 78;

/// `ninja -h`: ninja's own flags, laid out as ninja does.
pub fn ninja() -> String {
    let head = "usage: ninja [options] [targets...]\n\n\
                if targets are unspecified, builds the 'default' target (see manual).\n\noptions:\n";
    let groups: Vec<Group> =
        Group::ALL.into_iter().filter(|group| !matches!(group, Group::Own | Group::Build)).collect();
    head.to_owned() + &flags(&groups, Door::Ninja)
}

/// `tanto build -h`.
pub fn build() -> String {
    let head = "usage: tanto build [options] [targets...]\n\n\
                Without targets, builds what the build file's default statements name.\n\noptions:\n";
    let tail = "\n'tanto help build' tells more of each option.\n";
    head.to_owned() + &flags(&Group::ALL, Door::Tanto) + tail
}

/// `tanto help`.
pub fn overview() -> String {
    let line = |command: &Command| format!("  {:<9}{}\n", command.name, command.doc);
    let commands: String = COMMANDS.iter().map(line).collect();
    format!(
        "usage: tanto COMMAND [options]\n\ncommands:\n{commands}\n\
         Called by the name ninja, the same program is a ninja.\n\
         'tanto help COMMAND' tells more; so does the manual, 'man tanto'.\n"
    )
}

/// `tanto help COMMAND`: all there is to say.
pub fn topic(command: &Command) -> String {
    let mut text = format!("usage: tanto {} {}\n\n", command.name, command.args);
    text += &paragraph(command.more, 0);
    if command.name == "build" || command.name == "run" {
        text += "\noptions:\n";
        let is_build = command.name == "build";
        text.extend(commands::flags_of(command).iter().map(|flag| in_full(flag, is_build)));
    }
    if command.name == "bench" {
        text.extend(MEASUREMENTS.iter().map(|it| format!("\ntanto bench {} {}\n{}", it.name, it.args, brief(it))));
    }
    if command.name == "bulk" {
        text.extend(TASKS.iter().map(|it| {
            let head = paragraph(&format!("tanto bulk {} {}", it.name, it.args), 0);
            format!("\n{head}{}", paragraph(it.doc, 6))
        }));
    }
    text
}

/// `tanto help bulk NAME`: how it is called, and what it does.
pub fn task(it: &Task) -> String {
    let head = paragraph(&format!("usage: tanto bulk {} {}", it.name, it.args), 0);
    format!("{head}\n{}\nAll commands of tanto bulk take --config FILE.\n", paragraph(it.doc, 0))
}

/// `tanto bench NAME --help`: how it is called, and what each flag does.
pub fn measurement(it: &Measurement) -> String {
    let doc = paragraph(&(capital(it.doc) + "."), 0);
    format!("usage: tanto bench {} {}\n\n{doc}\noptions:\n{}", it.name, it.args, measurement_flags(it.flags))
}

/// What it measures, and the names of its flags.
fn brief(it: &Measurement) -> String {
    let flags: Vec<String> = it.flags.iter().map(bench::args::Flag::label).collect();
    paragraph(&format!("{}. Options: {}.", capital(it.doc), flags.join("; ")), 6)
}

fn measurement_flags(flags: &[bench::args::Flag]) -> String {
    let entry =
        |flag: &bench::args::Flag| format!("\n  {}\n{}", flag.label(), paragraph(&(capital(flag.doc) + "."), 6));
    flags.iter().map(entry).collect()
}

/// `with_key`: config files have a say in it.
fn in_full(flag: &Flag, with_key: bool) -> String {
    let key = flag.key().filter(|_| with_key).map(|key| format!("In config files: {key}.")).unwrap_or_default();
    let note = noted(flag, Door::Tanto).replace('\n', "; ");
    let doc = format!("{}{note}. {} {key}", capital(flag.doc), flag.more);
    format!("\n  {}\n{}", flag.label(), paragraph(&doc, 6))
}

/// The text with a capital letter in front.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Fills lines with words.
fn paragraph(text: &str, indent: usize) -> String {
    let mut filled = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && indent + line.len() + 1 + word.len() > WIDTH {
            filled += &format!("{:indent$}{line}\n", "");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    filled + &format!("{:indent$}{line}\n", "")
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
        assert!(build().contains("--log-version N"));
    }

    #[test]
    fn every_flag_is_told_of_in_full() {
        let text = COMMANDS.iter().map(topic).collect::<String>();
        for flag in FLAGS {
            assert!(text.contains(&flag.label()), "{flag:?}");
        }
        // What `tanto bench` says {jobs} is no number of ours.
        for line in COMMANDS.iter().filter(|command| command.name != "bench").map(topic).collect::<String>().lines() {
            assert!(line.len() <= WIDTH, "{line}");
            assert!(!line.contains('{') || line.contains("$"), "{line}");
        }
    }

    #[test]
    fn paragraphs_are_filled() {
        let filled = paragraph(&"word ".repeat(40), 2);
        assert!(filled.lines().all(|line| line.len() <= WIDTH && line.starts_with("  word")));
        assert_eq!(filled.split_whitespace().count(), 40);
    }
}
