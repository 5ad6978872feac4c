//! `tanto cache`: shows, verifies and empties the action cache.

use std::path::Path;

use clap::{Args, Subcommand};
use tanto_cache::{CacheContents, CacheError, Verification};
use tanto_exec::command_output::CommandOutput;
use tanto_exec::text::units::{ByteSize, duration, grouped};

use crate::ninja::CACHE_DIR;
use crate::settings::EnvVars;

/// Show, verify or empty the cache of results of compiles
///
/// Builds with --cache=on store results in tanto/cache in the user's cache directory ($XDG_CACHE_HOME, ~/.cache). `tanto
/// report cache` lists the hits and misses of a build.
#[derive(Args, Debug)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub struct CacheArgs {
    #[command(subcommand)]
    command: CacheCommand,
}

#[derive(Subcommand, Debug)]
enum CacheCommand {
    /// Print the size of the cache and the number of hits
    Stat,
    /// Remove everything from the cache
    Clear,
    /// Read the whole cache and remove damaged files
    ///
    /// Exits with code 1 if a file was damaged.
    Verify,
}

pub fn run(args: &CacheArgs) -> CommandOutput {
    answer(&args.command).unwrap_or_else(|error| CommandOutput::failed(error.to_string()))
}

fn answer(command: &CacheCommand) -> Result<CommandOutput, CacheError> {
    match EnvVars::of_process().cache() {
        Some(dir) => answer_about(&dir.join(CACHE_DIR), command),
        None => Ok(CommandOutput::failed("HOME is not set")),
    }
}

fn answer_about(dir: &Path, command: &CacheCommand) -> Result<CommandOutput, CacheError> {
    let (text, code) = match command {
        CacheCommand::Stat => (tanto_cache::contents(dir)?.as_ref().map(contents), 0),
        CacheCommand::Clear => (tanto_cache::clear(dir)?.map(|bytes| format!("removed {}\n", ByteSize(bytes))), 0),
        CacheCommand::Verify => {
            let found = tanto_cache::verify(dir)?;
            let is_damaged = found.is_some_and(|found| found.damaged_blobs + found.damaged_actions > 0);
            (found.as_ref().map(verification), u8::from(is_damaged))
        }
    };
    let text = text.unwrap_or_else(|| format!("there is no cache in {}\n", dir.display()));
    Ok(CommandOutput::printed(text.into_bytes(), code))
}

fn contents(found: &CacheContents) -> String {
    let CacheContents { counters, actions, results, blobs, bytes } = found;
    format!(
        "size       {}\ncommands   {}\nresults    {}\nfiles      {}\nhits       {}\nmisses     {}\nnot cached {}\nsaved      {} \
         of processor time\n",
        ByteSize(*bytes),
        grouped(*actions),
        grouped(*results),
        grouped(*blobs),
        grouped(counters.hits),
        grouped(counters.misses),
        grouped(counters.not_cacheable),
        duration(i64::try_from(counters.saved_cpu_ms).unwrap_or(i64::MAX)),
    )
}

fn verification(found: &Verification) -> String {
    let Verification { blobs, damaged_blobs, actions, damaged_actions, incomplete_results } = found;
    format!(
        "{} files, {} damaged\n{} commands, {} damaged\n{} results without their files\n",
        grouped(*blobs),
        grouped(*damaged_blobs),
        grouped(*actions),
        grouped(*damaged_actions),
        grouped(*incomplete_results)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn commands_without_a_cache_say_so() {
        let place = Scratch::new("cache-command");
        for command in [CacheCommand::Stat, CacheCommand::Clear, CacheCommand::Verify] {
            let answer = answer_about(&place.at("none"), &command).unwrap();
            let said = String::from_utf8(answer.out).unwrap();
            assert!(said.starts_with("there is no cache in /") && answer.code == 0, "{said}");
        }
    }

    #[test]
    fn numbers_have_names() {
        let found =
            CacheContents { actions: 1234, results: 2000, blobs: 3, bytes: 5 << 20, ..CacheContents::default() };
        let text = contents(&found);
        for line in ["size       5 MiB", "commands   1,234", "results    2,000", "files      3", "hits       0"] {
            assert!(text.lines().any(|it| it == line), "{line}: {text}");
        }
        let found = Verification { blobs: 7, damaged_blobs: 1, actions: 5, ..Verification::default() };
        assert_eq!(verification(&found), "7 files, 1 damaged\n5 commands, 0 damaged\n0 results without their files\n");
    }
}
