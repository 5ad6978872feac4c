//! A drawing: its marks, and how they become pixels.

use super::canvas::{self, Canvas, Colour};
use super::png;

/// A place: right of the left edge, below the upper one.
pub type Place = canvas::Place;

/// Colours that can be told apart, also by those who see some of them alike; for a bright page, and for a dark one.
pub const COLOURS: [(&str, &str); 7] = [
    ("#2a6fdb", "#6aa5ff"),
    ("#d9730d", "#f0a04b"),
    ("#0d9488", "#3cc7b7"),
    ("#8b5cf6", "#b197fc"),
    ("#db4b8a", "#f27db0"),
    ("#7a8b00", "#b5c334"),
    ("#9a6a3a", "#cfa27a"),
];

/// A picture of so many units, in the order of drawing.
pub struct Drawing {
    /// What it shows.
    pub title: String,
    pub width: f64,
    pub height: f64,
    pub marks: Vec<Mark>,
}

/// A part of a drawing. The number is that of a series, which decides the colour.
pub enum Mark {
    Text {
        /// The line below the letters, at the anchor.
        at: Place,
        text: String,
        anchor: Anchor,
        title: bool,
        /// From bottom to top.
        up: bool,
    },
    /// A line of the grid.
    Grid(Place, Place),
    /// A curve.
    Line(usize, Vec<Place>),
    /// The area of what was measured, with its corners.
    Band(usize, Vec<Place>),
    /// A measured value.
    Dot(usize, Place),
}

/// Which part of a text is at its place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// Pixels to a unit in each direction.
const PIXELS: f64 = 2.0;
/// The width of a letter in units: of the title, and of others.
const LETTERS: [f64; 2] = [8.0, 7.0];
const PAGE: Colour = [0xfb, 0xfb, 0xfa];
const INK: Colour = [0x1d, 0x1f, 0x22];
const GRID: Colour = [0xd5, 0xd8, 0xdc];

impl Drawing {
    /// Adds an ordinary text.
    pub fn text(&mut self, at: Place, text: String, anchor: Anchor) {
        self.marks.push(Mark::Text { at, text, anchor, title: false, up: false });
    }

    /// The bytes of a PNG.
    pub fn png(&self) -> Vec<u8> {
        // Writing into memory does not fail.
        png::encoded(&self.canvas()).unwrap_or_default()
    }

    /// As pixels, for a bright page.
    pub fn canvas(&self) -> Canvas {
        let mut canvas = Canvas::new((self.width * PIXELS) as usize, (self.height * PIXELS) as usize, PAGE);
        self.marks.iter().for_each(|mark| mark.paint(&mut canvas));
        canvas
    }
}

impl Mark {
    fn paint(&self, canvas: &mut Canvas) {
        let pixels = |(x, y): Place| (x * PIXELS, y * PIXELS);
        let all = |places: &[Place]| places.iter().map(|&place| pixels(place)).collect::<Vec<Place>>();
        match self {
            Mark::Text { at, text, anchor, title, up } => {
                let letter = LETTERS[usize::from(!title)] * PIXELS;
                let length = canvas::count(text) as f64 * letter;
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

/// The bright page's colour of a series.
fn colour(series: usize) -> Colour {
    let digits = COLOURS[series % COLOURS.len()].0.trim_start_matches('#');
    let number = u32::from_str_radix(digits, 16).unwrap_or_default().to_be_bytes();
    [number[1], number[2], number[3]]
}
