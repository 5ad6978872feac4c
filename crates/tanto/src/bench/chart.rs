//! A chart: points, lines and the spread of several series over one another, as SVG or PNG.

mod canvas;
mod drawing;
mod png;
mod svg;

use drawing::{Anchor, Drawing, Mark};

use super::output::Form;

/// What is drawn.
#[derive(Clone, PartialEq, Debug)]
pub struct Chart {
    /// Above it.
    pub title: String,
    /// What the horizontal axis counts.
    pub across: String,
    /// What the vertical axis counts, from 0 on.
    pub up: String,
    /// Names for places on the horizontal axis; none: their numbers.
    pub places: Vec<(f64, String)>,
    /// The lines, in the order of their legend.
    pub series: Vec<Series>,
}

/// A line with its points.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// In the legend.
    pub name: String,
    /// From left to right.
    pub points: Vec<Point>,
}

/// What was measured at one place.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// Where.
    pub x: f64,
    /// Through this the line goes.
    pub middle: f64,
    /// All values, each of which is a dot.
    pub all: Vec<f64>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 48.0;
/// A line of the legend.
const LINE: f64 = 18.0;

/// The width of a letter of the title, and of one of the legend, on average in the wider of usual fonts.
const TITLE_LETTER: f64 = 8.6;
const LETTER: f64 = 7.2;
/// A title has at most so many lines of this height.
const TITLE_LINES: usize = 3;
const TITLE_LINE: f64 = 19.0;

/// Where values lie in the picture.
struct Scale {
    left: f64,
    right: f64,
    most: f64,
    /// Between two lines.
    step: f64,
    /// Below the title and the legend.
    top: f64,
}

impl Chart {
    /// The picture in this form: PNG, or SVG.
    pub fn file(&self, form: Form) -> Vec<u8> {
        match form {
            Form::Png => self.drawing().png(),
            _ => self.drawing().svg().into_bytes(),
        }
    }

    fn drawing(&self) -> Drawing {
        let title = wrapped(&self.title, room(LEFT, TITLE_LETTER), TITLE_LINES);
        let top = TOP + TITLE_LINE * title.len().saturating_sub(1) as f64;
        let legend = top - TOP + LINE * self.series.len() as f64;
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
        let most = points().flat_map(|point| point.all.iter().chain([&point.middle])).copied().fold(0.0, f64::max);
        let first = points().map(|point| point.x).fold(f64::INFINITY, f64::min);
        let last = points().map(|point| point.x).fold(f64::NEG_INFINITY, f64::max);
        // A single place stands in the middle.
        let margin = if last > first { (last - first) * 0.03 } else { 1.0 };
        let (left, right) = if first.is_finite() { (first - margin, last + margin) } else { (0.0, 1.0) };
        let step = step(most.max(f64::MIN_POSITIVE) / 6.0);
        Scale { left, right, most: (most * 1.02 / step).ceil().max(1.0) * step, step, top }
    }

    fn axes(&self, scale: &Scale, height: f64, drawing: &mut Drawing) {
        let bottom = height - BOTTOM;
        for nth in 0.. {
            let value = f64::from(nth) * scale.step;
            if value > scale.most * 1.001 {
                break;
            }
            let y = scale.y(value, height);
            drawing.marks.push(Mark::Grid((LEFT, y), (WIDTH - RIGHT, y)));
            drawing.text((LEFT - 8.0, y + 4.0), number(value), Anchor::End);
        }
        for (x, name) in self.ticks() {
            let x = scale.x(x);
            drawing.marks.push(Mark::Grid((x, bottom), (x, bottom + 5.0)));
            drawing.text((x, bottom + 18.0), name, Anchor::Middle);
        }
        let (middle, up) = ((LEFT + WIDTH - RIGHT) / 2.0, f64::midpoint(scale.top, bottom));
        drawing.text((middle, height - 10.0), self.across.clone(), Anchor::Middle);
        let (at, text) = ((16.0, up), self.up.clone());
        drawing.marks.push(Mark::Text { at, text, anchor: Anchor::Middle, title: false, up: true });
    }

    /// The places that were measured, as many as there is room for.
    fn ticks(&self) -> Vec<(f64, String)> {
        if !self.places.is_empty() {
            return self.places.clone();
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
        let y = top + LINE * nth as f64;
        drawing.marks.push(Mark::Line(nth, vec![(LEFT, y), (LEFT + 24.0, y)]));
        let left = LEFT + 32.0;
        drawing.text((left, y + 4.0), wrapped(&self.name, room(left, LETTER), 1).concat(), Anchor::Start);
        let at = |x: f64, y: f64| (scale.x(x), scale.y(y, height));
        let upper = self.points.iter().map(|point| at(point.x, point.all.iter().copied().fold(point.middle, f64::max)));
        let lower = self.points.iter().rev();
        let lower = lower.map(|point| at(point.x, point.all.iter().copied().fold(point.middle, f64::min)));
        if !self.points.is_empty() {
            drawing.marks.push(Mark::Band(nth, upper.chain(lower).collect()));
            drawing.marks.push(Mark::Line(nth, self.points.iter().map(|point| at(point.x, point.middle)).collect()));
        }
        let dots = self.points.iter().flat_map(|point| point.all.iter().map(|&value| at(point.x, value)));
        drawing.marks.extend(dots.map(|place| Mark::Dot(nth, place)));
    }
}

impl Scale {
    fn x(&self, value: f64) -> f64 {
        LEFT + (value - self.left) / (self.right - self.left) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64, height: f64) -> f64 {
        height - BOTTOM - value / self.most * (height - BOTTOM - self.top)
    }
}

/// How many letters of this width fit between here and the right edge.
fn room(left: f64, letter: f64) -> usize {
    ((WIDTH - RIGHT - left) / letter) as usize
}

/// A text in lines of so many letters, broken between words where there are any; what does not fit into so many lines
/// ends in an ellipsis.
fn wrapped(text: &str, room: usize, most: usize) -> Vec<String> {
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
        // A word that is longer than a line is cut.
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
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            while width(last.chars()) >= room {
                last.pop();
            }
            last.push('…');
        }
    }
    lines
}

