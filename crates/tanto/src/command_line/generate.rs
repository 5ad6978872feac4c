//! `tanto generate`: man pages and shell completions from the declaration of the command line.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueHint};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use tanto_exec::command_output::CommandOutput;
use tanto_exec::runner::clang::installation::WORKER_VARIABLE;
use tanto_ninja::tools::TOOLS;

use crate::command_line;
use crate::settings::FLAGS_VARIABLE;
use crate::settings::declaration::{FLAGS, VARIABLES};

#[derive(Args, Debug)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub struct GenerateArgs {
    #[command(subcommand)]
    target: GenerateTarget,
}

#[derive(Subcommand, Debug)]
enum GenerateTarget {
    /// Print a man page, or write all of them
    Man {
        /// Page such as tanto-bulk-build, or the directory for all pages
        #[arg(value_name = "NAME|DIR", default_value = "tanto", value_hint = ValueHint::DirPath)]
        place: PathBuf,
    },
    /// Print the completion script for bash
    Bash,
    /// Print the completion script for zsh
    Zsh,
    /// Print the completion script for fish
    Fish,
}

pub fn run(args: &GenerateArgs) -> CommandOutput {
    match &args.target {
        GenerateTarget::Man { place } => man(place),
        GenerateTarget::Bash => CommandOutput::printed(bash(), 0),
        GenerateTarget::Zsh => CommandOutput::printed(zsh(), 0),
        GenerateTarget::Fish => CommandOutput::printed(fish(), 0),
    }
}

fn man(place: &Path) -> CommandOutput {
    let pages = pages();
    if place.is_dir() {
        let written = pages.iter().try_for_each(|(name, text)| std::fs::write(place.join(format!("{name}.1")), text));
        return match written {
            Ok(()) => CommandOutput::default(),
            Err(error) => failed(&format!("writing man pages to {}: {error}", place.display())),
        };
    }
    match pages.into_iter().find(|(name, _)| Path::new(name) == place) {
        Some((_, text)) => CommandOutput::printed(text, 0),
        None => failed(&format!("no man page or directory '{}'", place.display())),
    }
}

fn failed(message: &str) -> CommandOutput {
    CommandOutput::failed(message)
}

/// Returns the names and texts of all man pages.
pub fn pages() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut root = command_line::declaration().disable_help_subcommand(true);
    root.build();
    collect(&root, "tanto", &mut all);
    all
}

fn collect(command: &clap::Command, name: &str, all: &mut Vec<(String, Vec<u8>)>) {
    let mut text = Vec::new();
    let man = Man::new(command.clone()).title(name.to_uppercase()).source(concat!("tanto ", env!("CARGO_PKG_VERSION")));
    // Writing to a vector cannot fail.
    let _ = page(&man, command, name, &mut text);
    all.push((name.to_owned(), text));
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        collect(below, &format!("{name}-{}", below.get_name()), all);
    }
}

fn page(man: &Man, command: &clap::Command, name: &str, out: &mut dyn io::Write) -> io::Result<()> {
    man.render_title(out)?;
    man.render_name_section(out)?;
    let usage = command.clone().render_usage().to_string();
    let mut synopsis = Roff::new();
    synopsis.control("SH", ["SYNOPSIS"]).text([roman(usage.trim_start_matches("Usage: "))]);
    synopsis.to_writer(out)?;
    man.render_description_section(out)?;
    man.render_options_section(out)?;
    let subcommands = command.get_subcommands().filter(|below| !below.is_hide_set()).map(|below| {
        let about = below.get_about().map(ToString::to_string).unwrap_or_default();
        (format!("{name}-{}(1)", below.get_name()), about)
    });
    section("SUBCOMMANDS", subcommands, out)?;
    if name == "tanto" || name == "tanto-build" {
        let tools = TOOLS.iter().filter_map(|tool| Some((tool.name.to_owned(), tool.description?.to_owned())));
        section("TOOLS", tools, out)?;
        let keys = FLAGS.iter().filter_map(|flag| {
            let expected = flag.value.map_or("\"yes\" or \"no\"", |value| value.expected);
            Some((flag.key()?.to_owned(), format!("As {}: {expected}.", flag.label())))
        });
        section("CONFIG KEYS", keys, out)?;
        section("ENVIRONMENT", entries(VARIABLES).chain(entries(ENVIRONMENT)), out)?;
        section("FILES", entries(FILES), out)?;
    }
    // The descriptions of these two list other codes.
    if !["tanto-run", "tanto-bench-compare"].contains(&name) {
        let failure = if name == "tanto-build" { BUILD_FAILURE } else { "Failure, or wrong usage." };
        let codes = [("0", "Success."), ("1", failure), ("130", "Interrupted.")];
        section("EXIT STATUS", entries(&codes), out)?;
    }
    let parent = name.rsplit_once('-').map_or("ninja", |(parent, _)| parent);
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]).text([bold(parent), roman("(1)")]);
    roff.to_writer(out)
}

