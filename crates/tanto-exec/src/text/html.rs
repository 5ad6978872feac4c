//! Escapes text for HTML.

fn entity(byte: u8) -> Option<&'static str> {
    match byte {
        b'&' => Some("&amp;"),
        b'<' => Some("&lt;"),
        b'>' => Some("&gt;"),
        b'"' => Some("&quot;"),
        b'\'' => Some("&#39;"),
        _ => None,
    }
}

/// Escapes characters that have a meaning in HTML text and attributes.
pub fn escape(text: &str) -> String {
    let mut escaped = Vec::with_capacity(text.len());
    escape_bytes(text.as_bytes(), &mut escaped);
    String::from_utf8_lossy(&escaped).into_owned()
}

/// Like `escape`, for text that may not be UTF-8; appends to `page`.
pub fn escape_bytes(text: &[u8], page: &mut Vec<u8>) {
    for &byte in text {
        match entity(byte) {
            Some(entity) => page.extend_from_slice(entity.as_bytes()),
            None => page.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn markup_is_escaped() {
        assert_eq!(super::escape("<a b=\"c\">&'é"), "&lt;a b=&quot;c&quot;&gt;&amp;&#39;é");
    }
}
