//! Charts of several series with lines, points and ranges, as SVG or PNG.

mod canvas;
mod drawing;
mod png;
mod svg;

use drawing::{Anchor, Drawing, Mark};

use crate::output::Format;

#[derive(Clone, PartialEq, Debug)]
pub struct Chart {
    pub title: String,
    pub x_label: String,
    /// The axis starts at 0.
    pub y_label: String,
    /// Labels of the horizontal axis; if empty, the numbers.
    pub ticks: Vec<(f64, String)>,
    pub series: Vec<Series>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    pub name: String,
    /// Ascending by `x`.
    pub points: Vec<Point>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    pub x: f64,
    /// The line connects these values.
    pub center: f64,
    /// Each value is drawn as a dot.
    pub values: Vec<f64>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 48.0;
/// The height of a legend line.
const LEGEND_LINE: f64 = 18.0;

/// Average character widths in wide fonts.
const TITLE_CHAR: f64 = 8.6;
const CHAR: f64 = 7.2;
const MAX_TITLE_LINES: usize = 3;
/// The height of a title line.
const TITLE_LINE: f64 = 19.0;

/// Maps values to positions.
struct Scale {
    left: f64,
    right: f64,
    max: f64,
    /// Between two grid lines.
    step: f64,
    /// The lower edge of title and legend.
    top: f64,
}

impl Chart {
    /// Renders as PNG, or as SVG for all other formats.
    pub fn render(&self, format: Format) -> Vec<u8> {
        match format {
            Format::Png => self.drawing().png(),
            _ => self.drawing().svg().into_bytes(),
        }
    }

    fn drawing(&self) -> Drawing {
        let title = wrap(&self.title, chars_that_fit(LEFT, TITLE_CHAR), MAX_TITLE_LINES);
        let top = TOP + TITLE_LINE * title.len().saturating_sub(1) as f64;
        let legend = top - TOP + LEGEND_LINE * self.series.len() as f64;
        let scale = self.scale(TOP + legend);
        let height = HEIGHT + legend;
        let mut drawing = Drawing { title: self.title.clone(), width: WIDTH, height, marks: Vec::new() };
        for (nth, line) in title.into_iter().enumerate() {
            let at = (LEFT, 26.0 + TITLE_LINE * nth as f64);
            drawing.marks.push(Mark::Text { at, text: line, anchor: Anchor::Start, title: true, up: false });
        }
        self.axes(&scale, height, &mut drawing);
        for (number, series) in self.series.iter().enumerate() {
            series.draw(number, top, &scale, height, &mut drawing);
        }
        drawing
    }

    fn scale(&self, top: f64) -> Scale {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let max = points().flat_map(|point| point.values.iter().chain([&point.center])).copied().fold(0.0, f64::max);
        let first = points().map(|point| point.x).fold(f64::INFINITY, f64::min);
        let last = points().map(|point| point.x).fold(f64::NEG_INFINITY, f64::max);
        // A single point is centered.
        let margin = if last > first { (last - first) * 0.03 } else { 1.0 };
        let (left, right) = if first.is_finite() { (first - margin, last + margin) } else { (0.0, 1.0) };
        let step = step(max.max(f64::MIN_POSITIVE) / 6.0);
        Scale { left, right, max: (max * 1.02 / step).ceil().max(1.0) * step, step, top }
    }

    fn axes(&self, scale: &Scale, height: f64, drawing: &mut Drawing) {
        let bottom = height - BOTTOM;
        for nth in 0.. {
            let value = f64::from(nth) * scale.step;
            if value > scale.max * 1.001 {
                break;
            }
            let y = scale.y(value, height);
            drawing.marks.push(Mark::Grid((LEFT, y), (WIDTH - RIGHT, y)));
            drawing.text((LEFT - 8.0, y + 4.0), number(value), Anchor::End);
        }
        for (x, name) in self.ticks_that_fit() {
            let x = scale.x(x);
            drawing.marks.push(Mark::Grid((x, bottom), (x, bottom + 5.0)));
            drawing.text((x, bottom + 18.0), name, Anchor::Middle);
        }
        let (middle, up) = ((LEFT + WIDTH - RIGHT) / 2.0, f64::midpoint(scale.top, bottom));
        drawing.text((middle, height - 10.0), self.x_label.clone(), Anchor::Middle);
        let (at, text) = ((16.0, up), self.y_label.clone());
        drawing.marks.push(Mark::Text { at, text, anchor: Anchor::Middle, title: false, up: true });
    }

