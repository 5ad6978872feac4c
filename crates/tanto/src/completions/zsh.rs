//! The completion script for zsh.

use crate::commands::{COMMANDS, Command};
use crate::completions::{measurement_names, spellings, task_names, tool_names};
use crate::flags::table::{FLAGS, Flag, RUN_FLAGS, Shape};

/// The whole script.
pub fn script() -> String {
    let commands: String = COMMANDS.iter().map(describe).collect();
    let flags: String = FLAGS.iter().flat_map(specs).collect();
    let run_flags: String = RUN_FLAGS.iter().flat_map(specs).collect();
    let frame = FRAME.replace("@COMMANDS@", &commands).replace("@MEASUREMENTS@", &measurement_names().join(" "));
    let frame = frame.replace("@TASKS@", &task_names().join(" "));
    frame.replace("@RUN_FLAGS@", &run_flags).replace("@FLAGS@", &flags)
}

const FRAME: &str = r#"#compdef tanto
# Completion for tanto in zsh; made from the program's own tables: 'tanto generate zsh'.

_tanto_commands() {
    local -a commands=(
@COMMANDS@    )
    _describe command commands
}

# The targets of the build that the command line so far is about.
_tanto_targets() {
    local i
    local -a place targets
    for ((i = 2; i < CURRENT; i++)); do
        case $words[i] in
            -C | -f) place+=("$words[i]" "${(Q)words[i + 1]}") ;;
        esac
    done
    targets=(${${(f)"$(_call_program targets tanto build ${(q)place} -t targets all 2>/dev/null)"}%: *})
    compadd -a targets
}

_tanto_flags() {
    _arguments -s -S \
@FLAGS@        '*:target:_tanto_targets'
}

_tanto() {
    if ((CURRENT == 2)); then
        _tanto_commands
        return
    fi
    case $words[2] in
        build | doctor)
            shift words
            ((CURRENT--))
            _tanto_flags ;;
        run)
            shift words
            ((CURRENT--))
            _arguments -S -A '-*' \
@RUN_FLAGS@                '*:::command:_normal' ;;
        help) ((CURRENT == 3)) && _tanto_commands ;;
        report)
            case $CURRENT in
                3) compadd sessions rebuilds timings trace ;;
                *) _files ;;
            esac ;;
        clang) ((CURRENT == 3)) && compadd status stop ;;
        bench)
            case $CURRENT in
                3) compadd @MEASUREMENTS@ ;;
                *) _files ;;
            esac ;;
        bulk)
            case $CURRENT in
                3) compadd @TASKS@ ;;
                *) _files ;;
            esac ;;
    esac
}

_tanto "$@"
"#;

fn describe(command: &Command) -> String {
    format!("        '{}:{}'\n", command.name, quoted(command.doc))
}

/// For `_arguments`: a value may be joined to its flag, and one spelling of a flag excludes the others.
fn specs(flag: &Flag) -> Vec<String> {
    let all = spellings(flag).join(" ");
    let value = flag.value.map(|value| {
        let colons = if value.is_optional() { "::" } else { ":" };
        format!("{colons}{}:{}", value.name, action(value.shape))
    });
    let value = value.unwrap_or_default();
    let spec = |spelling: String| {
        let joined = match (flag.value, spelling.starts_with("--")) {
            (None, _) => "",
            (Some(value), true) if value.is_optional() => "=-",
            (Some(_), true) => "=",
            (Some(_), false) => "+",
        };
        format!("        '({all}){spelling}{joined}[{}]{value}' \\\n", quoted(flag.doc))
    };
    spellings(flag).into_iter().map(spec).collect()
}

fn action(shape: Shape) -> String {
    match shape {
        Shape::Directory => "_files -/".to_owned(),
        Shape::File => "_files".to_owned(),
        Shape::Free => " ".to_owned(),
        Shape::OneOf(words) => format!("({})", words.join(" ")),
        Shape::Tool => format!("({})", tool_names().join(" ")),
        Shape::OptionalTarget => "_tanto_targets".to_owned(),
    }
}

/// Inside single quotes and square brackets.
fn quoted(text: &str) -> String {
    text.replace('\'', "'\\''").replace('[', "\\[").replace(']', "\\]").replace(':', "\\:")
}
