//! Lists of directories to scan.

/// A malformed line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadList {
    /// The line number.
    pub line: usize,
    pub text: String,
}

/// Parses a limited list, without duplicates. `#` starts a comment.
pub(super) fn limited(text: &[u8]) -> Result<Vec<String>, BadList> {
    let mut locations = Vec::new();
    for (line, text) in (1..).zip(text.split(|&byte| byte == b'\n')) {
        let text = text.split(|&byte| byte == b'#').next().unwrap_or_default().trim_ascii();
        let text = String::from_utf8_lossy(text).into_owned();
        if text.is_empty() || locations.contains(&text) {
            continue;
        }
        if !is_location(&text) {
            return Err(BadList { line, text });
        }
        locations.push(text);
    }
    Ok(locations)
}

/// Whether this is a plain `category/directory`.
pub(super) fn is_location(text: &str) -> bool {
    text.split('/').count() == 2 && text.split('/').all(is_name)
}

fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+-._~,@=:".contains(&byte);
    !matches!(text, "" | "." | "..") && !text.starts_with('-') && text.bytes().all(plain)
}

/// Parses the output of `show-subdir-var`: the names, and a line with the makefiles.
pub(super) fn listed(output: &[u8]) -> Result<(Vec<String>, Vec<u8>), String> {
    let mut lines = output.split(|&byte| byte == b'\n');
    let (Some(names), Some(files)) = (lines.next(), lines.next()) else {
        return Err(String::from_utf8_lossy(output).into_owned());
    };
    let names: Vec<String> = String::from_utf8_lossy(names).split_whitespace().map(str::to_owned).collect();
    match names.iter().find(|name| !is_name(name)) {
        Some(bad) => Err(format!("SUBDIR contains {bad}, which is not a directory name")),
        None => Ok((names, files.to_vec())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_has_comments_and_no_duplicates() {
        let list = limited(b"# all\ndevel/gmake  # for others\n\ndevel/gmake\nlang/perl5\n").unwrap();
        assert_eq!(list, ["devel/gmake", "lang/perl5"]);
        for bad in ["devel", "/devel/x", "devel/../x", "a/b/c", "a/..", "a/b;c", "a/-b"] {
            assert_eq!(limited(format!("x/y\n{bad}").as_bytes()), Err(BadList { line: 2, text: bad.into() }));
        }
    }

    #[test]
    fn tree_output_is_parsed() {
        let (names, files) = listed(b"base  devel\n/usr/share/mk/sys.mk Makefile\n").unwrap();
        assert_eq!((names, &files[..]), (vec!["base".into(), "devel".into()], &b"/usr/share/mk/sys.mk Makefile"[..]));
        assert!(listed(b"../x\n\n").is_err() && listed(b"").is_err());
    }
}