    /// Returns positions and labels, thinned out to fit.
    fn ticks_that_fit(&self) -> Vec<(f64, String)> {
        if !self.ticks.is_empty() {
            return self.ticks.clone();
        }
        let mut all: Vec<f64> = self.series.iter().flat_map(|series| &series.points).map(|point| point.x).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        let every = all.len().div_ceil(24).max(1);
        all.into_iter().step_by(every).map(|x| (x, number(x))).collect()
    }
}

impl Series {
    fn draw(&self, nth: usize, top: f64, scale: &Scale, height: f64, drawing: &mut Drawing) {
        let y = top + LEGEND_LINE * nth as f64;
        drawing.marks.push(Mark::Line(nth, vec![(LEFT, y), (LEFT + 24.0, y)]));
        let left = LEFT + 32.0;
        drawing.text((left, y + 4.0), wrap(&self.name, chars_that_fit(left, CHAR), 1).concat(), Anchor::Start);
        let at = |x: f64, y: f64| (scale.x(x), scale.y(y, height));
        let upper =
            self.points.iter().map(|point| at(point.x, point.values.iter().copied().fold(point.center, f64::max)));
        let lower = self.points.iter().rev();
        let lower = lower.map(|point| at(point.x, point.values.iter().copied().fold(point.center, f64::min)));
        if !self.points.is_empty() {
            drawing.marks.push(Mark::Band(nth, upper.chain(lower).collect()));
            drawing.marks.push(Mark::Line(nth, self.points.iter().map(|point| at(point.x, point.center)).collect()));
        }
        let dots = self.points.iter().flat_map(|point| point.values.iter().map(|&value| at(point.x, value)));
        drawing.marks.extend(dots.map(|place| Mark::Dot(nth, place)));
    }
}

impl Scale {
    fn x(&self, value: f64) -> f64 {
        LEFT + (value - self.left) / (self.right - self.left) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64, height: f64) -> f64 {
        height - BOTTOM - value / self.max * (height - BOTTOM - self.top)
    }
}

/// Returns the number of characters of this width between `left` and the right edge.
fn chars_that_fit(left: f64, char_width: f64) -> usize {
    ((WIDTH - RIGHT - left) / char_width) as usize
}

/// Breaks a text between words into lines of at most `room` characters. Beyond `max_lines` it ends in an ellipsis.
fn wrap(text: &str, room: usize, max_lines: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        let mut letters: Vec<char> = word.chars().collect();
        let last = lines.last().map_or(0, |line| width(line.chars()));
        let apart = usize::from(last > 0);
        if last + apart + width(letters.iter().copied()) > room && last > 0 {
            lines.push(String::new());
        } else if let Some(line) = lines.last_mut().filter(|_| last > 0) {
            line.push(' ');
        }
        // A word longer than a line is split.
        while width(letters.iter().copied()) > room {
            let fitting = (1..=letters.len()).rev().find(|&count| width(letters[..count].iter().copied()) <= room);
            let rest = letters.split_off(fitting.unwrap_or(1));
            if let Some(line) = lines.last_mut() {
                line.extend(letters);
            }
            lines.push(String::new());
            letters = rest;
        }
        if let Some(line) = lines.last_mut() {
            line.extend(letters);
        }
    }
    if lines.len() > max_lines {
        lines.truncate(max_lines);
        if let Some(last) = lines.last_mut() {
            while width(last.chars()) >= room {
                last.pop();
            }
            last.push('…');
        }
    }
    lines
}

/// Returns the number of characters; East Asian ones count twice.
fn width(letters: impl Iterator<Item = char>) -> usize {
    letters.map(|letter| if letter >= '\u{1100}' { 2 } else { 1 }).sum()
}

/// Returns the smallest 1, 2 or 5 times a power of ten that is at least `least`.
fn step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0].map(|factor| factor * power).into_iter().find(|&step| step >= least * 0.999).unwrap_or(10.0 * power)
}

