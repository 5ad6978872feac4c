//! `tanto bulk import PBULK.CONF`: pbulk's configuration becomes `bulk.toml`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use tanto_bulk::config::Config;

use super::files::failed;

/// Keys of both files, with the names that pbulk.conf has for them where those differ.
const TEXTS: [(&str, &str); 22] = [
    ("base_url", "base_url"),
    ("bootstrapkit", "bootstrapkit"),
    ("bulklog", "bulklog"),
    ("client_prepare_action", "client_prepare_action"),
    ("client_prepare_chroot", "client_prepare_chroot"),
    ("limited_list", "limited_list"),
    ("mail", "mail"),
    ("make", "make"),
    ("packages", "packages"),
    ("pkg_add", "pkg_add"),
    ("pkg_delete", "pkg_delete"),
    ("pkg_rsync_args", "pkg_rsync_args"),
    ("pkg_rsync_target", "pkg_rsync_target"),
    ("pkgdb", "pkgdb"),
    ("pkgsrc", "pkgsrc"),
    ("prefix", "prefix"),
    ("report_recipients", "report_recipient"),
    ("report_recipients", "report_recipients"),
    ("report_rsync_args", "report_rsync_args"),
    ("report_rsync_target", "report_rsync_target"),
    ("report_subject_prefix", "report_subject_prefix"),
    ("unprivileged_user", "unprivileged_user"),
];
/// The same, of keys that are `yes` or `no` there.
const FLAGS: [&str; 6] = [
    "ignore_missing_dependencies",
    "keep_prefix",
    "keep_wrkdir",
    "reuse_scan_results",
    "skip_age_check",
    "use_unprivileged_checksum",
];
/// What has no counterpart, and what to write in its place.
const OTHERS: [(&str, &str); 6] = [
    ("master_mode", "clients are processes of this machine: build_clients says how many"),
    ("scan_clients", "clients are processes of this machine: scan_clients says how many"),
    ("build_clients", "clients are processes of this machine: build_clients says how many"),
    ("sync_package", "as a function it cannot be taken over: sync_package is a line for the shell"),
    ("sync_buildlog", "as a function it cannot be taken over: sync_buildlog is a line for the shell"),
    ("cross_compile", "packages are not cross-compiled"),
];
/// All values together, in bytes.
const LONGEST: u64 = 1 << 20;
/// Prints each key that is set, or a function, with a NUL behind its value.
const ASK: &str = ". \"$0\" >&2 || exit; for key; do if eval \"[ \\\"\\${$key+set}\\\" ]\"; then \
                   eval \"printf '%s=%s\\\\0' $key \\\"\\$$key\\\"\"; \
                   elif [ \"$(command -v $key)\" = $key ]; then printf '%s=()\\0' $key; fi; done";

/// Writes `to`, which must not be there, with what pbulk's file says. Says what was taken over, and what could not be.
pub(super) fn import(from: &Path, to: &Path) -> Result<String, Vec<u8>> {
    let name = |path: &Path| path.as_os_str().as_encoded_bytes().to_vec();
    let values = values(from)?;
    let (text, mut told) = converted(&values);
    let dir = std::path::absolute(to).ok().and_then(|path| path.parent().map(Path::to_owned)).unwrap_or_default();
    if let Err(wrong) = Config::read(&text, &dir) {
        return Err([&name(from)[..], b": ", wrong.why.told().as_bytes()].concat());
    }
    let written = File::create_new(to).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            format!("{} is there already: move it away, or name another file with --config", to.display()).into_bytes()
        }
        _ => failed("writing ", &name(to), &error),
    })?;
    told += &format!("{}: written from {}\n", to.display(), from.display());
    Ok(told)
}

