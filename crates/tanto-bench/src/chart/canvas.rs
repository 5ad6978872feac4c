//! Antialiased shapes and text on a pixel grid.

use font8x8::UnicodeFonts;

/// Rows and columns of a glyph.
const CELL: usize = 8;
/// Descenders are below this row.
const BASELINE: f64 = 7.0;
/// Vertical subsamples of a pixel at the edges of areas.
const SUBSAMPLES: usize = 4;

/// Red, green, blue.
pub type Colour = [u8; 3];

/// Pixels from the left and the upper edge.
pub type Position = (f64, f64);

pub struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<Colour>,
}

impl Canvas {
    pub fn new(width: usize, height: usize, background: Colour) -> Canvas {
        Canvas { width, height, pixels: vec![background; width * height] }
    }

    /// Returns width and height.
    pub fn size(&self) -> (usize, usize) {
        (self.width, self.height)
    }

    pub fn row(&self, y: usize) -> &[Colour] {
        &self.pixels[y * self.width..][..self.width]
    }

    /// Blends a colour into a pixel; `coverage` is 0 to 1. Pixels outside are ignored.
    fn blend(&mut self, x: usize, y: usize, coverage: f64, colour: Colour) {
        if x >= self.width || y >= self.height {
            return;
        }
        let pixel = &mut self.pixels[y * self.width + x];
        for (old, new) in pixel.iter_mut().zip(colour) {
            *old = (f64::from(*old) + (f64::from(new) - f64::from(*old)) * coverage.clamp(0.0, 1.0)).round() as u8;
        }
    }

    /// Fills a shape given by its signed distance function, within a bounding box.
    fn shape(
        &mut self,
        from: Position,
        to: Position,
        colour: Colour,
        opacity: f64,
        distance: impl Fn(Position) -> f64,
    ) {
        let range = |low: f64, high: f64, end: usize| {
            (low.floor().max(0.0) as usize)..((high.ceil().max(0.0) as usize).min(end))
        };
        for y in range(from.1, to.1, self.height) {
            for x in range(from.0, to.0, self.width) {
                let part = 0.5 - distance((x as f64 + 0.5, y as f64 + 0.5));
                if part > 0.0 {
                    self.blend(x, y, part.min(1.0) * opacity, colour);
                }
            }
        }
    }

    /// Draws connected segments.
    pub fn line(&mut self, points: &[Position], width: f64, colour: Colour) {
        let reach = width / 2.0 + 1.0;
        for segment in points.windows(2) {
            let (a, b) = (segment[0], segment[1]);
            let from = (a.0.min(b.0) - reach, a.1.min(b.1) - reach);
            let to = (a.0.max(b.0) + reach, a.1.max(b.1) + reach);
            self.shape(from, to, colour, 1.0, |place| distance_to_segment(place, a, b) - width / 2.0);
        }
    }

    /// Draws a filled circle.
    pub fn dot(&mut self, (x, y): Position, radius: f64, colour: Colour, opacity: f64) {
        let reach = radius + 1.0;
        let distance = |place: Position| (place.0 - x).hypot(place.1 - y) - radius;
        self.shape((x - reach, y - reach), (x + reach, y + reach), colour, opacity, distance);
    }

    /// Fills a polygon.
    pub fn area(&mut self, corners: &[Position], colour: Colour, opacity: f64) {
        for y in 0..self.height {
            let mut parts = vec![0.0; self.width];
            for part in 0..SUBSAMPLES {
                let level = y as f64 + (part as f64 + 0.5) / SUBSAMPLES as f64;
                let crossings = crossings(corners, level);
                for pair in crossings.chunks_exact(2) {
                    add(&mut parts, pair[0], pair[1], 1.0 / SUBSAMPLES as f64);
                }
            }
            for (x, part) in parts.into_iter().enumerate().filter(|(_, part)| *part > 0.0) {
                self.blend(x, y, part * opacity, colour);
            }
        }
    }

    /// Draws text from the lower left corner of its first character. `char_width` is in pixels; `up` rotates the text.
    pub fn text(&mut self, (x, y): Position, text: &str, char_width: f64, up: bool, colour: Colour) {
        let dot = char_width / CELL as f64;
        for (nth, glyph) in text.chars().flat_map(replace_missing).map(glyph).enumerate() {
            for (row, bits) in glyph.into_iter().enumerate() {
                for column in (0..CELL).filter(|column| bits >> column & 1 == 1) {
                    let along = nth as f64 * char_width + column as f64 * dot;
                    let down = (row as f64 - BASELINE) * dot;
                    let (left, top) = if up { (x + down, y - along - dot) } else { (x + along, y + down) };
                    self.square(left, top, dot, colour);
                }
            }
        }
    }

