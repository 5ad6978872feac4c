//! Sets the jobserver in a value of `MAKEFLAGS`.
//!
//! The first word holds make's one-letter flags, unless it starts with a dash; the word `--` ends the flags, and
//! variables follow. A backslash keeps the next byte from ending a word.

/// Returns the flags with this number of slots and this jobserver instead of any other.
pub(super) fn naming(flags: &[u8], slots: usize, auth: &[u8]) -> Vec<u8> {
    let (flags, variables) = split_at_variables(flags);
    let mut text = Vec::new();
    let mut words = words(flags).peekable();
    while let Some(word) = words.next() {
        if is_about_jobs(word) {
            let counts = |next: &&[u8]| is_jobs_alone(word) && next.iter().all(u8::is_ascii_digit);
            words.next_if(counts);
            continue;
        }
        // One-letter flags are allowed only at the very beginning.
        if !(text.is_empty() && is_letters(word)) {
            text.push(b' ');
        }
        text.extend_from_slice(word);
    }
    text.extend_from_slice(format!(" -j{slots} --jobserver-auth=").as_bytes());
    text.extend_from_slice(auth);
    if !variables.is_empty() {
        text.push(b' ');
    }
    text.extend_from_slice(variables);
    text
}

/// Returns whether a word names a jobserver of any kind.
pub fn names_a_server(flags: &[u8]) -> bool {
    words(split_at_variables(flags).0).any(is_server)
}

fn is_server(word: &[u8]) -> bool {
    word.starts_with(b"--jobserver-auth=") || word.starts_with(b"--jobserver-fds=")
}

fn is_about_jobs(word: &[u8]) -> bool {
    let count = word.strip_prefix(b"-j").or_else(|| word.strip_prefix(b"--jobs="));
    is_server(word) || is_jobs_alone(word) || count.is_some_and(|count| count.iter().all(u8::is_ascii_digit))
}

/// The number may be the next word.
fn is_jobs_alone(word: &[u8]) -> bool {
    matches!(word, b"-j" | b"--jobs")
}

fn is_letters(word: &[u8]) -> bool {
    !word.starts_with(b"-") && !word.contains(&b'=')
}

/// Splits before the word `--`.
fn split_at_variables(flags: &[u8]) -> (&[u8], &[u8]) {
    let offset = |word: &[u8]| word.as_ptr() as usize - flags.as_ptr() as usize;
    flags.split_at(words(flags).find(|word| *word == b"--").map_or(flags.len(), offset))
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let blanks = rest.iter().take_while(|byte| is_blank(**byte)).count();
        rest = &rest[blanks..];
        let mut escaped = false;
        let ends = |byte: &u8| {
            let ends = !escaped && is_blank(*byte);
            escaped = !escaped && *byte == b'\\';
            ends
        };
        let length = rest.iter().position(ends).unwrap_or(rest.len());
        let (word, after) = rest.split_at(length);
        rest = after;
        Some(word).filter(|word| !word.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(flags: &str) -> String {
        String::from_utf8(naming(flags.as_bytes(), 4, b"50,51")).unwrap()
    }

    #[test]
    fn other_makeflags_are_kept() {
        let table = [
            ("", " -j4 --jobserver-auth=50,51"),
            (" ", " -j4 --jobserver-auth=50,51"),
            ("ks", "ks -j4 --jobserver-auth=50,51"),
            ("-k", " -k -j4 --jobserver-auth=50,51"),
            (" --no-print-directory", " --no-print-directory -j4 --jobserver-auth=50,51"),
            ("A=b", " A=b -j4 --jobserver-auth=50,51"),
            ("k -- A=b", "k -j4 --jobserver-auth=50,51 -- A=b"),
            (" -- A=b\\ --\\ -j8", " -j4 --jobserver-auth=50,51 -- A=b\\ --\\ -j8"),
            ("-- A=b  C", " -j4 --jobserver-auth=50,51 -- A=b  C"),
            ("A=b\\ -j8\\\\ -j8", " A=b\\ -j8\\\\ -j4 --jobserver-auth=50,51"),
        ];
        for (flags, expected) in table {
            assert_eq!(named(flags), expected, "{flags}");
        }
    }

    #[test]
    fn job_counts_and_other_servers_are_replaced() {
        let plain = named("");
        for flags in [
            "-j",
            "-j8",
            "-j 8",
            "--jobs",
            "--jobs=8",
            "--jobs 8",
            "-j8 --jobserver-auth=3,4",
            "--jobserver-fds=3,4 -j",
            " -j2 --jobserver-auth=fifo:/x -j",
        ] {
            assert_eq!(named(flags), plain, "{flags}");
        }
        assert_eq!(named("s -j -k"), "s -k -j4 --jobserver-auth=50,51");
        assert_eq!(named("-jx"), " -jx -j4 --jobserver-auth=50,51");
    }

    #[test]
    fn a_server_is_found_among_flags_only() {
        assert!(names_a_server(b" -j2 --jobserver-auth=3,4"));
        assert!(names_a_server(b"--jobserver-fds=-2,-2 -- A=b"));
        assert!(!names_a_server(b" -j2 -- A=--jobserver-auth=3,4 --jobserver-auth=3,4"));
        assert!(!names_a_server(b""));
    }
}
