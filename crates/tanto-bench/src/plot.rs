//! `tanto bench plot`: the timings of several experiments in one chart.

use std::path::{Path, PathBuf};

use crate::Error;
use crate::jobs::file::{self, Timings};
use crate::output::{OutputFile, write_all};
use tanto_exec::command_output::CommandOutput;

#[derive(Clone, Default, PartialEq, Debug)]
pub struct PlotOptions {
    /// Results of `tanto bench jobs`, or other files of timings.
    pub files: Vec<PathBuf>,
    pub outputs: Vec<OutputFile>,
    /// Replaces the title that the files have in common.
    pub title: Option<String>,
}

/// Draws the chart and lists the files written.
pub fn run(options: &PlotOptions) -> Result<CommandOutput, Error> {
    let all = options.files.iter().map(|path| read(path)).collect::<Result<Vec<_>, Error>>()?;
    let first = all.first().map(|(_, timings)| timings.title.clone()).unwrap_or_default();
    let is_common = all.iter().all(|(_, timings)| timings.title == first);
    let title = options.title.clone().unwrap_or(if is_common { first } else { String::new() });
    let series = all.iter().map(|(name, timings)| match is_common || timings.title.is_empty() {
        true => timings.series(name),
        false => timings.series(&format!("{name}: {}", timings.title)),
    });
    let chart = file::chart(&title, series.collect());
    let mut outcome = CommandOutput::default();
    outcome.print(&write_all(&options.outputs, |format| chart.render(format))?);
    Ok(outcome)
}

/// Returns the timings with the file's stem as their name.
fn read(path: &Path) -> Result<(String, Timings), Error> {
    let bytes = path.as_os_str().as_encoded_bytes();
    let text = tanto_sys::fs::file::read(bytes).map_err(|error| Error::read(path, &error))?;
    let timings = Timings::read(&text).map_err(|error| Error::Timings { path: path.into(), error })?;
    Ok((path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), timings))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;
    use tanto_testing::Scratch;

    fn plot(dir: &Scratch, files: &[&str], outputs: &[&str], title: Option<&str>) -> Result<CommandOutput, Error> {
        let output = |name: &&str| OutputFile::new(dir.at(name), Format::IMAGES).expect("a format");
        run(&PlotOptions {
            files: files.iter().map(|name| dir.at(name)).collect(),
            outputs: outputs.iter().map(output).collect(),
            title: title.map(str::to_owned),
        })
    }

    #[test]
    fn experiments_share_one_chart() {
        let dir = Scratch::new("bench-plot");
        dir.write("all.txt", "# Timings of make\n1 20\n2 10\n");
        dir.write("one.txt", "# Timings of make\n1 20\n2 20.5\n");
        let outcome = plot(&dir, &["all.txt", "one.txt"], &["out.svg"], None).expect("drawn");
        assert_eq!(outcome.code, 0);
        let svg = std::fs::read_to_string(dir.at("out.svg")).expect("a picture");
        assert_eq!(svg.matches("<circle").count(), 4);
        assert!(svg.contains(">make</text>") && svg.contains(">all</text>") && svg.contains(">one</text>"), "{svg}");
        dir.write("other.txt", "# Timings of ninja\n1 9\n");
        plot(&dir, &["all.txt", "other.txt"], &["out.svg", "out.png"], Some("Two")).expect("drawn");
        assert!(std::fs::read(dir.at("out.png")).expect("pixels").starts_with(b"\x89PNG"));
        let svg = std::fs::read_to_string(dir.at("out.svg")).expect("a picture");
        assert!(svg.contains(">Two</text>") && svg.contains(">other: ninja</text>"), "{svg}");
    }

    #[test]
    fn invalid_files_are_errors() {
        let dir = Scratch::new("bench-plot-bad");
        dir.write("bad.txt", "x\n");
        dir.write("good.txt", "1 2\n");
        let error = |file: &str, output: &str| {
            plot(&dir, &[file], &[output], None).expect_err("refused").to_string().replace(dir.text(), "@")
        };
        assert_eq!(
            error("bad.txt", "x.svg"),
            "reading @/bad.txt: line 1: expected a number of jobs and seconds, not 'x'"
        );
        assert!(error("no.txt", "x.svg").ends_with("@/no.txt: No such file or directory"));
        assert!(error("good.txt", "no/x.svg").contains("writing @/no/x.svg: "));
    }
}
