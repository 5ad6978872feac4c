//! Formats of the progress line, in ninja's two languages.

use crate::views::progress::{Progress, ProgressValue};

mod variables;

/// An error in ninja's words, without a line end.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}", String::from_utf8_lossy(.0))]
pub struct FormatError(pub Vec<u8>);

#[derive(Debug)]
pub struct ProgressFormat {
    pieces: Vec<Piece>,
    unknown: Option<FormatError>,
}

#[derive(Debug)]
enum Piece {
    Text(Vec<u8>),
    Value(ProgressValue),
    Description,
}

impl Default for ProgressFormat {
    /// ninja's default: finished and total commands.
    fn default() -> ProgressFormat {
        ProgressFormat::parse_ninja_status(b"[%f/%t] ")
    }
}

impl ProgressFormat {
    /// Parses `$NINJA_STATUS`: `%` and a letter for a value, followed by the description.
    pub fn parse_ninja_status(text: &[u8]) -> ProgressFormat {
        let mut format = ProgressFormat::empty();
        let mut rest = text;
        while let Some(at) = rest.iter().position(|&byte| byte == b'%') {
            format.text(&rest[..at]);
            // In ninja's message, a lone `%` at the end is the placeholder NUL.
            let letter = rest.get(at + 1).copied().unwrap_or(0);
            match VALUES.iter().find(|it| it.0 == letter) {
                Some(it) => format.pieces.push(Piece::Value(it.2)),
                None if letter == b'%' => format.text(b"%"),
                None => format.unknown(&[b"unknown placeholder '%", &[letter][..], b"' in $NINJA_STATUS"]),
            }
            rest = rest.get(at + 2..).unwrap_or_default();
        }
        format.text(rest);
        format.pieces.push(Piece::Description);
        format
    }

    /// Parses `--status`: `$name` or `${name}` for a value or the description, with the escapes of manifests.
    pub fn parse_status(text: &[u8]) -> Result<ProgressFormat, FormatError> {
        variables::parse(text)
    }

    /// Fails for an unknown value. ninja reports it with the first status line, so call this when the first command is
    /// about to start.
    pub fn check(&self) -> Result<(), FormatError> {
        self.unknown.clone().map_or(Ok(()), Err)
    }

    /// Formats the line for a command.
    pub(crate) fn line(&self, progress: &mut Progress, description: &[u8]) -> Vec<u8> {
        let mut line = Vec::with_capacity(description.len() + 32);
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => line.extend_from_slice(text),
                Piece::Value(value) => progress.append(*value, &mut line),
                Piece::Description => line.extend_from_slice(description),
            }
        }
        line
    }

    fn empty() -> ProgressFormat {
        ProgressFormat { pieces: Vec::new(), unknown: None }
    }

    fn text(&mut self, text: &[u8]) {
        match self.pieces.last_mut() {
            _ if text.is_empty() => {}
            Some(Piece::Text(before)) => before.extend_from_slice(text),
            _ => self.pieces.push(Piece::Text(text.to_vec())),
        }
    }

    /// Keeps the first error.
    fn unknown(&mut self, message: &[&[u8]]) {
        self.unknown.get_or_insert_with(|| FormatError(message.concat()));
    }
}

/// Values with their letter in `$NINJA_STATUS` and their name in `--status`.
const VALUES: [(u8, &[u8], ProgressValue); 13] = [
    (b's', b"started", ProgressValue::Started),
    (b't', b"total", ProgressValue::Total),
    (b'r', b"running", ProgressValue::Running),
    (b'u', b"remaining", ProgressValue::Remaining),
    (b'f', b"finished", ProgressValue::Finished),
    (b'o', b"rate", ProgressValue::Rate),
    (b'c', b"current_rate", ProgressValue::CurrentRate),
    (b'p', b"progress", ProgressValue::Percent),
    (b'P', b"predicted_progress", ProgressValue::PredictedPercent),
    (b'w', b"elapsed", ProgressValue::Elapsed),
    (b'e', b"elapsed_seconds", ProgressValue::ElapsedSeconds),
    (b'W', b"eta", ProgressValue::Eta),
    (b'E', b"eta_seconds", ProgressValue::EtaSeconds),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn line(format: &ProgressFormat) -> String {
        let mut progress = Progress::new();
        String::from_utf8(format.line(&mut progress, b"DESC")).expect("ASCII")
    }

    #[test]
    fn placeholders_and_text() {
        let format = ProgressFormat::parse_ninja_status(b"%s %t %p %r %u %f %% %e %E %w %W %P|");
        assert_eq!(format.check(), Ok(()));
        assert_eq!(line(&format), "0 0   0% 0 0 0 % 0.000 ? 00:00 ?   0%|DESC");
        assert_eq!(line(&ProgressFormat::default()), "[0/0] DESC");
        assert_eq!(line(&ProgressFormat::parse_ninja_status(b"")), "DESC");
    }

    #[test]
    fn the_first_unknown_placeholder_is_named() {
        let complaint = |text: &[u8]| ProgressFormat::parse_ninja_status(text).check().map_err(|bad| bad.0);
        assert_eq!(complaint(b"%f%z%y"), Err(b"unknown placeholder '%z' in $NINJA_STATUS".to_vec()));
        assert_eq!(complaint(b"a%"), Err(b"unknown placeholder '%\0' in $NINJA_STATUS".to_vec()));
    }
}
