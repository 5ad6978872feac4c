//! The completion script for fish.

use crate::commands::{COMMANDS, flags_of};
use crate::completions::{measurement_names, task_names, tool_names};
use crate::flags::table::{Flag, Shape};

/// The whole script.
pub fn script() -> String {
    let names: Vec<&str> = COMMANDS.iter().map(|command| command.name).collect();
    let mut script = HEAD.to_owned();
    for command in COMMANDS {
        let first = format!("not __fish_seen_subcommand_from {}", names.join(" "));
        script += &format!("complete -c tanto -n '{first}' -a {} -d '{}'\n", command.name, quoted(command.doc));
    }
    script += &format!("complete -c tanto -n '__fish_seen_subcommand_from help' -a '{}'\n", names.join(" "));
    let reports = "sessions rebuilds timings trace";
    script += &format!("complete -c tanto -n '__fish_seen_subcommand_from report' -a '{reports}'\n");
    script += "complete -c tanto -n '__fish_seen_subcommand_from clang' -a 'status stop'\n";
    let measurements = measurement_names().join(" ");
    script += &format!(
        "complete -c tanto -n '__fish_seen_subcommand_from bench' -a '{measurements} (__fish_complete_path)'\n"
    );
    let tasks = task_names().join(" ");
    script += &format!("complete -c tanto -n '__fish_seen_subcommand_from bulk' -a '{tasks} (__fish_complete_path)'\n");
    for command in COMMANDS {
        let condition = format!("__fish_seen_subcommand_from {}", command.name);
        script.extend(flags_of(command).iter().map(|flag| line(flag, &condition)));
    }
    script += "complete -c tanto -n '__fish_seen_subcommand_from run' -a '(__fish_complete_subcommand)'\n";
    script + "complete -c tanto -n '__fish_seen_subcommand_from build' -a '(__tanto_targets)'\n"
}

const HEAD: &str = r#"# Completion for tanto in fish; made from the program's own tables: 'tanto generate fish'.

# The targets of the build that the command line so far is about.
function __tanto_targets
    set -l words (commandline -opc)
    set -l place
    for i in (seq (count $words))
        if contains -- $words[$i] -C -f
            set -a place $words[$i] $words[(math $i + 1)]
        end
    end
    tanto build $place -t targets all 2>/dev/null | string replace -r ': [^:]*$' ''
end

complete -c tanto -f
"#;

fn line(flag: &Flag, condition: &str) -> String {
    let short = flag.short.map(|letter| format!(" -s {}", letter as char)).unwrap_or_default();
    let long = flag.long.map(|name| format!(" -l {name}")).unwrap_or_default();
    let value = flag.value.map(|value| value_of(value.shape)).unwrap_or_default();
    format!("complete -c tanto -n '{condition}'{short}{long}{value} -d '{}'\n", quoted(flag.doc))
}

fn value_of(shape: Shape) -> String {
    match shape {
        Shape::Directory => " -x -a '(__fish_complete_directories)'".to_owned(),
        Shape::File => " -r -F".to_owned(),
        Shape::Free => " -x".to_owned(),
        Shape::OneOf(words) => format!(" -x -a '{}'", words.join(" ")),
        Shape::Tool => format!(" -x -a '{}'", tool_names().join(" ")),
        Shape::OptionalTarget => " -a '(__tanto_targets)'".to_owned(),
    }
}

/// Inside single quotes.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\'', "\\'")
}
