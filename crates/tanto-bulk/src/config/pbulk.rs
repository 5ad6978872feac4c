//! Converts pbulk's configuration, `pbulk.conf`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::Config;
use super::write::quoted;
use crate::error::BulkError;

/// Our keys with the names in pbulk.conf.
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
/// Keys that are `yes` or `no` in pbulk.conf.
const FLAGS: [&str; 6] = [
    "ignore_missing_dependencies",
    "keep_prefix",
    "keep_wrkdir",
    "reuse_scan_results",
    "skip_age_check",
    "use_unprivileged_checksum",
];
/// Keys without a counterpart, and the replacement.
const OTHERS: [(&str, &str); 6] = [
    ("master_mode", "clients are processes of this machine: build_clients says how many"),
    ("scan_clients", "clients are processes of this machine: scan_clients says how many"),
    ("build_clients", "clients are processes of this machine: build_clients says how many"),
    ("sync_package", "functions are not converted: sync_package is a shell command"),
    ("sync_buildlog", "functions are not converted: sync_buildlog is a shell command"),
    ("cross_compile", "packages are not cross-compiled"),
];
/// The limit of all values together, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Prints each key that is set or a function, with a NUL after its value.
const ASK: &str = ". \"$0\" >&2 || exit; for key; do if eval \"[ \\\"\\${$key+set}\\\" ]\"; then \
                   eval \"printf '%s=%s\\\\0' $key \\\"\\$$key\\\"\"; \
                   elif [ \"$(command -v $key)\" = $key ]; then printf '%s=()\\0' $key; fi; done";

/// Writes a new configuration from pbulk's. Returns a message that lists keys that were not converted.
pub fn import(from: &Path, to: &Path) -> Result<String, BulkError> {
    let (text, mut message) = converted(&values(from)?);
    let dir = std::path::absolute(to).ok().and_then(|path| path.parent().map(Path::to_owned)).unwrap_or_default();
    Config::read(&text, &dir).map_err(|error| format!("{}: {}", from.display(), error.problem))?;
    let written = File::create_new(to).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            format!("{} exists: move it away, or name another file with --config", to.display()).into()
        }
        _ => BulkError::io("writing ", to)(error),
    })?;
    message += &format!("{}: written from {}\n", to.display(), from.display());
    Ok(message)
}

/// Reads the settings of the file, a shell script, by running it with an empty environment.
fn values(from: &Path) -> Result<Vec<(String, String)>, BulkError> {
    let failed = |error| BulkError::io("reading ", from)(error);
    let path = from.canonicalize().map_err(failed)?;
    let mut shell = Command::new("/bin/sh");
    shell.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path))).args(["-c", ASK]).arg(&path);
    shell.args(TEXTS.iter().map(|(_, theirs)| *theirs).chain(FLAGS).chain(OTHERS.map(|(key, _)| key)));
    let mut child = shell.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut output = Vec::new();
    child.stdout.take().map_or(Ok(0), |out| out.take(MAX_BYTES).read_to_end(&mut output)).map_err(failed)?;
    let status = child.wait().map_err(failed)?;
    if !status.success() {
        return Err(format!("{}: /bin/sh cannot read it: {status}", from.display()).into());
    }
    let output = String::from_utf8_lossy(&output);
    let pairs = output.split_terminator('\0').filter_map(|it| it.split_once('='));
    Ok(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
}

/// Returns the text of `bulk.toml`, and a message about keys that were not converted.
fn converted(values: &[(String, String)]) -> (String, String) {
    let value = |key: &str| values.iter().find(|(it, _)| it == key).map(|(_, value)| value.as_str());
    let mut lines: Vec<(&str, String)> = Vec::new();
    let mut message = String::new();
    for (ours, theirs) in TEXTS {
        match value(theirs).filter(|value| !value.is_empty()) {
            Some("()") => {
                message += &format!("not converted: {theirs} (a function: write {ours} as a shell command)\n")
            }
            Some(value) => lines.push((ours, quoted(value))),
            None => {}
        }
    }
    for key in FLAGS {
        lines.extend(value(key).map(|value| (key, (value == "yes").to_string())));
    }
    for (key, replacement) in OTHERS {
        if value(key).is_some_and(|value| !value.is_empty()) {
            message += &format!("not converted: {key} ({replacement})\n");
        }
    }
    let replaced = |line: &str| {
        let key = line.split_once(" = ").map(|(key, _)| key);
        let found = lines.iter().find(|(it, _)| Some(*it) == key);
        found.map_or_else(|| format!("{line}\n"), |(key, value)| format!("{key} = {value}\n"))
    };
    (Config::default().text().lines().map(replaced).collect(), message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn pbulk_conf_is_converted() {
        let place = Scratch::new("bulk-pbulk-conf");
        place.write(
            "pbulk.conf",
            "echo noise\nmaster_mode=yes\nbase=/usr/pkg\nprefix=${base}\npkg_add=${base}/sbin/pkg_add\nkeep_wrkdir=yes\n\
             skip_age_check=no\nreport_recipient=\"a@b 'c'@d \\\"\"\nlimited_list=\nbuild_clients=\"one two\"\n\
             sync_package() { cp \"$1\" /; }\nclient_prepare_chroot() { :; }\nother=1\n",
        );
        let message = import(&place.at("pbulk.conf"), &place.at("bulk.toml")).unwrap();
        for key in ["master_mode", "build_clients", "sync_package", "client_prepare_chroot"] {
            assert!(message.contains(&format!("not converted: {key} (")), "{message}");
        }
        let text = std::fs::read_to_string(place.at("bulk.toml")).unwrap();
        let config = Config::read(&text, &place.at("")).unwrap();
        assert_eq!((&*config.prefix, &*config.pkg_add), ("/usr/pkg", "/usr/pkg/sbin/pkg_add"));
        assert_eq!((config.keep_wrkdir, config.skip_age_check), (true, false));
        assert_eq!(config.report_recipients, "a@b 'c'@d \"");
        assert_eq!((&*config.limited_list, config.build_clients), ("", 0));
        let again = import(&place.at("pbulk.conf"), &place.at("bulk.toml")).unwrap_err();
        assert!(again.to_string().contains("exists: move it away"), "not overwritten");
        place.write("torn.conf", "prefix=\"/usr\n");
        assert!(import(&place.at("torn.conf"), &place.at("new.toml")).is_err());
        assert!(import(&place.at("none.conf"), &place.at("new.toml")).is_err() && !place.at("new.toml").exists());
    }
}
