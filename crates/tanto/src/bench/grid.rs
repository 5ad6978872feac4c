//! Costs by way, number of threads and one thing more, as text, JSON, CSV and a chart. Does not know what costs so much.

use std::fmt::Write;

use serde_json::{Value, json};

use super::args::{self, Flag, HELP};
use super::chart::{Chart, Point, Series};
use super::output::{Form, OUTPUT, Output, csv};

/// The flags of measurements that fill such a grid.
pub static FLAGS: [Flag; 2] = [HELP, OUTPUT];

/// What was measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Grid {
    /// What, in a line.
    pub title: String,
    /// What a number counts.
    pub unit: &'static str,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// In the order in which they are shown.
    pub rows: Vec<Row>,
}

/// What was measured in one way with some threads.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// How many.
    pub threads: usize,
    /// Its name.
    pub way: &'static str,
    /// One for each column; none where it could not be measured.
    pub cells: Vec<Option<f64>>,
    /// The standard error of each; empty if they are no means.
    pub errors: Vec<Option<f64>>,
}

/// A command line: where to measure, and the files for the result. None if help is wanted.
pub type Asked = Option<(Vec<u8>, Vec<Output>)>;

/// Reads the words of a measurement that takes at most one path, or is told so by `one_only`. An error is a text for
/// the user.
pub fn asked(words: &[Vec<u8>], forms: &[Form], one_only: &str) -> Result<Asked, Vec<u8>> {
    let (mut outputs, mut operands, mut rest) = (Vec::new(), Vec::new(), words.to_vec());
    // The path may stand before the flags.
    loop {
        let take = |_: &'static Flag, value: &[u8]| {
            outputs.push(Output::new(value, forms)?);
            Ok(())
        };
        let Some(mut found) = args::read(&FLAGS, &rest, take)? else { return Ok(None) };
        if found.is_empty() {
            break;
        }
        rest = found.split_off(1);
        operands.extend(found);
    }
    if operands.len() > 1 {
        return Err(one_only.into());
    }
    outputs.iter().try_for_each(Output::check)?;
    Ok(Some((operands.pop().unwrap_or_else(|| b".".into()), outputs)))
}

impl Grid {
    /// Writes it to these files; as text it is `text`. Says where. An error is a text for the user.
    pub fn write(&self, outputs: &[Output], text: &[u8]) -> Result<String, Vec<u8>> {
        let mut said = String::new();
        for output in outputs {
            match output.form {
                Form::Text => output.write(text)?,
                Form::Json => output.write(format!("{:#}\n", self.json()).as_bytes())?,
                Form::Csv => output.write(self.csv().as_bytes())?,
                Form::Svg | Form::Png => output.write(&self.chart().file(output.form))?,
            }
            let _ = writeln!(said, "Written: {}", output.path.display());
        }
        Ok(said)
    }

    fn json(&self) -> Value {
        let row = |row: &Row| {
            let cells = self.columns.iter().cloned().zip(row.cells.iter().map(|&cell| json!(cell)));
            let mut object =
                json!({"threads": row.threads, "way": row.way, "cells": cells.collect::<serde_json::Map<_, _>>()});
            if !row.errors.is_empty() {
                let errors = self.columns.iter().cloned().zip(row.errors.iter().map(|&error| json!(error)));
                object["standard_errors"] = Value::Object(errors.collect());
            }
            object
        };
        json!({"title": self.title, "unit": self.unit, "rows": self.rows.iter().map(row).collect::<Vec<_>>()})
    }

    fn csv(&self) -> String {
        let mut heads: Vec<String> =
            ["threads", "way"].map(csv).into_iter().chain(self.columns.iter().map(|it| csv(it))).collect();
        if self.rows.iter().any(|row| !row.errors.is_empty()) {
            heads.extend(self.columns.iter().map(|it| csv(&format!("{it} standard error"))));
        }
        let mut text = heads.join(",") + "\n";
        for row in &self.rows {
            let _ = write!(text, "{},{}", row.threads, csv(row.way));
            for cell in row.cells.iter().chain(&row.errors) {
                let _ = write!(text, ",{}", cell.map(|cell| format!("{cell:.1}")).unwrap_or_default());
            }
            text.push('\n');
        }
        text
    }

