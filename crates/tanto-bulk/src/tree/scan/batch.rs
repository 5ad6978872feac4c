//! Scans directories for another machine, with the commands of a scan of its own.

use std::path::Path;

use tanto_exec::clock::Clock;
use tanto_exec::event::View;
use tanto_exec::job::{Capture, Exit};
use tanto_exec::runner::Runner;
use tanto_protocol::ScannedDirectory;

use super::commands::{ScanCommand, ScanOutput};
use super::session::{self, ScanDirs, ScanKind};
use super::{ScanError, environment};
use crate::config::Config;
use crate::shell::quoted;

/// Scans batches of directories of one tree. Options of packages are kept between them.
pub struct BatchScanner<'a> {
    config: &'a Config,
    environment: String,
    facts: String,
    dirs: ScanDirs,
}

impl<'a> BatchScanner<'a> {
    /// `facts` are platform variables for make.
    pub fn new(config: &'a Config, facts: &[String]) -> Result<BatchScanner<'a>, ScanError> {
        let dirs = ScanDirs::new(config);
        dirs.make().map_err(|error| ScanError::Stopped(format!("{}: {error}", config.state)))?;
        let facts = facts.iter().map(|word| format!(" {}", quoted(word))).collect();
        Ok(BatchScanner { config, environment: environment::words(config), facts, dirs })
    }

    /// Scans directories of the tree, with the settings of packages if `options`. Those that cannot be scanned are left out.
    pub fn run(
        &self,
        (locations, options): (&[String], bool),
        runner: &mut dyn Runner,
        view: &mut dyn View,
        clock: &dyn Clock,
    ) -> Result<Vec<ScannedDirectory>, ScanError> {
        let config = Config { rebuild_on_options: options, ..self.config.clone() };
        let is_there = |location: &&String| Path::new(self.config.tree_dir()).join(location).is_dir();
        let question = |location: &String| {
            let words = (&*self.environment, &*self.facts);
            let line = self.dirs.line(ScanKind::Packages, location, &config, words);
            ScanCommand { location: location.clone(), line, wall_ms: 0 }
        };
        let asks: Vec<ScanCommand> = locations.iter().filter(is_there).map(question).collect();
        let mut results = Vec::new();
        let mut take = |answer: ScanOutput<'_>| {
            let location = answer.ask.location.clone();
            drop(self.dirs.take_log(&location));
            let completion = answer.completion;
            if completion.exit == Exit::Code(0) && completion.capture == Capture::Complete {
                let output = std::mem::take(&mut completion.output);
                results.push(ScannedDirectory { location, wall_ms: answer.wall_ms, output });
            }
            Vec::new()
        };
        session::run_commands((runner, view, clock), &asks, (None, None), &mut take)?;
        Ok(results)
    }
}
