//! Words as a shell reads them. Does not know of which command.

/// One word for the shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+-._/,@=:".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_words_are_quoted() {
        assert_eq!([quoted("a'b c"), quoted(""), quoted("x=1")], [r"'a'\''b c'", "''", "x=1"]);
    }
}