/// Letters, of which those of East Asian scripts count twice.
fn width(letters: impl Iterator<Item = char>) -> usize {
    letters.map(|letter| if letter >= '\u{1100}' { 2 } else { 1 }).sum()
}

/// 1, 2 or 5 times a power of ten, and no less than this.
fn step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0].map(|factor| factor * power).into_iter().find(|&step| step >= least * 0.999).unwrap_or(10.0 * power)
}

/// Without zeros that say nothing.
fn number(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(x: f64, all: &[f64]) -> Point {
        Point { x, middle: all[all.len() / 2], all: all.to_vec() }
    }

    fn chart(series: Vec<Series>) -> Chart {
        Chart { title: "a < b".into(), across: "jobs".into(), up: "seconds".into(), places: Vec::new(), series }
    }

    /// The numbers after each of these.
    fn after(svg: &str, what: &str) -> Vec<f64> {
        svg.split(what).skip(1).filter_map(|rest| rest.split('"').next()?.parse().ok()).collect()
    }

    #[test]
    fn each_value_is_a_dot_within_the_picture() {
        let one = Series { name: "one".into(), points: vec![point(1.0, &[9.0, 10.0, 12.0]), point(2.0, &[5.0])] };
        let two = Series { name: "two".into(), points: vec![point(4.0, &[3.0])] };
        let svg = chart(vec![one, two]).drawing().svg();
        let (across, down) = (after(&svg, "<circle cx=\""), after(&svg, "cy=\""));
        assert_eq!((across.len(), down.len()), (5, 5));
        assert!(
            across.iter().all(|x| (LEFT..WIDTH).contains(x)) && down.iter().all(|y| (0.0..HEIGHT + 40.0).contains(y))
        );
        assert!(across[0] < across[3] && across[3] < across[4], "{across:?}");
        assert!(down[0] > down[1] && down[3] > down[0] && down[4] > down[3], "larger is higher: {down:?}");
        assert!(svg.contains(">a &lt; b</text>") && svg.contains(">two</text>"));
        assert!(svg.contains(">12</text>") && svg.contains(">1</text>"), "{svg}");
    }

    #[test]
    fn a_long_title_and_a_long_name_stay_within_the_picture() {
        let command = "make -s CC=gcc CFLAGS=-O0 ".repeat(9) + &"x".repeat(200);
        let series = vec![Series { name: command.clone(), points: vec![point(1.0, &[1.0])] }];
        let svg = Chart { title: command.clone(), ..chart(series) }.drawing().svg();
        let texts = |start: &str| -> Vec<String> {
            let after = svg.split(start).skip(1);
            after.filter_map(|rest| Some(rest.split_once('>')?.1.split("</text>").next()?.to_owned())).collect()
        };
        let title = texts("<text class=\"title\"");
        assert_eq!(title.len(), TITLE_LINES);
        assert!(
            title.iter().all(|line| line.chars().count() as f64 * TITLE_LETTER <= WIDTH - LEFT - RIGHT),
            "{title:?}"
        );
        assert!(title.concat().ends_with('…') && svg.contains(&format!("<title>{command}</title>")), "{svg}");
        let name = texts("<text x=\"96.0\"").concat();
        assert!(name.ends_with('…') && name.chars().count() as f64 * LETTER <= WIDTH - RIGHT - 96.0, "{name}");
        // The legend begins below the title's last line, and the curves below the legend.
        let lines = after(&svg, "<text class=\"title\" x=\"64.0\" y=\"");
        let legend = after(&svg, "<text x=\"96.0\" y=\"");
        let dots = after(&svg, "cy=\"");
        assert!(lines.last() < legend.first() && legend.last() < dots.first(), "{lines:?} {legend:?} {dots:?}");
    }

    #[test]
    fn a_png_shows_every_series_in_its_colour() {
        let one = Series { name: "one".into(), points: vec![point(1.0, &[9.0, 10.0, 12.0]), point(2.0, &[5.0])] };
        let two = Series { name: "two".into(), points: vec![point(1.0, &[3.0]), point(2.0, &[2.0])] };
        let canvas = chart(vec![one, two]).drawing().canvas();
        let (_, height) = canvas.size();
        let has = |colour: [u8; 3]| (0..height).any(|y| canvas.row(y).contains(&colour));
        assert!(has([0x2a, 0x6f, 0xdb]) && has([0xd9, 0x73, 0x0d]) && !has([0x0d, 0x94, 0x88]));
        assert!(chart(Vec::new()).file(Form::Png).starts_with(b"\x89PNG"));
        assert!(chart(Vec::new()).file(Form::Svg).starts_with(b"<svg"));
    }

    #[test]
    fn texts_are_broken_between_words() {
        assert_eq!(wrapped("", 9, 2), [""]);
        assert_eq!(wrapped("one two three", 9, 2), ["one two", "three"]);
        assert_eq!(wrapped("one twothreefour", 9, 3), ["one", "twothreef", "our"]);
        assert_eq!(wrapped("one two three four", 9, 2), ["one two", "three…"]);
        assert_eq!(wrapped("日本語日本", 6, 2), ["日本語", "日本"]);
    }

    #[test]
    fn nothing_and_a_single_point_can_be_drawn() {
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