/// Writes a section of names with their descriptions; nothing if there is none.
fn section(title: &str, entries: impl Iterator<Item = (String, String)>, out: &mut dyn io::Write) -> io::Result<()> {
    let mut entries = entries.peekable();
    let mut roff = Roff::new();
    if entries.peek().is_some() {
        roff.control("SH", [title]);
    }
    for (name, description) in entries {
        roff.control("TP", []).text([bold(name)]).text([roman(description)]);
    }
    roff.to_writer(out)
}

fn entries(list: &[(&str, &str)]) -> impl Iterator<Item = (String, String)> {
    list.iter().map(|&(name, description)| (name.to_owned(), description.to_owned()))
}

const ENVIRONMENT: &[(&str, &str)] = &[
    (
        FLAGS_VARIABLE,
        "Options, split into words like a shell does. They override config files; the command line overrides them.",
    ),
    (WORKER_VARIABLE, "Path of the program that keeps checkpoints. Default: see tanto doctor."),
    ("MAKEFLAGS", "Names the jobserver of a make that runs Tanto."),
    ("NO_COLOR, CLICOLOR_FORCE, FORCE_COLOR", "Whether output keeps its colors if it does not go to a terminal."),
    ("POSIXLY_CORRECT", "If set, the first target ends the options."),
];

const FILES: &[(&str, &str)] = &[
    ("build.ninja", "The manifest."),
    (".ninja_log, .ninja_deps", "ninja's logs. Both programs read and write them."),
    (".tanto/config", "Settings of a build directory, in TOML. Overrides the user's."),
    (
        ".tanto/sessions, .tanto/history",
        "Recorded builds and costs of commands. May be deleted; --record=off keeps neither.",
    ),
    (".tanto/bench", "Results of tanto bench."),
    (".tanto/checkpoints", "Socket of the process that keeps checkpoints; see tanto-clang(1)."),
    (".tanto/snapshots", "Images of loaded manifests. May be deleted."),
    (
        "$XDG_CACHE_HOME/tanto/builds, ~/.cache/tanto/builds",
        "The state under the name ninja, in place of .tanto. May be deleted.",
    ),
    ("$XDG_CONFIG_HOME/tanto/config, ~/.config/tanto/config", "Settings of the user, in TOML."),
];

const BUILD_FAILURE: &str =
    "Failure, or wrong usage. A build stopped by a failed command exits with that command's code.";

/// Lists targets for all shells. They are taken as they are: `compgen -W` would expand them, and run a command that a
/// manifest hides in a name.
const BASH_FRAME: &str = r#"
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

# Offers options only after a dash, no placeholders, and targets.
_tanto_complete() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} word words
    _tanto "$1" "$cur" "$prev"
    words=("${COMPREPLY[@]}") COMPREPLY=()
    for word in "${words[@]}"; do
        case $word in
            '' | '<'* | '['*) ;;
            -*) if [[ $cur == -* ]]; then COMPREPLY+=("$word"); fi ;;
            *) COMPREPLY+=("$word") ;;
        esac
    done
    case ${COMP_WORDS[1]}:$cur:$prev in
        build:-* | build:*:-[CfjkldtwH] | build:*:--*) ;;
        build:*) _tanto_targets ;;
    esac
}
"#;

fn bash() -> String {
    let (functions, registration) = script(Shell::Bash)
        .rsplit_once("\nif [[")
        .map(|(before, after)| (before.to_owned(), after.to_owned()))
        .unwrap_or_default();
    let registration = registration.replace("-F _tanto ", "-F _tanto_complete ");
    format!("{functions}{BASH_FRAME}\nif [[{registration}")
}

const ZSH_FRAME: &str = r#"
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
"#;

fn zsh() -> String {
    let script = script(Shell::Zsh).replace(":_hosts", ":_tanto_targets");
    script.replacen("\n_tanto() {", &format!("{ZSH_FRAME}\n_tanto() {{"), 1)
}

const FISH_FRAME: &str = r#"# The targets of the build that the command line so far is about.
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

