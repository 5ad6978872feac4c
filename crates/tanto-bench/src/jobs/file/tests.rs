//! Tests of the file formats.

use super::*;
use crate::jobs::analysis::JobsAnalysis;
use crate::jobs::experiment::tests::experiment;
use std::path::PathBuf;
use tanto_testing::{Material, Random};

fn small() -> Experiment {
    experiment(&[(2, 10.5), (1, 20.0), (2, 10.0), (1, 19.5)])
}

fn rendered(format: Format) -> String {
    let output = OutputFile { path: PathBuf::from("it's.txt"), format };
    String::from_utf8(render(&small(), &output)).expect("text")
}

#[test]
fn json_round_trips() {
    let text = rendered(Format::Json);
    assert_eq!(json::read(text.as_bytes()), Ok(small()));
    assert_eq!(Timings::read(text.as_bytes()), Ok(Timings::of(&small())));
    let error = |text: &str| json::read(text.as_bytes()).expect_err(text);
    assert!(matches!(error("{"), FileError::Json(_)));
    assert_eq!(error("{}"), FileError::OtherFormat);
    assert_eq!(error(&text.replace("\"version\": 2", "\"version\": 1")), FileError::Version(2));
    assert_eq!(error(&text.replace("\"jobs\": 2", "\"jobs\": 0")), FileError::InvalidField);
}

#[test]
fn text_has_comments_and_a_line_for_each_run() {
    let text = rendered(Format::Text);
    let expected = "# Timings of make -j{jobs}\n# Processors: 16\n# Affinity mask: ffff (0-15)\n# CPU: Some CPU\n\
                    # Machine: 8192 MiB of memory, Linux 6.1\n# Prepared by: make clean\n# Controls: settle 0 ms\n\
                    # gnuplot -p -e ";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("plot 'it''s.txt' notitle"), "{text}");
    assert!(text.ends_with("\n1  20.000\n1  19.500\n2  10.500\n2  10.000\n"), "{text}");
    let read = Timings::read(text.as_bytes()).expect("valid");
    assert_eq!((read.title.as_str(), &read.points), ("make -j{jobs}", &Timings::of(&small()).points));
}

#[test]
fn other_timing_files_are_read() {
    let theirs = "# Timings of Linux 3.5\n# Processors: 4\n# Affinity mask: f\n\n1\t12:34.5\n 2  380.25 seconds\n";
    let read = Timings::read(theirs.as_bytes()).expect("valid");
    assert_eq!((read.title.as_str(), read.points), ("Linux 3.5", vec![(1, vec![754.5]), (2, vec![380.25])]));
    let article = "# Timings of Linux\n# Compiling with 1 simultaneous jobs\nreal\t3m20.500s\nuser\t3m0.1s\nsys\t0m9.2s\n\
                   # Compiling with 2 simultaneous jobs\n100.25\n1.1user 0.1system 1:41.50elapsed 99%CPU\n\
                   # Compiling with 3 simultaneous jobs\n3 90 1.5 80 99\n";
    let read = Timings::read(article.as_bytes()).expect("valid");
    assert_eq!(read.points, [(1, vec![200.5]), (2, vec![100.25, 101.5]), (3, vec![90.0])]);
    for (bad, why) in [
        ("user 3m0.1s", "line 1: expected a number of jobs and seconds, not 'user 3m0.1s'"),
        ("# Compiling with 0 simultaneous jobs\n5\n", "line 2: expected a number of jobs and seconds, not '5'"),
        ("", "no timings found"),
        ("# only words\n", "no timings found"),
        ("1 2\nx 3\n", "line 2: expected a number of jobs and seconds, not 'x 3'"),
        ("0 1", "line 1: expected a number of jobs and seconds, not '0 1'"),
        ("1 -3", "line 1: expected a number of jobs and seconds, not '1 -3'"),
        ("1 nan", "line 1: expected a number of jobs and seconds, not '1 nan'"),
        ("1 inf", "line 1: expected a number of jobs and seconds, not '1 inf'"),
        ("1", "line 1: expected a number of jobs and seconds, not '1'"),
    ] {
        assert_eq!(Timings::read(bad.as_bytes()).map_err(|error| error.to_string()), Err(why.into()));
    }
}

#[test]
fn csv_has_a_line_for_each_run() {
    let text = rendered(Format::Csv);
    let columns: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(columns, [13; 5]);
    assert!(text.lines().nth(1).is_some_and(|line| line.starts_with("2,10.500000,7.875000,2.625000,10485760,")));
}

#[test]
fn the_chart_has_a_dot_for_each_run() {
    let svg = rendered(Format::Svg);
    assert_eq!(svg.matches("<circle").count(), 4);
    assert!(svg.contains("make -j{jobs}") && svg.contains("Some CPU, 16 processors"));
}

#[test]
fn random_input_is_read_or_refused() {
    let seeds = vec![rendered(Format::Json).into(), rendered(Format::Text).into(), b"1 12:34.5\n2 380.25 s\n".to_vec()];
    let tokens: [&[u8]; 10] = [b"1e308", b"-1", b"0", b"null", b"\"jobs\"", b"[", b"{", b"4294967295", b":", b"1e-300"];
    let material = Material { seeds, tokens: &tokens, head: 0 };
    let mut valid = 0;
    for seed in 0..3000 {
        let text = material.input(&mut Random::new(seed));
        if let Ok(timings) = Timings::read(&text) {
            let svg = chart(&timings.title, vec![timings.series("x")]).render(Format::Svg);
            let svg = String::from_utf8_lossy(&svg);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}", text.escape_ascii());
            valid += 1;
        }
        if let Some(analysis) = json::read(&text).ok().and_then(|experiment| JobsAnalysis::of(&experiment)) {
            let text = analysis.text();
            assert!(text.contains("Recommended: -j ") || text.contains("No recommendation: "), "{text}");
        }
    }
    assert!((200..2900).contains(&valid), "{valid} of 3000 were valid");
}
