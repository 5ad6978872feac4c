//! A drawing as a list of marks, and its rasterization.

use super::canvas::{self, Canvas, Colour, Position};
use super::png;

/// Colours for light and for dark backgrounds, distinguishable with colour blindness.
pub const COLOURS: [(&str, &str); 7] = [
    ("#2a6fdb", "#6aa5ff"),
    ("#d9730d", "#f0a04b"),
    ("#0d9488", "#3cc7b7"),
    ("#8b5cf6", "#b197fc"),
    ("#db4b8a", "#f27db0"),
    ("#7a8b00", "#b5c334"),
    ("#9a6a3a", "#cfa27a"),
];

pub struct Drawing {
    pub title: String,
    pub width: f64,
    pub height: f64,
    /// In drawing order.
    pub marks: Vec<Mark>,
}

/// The number is the index of a series and selects the colour.
pub enum Mark {
    Text {
        /// The anchor on the baseline.
        at: Position,
        text: String,
        anchor: Anchor,
        title: bool,
        /// Rotated, reading upwards.
        up: bool,
    },
    Grid(Position, Position),
    Line(usize, Vec<Position>),
    /// A polygon around all values.
    Band(usize, Vec<Position>),
    Dot(usize, Position),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// Pixels per unit.
const PIXELS: f64 = 2.0;
/// Character widths in units: of the title and of other text.
const CHAR_WIDTHS: [f64; 2] = [8.0, 7.0];
const BACKGROUND: Colour = [0xfb, 0xfb, 0xfa];
const INK: Colour = [0x1d, 0x1f, 0x22];
const GRID: Colour = [0xd5, 0xd8, 0xdc];

impl Drawing {
    pub fn text(&mut self, at: Position, text: String, anchor: Anchor) {
        self.marks.push(Mark::Text { at, text, anchor, title: false, up: false });
    }

    pub fn png(&self) -> Vec<u8> {
        // Writing to memory cannot fail.
        png::encode(&self.canvas()).unwrap_or_default()
    }

    /// Rasterizes for a light background.
    pub fn canvas(&self) -> Canvas {
        let mut canvas = Canvas::new((self.width * PIXELS) as usize, (self.height * PIXELS) as usize, BACKGROUND);
        self.marks.iter().for_each(|mark| mark.paint(&mut canvas));
        canvas
    }
}

impl Mark {
    fn paint(&self, canvas: &mut Canvas) {
        let pixels = |(x, y): Position| (x * PIXELS, y * PIXELS);
        let all = |places: &[Position]| places.iter().map(|&place| pixels(place)).collect::<Vec<Position>>();
        match self {
            Mark::Text { at, text, anchor, title, up } => {
                let letter = CHAR_WIDTHS[usize::from(!title)] * PIXELS;
                let length = canvas::glyph_count(text) as f64 * letter;
                let (x, y) = pixels(*at);
                let before = match anchor {
                    Anchor::Start => 0.0,
                    Anchor::Middle => length / 2.0,
                    Anchor::End => length,
                };
                canvas.text(if *up { (x, y + before) } else { (x - before, y) }, text, letter, *up, INK);
            }
            Mark::Grid(from, to) => canvas.line(&all(&[*from, *to]), PIXELS, GRID),
            Mark::Line(nth, points) => canvas.line(&all(points), 2.0 * PIXELS, colour(*nth)),
            Mark::Band(nth, corners) => canvas.area(&all(corners), colour(*nth), 0.15),
            Mark::Dot(nth, place) => canvas.dot(pixels(*place), 2.5 * PIXELS, colour(*nth), 0.6),
        }
    }
}

/// Returns the colour of a series on a light background.
fn colour(series: usize) -> Colour {
    let digits = COLOURS[series % COLOURS.len()].0.trim_start_matches('#');
    let number = u32::from_str_radix(digits, 16).unwrap_or_default().to_be_bytes();
    [number[1], number[2], number[3]]
}
