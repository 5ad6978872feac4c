//! `tanto generate`: man pages and shell completions from the declaration of the command line.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueHint};
use tanto_ninja::tools::TOOLS;

use crate::command_line;
use crate::flags::door::Door;
use crate::flags::stop::Stop;

#[derive(Args, Debug)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub struct GenerateArgs {
    #[command(subcommand)]
    target: GenerateTarget,
}

#[derive(Subcommand, Debug)]
enum GenerateTarget {
    /// Print one man page, or write all of them
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

pub fn run(args: &GenerateArgs) -> Stop {
    let shell = match &args.target {
        GenerateTarget::Man { place } => return man(place),
        GenerateTarget::Bash => clap_complete::Shell::Bash,
        GenerateTarget::Zsh => clap_complete::Shell::Zsh,
        GenerateTarget::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command_line::declaration(), "tanto", &mut script);
    Stop::printed(script, 0)
}

/// The names of the `-t` tools that `-t list` lists.
pub fn tool_names() -> Vec<&'static str> {
    TOOLS.iter().filter(|tool| tool.description.is_some()).map(|tool| tool.name).collect()
}

fn man(place: &Path) -> Stop {
    let pages = pages();
    if place.is_dir() {
        let written = pages.iter().try_for_each(|(name, text)| std::fs::write(place.join(format!("{name}.1")), text));
        return match written {
            Ok(()) => Stop::default(),
            Err(error) => failed(&format!("writing man pages to {}: {error}", place.display())),
        };
    }
    match pages.into_iter().find(|(name, _)| Path::new(name) == place) {
        Some((_, text)) => Stop::printed(text, 0),
        None => failed(&format!("no man page or directory '{}'", place.display())),
    }
}

fn failed(message: &str) -> Stop {
    Stop::failed(Door::Tanto, "error", message.as_bytes())
}

/// The names and texts of all man pages.
pub fn pages() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut root = command_line::declaration().disable_help_subcommand(true);
    root.build();
    collect(&root, "tanto", &mut all);
    all
}

fn collect(command: &clap::Command, name: &str, all: &mut Vec<(String, Vec<u8>)>) {
    let mut text = Vec::new();
    let written: io::Result<()> = clap_mangen::Man::new(command.clone()).title(name).render(&mut text);
    if written.is_ok() {
        all.push((name.to_owned(), text));
    }
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        collect(below, &format!("{name}-{}", below.get_name()), all);
    }
}
