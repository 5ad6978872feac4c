//! Encodes a drawing as SVG, for light and dark backgrounds.

use std::fmt::Write;
use tanto_exec::text::html::escape;

use super::canvas::Position;
use super::drawing::{Anchor, COLOURS, Drawing, Mark};

impl Drawing {
    pub fn svg(&self) -> String {
        let Drawing { width, height, .. } = *self;
        let mut svg = head(width, height);
        let _ = writeln!(svg, "<title>{}</title>", escaped(&self.title));
        let _ = writeln!(svg, "<rect class=\"page\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>");
        self.marks.iter().for_each(|mark| mark.svg(&mut svg));
        svg + "</svg>\n"
    }
}

impl Mark {
    fn svg(&self, svg: &mut String) {
        let _ = match self {
            Mark::Text { at: (x, y), text, anchor, title, up } => {
                let class = match (title, anchor) {
                    (true, _) => " class=\"title\"",
                    (false, Anchor::Start) => "",
                    (false, Anchor::Middle) => " class=\"x\"",
                    (false, Anchor::End) => " class=\"y\"",
                };
                let text = escaped(text);
                if *up {
                    writeln!(svg, "<text{class} transform=\"translate({x} {y:.1}) rotate(-90)\">{text}</text>")
                } else {
                    writeln!(svg, "<text{class} x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>")
                }
            }
            Mark::Grid(from, to) => writeln!(svg, "<path class=\"grid\" d=\"{}\"/>", path(&[*from, *to])),
            Mark::Line(nth, points) => writeln!(svg, "<path class=\"line {}\" d=\"{}\"/>", class(*nth), path(points)),
            Mark::Band(nth, points) => writeln!(svg, "<path class=\"band {}\" d=\"{}z\"/>", class(*nth), path(points)),
            Mark::Dot(nth, (x, y)) => {
                writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" class=\"{}\"/>", class(*nth))
            }
        };
    }
}

fn class(series: usize) -> String {
    format!("c{}", series % COLOURS.len())
}

fn path(points: &[Position]) -> String {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    format!("M{}", points.join("L"))
}

fn head(width: f64, height: f64) -> String {
    let mut head = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\">\n<style>\n\
         .page {{ fill: #fbfbfa }} text {{ fill: #1d1f22 }} .grid {{ stroke: #d5d8dc; fill: none }}\n\
         .title {{ font-size: 15px; font-weight: 600 }} .x {{ text-anchor: middle }} .y {{ text-anchor: end }}\n\
         .line {{ fill: none; stroke-width: 2 }} .band {{ stroke: none; opacity: 0.15 }} circle {{ opacity: 0.6 }}\n"
    );
    let rule = |nth: usize, colour: &str| {
        format!(".line.c{nth} {{ stroke: {colour} }} .band.c{nth}, circle.c{nth} {{ fill: {colour} }}\n")
    };
    head.extend(COLOURS.iter().enumerate().map(|(nth, colours)| rule(nth, colours.0)));
    head += "@media (prefers-color-scheme: dark) {\n\
             .page { fill: #16181b } text { fill: #e7e9ec } .grid { stroke: #3a3f46 }\n";
    head.extend(COLOURS.iter().enumerate().map(|(nth, colours)| rule(nth, colours.1)));
    head + "}\n</style>\n"
}

/// Replaces control characters by spaces and escapes markup.
fn escaped(text: &str) -> String {
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    escape(&text.chars().map(plain).collect::<String>())
}