/// What the file sets. It is a script for the shell, and is run as one, with an empty environment.
fn values(from: &Path) -> Result<Vec<(String, String)>, Vec<u8>> {
    let wrong = |error| failed("reading ", from.as_os_str().as_encoded_bytes(), &error);
    let path = from.canonicalize().map_err(wrong)?;
    let mut shell = Command::new("/bin/sh");
    shell.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path))).args(["-c", ASK]).arg(&path);
    shell.args(TEXTS.iter().map(|(_, theirs)| *theirs).chain(FLAGS).chain(OTHERS.map(|(key, _)| key)));
    let mut child = shell.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(wrong)?;
    let mut said = Vec::new();
    child.stdout.take().map_or(Ok(0), |out| out.take(LONGEST).read_to_end(&mut said)).map_err(wrong)?;
    let status = child.wait().map_err(wrong)?;
    if !status.success() {
        return Err(format!("{} cannot be read as pbulk reads it, by /bin/sh: {status}", from.display()).into_bytes());
    }
    let said = String::from_utf8_lossy(&said);
    let each = said.split_terminator('\0').filter_map(|it| it.split_once('='));
    Ok(each.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
}

/// The text of `bulk.toml`, and what the user should know.
fn converted(values: &[(String, String)]) -> (String, String) {
    let value = |key: &str| values.iter().find(|(it, _)| it == key).map(|(_, value)| value.as_str());
    let mut lines: Vec<(&str, String)> = Vec::new();
    let mut told = String::new();
    for (ours, theirs) in TEXTS {
        match value(theirs).filter(|value| !value.is_empty()) {
            Some("()") => {
                told += &format!("not taken over: {theirs} (a function: write {ours} as a line for the shell)\n")
            }
            // What is a text here is one in JSON, too.
            Some(value) => lines.push((ours, serde_json::Value::from(value).to_string())),
            None => {}
        }
    }
    for key in FLAGS {
        lines.extend(value(key).map(|value| (key, (value == "yes").to_string())));
    }
    for (key, instead) in OTHERS {
        if value(key).is_some_and(|value| !value.is_empty()) {
            told += &format!("not taken over: {key} ({instead})\n");
        }
    }
    let replaced = |line: &str| {
        let key = line.split_once(" = ").map(|(key, _)| key);
        let found = lines.iter().find(|(it, _)| Some(*it) == key);
        found.map_or_else(|| format!("{line}\n"), |(key, value)| format!("{key} = {value}\n"))
    };
    (Config::default().text().lines().map(replaced).collect(), told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn what_pbulk_is_told_is_told_to_us() {
        let place = Scratch::new("bulk-pbulk-conf");
        place.write(
            "pbulk.conf",
            "echo noise\nmaster_mode=yes\nbase=/usr/pkg\nprefix=${base}\npkg_add=${base}/sbin/pkg_add\nkeep_wrkdir=yes\n\
             skip_age_check=no\nreport_recipient=\"a@b 'c'@d \\\"\"\nlimited_list=\nbuild_clients=\"one two\"\n\
             sync_package() { cp \"$1\" /; }\nclient_prepare_chroot() { :; }\nother=1\n",
        );
        let told = import(&place.at("pbulk.conf"), &place.at("bulk.toml")).unwrap();
        for key in ["master_mode", "build_clients", "sync_package", "client_prepare_chroot"] {
            assert!(told.contains(&format!("not taken over: {key} (")), "{told}");
        }
        let text = std::fs::read_to_string(place.at("bulk.toml")).unwrap();
        let config = Config::read(&text, &place.at("")).unwrap();
        assert_eq!((&*config.prefix, &*config.pkg_add), ("/usr/pkg", "/usr/pkg/sbin/pkg_add"));
        assert_eq!((config.keep_wrkdir, config.skip_age_check), (true, false));
        assert_eq!(config.report_recipients, "a@b 'c'@d \"");
        assert_eq!((&*config.limited_list, config.build_clients), ("", 0));
        let again = import(&place.at("pbulk.conf"), &place.at("bulk.toml")).unwrap_err();
        assert!(String::from_utf8_lossy(&again).contains("is there already: move it away"), "what is there stays");
        place.write("torn.conf", "prefix=\"/usr\n");
        assert!(import(&place.at("torn.conf"), &place.at("new.toml")).is_err());
        assert!(import(&place.at("none.conf"), &place.at("new.toml")).is_err() && !place.at("new.toml").exists());
    }
}
