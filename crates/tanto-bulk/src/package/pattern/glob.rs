//! Shell patterns, as C's `fnmatch` with `FNM_PERIOD`.

/// Matches the whole text. Only a `.` matches a leading `.`.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let hidden = text.first() == Some(&b'.');
    if hidden && matches!(pattern.first(), Some(b'*' | b'?' | b'[')) {
        return false;
    }
    // The last star and its position: the only point to backtrack to.
    let (mut pattern, mut text, mut back) = (pattern, text, None::<(&[u8], &[u8])>);
    loop {
        if let [b'*', rest @ ..] = pattern {
            pattern = rest;
            back = Some((rest, text));
        } else if let Some((rest, left)) = step(pattern, text) {
            (pattern, text) = (rest, left);
        } else if pattern.is_empty() && text.is_empty() {
            return true;
        } else {
            let Some((rest, [_, left @ ..])) = back else { return false };
            (pattern, text) = (rest, left);
            back = Some((rest, left));
        }
    }
}

/// The literal prefix of a pattern.
pub(super) fn literal_start(pattern: &[u8]) -> &[u8] {
    let special = pattern.iter().position(|byte| b"*?[\\".contains(byte));
    &pattern[..special.unwrap_or(pattern.len())]
}

/// Matches one character; returns the rests.
fn step<'p, 't>(pattern: &'p [u8], text: &'t [u8]) -> Option<(&'p [u8], &'t [u8])> {
    let (&byte, left) = text.split_first()?;
    let rest = match pattern {
        [b'?', rest @ ..] => rest,
        [b'[', class @ ..] => match read_class(class, byte) {
            Some((true, rest)) => rest,
            Some((false, _)) => return None,
            None if byte == b'[' => class,
            None => return None,
        },
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] if *literal == byte => rest,
        _ => return None,
    };
    Some((rest, left))
}

/// Matches a class; returns the rest of the pattern. `None` if it is not closed, so that `[` is literal.
fn read_class(class: &[u8], byte: u8) -> Option<(bool, &[u8])> {
    let negated = matches!(class.first(), Some(b'!' | b'^'));
    let mut rest = &class[usize::from(negated)..];
    let (mut found, mut first) = (false, true);
    loop {
        match rest {
            [] => return None,
            [b']', rest @ ..] if !first => return Some((found != negated, rest)),
            [b'[', b':', named @ ..] if named_class(named).is_some() => {
                let (is_in, after) = named_class(named)?;
                found |= is_in(&byte);
                rest = after;
            }
            _ => {
                let (low, after) = member(rest)?;
                let (high, after) = match after {
                    [b'-', end @ ..] if !end.is_empty() && end[0] != b']' => member(end)?,
                    _ => (low, after),
                };
                found |= (low..=high).contains(&byte);
                rest = after;
            }
        }
        first = false;
    }
}

/// A character of a class, possibly escaped by `\`.
fn member(text: &[u8]) -> Option<(u8, &[u8])> {
    match text {
        [b'\\', byte, rest @ ..] | [byte, rest @ ..] => Some((*byte, rest)),
        [] => None,
    }
}

type IsIn = fn(&u8) -> bool;

/// Named classes such as `digit:]`.
fn named_class(text: &[u8]) -> Option<(IsIn, &[u8])> {
    const NAMES: [(&[u8], IsIn); 6] = [
        (b"alnum:]", u8::is_ascii_alphanumeric),
        (b"alpha:]", u8::is_ascii_alphabetic),
        (b"digit:]", u8::is_ascii_digit),
        (b"lower:]", u8::is_ascii_lowercase),
        (b"upper:]", u8::is_ascii_uppercase),
        (b"punct:]", u8::is_ascii_punctuation),
    ];
    NAMES.iter().find_map(|(name, is_in)| Some((*is_in, text.strip_prefix(*name)?)))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn matches_like_fnmatch() {
        for (pattern, text, expected) in [
            ("a-[0-9]*", "a-1.0", true),
            ("a-[0-9]*", "a-b-1.0", false),
            ("a-[!a-z]*", "a-1", true),
            ("a-[^a-z]*", "a-b", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*b*c", "xxaxxbxxbc", true),
            ("*a*b*c", "xxaxxbxxbcd", false),
            ("*", "", true),
            ("**", "x/y", true),
            ("*x", ".x", false),
            ("?x", ".x", false),
            ("[.]x", ".x", false),
            (".*", ".x", true),
            ("a*", "a.x", true),
            ("[]a]", "]", true),
            ("[]a]", "a", true),
            ("[!]a]", "b", true),
            ("[a-]", "-", true),
            ("[", "[", true),
            ("[a", "[a", true),
            ("[a", "a", false),
            ("a]", "a]", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("[\\]]", "]", true),
            ("[[:digit:]x]", "5", true),
            ("[[:digit:]x]", "x", true),
            ("[[:digit:]x]", "y", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }
}