    /// Fills a square; pixels at its edges are covered in part.
    fn square(&mut self, left: f64, top: f64, side: f64, colour: Colour) {
        let share = |pixel: usize, from: f64| {
            let pixel = pixel as f64;
            ((from + side).min(pixel + 1.0) - from.max(pixel)).max(0.0)
        };
        let range = |from: f64| (from.floor().max(0.0) as usize)..((from + side).ceil().max(0.0) as usize);
        for y in range(top) {
            for x in range(left) {
                self.blend(x, y, share(x, left) * share(y, top), colour);
            }
        }
    }
}

/// Returns the number of glyphs of a text.
pub fn glyph_count(text: &str) -> usize {
    text.chars().flat_map(replace_missing).count()
}

/// Replaces characters that the font lacks.
fn replace_missing(letter: char) -> impl Iterator<Item = char> {
    let several = if letter == '…' { 3 } else { 1 };
    std::iter::repeat_n(if letter == '…' { '.' } else { letter }, several)
}

fn glyph(letter: char) -> [u8; CELL] {
    let known = font8x8::BASIC_FONTS.get(letter).or_else(|| font8x8::LATIN_FONTS.get(letter));
    known.or_else(|| font8x8::BASIC_FONTS.get('?')).unwrap_or_default()
}

fn distance_to_segment(place: Position, a: Position, b: Position) -> f64 {
    let (along, across) = (b.0 - a.0, b.1 - a.1);
    let length = along * along + across * across;
    let share = if length > 0.0 { ((place.0 - a.0) * along + (place.1 - a.1) * across) / length } else { 0.0 };
    let share = share.clamp(0.0, 1.0);
    (place.0 - a.0 - share * along).hypot(place.1 - a.1 - share * across)
}

/// Returns the x coordinates where a polygon crosses a horizontal line, ascending.
fn crossings(corners: &[Position], level: f64) -> Vec<f64> {
    let edges = corners.iter().zip(corners.iter().cycle().skip(1));
    let mut crossings: Vec<f64> = edges
        .filter(|(a, b)| (a.1 <= level) != (b.1 <= level))
        .map(|(a, b)| a.0 + (level - a.1) / (b.1 - a.1) * (b.0 - a.0))
        .collect();
    crossings.sort_by(f64::total_cmp);
    crossings
}

/// Adds `share` to the pixels of a row between two positions, and a part of it at the ends.
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

    /// Returns the black area in pixels.
    fn ink(canvas: &Canvas) -> f64 {
        canvas.pixels.iter().map(|pixel| 1.0 - f64::from(pixel[0]) / 255.0).sum()
    }

    fn drawn(draw: impl Fn(&mut Canvas)) -> Canvas {
        let mut canvas = Canvas::new(60, 40, WHITE);
        draw(&mut canvas);
        canvas
    }

    #[test]
    fn shapes_have_the_right_area() {
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
    fn shapes_outside_are_ignored() {
        let canvas = drawn(|canvas| {
            canvas.dot((-50.0, -50.0), 10.0, BLACK, 1.0);
            canvas.line(&[(100.0, 100.0), (200.0, 90.0)], 3.0, BLACK);
            canvas.text((300.0, -20.0), "out", 16.0, false, BLACK);
            canvas.area(&[(70.0, 0.0), (90.0, 0.0), (80.0, 40.0)], BLACK, 1.0);
        });
        assert!(ink(&canvas) < 1e-9, "{}", ink(&canvas));
    }

    #[test]
    fn letters_stand_on_the_baseline() {
        let canvas = drawn(|canvas| canvas.text((4.0, 30.0), "L", 16.0, false, BLACK));
        let inked = |y: usize| canvas.row(y).contains(&BLACK);
        assert!(inked(29) && !inked(30) && inked(17), "L stands on row 29");
        let up = drawn(|canvas| canvas.text((30.0, 30.0), "L", 16.0, true, BLACK));
        assert!((ink(&up) - ink(&canvas)).abs() < 1e-6);
        assert_eq!((glyph_count("a…b"), glyph_count("日本")), (5, 2));
    }
}
