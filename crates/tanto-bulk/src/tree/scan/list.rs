//! Which directories there are to scan: a list of them, or what a tree's makefiles name. Does not know what is in them.

/// A line that names no directory of packages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadList {
    /// Which, from 1 on.
    pub line: usize,
    /// What stands there.
    pub text: String,
}

/// The lines of a limited list, each once. `#` begins a comment.
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

/// Whether this is `category/directory`, and leads nowhere else.
pub(super) fn is_location(text: &str) -> bool {
    text.split('/').count() == 2 && text.split('/').all(is_name)
}

fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+-._~,@=:".contains(&byte);
    !matches!(text, "" | "." | "..") && !text.starts_with('-') && text.bytes().all(plain)
}

/// What `show-subdir-var` has printed: the names, and in a line of its own which makefiles were read.
pub(super) fn listed(output: &[u8]) -> Result<(Vec<String>, Vec<u8>), String> {
    let mut lines = output.split(|&byte| byte == b'\n');
    let (Some(names), Some(files)) = (lines.next(), lines.next()) else {
        return Err(String::from_utf8_lossy(output).into_owned());
    };
    let names: Vec<String> = String::from_utf8_lossy(names).split_whitespace().map(str::to_owned).collect();
    match names.iter().find(|name| !is_name(name)) {
        Some(bad) => Err(format!("SUBDIR has {bad}, which is no name of a directory")),
        None => Ok((names, files.to_vec())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_comments_and_names_each_directory_once() {
        let list = limited(b"# all\ndevel/gmake  # for others\n\ndevel/gmake\nlang/perl5\n").unwrap();
        assert_eq!(list, ["devel/gmake", "lang/perl5"]);
        for bad in ["devel", "/devel/x", "devel/../x", "a/b/c", "a/..", "a/b;c", "a/-b"] {
            assert_eq!(limited(format!("x/y\n{bad}").as_bytes()), Err(BadList { line: 2, text: bad.into() }));
        }
    }

    #[test]
    fn a_tree_names_what_is_in_it() {
        let (names, files) = listed(b"base  devel\n/usr/share/mk/sys.mk Makefile\n").unwrap();
        assert_eq!((names, &files[..]), (vec!["base".into(), "devel".into()], &b"/usr/share/mk/sys.mk Makefile"[..]));
        assert!(listed(b"../x\n\n").is_err() && listed(b"").is_err());
    }
}
