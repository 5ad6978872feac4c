//! The timings of a build as a self-contained page, drawn by a script in it.

use super::report::timings::Timings;

const FRAME: &str = include_str!("html/frame.html");
/// The style sheet of report pages.
pub const STYLE: &str = include_str!("html/style.css");
const PROGRAM: &str = include_str!("html/program.js");

pub fn html(timings: &Timings<'_>) -> Vec<u8> {
    let data = timings.json();
    let mut page = Vec::with_capacity(data.len() + FRAME.len() + STYLE.len() + PROGRAM.len());
    let mut rest = FRAME;
    while let Some((before, after)) = rest.split_once('@') {
        let (name, after) = after.split_once('@').unwrap_or((after, ""));
        page.extend_from_slice(before.as_bytes());
        match name {
            "STYLE" => page.extend_from_slice(STYLE.as_bytes()),
            "PROGRAM" => page.extend_from_slice(PROGRAM.as_bytes()),
            _ => inert(&mut page, &data),
        }
        rest = after;
    }
    page.extend_from_slice(rest.as_bytes());
    page
}

/// Appends JSON without `<`: a path could otherwise close the script element.
fn inert(page: &mut Vec<u8>, json: &[u8]) {
    for part in json.split_inclusive(|&byte| byte == b'<') {
        match part.strip_suffix(b"<") {
            Some(before) => page.extend_from_slice(&[before, b"\\u003c"].concat()),
            None => page.extend_from_slice(part),
        }
    }
}
