//! The completion script for bash.

use crate::bench::{MEASUREMENTS, Measurement};
use crate::commands::COMMANDS;
use crate::completions::{all_spellings, measurement_names, spellings, task_names, tool_names};
use crate::flags::table::{FLAGS, Flag, RUN_FLAGS, Shape};

/// The whole script.
pub fn script() -> String {
    let commands: Vec<&str> = COMMANDS.iter().map(|command| command.name).collect();
    let values: String = FLAGS.iter().filter_map(value_case).collect();
    let run_flags: Vec<String> = RUN_FLAGS.iter().flat_map(spellings).collect();
    FRAME
        .replace("@RUN_FLAGS@", &run_flags.join(" "))
        .replace("@MEASUREMENTS@", &measurement_names().join(" "))
        .replace("@TASKS@", &task_names().join(" "))
        .replace("@BENCH@", &MEASUREMENTS.iter().map(bench_case).collect::<String>())
        .replace("@COMMANDS@", &commands.join(" "))
        .replace("@FLAGS@", &(all_spellings().join(" ") + " "))
        .replace("@VALUES@", &values)
}

const FRAME: &str = r#"# Completion for tanto in bash; made from the program's own tables: 'tanto generate bash'.

# Offers the targets of the build that the command line so far is about. They are taken as they are: `compgen -W`
# would expand them, and run what a build file hides in a name.
_tanto_targets() {
    local i target place=()
    for ((i = 2; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
            -C | -f) place+=("${COMP_WORDS[i]}" "${COMP_WORDS[i + 1]}") ;;
            -t) return ;;
        esac
    done
    while IFS= read -r target; do
        [[ $target == "$cur"* ]] && printf -v COMPREPLY[${#COMPREPLY[@]}] %q "$target"
    done < <("${COMP_WORDS[0]}" build "${place[@]}" -t targets all 2>/dev/null | sed 's/: [^:]*$//')
}

_tanto_flags() {
    local cur=${COMP_WORDS[COMP_CWORD]}
    case ${COMP_WORDS[COMP_CWORD - 1]} in
@VALUES@    esac
    case $cur in
        -*) mapfile -t COMPREPLY < <(compgen -W '@FLAGS@' -- "$cur") ;;
        *) _tanto_targets ;;
    esac
}

_tanto_run() {
    case $cur in
        -*) mapfile -t COMPREPLY < <(compgen -W '@RUN_FLAGS@' -- "$cur") ;;
        *) mapfile -t COMPREPLY < <(compgen -c -f -- "$cur") ;;
    esac
}

_tanto_bench() {
    local flags=
    case ${COMP_WORDS[2]} in
@BENCH@    esac
    case $cur in
        -*) mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$cur") ;;
        *) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    esac
}

_tanto() {
    local cur=${COMP_WORDS[COMP_CWORD]}
    COMPREPLY=()
    case $COMP_CWORD:${COMP_WORDS[1]} in
        1:* | 2:help) mapfile -t COMPREPLY < <(compgen -W '@COMMANDS@' -- "$cur") ;;
        *:build | *:doctor) _tanto_flags ;;
        *:run) _tanto_run ;;
        2:report) mapfile -t COMPREPLY < <(compgen -W 'sessions rebuilds timings trace' -- "$cur") ;;
        2:clang) mapfile -t COMPREPLY < <(compgen -W 'status stop' -- "$cur") ;;
        2:bench) mapfile -t COMPREPLY < <(compgen -W '@MEASUREMENTS@' -- "$cur") ;;
        *:bench) _tanto_bench ;;
        2:bulk) mapfile -t COMPREPLY < <(compgen -W '@TASKS@' -- "$cur") ;;
        *:bulk) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    esac
}

complete -F _tanto tanto
"#;

fn bench_case(it: &Measurement) -> String {
    let flags: Vec<String> = it.flags.iter().map(|flag| format!("--{}", flag.name)).collect();
    format!("        {}) flags='{}' ;;\n", it.name, flags.join(" "))
}

/// What follows a flag that takes a value.
fn value_case(flag: &Flag) -> Option<String> {
    let words = match flag.value?.shape {
        Shape::Directory => "-d".to_owned(),
        Shape::File => "-f".to_owned(),
        Shape::OneOf(words) => format!("-W '{}'", words.join(" ")),
        Shape::Tool => format!("-W '{}'", tool_names().join(" ")),
        // It never is a word of its own.
        Shape::OptionalTarget => return None,
        Shape::Free => return Some(format!("        {}) return ;;\n", spellings(flag).join(" | "))),
    };
    let pattern = spellings(flag).join(" | ");
    Some(format!(
        "        {pattern})\n            mapfile -t COMPREPLY < <(compgen {words} -- \"$cur\")\n            return ;;\n"
    ))
}
