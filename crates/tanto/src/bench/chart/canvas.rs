//! Antialiased shapes and text on a grid of pixels.

use font8x8::UnicodeFonts;

/// Rows and columns of a letter of the font.
const CELL: usize = 8;
/// The row below which letters have their descenders.
const BASELINE: f64 = 7.0;
/// Parts of a pixel's height that are looked at for the edges of areas.
const PARTS: usize = 4;

/// A colour: red, green, blue.
pub type Colour = [u8; 3];

/// A point: right of the left edge, below the upper one, in pixels.
pub type Place = (f64, f64);

/// A picture under way.
pub struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<Colour>,
}

impl Canvas {
    /// A page of one colour.
    pub fn new(width: usize, height: usize, page: Colour) -> Canvas {
        Canvas { width, height, pixels: vec![page; width * height] }
    }

    /// Its width and height.
    pub fn size(&self) -> (usize, usize) {
        (self.width, self.height)
    }

    /// A row of pixels.
    pub fn row(&self, y: usize) -> &[Colour] {
        &self.pixels[y * self.width..][..self.width]
    }

    /// Covers a part of a pixel, from 0 to 1, with a colour. Nothing happens outside of the page.
    fn cover(&mut self, x: usize, y: usize, part: f64, colour: Colour) {
        if x >= self.width || y >= self.height {
            return;
        }
        let pixel = &mut self.pixels[y * self.width + x];
        for (old, new) in pixel.iter_mut().zip(colour) {
            *old = (f64::from(*old) + (f64::from(new) - f64::from(*old)) * part.clamp(0.0, 1.0)).round() as u8;
        }
    }

    /// All pixels whose centres lie in this range, and the distance of each to a shape as `distance` has it: those within
    /// it are covered.
    fn shape(&mut self, from: Place, to: Place, colour: Colour, opacity: f64, distance: impl Fn(Place) -> f64) {
        let range = |low: f64, high: f64, end: usize| {
            (low.floor().max(0.0) as usize)..((high.ceil().max(0.0) as usize).min(end))
        };
        for y in range(from.1, to.1, self.height) {
            for x in range(from.0, to.0, self.width) {
                let part = 0.5 - distance((x as f64 + 0.5, y as f64 + 0.5));
                if part > 0.0 {
                    self.cover(x, y, part.min(1.0) * opacity, colour);
                }
            }
        }
    }

    /// A line of straight pieces.
    pub fn line(&mut self, points: &[Place], width: f64, colour: Colour) {
        let reach = width / 2.0 + 1.0;
        for piece in points.windows(2) {
            let (a, b) = (piece[0], piece[1]);
            let from = (a.0.min(b.0) - reach, a.1.min(b.1) - reach);
            let to = (a.0.max(b.0) + reach, a.1.max(b.1) + reach);
            self.shape(from, to, colour, 1.0, |place| to_piece(place, a, b) - width / 2.0);
        }
    }

    /// A filled circle.
    pub fn dot(&mut self, (x, y): Place, radius: f64, colour: Colour, opacity: f64) {
        let reach = radius + 1.0;
        let distance = |place: Place| (place.0 - x).hypot(place.1 - y) - radius;
        self.shape((x - reach, y - reach), (x + reach, y + reach), colour, opacity, distance);
    }

    /// A filled area within these corners.
    pub fn area(&mut self, corners: &[Place], colour: Colour, opacity: f64) {
        for y in 0..self.height {
            let mut parts = vec![0.0; self.width];
            for part in 0..PARTS {
                let level = y as f64 + (part as f64 + 0.5) / PARTS as f64;
                let crossings = crossings(corners, level);
                for pair in crossings.chunks_exact(2) {
                    add(&mut parts, pair[0], pair[1], 1.0 / PARTS as f64);
                }
            }
            for (x, part) in parts.into_iter().enumerate().filter(|(_, part)| *part > 0.0) {
                self.cover(x, y, part * opacity, colour);
            }
        }
    }

    /// Text whose first letter's lower left corner is here, with so many pixels to a letter; `up`: from bottom to top.
    pub fn text(&mut self, (x, y): Place, text: &str, letter: f64, up: bool, colour: Colour) {
        let dot = letter / CELL as f64;
        for (nth, glyph) in text.chars().flat_map(letters).map(glyph).enumerate() {
            for (row, bits) in glyph.into_iter().enumerate() {
                for column in (0..CELL).filter(|column| bits >> column & 1 == 1) {
                    let along = nth as f64 * letter + column as f64 * dot;
                    let down = (row as f64 - BASELINE) * dot;
                    let (left, top) = if up { (x + down, y - along - dot) } else { (x + along, y + down) };
                    self.square(left, top, dot, colour);
                }
            }
        }
    }

    /// A filled square, with a share of the pixels at its edges.
    fn square(&mut self, left: f64, top: f64, side: f64, colour: Colour) {
        let share = |pixel: usize, from: f64| {
            let pixel = pixel as f64;
            ((from + side).min(pixel + 1.0) - from.max(pixel)).max(0.0)
        };
        let range = |from: f64| (from.floor().max(0.0) as usize)..((from + side).ceil().max(0.0) as usize);
        for y in range(top) {
            for x in range(left) {
                self.cover(x, y, share(x, left) * share(y, top), colour);
            }
        }
    }
}

