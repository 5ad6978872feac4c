//! The formats of package trees: what must be true of any input. Does not know how inputs are made.

use std::path::Path;

use tanto_bulk::name::Name;
use tanto_bulk::pattern::Pattern;
use tanto_bulk::records;
use tanto_bulk::resolve::resolve;

/// Records are all of the text, and of them each needs what is there, once, and nothing if something is missing.
pub(crate) fn scan(input: &[u8], _: &Path) {
    let records = match records::read(input) {
        Ok(records) => records,
        Err(bad) => return assert!(bad.line > 0 && bad.line <= 1 + input.iter().filter(|&&it| it == b'\n').count()),
    };
    assert_eq!(records.iter().map(|record| record.text).collect::<Vec<_>>().concat(), input);
    let resolution = resolve(&records, records.len());
    for (package, resolved) in resolution.packages() {
        assert!(resolved.wanted && (!resolved.broken || resolved.depends.is_empty()));
        assert_eq!(resolution.name(package).text(), records[package as usize].name);
        let mut depends = resolved.depends.clone();
        depends.sort_unstable();
        depends.dedup();
        assert_eq!(depends.len(), resolved.depends.len(), "a package is needed twice");
        assert!(depends.iter().all(|&needed| (needed as usize) < records.len()));
    }
}

/// A line is a pattern, the next one a name. What matches begins as the pattern says.
pub(crate) fn pattern(input: &[u8], _: &Path) {
    let end = input.iter().position(|&byte| byte == b'\n').unwrap_or(input.len());
    let (text, name) = (&input[..end], Name::new(input.get(end + 1..).unwrap_or_default()));
    let Ok(pattern) = Pattern::parse(text) else { return assert!(text.contains(&b'{')) };
    if pattern.matches(&name) {
        assert!(pattern.beginnings().any(|beginning| name.text().starts_with(beginning)));
    }
    let plain = !text.iter().any(|byte| b"{}<>*?[]".contains(byte));
    assert!(!plain || pattern.matches(&name) == (text == name.text()));
}
