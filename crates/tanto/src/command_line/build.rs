//! The options of `tanto build` and `tanto doctor` for help texts, man pages and completions, from the table of flags.
//! The parser of these two commands is ninja's.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint};
use tanto_ninja::tools::TOOLS;

use crate::settings::declaration::FLAGS;
use crate::settings::flags::{Flag, Group, Shape, TARGET_HINT, Value};

/// All flags and the targets. It has no values, because clap does not parse these commands.
#[derive(Debug)]
pub struct BuildArgs;

impl Args for BuildArgs {
    fn augment_args(command: Command) -> Command {
        let flags = Group::ALL.into_iter().flat_map(|group| FLAGS.iter().filter(move |flag| flag.group == group));
        let command = flags.enumerate().fold(command, |command, (place, flag)| command.arg(arg(flag, place)));
        let targets = Arg::new("targets")
            .action(ArgAction::Append)
            .num_args(0..)
            .value_name("TARGET")
            .value_hint(TARGET_HINT)
            .help("Files, phony edges, directories or globs [default: the default targets of the manifest]");
        command.disable_help_flag(true).arg(targets)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for BuildArgs {
    fn from_arg_matches(_: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(BuildArgs)
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), clap::Error> {
        Ok(())
    }
}

fn arg(flag: &Flag, place: usize) -> Arg {
    // Values that clap lists need no hint at another list.
    let is_listed = matches!(flag.value, Some(Value { shape: Shape::OneOf(_), .. })) && flag.group == Group::Mode;
    let note = if flag.note.contains('{') || is_listed { "" } else { flag.note.lines().next().unwrap_or_default() };
    let note = note.replace("[default=", "[default: ");
    let key = flag.key().map(|key| format!("\n\nConfig key: {key}")).unwrap_or_default();
    let doc = format!("{}{note}", capital(flag.doc));
    let id = flag.long.or(flag.key()).or(flag.value.map(|value| value.name)).unwrap_or("dry-run");
    let arg = Arg::new(id)
        .help(doc.clone())
        .long_help(format!("{doc}.\n\n{}{key}", flag.more))
        .help_heading(heading(flag.group))
        .display_order(place);
    let arg = match flag.short {
        Some(letter) => arg.short(char::from(letter)),
        None => arg,
    };
    let arg = match flag.long {
        Some(name) => arg.long(name),
        None => arg,
    };
    let Some(value) = flag.value else {
        return arg.action(if flag.long == Some("help") { ArgAction::Help } else { ArgAction::SetTrue });
    };
    let arg = arg.action(ArgAction::Append).value_name(value.name);
    match value.shape {
        Shape::Directory => arg.value_hint(ValueHint::DirPath),
        Shape::File => arg.value_hint(ValueHint::FilePath),
        Shape::Free => arg.value_hint(ValueHint::Other),
        Shape::OneOf(words) => arg.value_parser(PossibleValuesParser::new(words)),
        Shape::Tool => arg.value_parser(PossibleValuesParser::new(tool_names())).hide_possible_values(true),
        Shape::OptionalTarget => arg.num_args(0..=1).require_equals(true).value_hint(TARGET_HINT),
    }
}

fn heading(group: Group) -> &'static str {
    match group {
        Group::Output => "Output",
        Group::Place => "Build directory",
        Group::Run => "Running commands",
        Group::Mode => "Modes",
        Group::Own | Group::Build => "Tanto's additions",
    }
}

/// The text with a capital letter in front.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// The names of the `-t` tools that `-t list` lists.
fn tool_names() -> Vec<&'static str> {
    TOOLS.iter().filter(|tool| tool.description.is_some()).map(|tool| tool.name).collect()
}