/// The number of letters that a text takes.
pub fn count(text: &str) -> usize {
    text.chars().flat_map(letters).count()
}

/// A letter, or those that stand for one that the font lacks.
fn letters(letter: char) -> impl Iterator<Item = char> {
    let several = if letter == '…' { 3 } else { 1 };
    std::iter::repeat_n(if letter == '…' { '.' } else { letter }, several)
}

fn glyph(letter: char) -> [u8; CELL] {
    let known = font8x8::BASIC_FONTS.get(letter).or_else(|| font8x8::LATIN_FONTS.get(letter));
    known.or_else(|| font8x8::BASIC_FONTS.get('?')).unwrap_or_default()
}

/// How far a place is from a straight piece of a line.
fn to_piece(place: Place, a: Place, b: Place) -> f64 {
    let (along, across) = (b.0 - a.0, b.1 - a.1);
    let length = along * along + across * across;
    let share = if length > 0.0 { ((place.0 - a.0) * along + (place.1 - a.1) * across) / length } else { 0.0 };
    let share = share.clamp(0.0, 1.0);
    (place.0 - a.0 - share * along).hypot(place.1 - a.1 - share * across)
}

/// Where the edges of an area cross a level, from left to right.
fn crossings(corners: &[Place], level: f64) -> Vec<f64> {
    let edges = corners.iter().zip(corners.iter().cycle().skip(1));
    let mut crossings: Vec<f64> = edges
        .filter(|(a, b)| (a.1 <= level) != (b.1 <= level))
        .map(|(a, b)| a.0 + (level - a.1) / (b.1 - a.1) * (b.0 - a.0))
        .collect();
    crossings.sort_by(f64::total_cmp);
    crossings
}

/// Adds a share to all pixels of a row between two places, and parts of it at the ends.
fn add(parts: &mut [f64], from: f64, to: f64, share: f64) {
    let first = from.floor().max(0.0) as usize;
    let last = (to.ceil().max(0.0) as usize).min(parts.len());
    for (x, part) in parts.iter_mut().enumerate().take(last).skip(first) {
        let x = x as f64;
        *part += share * (to.min(x + 1.0) - from.max(x)).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHITE: Colour = [255; 3];
    const BLACK: Colour = [0; 3];

    /// How much of the page is black, in pixels.
    fn ink(canvas: &Canvas) -> f64 {
        canvas.pixels.iter().map(|pixel| 1.0 - f64::from(pixel[0]) / 255.0).sum()
    }

    fn drawn(draw: impl Fn(&mut Canvas)) -> Canvas {
        let mut canvas = Canvas::new(60, 40, WHITE);
        draw(&mut canvas);
        canvas
    }

    #[test]
    fn shapes_have_the_area_that_they_should_have() {
        let near =
            |canvas: Canvas, expected: f64| assert!((ink(&canvas) / expected - 1.0).abs() < 0.05, "{}", ink(&canvas));
        near(drawn(|canvas| canvas.dot((20.3, 20.7), 10.0, BLACK, 1.0)), std::f64::consts::PI * 100.0);
        near(drawn(|canvas| canvas.dot((20.0, 20.0), 10.0, BLACK, 0.5)), std::f64::consts::PI * 50.0);
        near(drawn(|canvas| canvas.area(&[(5.0, 5.0), (45.5, 5.0), (5.0, 35.0)], BLACK, 1.0)), 40.5 * 30.0 / 2.0);
        near(
            drawn(|canvas| canvas.line(&[(10.0, 20.0), (50.0, 20.0)], 4.0, BLACK)),
            40.0 * 4.0 + std::f64::consts::PI * 4.0,
        );
    }

    #[test]
    fn nothing_is_drawn_outside_of_the_page() {
        let canvas = drawn(|canvas| {
            canvas.dot((-50.0, -50.0), 10.0, BLACK, 1.0);
            canvas.line(&[(100.0, 100.0), (200.0, 90.0)], 3.0, BLACK);
            canvas.text((300.0, -20.0), "out", 16.0, false, BLACK);
            canvas.area(&[(70.0, 0.0), (90.0, 0.0), (80.0, 40.0)], BLACK, 1.0);
        });
        assert!(ink(&canvas) < 1e-9, "{}", ink(&canvas));
    }

    #[test]
    fn letters_stand_on_their_line() {
        let canvas = drawn(|canvas| canvas.text((4.0, 30.0), "L", 16.0, false, BLACK));
        let inked = |y: usize| canvas.row(y).contains(&BLACK);
        assert!(inked(29) && !inked(30) && inked(17), "L stands on row 29");
        let up = drawn(|canvas| canvas.text((30.0, 30.0), "L", 16.0, true, BLACK));
        assert!((ink(&up) - ink(&canvas)).abs() < 1e-6);
        assert_eq!((count("a…b"), count("日本")), (5, 2));
    }
}