complete -c tanto -n "__fish_tanto_using_subcommand build simulate" -f -a "(__tanto_targets)"
"#;

fn fish() -> String {
    script(Shell::Fish).replace("(__fish_print_hostnames)", "(__tanto_targets)") + FISH_FRAME
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut without_hidden(&command_line::declaration()), "tanto", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Copies a command without its internal subcommands, which clap would offer in bash.
fn without_hidden(command: &clap::Command) -> clap::Command {
    let visible = command.get_subcommands().filter(|it| !it.is_hide_set()).map(without_hidden);
    let mut copy = clap::Command::new(command.get_name().to_owned())
        .args(command.get_arguments())
        .subcommands(visible)
        .disable_help_flag(command.is_disable_help_flag_set())
        .disable_help_subcommand(command.is_disable_help_subcommand_set())
        .disable_version_flag(command.is_disable_version_flag_set());
    if let Some(about) = command.get_about() {
        copy = copy.about(about.clone());
    }
    if let Some(version) = command.get_version() {
        copy = copy.version(version.to_owned());
    }
    copy
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;
    use std::process::{Command, Stdio};
    use tanto_testing::Scratch;

    /// Lets `program` check `text`; prints a line and passes if there is no such program here.
    fn check(program: &str, args: &[&str], text: &[u8]) {
        let dir = Scratch::new(program);
        dir.write("text", text);
        match Command::new(program).args(args).arg(dir.at("text")).stdin(Stdio::null()).output() {
            Err(error) if error.kind() == ErrorKind::NotFound => println!("skipped: no {program} here"),
            Err(error) => panic!("{program}: {error}"),
            Ok(output) => {
                let errors = String::from_utf8_lossy(&output.stderr);
                // A manual page is printed there.
                let printed = String::from_utf8_lossy(&output.stdout);
                assert!(output.status.success() && errors.is_empty(), "{program}: {errors}{printed}");
            }
        }
    }

    #[test]
    fn shells_can_read_their_scripts() {
        check("bash", &["-n"], bash().as_bytes());
        check("zsh", &["-n"], zsh().as_bytes());
        check("fish", &["-n"], fish().as_bytes());
    }

    #[test]
    fn every_flag_is_completed() {
        let (bash, zsh, fish) = (bash(), zsh(), fish());
        for flag in FLAGS {
            let short = flag.short.map(|letter| format!("-{}", letter as char));
            let long = flag.long.map(|name| format!("--{name}"));
            for spelling in short.into_iter().chain(long) {
                assert!([' ', '"'].iter().any(|end| bash.contains(&format!("{spelling}{end}"))), "{spelling}");
                assert!(zsh.contains(&spelling), "{spelling}");
            }
            let fishy = flag.short.map(|letter| format!(" -s {}", letter as char)).unwrap_or_default();
            assert!(fish.contains(&fishy), "{flag:?}");
            assert!(flag.long.is_none_or(|long| fish.contains(&format!(" -l {long}"))), "{flag:?}");
        }
        // Of build, doctor and simulate: any number of targets.
        let targets = zsh.lines().filter(|line| line.contains("'*::targets -- ") && line.contains(":_tanto_targets'"));
        assert_eq!(targets.count(), 3, "{zsh}");
    }

    /// Runs bash's script: its completions of a command line, for a `tanto` with three targets.
    fn offered(words: &[&str]) -> Vec<String> {
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let last = words.len() - 1;
        let script = [
            bash(),
            "tanto() { printf '%s\\n' 'lib: phony' 'lib$(echo ran): cc' 'other: cc'; }".to_owned(),
            "compopt() { :; }".to_owned(),
            format!(
                "COMP_WORDS=({}); COMP_CWORD={last}; _tanto_complete tanto; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
                quoted.join(" ")
            ),
        ];
        let output = Command::new("bash").args(["--norc", "-c", &script.join("\n")]).output().expect("bash");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).filter(|line| !line.is_empty()).collect()
    }

    #[test]
    fn bash_offers_matching_words() {
        assert_eq!(offered(&["tanto", "bu"]), ["build", "bulk"]);
        assert_eq!(offered(&["tanto", "help", "do"]), ["doctor"]);
        assert_eq!(offered(&["tanto", "bulk", "re"]), ["resolve", "retry", "report"]);
        assert_eq!(offered(&["tanto", "bulk", "build", "--a"]), ["--again"]);
        assert_eq!(offered(&["tanto", "report", "t"]), ["timings", "trace"]);
        assert_eq!(offered(&["tanto", "clang", ""]), ["status", "stop"]);
        assert_eq!(offered(&["tanto", "simulate", "--order", "f"]), ["fifo"]);
        assert_eq!(offered(&["tanto", "build", "--verb"]), ["--verbose"]);
        assert_eq!(offered(&["tanto", "build", "-d", "keep"]), ["keepdepfile", "keeprsp"]);
        assert_eq!(offered(&["tanto", "build", "-t", "compdb"]), ["compdb", "compdb-targets"]);
        assert_eq!(offered(&["tanto", "build", "--format", ""]), ["auto", "live", "plain", "jsonl"]);
        assert_eq!(offered(&["tanto", "build", "-j", ""]), Vec::<String>::new());
        assert_eq!(offered(&["tanto", "help", "build", "x"]), Vec::<String>::new());
    }

    #[test]
    fn bash_quotes_targets_and_runs_nothing_in_them() {
        assert_eq!(offered(&["tanto", "build", "-C", "x", "li"]), ["lib", r"lib\$\(echo\ ran\)"]);
    }

    /// Returns the output of a program with a file `text` as its last argument; `None`, with a line, if it is not here.
    fn output_of(program: &str, args: &[&str], text: &str) -> Option<String> {
        let dir = Scratch::new(program);
        dir.write("text", text);
        let mut command = Command::new(program);
        command.args(args).arg(dir.at("text")).env("HOME", dir.at("")).stdin(Stdio::null());
        match command.output() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                println!("skipped: no {program} here (apt-get install {program})");
                None
            }
            output => Some(String::from_utf8_lossy(&output.expect("an output").stdout).into_owned()),
        }
    }

    /// Types command lines with a tab into an interactive zsh, in which `tanto` prints its arguments.
    const ZSH_SESSION: &str = r#"
        zmodload zsh/zpty
        zpty shell zsh -f -i
        send() { zpty -w shell "$1" }
        send "tanto() { case \"\$*\" in *'-t targets'*) print -l 'lib: phony' 'main.o: cc' ;; *) print -r -- \"<\$*>\" ;; esac }"
        send "autoload -Uz compinit; compinit -u -D; source $1; print rea''dy"
        zpty -r shell seen '*ready*'
        for line in 'bulk bui' 'simulate --order f' 'build --verb' 'build -C x ma'; do
            send "tanto $line"$'\t'
        done
        send "print en''d; exit"
        zpty -r shell seen '*end*'
        print -r -- "$seen"
    "#;

    #[test]
    fn zsh_completes() {
        let Some(seen) = output_of("zsh", &["-f", "-c", ZSH_SESSION, "zsh"], &zsh()) else { return };
        for completed in ["bulk build", "simulate --order fifo", "build --verbose", "build -C x main.o"] {
            assert!(seen.contains(&format!("<{completed}>")), "{completed}: {seen}");
        }
    }

    #[test]
    fn fish_completes() {
        let session = "function tanto; printf '%s\\n' 'lib: phony' 'main.o: cc'; end; source $argv[1]; \
            for line in 'bulk bui' 'simulate --order f' 'build --verb' 'build -C x ma'; \
            complete -C \"tanto $line\"; end";
        let Some(seen) = output_of("fish", &["--no-config", "-c", session], &fish()) else { return };
        let words: Vec<&str> = seen.lines().filter_map(|line| line.split('\t').next()).collect();
        assert_eq!(words, ["build", "fifo", "--verbose", "main.o"], "{seen}");
    }

    #[test]
    fn man_pages_are_valid_and_name_every_flag_and_key() {
        let pages = pages();
        for (name, text) in &pages {
            check("man", &["--warnings", "-E", "UTF-8", "-l"], text);
            // No warnings: it would have a date, and a page made anew by each build has none.
            check("mandoc", &["-T", "lint", "-W", "error"], text);
            let title = format!(".TH {} 1 ", name.to_uppercase());
            assert!(String::from_utf8_lossy(text).contains(&title), "{name}");
        }
        let (_, build) = pages.iter().find(|(name, _)| name == "tanto-build").expect("a page");
        let build = String::from_utf8_lossy(build).replace('\\', "");
        for flag in FLAGS {
            assert!(flag.long.is_none_or(|long| build.contains(&format!("--{long}"))), "{flag:?}");
            assert!(flag.key().is_none_or(|key| build.contains(&format!("fB{key}fR"))), "{flag:?}");
        }
    }
}
