//! Entries of `pkg_summary`, as `pkg_info -X` prints them.

use crate::package::archive::Metadata;
use crate::package::archive::plist::{Entry, Word};

/// Variables of +BUILD_INFO in an entry.
const BUILD_INFO: [&[u8]; 14] = [
    b"PKGPATH",
    b"CATEGORIES",
    b"PROVIDES",
    b"REQUIRES",
    b"PKG_OPTIONS",
    b"OPSYS",
    b"OS_VERSION",
    b"MACHINE_ARCH",
    b"LICENSE",
    b"HOMEPAGE",
    b"PKGTOOLS_VERSION",
    b"BUILD_DATE",
    b"PREV_PKGPATH",
    b"SUPERSEDES",
];

/// Formats the entry of a package file, with an empty line at the end.
pub fn entry(metadata: &Metadata, file: &str, bytes: u64) -> Vec<u8> {
    let mut text = Vec::new();
    for entry in metadata.contents().entries() {
        match entry {
            Entry::Word(Word::Name, value) => line(&mut text, b"PKGNAME", value),
            Entry::Word(Word::Depends, value) => line(&mut text, b"DEPENDS", value),
            Entry::Word(Word::Conflicts, value) => line(&mut text, b"CONFLICTS", value),
            _ => {}
        }
    }
    lines(&mut text, b"COMMENT", metadata.get("+COMMENT"));
    lines(&mut text, b"SIZE_PKG", metadata.get("+SIZE_PKG"));
    let is_told = |line: &&[u8]| {
        let name = line.split(|&byte| byte == b'=').next().unwrap_or_default();
        name.len() < line.len() && BUILD_INFO.contains(&name)
    };
    let build_info = metadata.get("+BUILD_INFO").unwrap_or_default();
    for line in build_info.split(|&byte| byte == b'\n').filter(is_told) {
        text.extend_from_slice(line);
        text.push(b'\n');
    }
    line(&mut text, b"FILE_NAME", file.as_bytes());
    line(&mut text, b"FILE_SIZE", bytes.to_string().as_bytes());
    lines(&mut text, b"DESCRIPTION", metadata.get("+DESC"));
    text.push(b'\n');
    text
}

fn line(text: &mut Vec<u8>, variable: &[u8], value: &[u8]) {
    [variable, b"=", value, b"\n"].into_iter().for_each(|part| text.extend_from_slice(part));
}

/// A line for each line of a member, even without a newline at the end.
fn lines(text: &mut Vec<u8>, variable: &[u8], value: Option<&[u8]>) {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return };
    let whole = value.strip_suffix(b"\n").unwrap_or(value);
    whole.split(|&byte| byte == b'\n').for_each(|value| line(text, variable, value));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::archive::Package;
    use crate::package::archive::tests::tar;

    /// Compares with the `pkg_info` of TANTO_PKG_INFO for the packages in TANTO_PACKAGES.
    #[test]
    fn real_packages_match_pkg_info() {
        let (Some(packages), Some(pkg_info)) = (std::env::var_os("TANTO_PACKAGES"), std::env::var_os("TANTO_PKG_INFO"))
        else {
            println!("skipped: TANTO_PACKAGES and TANTO_PKG_INFO name no packages and no pkg_info");
            return;
        };
        let files = std::fs::read_dir(packages).unwrap().map(|entry| entry.unwrap().path());
        for file in files.filter(|path| path.extension().is_some_and(|it| it == "tgz")) {
            let theirs = std::process::Command::new(&pkg_info).arg("-X").arg(&file).output().unwrap();
            let (bytes, name) = (file.metadata().unwrap().len(), file.file_name().unwrap().to_str().unwrap());
            let ours = entry(&Metadata::of(&file).unwrap(), name, bytes);
            assert_eq!(String::from_utf8_lossy(&ours), String::from_utf8_lossy(&theirs.stdout), "{}", file.display());
            println!("{name}: the same");
        }
    }

    #[test]
    fn entry_matches_pkg_info() {
        let package = tar(&[
            (
                "+CONTENTS",
                b"@name lib-1\n@comment x\n@pkgcfl old-[0-9]*\n@pkgdep zlib>=1.2\n@blddep zlib-1.3\n@cwd /pkg\nlib/a\n",
            ),
            ("+COMMENT", b"A library\n"),
            ("+DESC", b"First line\n\nlast line without an end"),
            ("+BUILD_INFO", b"OPSYS=Linux\nCC=gcc\nPKGPATH=devel/lib\nPKGPATHS=no\nLICENSE= mit\nCATEGORIES\n"),
            ("+SIZE_PKG", b"1234\n"),
            ("lib/a", b""),
        ]);
        let package = Package::read(&package[..]).unwrap();
        let text = entry(package.metadata(), "lib-1.tgz", 77);
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "PKGNAME=lib-1\nCONFLICTS=old-[0-9]*\nDEPENDS=zlib>=1.2\nCOMMENT=A library\nSIZE_PKG=1234\nOPSYS=Linux\n\
             PKGPATH=devel/lib\nLICENSE= mit\nFILE_NAME=lib-1.tgz\nFILE_SIZE=77\nDESCRIPTION=First line\nDESCRIPTION=\n\
             DESCRIPTION=last line without an end\n\n"
        );
    }
}
