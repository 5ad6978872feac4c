//! Splits a variable into words at white space, with the quotes and backslashes of a shell.

/// Returns the words of `text`; `None` if a quote is not closed or a backslash ends it.
pub fn split(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    // `None` between words: `''` is a word too, an empty one.
    let mut word: Option<Vec<u8>> = None;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b' ' | b'\t' | b'\n' => words.extend(word.take()),
            b'\'' => single(&mut bytes, word.get_or_insert_default())?,
            b'"' => double(&mut bytes, word.get_or_insert_default())?,
            b'\\' => word.get_or_insert_default().push(bytes.next()?),
            _ => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    Some(words)
}

fn single(bytes: &mut impl Iterator<Item = u8>, word: &mut Vec<u8>) -> Option<()> {
    loop {
        match bytes.next()? {
            b'\'' => return Some(()),
            byte => word.push(byte),
        }
    }
}

fn double(bytes: &mut impl Iterator<Item = u8>, word: &mut Vec<u8>) -> Option<()> {
    loop {
        match bytes.next()? {
            b'"' => return Some(()),
            b'\\' => match bytes.next()? {
                byte @ (b'"' | b'\\' | b'$' | b'`') => word.push(byte),
                byte => word.extend([b'\\', byte]),
            },
            byte => word.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Option<Vec<String>> {
        let words = split(text.as_bytes())?;
        Some(words.into_iter().map(|word| String::from_utf8_lossy(&word).into_owned()).collect())
    }

    #[test]
    fn splits_as_a_shell() {
        let table: &[(&str, &[&str])] = &[
            ("", &[]),
            (" \t\n", &[]),
            ("-j4  -k 0", &["-j4", "-k", "0"]),
            ("--status '[$f/$t] '", &["--status", "[$f/$t] "]),
            (r#"a"b c"d"#, &["ab cd"]),
            (r#""a\"b\$c\d""#, &[r#"a"b$c\d"#]),
            (r"a\ b \'", &["a b", "'"]),
            ("'' \"\"", &["", ""]),
            (r"'a\b'", &[r"a\b"]),
        ];
        for (text, expected) in table {
            let expected = expected.iter().map(|&word| word.to_owned()).collect();
            assert_eq!(words(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn unclosed_quotes_are_refused() {
        for text in ["'a", "\"a", "a\\", "\"a\\"] {
            assert_eq!(words(text), None, "{text}");
        }
    }
}