    fn chart(&self) -> Chart {
        let places = self.columns.iter().enumerate().map(|(at, name)| (at as f64, name.clone()));
        let series = self.rows.iter().map(|row| {
            let points = row.cells.iter().enumerate().filter_map(|(at, cell)| {
                let (middle, error) = ((*cell)?, row.errors.get(at).copied().flatten());
                let all = error.map_or(vec![middle], |error| vec![(middle - error).max(0.0), middle + error]);
                Some(Point { x: at as f64, middle, all })
            });
            let plural = if row.threads == 1 { "" } else { "s" };
            Series { name: format!("{} on {} thread{plural}", row.way, row.threads), points: points.collect() }
        });
        Chart {
            title: self.title.clone(),
            across: String::new(),
            up: self.unit.to_owned(),
            places: places.collect(),
            series: series.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    fn grid() -> Grid {
        let row =
            |threads, cells: [Option<f64>; 2]| Row { threads, way: "read", cells: cells.to_vec(), errors: Vec::new() };
        Grid {
            title: "Reading".into(),
            unit: "ms a GB",
            columns: vec!["16 KiB".into(), "1 MiB".into()],
            rows: vec![row(1, [Some(10.0), Some(5.25)]), row(2, [Some(6.0), None])],
        }
    }

    #[test]
    fn each_form_has_every_cell() {
        let dir = Scratch::new("bench-grid");
        let words: Vec<Vec<u8>> = ["csv", "json", "svg", "txt"]
            .iter()
            .flat_map(|ending| [b"-o".to_vec(), dir.bytes(&format!("x.{ending}"))])
            .chain([b"some/dir".to_vec()])
            .collect();
        let forms = [Form::Text, Form::Json, Form::Csv, Form::Svg];
        let (path, outputs) = asked(&words, &forms, "one").expect("sound").expect("no help");
        assert_eq!(path, b"some/dir");
        let said = grid().write(&outputs, b"the text").expect("written");
        assert_eq!(said.lines().count(), 4);
        let read = |name: &str| std::fs::read_to_string(dir.at(name)).expect("a file");
        assert_eq!(read("x.csv"), "threads,way,16 KiB,1 MiB\n1,read,10.0,5.2\n2,read,6.0,\n");
        let json: Value = serde_json::from_str(&read("x.json")).expect("JSON");
        assert_eq!(
            (&json["rows"][0]["cells"]["1 MiB"], &json["rows"][1]["cells"]["1 MiB"]),
            (&json!(5.25), &Value::Null)
        );
        assert_eq!(read("x.svg").matches("<circle").count(), 3);
        assert_eq!(read("x.txt"), "the text");
    }

    #[test]
    fn means_have_their_standard_errors() {
        let row = Row { threads: 1, way: "ask", cells: vec![Some(10.0), None], errors: vec![Some(0.5), None] };
        let grid = Grid { rows: vec![row], ..grid() };
        assert!(
            grid.csv()
                .starts_with("threads,way,16 KiB,1 MiB,16 KiB standard error,1 MiB standard error\n1,ask,10.0,,0.5,\n")
        );
        assert_eq!(grid.json()["rows"][0]["standard_errors"]["16 KiB"], json!(0.5));
        assert_eq!(grid.chart().series[0].points[0].all, [9.5, 10.5]);
    }

    #[test]
    fn a_line_has_one_path() {
        let asked =
            |words: &[&str]| asked(&words.iter().map(|&word| word.into()).collect::<Vec<_>>(), &[Form::Csv], "one");
        assert_eq!(asked(&[]), Ok(Some((b".".to_vec(), Vec::new()))));
        assert_eq!(asked(&["--help"]), Ok(None));
        assert_eq!(asked(&["a", "b"]), Err(b"one".to_vec()));
        assert!(asked(&["a", "-o", "x.svg"]).is_err());
    }
}
