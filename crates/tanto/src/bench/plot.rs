//! `tanto bench plot`: the timings of several experiments over one another, in one picture. Does not know how they were
//! measured.

use super::args::{self, Flag, HELP};
use super::jobs::file::{self, Timings};
use super::output::{Form, OUTPUT, Output};
use crate::flags::door::Door;
use crate::flags::stop::Stop;

/// All flags.
pub static FLAGS: [Flag; 3] = [HELP, OUTPUT, TITLE];

const TITLE: Flag = Flag::new("title", Some("TEXT"), "what stands above the picture");

/// What was asked for.
#[derive(Default)]
struct Asked {
    outputs: Vec<Output>,
    title: Option<String>,
    files: Vec<Vec<u8>>,
}

/// Draws, and says where.
pub fn run(words: &[Vec<u8>]) -> Stop {
    match asked(words) {
        Ok(None) => super::helped("plot"),
        Ok(Some(asked)) => match drawn(&asked) {
            Ok(out) => Stop::printed(out, 0),
            Err(why) => Stop::failed(Door::Tanto, "error", &why),
        },
        Err(why) => Stop::failed(Door::Tanto, "error", &why),
    }
}

fn asked(words: &[Vec<u8>]) -> Result<Option<Asked>, Vec<u8>> {
    let mut asked = Asked::default();
    let mut rest = words.to_vec();
    // Files may stand before, between and behind the flags.
    loop {
        let take = |flag: &'static Flag, value: &[u8]| {
            match flag {
                flag if *flag == OUTPUT => asked.outputs.push(Output::new(value, &[Form::Svg, Form::Png])?),
                _ => asked.title = Some(String::from_utf8_lossy(value).into_owned()),
            }
            Ok(())
        };
        let Some(mut operands) = args::read(&FLAGS, &rest, take)? else { return Ok(None) };
        if operands.is_empty() {
            break;
        }
        rest = operands.split_off(1);
        asked.files.extend(operands);
    }
    if asked.files.is_empty() {
        return Err(b"plot what? such as: tanto bench plot a.json b.txt -o all.svg".into());
    }
    if asked.outputs.is_empty() {
        return Err(b"plot where? such as -o all.svg".into());
    }
    Ok(Some(asked))
}

fn drawn(asked: &Asked) -> Result<Vec<u8>, Vec<u8>> {
    let read = |path: &Vec<u8>| {
        let blame = |why: &[u8]| [b"reading ", &path[..], b": ", why].concat();
        let text = tanto_sys::fs::file::read(path).map_err(|error| blame(&tanto_sys::error::text(&error)))?;
        Ok((name(path), Timings::read(&text).map_err(|why| blame(&why))?))
    };
    let all = asked.files.iter().map(read).collect::<Result<Vec<_>, Vec<u8>>>()?;
    let first = all.first().map(|(_, timings)| timings.title.clone()).unwrap_or_default();
    let same = all.iter().all(|(_, timings)| timings.title == first);
    let title = asked.title.clone().unwrap_or(if same { first } else { String::new() });
    let series = all.iter().map(|(name, timings)| match same || timings.title.is_empty() {
        true => timings.series(name),
        false => timings.series(&format!("{name}: {}", timings.title)),
    });
    let chart = file::chart(&title, series.collect());
    let mut out = Vec::new();
    for output in &asked.outputs {
        output.write(&chart.file(output.form))?;
        out.extend(format!("Written: {}\n", output.path.display()).bytes());
    }
    Ok(out)
}

/// A file's name without its directory and ending.
fn name(path: &[u8]) -> String {
    let path = String::from_utf8_lossy(path);
    let base = path.rsplit('/').next().unwrap_or_default();
    base.rsplit_once('.').map_or(base, |(stem, _)| stem).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    fn plot(dir: &Scratch, words: &[&str]) -> Stop {
        let place = |word: &&str| word.replace('@', dir.text()).into_bytes();
        run(&words.iter().map(place).collect::<Vec<_>>())
    }

    #[test]
    fn series_lie_over_one_another() {
        let dir = Scratch::new("plot");
        dir.write("all.txt", "# Timings of make\n1 20\n2 10\n");
        dir.write("one.txt", "# Timings of make\n1 20\n2 20.5\n");
        let stop = plot(&dir, &["@/all.txt", "-o", "@/out.svg", "@/one.txt"]);
        assert_eq!((stop.code, String::from_utf8_lossy(&stop.err).as_ref()), (0, ""));
        let svg = std::fs::read_to_string(dir.at("out.svg")).expect("a picture");
        assert_eq!(svg.matches("<circle").count(), 4);
        assert!(svg.contains(">make</text>") && svg.contains(">all</text>") && svg.contains(">one</text>"), "{svg}");
        dir.write("other.txt", "# Timings of ninja\n1 9\n");
        assert_eq!(plot(&dir, &["@/all.txt", "@/other.txt", "-o@/out.svg", "-o@/out.png", "--title", "Two"]).code, 0);
        assert!(std::fs::read(dir.at("out.png")).expect("pixels").starts_with(b"\x89PNG"));
        let svg = std::fs::read_to_string(dir.at("out.svg")).expect("a picture");
        assert!(svg.contains(">Two</text>") && svg.contains(">other: ninja</text>"), "{svg}");
    }

    #[test]
    fn what_cannot_be_drawn_is_said() {
        let dir = Scratch::new("plot-bad");
        dir.write("bad.txt", "x\n");
        dir.write("good.txt", "1 2\n");
        let complaint = |words: &[&str]| {
            let stop = plot(&dir, words);
            assert_eq!((stop.code, stop.out.len()), (1, 0));
            String::from_utf8_lossy(&stop.err).replace(dir.text(), "@")
        };
        assert!(complaint(&["-o", "x.svg"]).starts_with("tanto: error: plot what?"));
        assert!(complaint(&["@/good.txt"]).starts_with("tanto: error: plot where?"));
        assert!(complaint(&["@/good.txt", "-o", "x.pdf"]).contains("has to end with .svg or .png"));
        assert_eq!(
            complaint(&["@/bad.txt", "-o@/x.svg"]),
            "tanto: error: reading @/bad.txt: line 1: expected a number of jobs and seconds, not 'x'\n"
        );
        assert!(complaint(&["@/no.txt", "-o@/x.svg"]).ends_with("@/no.txt: No such file or directory\n"));
        assert!(complaint(&["@/good.txt", "-o@/no/x.svg"]).contains("writing @/no/x.svg: "));
    }
}
