//! Hides files of the template that not every user may read, such as passwords and keys: builds are root in a sandbox.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};

use tanto_sys::fs::dir_tree;

/// The directories searched for secrets, and their maximum depth: deeper levels of `/var` contain data.
const ETC: (&str, usize) = ("etc", usize::MAX);
const VAR: (&str, usize) = ("var", 4);
/// Hidden even if every user may read them.
const SECRET: [&str; 3] = ["etc/ssh", "etc/ssl/private", "etc/pki/tls/private"];
/// The ending of private keys.
const KEY: &str = ".key";
/// Files whose passwords are removed: `su` and `useradd` need the rest.
const PASSWORDS: [&str; 2] = ["etc/shadow", "etc/gshadow"];
/// The maximum number of searched entries. A system has some thousand.
const MAX_ENTRIES: usize = 200_000;

/// Replacements of secret files.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Masks {
    /// A directory whose `etc` and `var` contain the replacements, for a layer above the template.
    pub(super) layer: PathBuf,
    /// Paths of secret directories in a sandbox.
    pub(super) hidden: Vec<PathBuf>,
}

impl Masks {
    /// Searches the template for secrets, and writes their replacements into `layer`. `with_var`: sandboxes use the template's
    /// `/var`.
    pub(super) fn make(template: &Path, layer: &Path, with_var: bool) -> io::Result<Masks> {
        let mut masks = Masks { layer: layer.to_owned(), hidden: Vec::new() };
        masks.search(template, ETC)?;
        if with_var {
            masks.search(template, VAR)?;
        }
        masks.hidden.sort_unstable();
        Ok(masks)
    }

    fn search(&mut self, template: &Path, (top, levels): (&str, usize)) -> io::Result<()> {
        let mut open = vec![(PathBuf::from(top), 1)];
        let mut count = 0;
        while let Some((dir, level)) = open.pop() {
            // Directories that are unreadable here are also unreadable in a sandbox.
            for entry in fs::read_dir(template.join(&dir)).into_iter().flatten().flatten() {
                count += 1;
                if count > MAX_ENTRIES {
                    let why =
                        format!("/{top} has more than {MAX_ENTRIES} files: name a smaller system with sandbox_root");
                    return Err(io::Error::other(why));
                }
                let (inside, Ok(data)) = (dir.join(entry.file_name()), entry.metadata()) else { continue };
                match (data.is_dir(), is_secret(&inside, &data)) {
                    (true, true) => self.hidden.push(Path::new("/").join(inside)),
                    (true, false) if level < levels => open.push((inside, level + 1)),
                    (false, true) => self.replace(template, &inside, &data)?,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Writes the replacement of a secret file, and its parent directories.
    fn replace(&self, template: &Path, inside: &Path, data: &fs::Metadata) -> io::Result<()> {
        let mut ancestors: Vec<&Path> = inside.ancestors().skip(1).filter(|it| !it.as_os_str().is_empty()).collect();
        ancestors.reverse();
        for dir in ancestors {
            let own = self.layer.join(dir);
            if !own.is_dir() {
                fs::create_dir_all(&own)?;
                dir_tree::copy_mode(&template.join(dir), &own)?;
            }
        }
        let text = match PASSWORDS.iter().any(|it| inside == Path::new(it)) {
            true => fs::read(template.join(inside)).map(|text| without_passwords(&text)).unwrap_or_default(),
            false => Vec::new(),
        };
        let to = self.layer.join(inside);
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&to)?.write_all(&text)?;
        // Fails for ordinary users.
        let _ = lchown(&to, Some(data.uid()), Some(data.gid()));
        fs::set_permissions(&to, fs::Permissions::from_mode(data.mode() & 0o777))
    }
}

fn is_secret(inside: &Path, data: &fs::Metadata) -> bool {
    let is_named = || SECRET.iter().any(|it| inside == Path::new(it)) || inside.to_string_lossy().ends_with(KEY);
    match data.file_type() {
        kind if kind.is_dir() => data.mode() & 0o5 != 0o5 || is_named(),
        kind if kind.is_file() => data.mode() & 0o4 == 0 || is_named(),
        _ => false,
    }
}

/// Replaces passwords, the second field of each line, by `*`, which matches no password.
fn without_passwords(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in text.split(|&byte| byte == b'\n') {
        let mut fields = line.splitn(3, |&byte| byte == b':');
        if let (Some(name), Some(_), Some(rest)) = (fields.next(), fields.next(), fields.next()) {
            out.extend([name, b":*:", rest, b"\n"].concat());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn secrets_are_found_and_replaced() {
        let place = Scratch::new("sandbox-masks");
        let write = |file: &str, text: &str, mode| {
            place.write(&format!("root/{file}"), text);
            fs::set_permissions(place.at(&format!("root/{file}")), fs::Permissions::from_mode(mode)).unwrap();
        };
        write("etc/shadow", "root:$y$secret:19000:0:99999:7:::\nbroken\nbin::1:2:3:4:::\n", 0o640);
        write("etc/passwd", "root:x:0:0::/:/bin/sh\n", 0o644);
        write("etc/deep/er/token", "secret", 0o600);
        write("etc/deep/site.key", "secret", 0o644);
        write("etc/ssh/ssh_config", "public", 0o644);
        write("var/lib/db/x", "secret", 0o644);
        write("usr/x", "not searched", 0o600);
        fs::set_permissions(place.at("root/var/lib/db"), fs::Permissions::from_mode(0o700)).unwrap();
        let masks = Masks::make(&place.at("root"), &place.at("layer"), true).unwrap();
        assert_eq!(masks.hidden, ["/etc/ssh", "/var/lib/db"].map(PathBuf::from));
        let read = |file: &str| fs::read_to_string(place.at(&format!("layer/{file}"))).ok();
        assert_eq!(read("etc/shadow").as_deref(), Some("root:*:19000:0:99999:7:::\nbin:*:1:2:3:4:::\n"));
        assert_eq!(place.at("layer/etc/shadow").metadata().unwrap().mode() & 0o777, 0o640);
        assert_eq!(["etc/deep/er/token", "etc/deep/site.key"].map(read), [Some(String::new()), Some(String::new())]);
        assert_eq!(["etc/passwd", "var/lib/db/x", "usr/x"].map(read), [None, None, None]);
    }
}