/// Formats without trailing zeros.
fn number(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(x: f64, all: &[f64]) -> Point {
        Point { x, center: all[all.len() / 2], values: all.to_vec() }
    }

    fn chart(series: Vec<Series>) -> Chart {
        Chart { title: "a < b".into(), x_label: "jobs".into(), y_label: "seconds".into(), ticks: Vec::new(), series }
    }

    /// Returns the number after each occurrence of `prefix`.
    fn numbers_after(svg: &str, prefix: &str) -> Vec<f64> {
        svg.split(prefix).skip(1).filter_map(|rest| rest.split('"').next()?.parse().ok()).collect()
    }

    #[test]
    fn each_value_is_a_dot_inside_the_chart() {
        let one = Series { name: "one".into(), points: vec![point(1.0, &[9.0, 10.0, 12.0]), point(2.0, &[5.0])] };
        let two = Series { name: "two".into(), points: vec![point(4.0, &[3.0])] };
        let svg = chart(vec![one, two]).drawing().svg();
        let (across, down) = (numbers_after(&svg, "<circle cx=\""), numbers_after(&svg, "cy=\""));
        assert_eq!((across.len(), down.len()), (5, 5));
        assert!(
            across.iter().all(|x| (LEFT..WIDTH).contains(x)) && down.iter().all(|y| (0.0..HEIGHT + 40.0).contains(y))
        );
        assert!(across[0] < across[3] && across[3] < across[4], "{across:?}");
        assert!(down[0] > down[1] && down[3] > down[0] && down[4] > down[3], "larger values are higher: {down:?}");
        assert!(svg.contains(">a &lt; b</text>") && svg.contains(">two</text>"));
        assert!(svg.contains(">12</text>") && svg.contains(">1</text>"), "{svg}");
    }

    #[test]
    fn long_titles_and_names_fit() {
        let command = "make -s CC=gcc CFLAGS=-O0 ".repeat(9) + &"x".repeat(200);
        let series = vec![Series { name: command.clone(), points: vec![point(1.0, &[1.0])] }];
        let svg = Chart { title: command.clone(), ..chart(series) }.drawing().svg();
        let texts = |start: &str| -> Vec<String> {
            let after = svg.split(start).skip(1);
            after.filter_map(|rest| Some(rest.split_once('>')?.1.split("</text>").next()?.to_owned())).collect()
        };
        let title = texts("<text class=\"title\"");
        assert_eq!(title.len(), MAX_TITLE_LINES);
        assert!(title.iter().all(|line| line.chars().count() as f64 * TITLE_CHAR <= WIDTH - LEFT - RIGHT), "{title:?}");
        assert!(title.concat().ends_with('…') && svg.contains(&format!("<title>{command}</title>")), "{svg}");
        let name = texts("<text x=\"96.0\"").concat();
        assert!(name.ends_with('…') && name.chars().count() as f64 * CHAR <= WIDTH - RIGHT - 96.0, "{name}");
        // The legend is below the title, and the lines are below the legend.
        let lines = numbers_after(&svg, "<text class=\"title\" x=\"64.0\" y=\"");
        let legend = numbers_after(&svg, "<text x=\"96.0\" y=\"");
        let dots = numbers_after(&svg, "cy=\"");
        assert!(lines.last() < legend.first() && legend.last() < dots.first(), "{lines:?} {legend:?} {dots:?}");
    }

    #[test]
    fn each_series_has_its_colour_in_a_png() {
        let one = Series { name: "one".into(), points: vec![point(1.0, &[9.0, 10.0, 12.0]), point(2.0, &[5.0])] };
        let two = Series { name: "two".into(), points: vec![point(1.0, &[3.0]), point(2.0, &[2.0])] };
        let canvas = chart(vec![one, two]).drawing().canvas();
        let (_, height) = canvas.size();
        let has = |colour: [u8; 3]| (0..height).any(|y| canvas.row(y).contains(&colour));
        assert!(has([0x2a, 0x6f, 0xdb]) && has([0xd9, 0x73, 0x0d]) && !has([0x0d, 0x94, 0x88]));
        assert!(chart(Vec::new()).render(Format::Png).starts_with(b"\x89PNG"));
        assert!(chart(Vec::new()).render(Format::Svg).starts_with(b"<svg"));
    }

    #[test]
    fn text_is_broken_between_words() {
        assert_eq!(wrap("", 9, 2), [""]);
        assert_eq!(wrap("one two three", 9, 2), ["one two", "three"]);
        assert_eq!(wrap("one twothreefour", 9, 3), ["one", "twothreef", "our"]);
        assert_eq!(wrap("one two three four", 9, 2), ["one two", "three…"]);
        assert_eq!(wrap("日本語日本", 6, 2), ["日本語", "日本"]);
    }

    #[test]
    fn empty_and_single_points_can_be_drawn() {
        for series in [vec![], vec![Series { name: "x".into(), points: vec![point(3.0, &[0.0])] }]] {
            let svg = chart(series).drawing().svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn steps_are_round() {
        for (least, expected) in [(0.9, 1.0), (1.1, 2.0), (3.0, 5.0), (5.1, 10.0), (0.013, 0.02), (170.0, 200.0)] {
            assert!((step(least) / expected - 1.0).abs() < 1e-9, "{least}: {}", step(least));
        }
        assert_eq!([number(0.5), number(10.0), number(0.0)], ["0.5", "10", "0"]);
    }
}
