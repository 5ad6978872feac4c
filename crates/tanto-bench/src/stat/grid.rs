//! A table of costs by system call, threads and kind of path, exported as JSON, CSV and a chart.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::chart::{Chart, Point, Series};
use crate::format::csv_cell;

#[derive(Clone, PartialEq, Debug)]
pub struct Grid {
    pub title: String,
    pub unit: &'static str,
    pub columns: Vec<String>,
    pub rows: Vec<GridRow>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct GridRow {
    pub threads: usize,
    pub call: &'static str,
    /// The mean of each column; `None` if it could not be measured.
    pub means: Vec<Option<f64>>,
    /// The standard error of each column.
    pub errors: Vec<Option<f64>>,
}

impl Grid {
    pub fn json(&self) -> Value {
        let by_column = |values: &[Option<f64>]| {
            let values = self.columns.iter().cloned().zip(values.iter().map(|&value| json!(value)));
            Value::Object(values.collect())
        };
        let row = |row: &GridRow| {
            json!({
                "threads": row.threads, "call": row.call,
                "means": by_column(&row.means), "standard_errors": by_column(&row.errors),
            })
        };
        json!({"title": self.title, "unit": self.unit, "rows": self.rows.iter().map(row).collect::<Vec<_>>()})
    }

    pub fn csv(&self) -> String {
        let columns = self.columns.iter().map(|name| csv_cell(name));
        let errors = self.columns.iter().map(|name| csv_cell(&format!("{name} standard error")));
        let heads: Vec<String> =
            ["threads", "call"].map(str::to_owned).into_iter().chain(columns).chain(errors).collect();
        let mut text = heads.join(",") + "\n";
        for row in &self.rows {
            let _ = write!(text, "{},{}", row.threads, csv_cell(row.call));
            for value in row.means.iter().chain(&row.errors) {
                let _ = write!(text, ",{}", value.map(|value| format!("{value:.1}")).unwrap_or_default());
            }
            text.push('\n');
        }
        text
    }

    pub fn chart(&self) -> Chart {
        let ticks = self.columns.iter().enumerate().map(|(at, name)| (at as f64, name.clone()));
        let series = self.rows.iter().map(|row| {
            let points = row.means.iter().zip(&row.errors).enumerate().filter_map(|(at, (mean, error))| {
                let mean = (*mean)?;
                let values = error.map_or(vec![mean], |error| vec![(mean - error).max(0.0), mean + error]);
                Some(Point { x: at as f64, center: mean, values })
            });
            let plural = if row.threads == 1 { "" } else { "s" };
            Series { name: format!("{} on {} thread{plural}", row.call, row.threads), points: points.collect() }
        });
        Chart {
            title: self.title.clone(),
            x_label: String::new(),
            y_label: self.unit.to_owned(),
            ticks: ticks.collect(),
            series: series.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_formats_have_means_and_standard_errors() {
        let row = |threads, means: [Option<f64>; 2], errors: [Option<f64>; 2]| GridRow {
            threads,
            call: "stat",
            means: means.to_vec(),
            errors: errors.to_vec(),
        };
        let grid = Grid {
            title: "Times".into(),
            unit: "ns",
            columns: vec!["file".into(), "missing, or not".into()],
            rows: vec![row(1, [Some(10.0), Some(5.25)], [Some(0.5), None]), row(2, [Some(6.0), None], [None, None])],
        };
        assert_eq!(
            grid.csv(),
            "threads,call,file,\"missing, or not\",file standard error,\"missing, or not standard error\"\n\
             1,stat,10.0,5.2,0.5,\n2,stat,6.0,,,\n"
        );
        let json = grid.json();
        assert_eq!(
            (&json["rows"][0]["means"]["missing, or not"], &json["rows"][1]["means"]["missing, or not"]),
            (&json!(5.25), &Value::Null)
        );
        assert_eq!(json["rows"][0]["standard_errors"]["file"], json!(0.5));
        let chart = grid.chart();
        assert_eq!(chart.series[0].points[0].values, [9.5, 10.5]);
        let svg = String::from_utf8(chart.render(crate::output::Format::Svg)).expect("text");
        assert_eq!(svg.matches("<circle").count(), 4);
    }
}
