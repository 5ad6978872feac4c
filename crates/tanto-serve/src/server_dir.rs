//! The server's directory before the server starts: its authority and certificate, its builds, and its lock.

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use tanto_protocol::is_client_name;
use tanto_sys::fs::{lock, private_files};

use crate::authority::{Authorities, AuthorityError};
use crate::files::replace_private;

/// The certificate is replaced when it is older.
const RENEWAL: Duration = Duration::from_secs(30 * 24 * 3_600);
/// The directory of the authority in a build's state directory.
pub const AUTHORITY: &str = "ca";
/// In the directory `tls`: the certificates that clients have to trust, the server's key and certificate, and its names.
const TRUSTED: &str = "authority.pem";
const LEAF: &str = "leaf.pem";
const NAMES: &str = "names";

#[derive(Debug, thiserror::Error)]
pub enum ServerDirError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error("'{0}' is no name of a build")]
    Name(String),
    #[error("{} has a build '{name}' with the state directory {} already; set another build_name", dir.display(), state.display())]
    Taken { dir: PathBuf, name: String, state: PathBuf },
    #[error("{} is old, and the authority that has signed it is in no state directory of {}", .0.join("tls/leaf.pem").display(), .0.join("builds").display())]
    NoAuthority(PathBuf),
    #[error("another server uses {}", .0.display())]
    Locked(PathBuf),
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> ServerDirError {
    let path = path.to_owned();
    move |source| ServerDirError::File { path, source }
}

/// A build that is to be served.
#[derive(Clone, Debug)]
pub struct ServedBuild<'a> {
    pub name: &'a str,
    /// The state directory of its coordinator.
    pub state: &'a Path,
    /// The authority that signs the server's certificate, if no other build's has. The server does not read it.
    pub authority: &'a Path,
    /// Host names and addresses of the server.
    pub hosts: &'a [String],
}

/// Prepares the directory for a build, while a server runs or not: creates it, issues the certificate if there is none, if
/// it is old or has other names, and adds the build.
pub fn prepare(dir: &Path, build: &ServedBuild<'_>) -> Result<(), ServerDirError> {
    if !is_client_name(build.name) {
        return Err(ServerDirError::Name(build.name.to_owned()));
    }
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent).map_err(failed(parent))?;
    }
    for dir in [dir, &dir.join("builds"), &dir.join("tls")] {
        private_files::create_dir(dir).map_err(failed(dir))?;
    }
    renew_for(dir, build)?;
    add_build(dir, build)
}

/// Replaces the certificate if that is necessary, unless that of another build is used.
fn renew_for(dir: &Path, build: &ServedBuild<'_>) -> Result<(), ServerDirError> {
    let tls = dir.join("tls");
    let _guard = lock_certificate(&tls)?;
    let now = SystemTime::now();
    let authorities = Authorities::open(build.authority, now)?;
    // The authority of a directory that several builds share is that of the first one: clients trust no other.
    match read(&tls.join(TRUSTED))? {
        Some(trusted) if !authorities.are_in(&trusted) => Ok(()),
        _ => renew(&tls, &authorities.advance(now)?, build.hosts, now),
    }
}

/// Replaces the certificate if it is old, with the authority that has signed it, and changes that if it ends soon. A running
/// server notices.
pub fn renew_old(dir: &Path) -> Result<(), ServerDirError> {
    let tls = dir.join("tls");
    let _guard = lock_certificate(&tls)?;
    let (Some(trusted), Some(names)) = (read(&tls.join(TRUSTED))?, read(&tls.join(NAMES))?) else { return Ok(()) };
    let (builds, now) = (dir.join("builds"), SystemTime::now());
    for entry in fs::read_dir(&builds).map_err(failed(&builds))? {
        let authority = entry.map_err(failed(&builds))?.path().join(AUTHORITY);
        if let Ok(Some(authorities)) = Authorities::read(&authority)
            && authorities.are_in(&trusted)
        {
            let names: Vec<String> = names.lines().map(str::to_owned).collect();
            return renew(&tls, &authorities.advance(now)?, &names, now);
        }
    }
    if is_fresh(&tls.join(LEAF), now) { Ok(()) } else { Err(ServerDirError::NoAuthority(dir.to_owned())) }
}

/// Replaces the certificate if it is old, or if its names or its authorities change.
fn renew(tls: &Path, authorities: &Authorities, hosts: &[String], now: SystemTime) -> Result<(), ServerDirError> {
    let (trusted, names) = (authorities.trusted(), hosts.join("\n"));
    let (trusted_path, names_path, leaf) = (tls.join(TRUSTED), tls.join(NAMES), tls.join(LEAF));
    if read(&trusted_path)? == Some(trusted.clone())
        && read(&names_path)? == Some(names.clone())
        && is_fresh(&leaf, now)
    {
        return Ok(());
    }
    authorities.issue_leaf(hosts, &leaf, now)?;
    replace_private(&names_path, names.as_bytes()).map_err(failed(&names_path))?;
    replace_private(&trusted_path, trusted.as_bytes()).map_err(failed(&trusted_path))
}

/// Nobody else replaces the certificate until the file is closed.
fn lock_certificate(tls: &Path) -> Result<File, ServerDirError> {
    let path = tls.join("renewal.lock");
    let guard = lock::open_lock_file(&path).map_err(failed(&path))?;
    lock::lock_exclusive(&guard, Duration::MAX, || ()).map_err(failed(&path))?;
    Ok(guard)
}

/// Returns the certificates of the authorities that clients have to trust, as PEM.
pub fn trusted_authorities(dir: &Path) -> Result<String, ServerDirError> {
    let path = dir.join("tls").join(TRUSTED);
    fs::read_to_string(&path).map_err(failed(&path))
}

fn read(path: &Path) -> Result<Option<String>, ServerDirError> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        text => text.map(Some).map_err(failed(path)),
    }
}

/// A time in the future counts as fresh.
fn is_fresh(leaf: &Path, now: SystemTime) -> bool {
    let modified = fs::metadata(leaf).and_then(|data| data.modified());
    modified.is_ok_and(|time| now.duration_since(time).is_ok_and(|age| age < RENEWAL))
}

/// Makes the build's entry a link to its state directory.
fn add_build(dir: &Path, build: &ServedBuild<'_>) -> Result<(), ServerDirError> {
    let entry = dir.join("builds").join(build.name);
    match fs::read_link(&entry) {
        Ok(state) if state == build.state => return Ok(()),
        Ok(state) if state.exists() => {
            return Err(ServerDirError::Taken { dir: dir.to_owned(), name: build.name.to_owned(), state });
        }
        Ok(_) => fs::remove_file(&entry).map_err(failed(&entry))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(&entry)(error)),
    }
    std::os::unix::fs::symlink(build.state, &entry).map_err(failed(&entry))
}

/// The lock of a server, as long as it runs. Its file has the address once clients can connect.
pub struct ServerLock(File);

impl ServerLock {
    /// Locks the directory.
    pub fn take(dir: &Path) -> Result<ServerLock, ServerDirError> {
        let path = dir.join(LOCK);
        let file = lock::open_lock_file(&path).map_err(failed(&path))?;
        let begun = Instant::now();
        while !lock::try_lock_exclusive(&file).map_err(failed(&path))? {
            // `server_state` holds it for a moment.
            if begun.elapsed() > PATIENCE {
                return Err(ServerDirError::Locked(dir.to_owned()));
            }
            thread::sleep(Duration::from_millis(5));
        }
        file.set_len(0).map_err(failed(&path))?;
        Ok(ServerLock(file))
    }

    /// Announces that clients can connect to this address.
    pub fn announce(&self, address: SocketAddr) -> io::Result<()> {
        self.0.write_all_at(format!("{address}\n").as_bytes(), 0)
    }
}

const LOCK: &str = "lock";
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether a server uses a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerState {
    Stopped,
    Starting,
    Listening(SocketAddr),
}

/// Returns whether a server uses the directory.
pub fn server_state(dir: &Path) -> Result<ServerState, ServerDirError> {
    let path = dir.join(LOCK);
    let file = lock::open_lock_file(&path).map_err(failed(&path))?;
    if lock::try_lock_exclusive(&file).map_err(failed(&path))? {
        return Ok(ServerState::Stopped);
    }
    let mut text = [0; 64];
    let length = file.read_at(&mut text, 0).map_err(failed(&path))?;
    let text = std::str::from_utf8(&text[..length]).unwrap_or_default();
    let address = text.strip_suffix('\n').and_then(|text| text.parse().ok());
    Ok(address.map_or(ServerState::Starting, ServerState::Listening))
}

/// Returns the URL of a server for clients. `url`: as configured; empty: from the address or, if it is that of all
/// interfaces, the host name.
pub fn url(url: &str, listen: SocketAddr, host: &str) -> String {
    let host_of = |ip: IpAddr| match ip {
        ip if ip.is_unspecified() => host.to_owned(),
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    match url {
        "" => format!("https://{}:{}", host_of(listen.ip()), listen.port()),
        url => url.trim_end_matches('/').to_owned(),
    }
}

/// Returns the names of a server's certificate: those of the URL and of the machine.
pub fn certificate_names(url: &str, listen: SocketAddr, host: &str) -> Vec<String> {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest).split('/').next().unwrap_or_default();
    let of_url = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((ip, _)) => ip,
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    let mut names = vec![of_url.to_owned(), host.to_owned(), "localhost".into(), "127.0.0.1".into(), "::1".into()];
    if !listen.ip().is_unspecified() {
        names.push(listen.ip().to_string());
    }
    names.retain(|name| !name.is_empty());
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    fn build<'a>(name: &'a str, state: &'a Path, authority: &'a Path, hosts: &'a [String]) -> ServedBuild<'a> {
        ServedBuild { name, state, authority, hosts }
    }

    #[test]
    fn a_directory_is_prepared_once() {
        let place = Scratch::new("server-dir");
        let (dir, state) = (place.at("serve"), place.at("state"));
        fs::create_dir_all(&state).unwrap();
        let (authority, hosts) = (state.join("ca"), ["localhost".to_owned()]);
        prepare(&dir, &build("a", &state, &authority, &hosts)).unwrap();
        let leaf = || fs::read_to_string(dir.join("tls/leaf.pem")).unwrap();
        let first = leaf();
        prepare(&dir, &build("a", &state, &authority, &hosts)).unwrap();
        assert_eq!(leaf(), first, "it is fresh");
        assert_eq!(fs::read_link(dir.join("builds/a")).unwrap(), state);
        prepare(&dir, &build("a", &state, &authority, &["other".to_owned()])).unwrap();
        assert_ne!(leaf(), first, "it has other names");
        let authorities = Authorities::read(&authority).unwrap().unwrap();
        assert_eq!(trusted_authorities(&dir).unwrap(), authorities.trusted());
    }

    #[test]
    fn an_old_certificate_is_replaced() {
        let place = Scratch::new("server-dir-old");
        let (dir, state) = (place.at("serve"), place.at("state"));
        fs::create_dir_all(&state).unwrap();
        let (authority, hosts) = (state.join("ca"), ["localhost".to_owned()]);
        prepare(&dir, &build("a", &state, &authority, &hosts)).unwrap();
        let leaf = dir.join("tls/leaf.pem");
        let first = fs::read_to_string(&leaf).unwrap();
        File::options().append(true).open(&leaf).unwrap().set_modified(SystemTime::now() - RENEWAL).unwrap();
        prepare(&dir, &build("a", &state, &authority, &hosts)).unwrap();
        assert_ne!(fs::read_to_string(&leaf).unwrap(), first);
    }

    #[test]
    fn an_old_certificate_is_renewed_by_the_authority_that_has_signed_it() {
        let place = Scratch::new("server-dir-renewal");
        let dir = place.at("serve");
        let (one, two) = (place.at("one"), place.at("two"));
        let hosts = ["localhost".to_owned(), "other".to_owned()];
        for (name, state) in [("one", &one), ("two", &two)] {
            fs::create_dir_all(state).unwrap();
            prepare(&dir, &build(name, state, &state.join(AUTHORITY), &hosts)).unwrap();
        }
        let leaf = dir.join("tls/leaf.pem");
        let read = || fs::read_to_string(&leaf).unwrap();
        let age =
            || File::options().append(true).open(&leaf).unwrap().set_modified(SystemTime::now() - RENEWAL).unwrap();
        let first = read();
        renew_old(&dir).unwrap();
        assert_eq!(read(), first, "it is fresh");
        age();
        renew_old(&dir).unwrap();
        let second = read();
        assert_ne!(second, first);
        prepare(&dir, &build("one", &one, &one.join(AUTHORITY), &hosts)).unwrap();
        assert_eq!(read(), second, "it has the same names and authority");
        age();
        fs::remove_dir_all(&one).unwrap();
        let error = renew_old(&dir).unwrap_err();
        assert!(matches!(error, ServerDirError::NoAuthority(_)), "{error}");
        assert_eq!(read(), second);
    }

    #[test]
    fn several_builds_share_a_directory_and_its_authority() {
        let place = Scratch::new("server-dir-shared");
        let dir = place.at("serve");
        let (one, two) = (place.at("one"), place.at("two"));
        for state in [&one, &two] {
            fs::create_dir_all(state).unwrap();
        }
        let hosts = ["localhost".to_owned()];
        prepare(&dir, &build("one", &one, &one.join("ca"), &hosts)).unwrap();
        let certificate = trusted_authorities(&dir).unwrap();
        prepare(&dir, &build("two", &two, &two.join("ca"), &hosts)).unwrap();
        assert_eq!(trusted_authorities(&dir).unwrap(), certificate);
        let taken = prepare(&dir, &build("one", &two, &two.join("ca"), &hosts));
        assert!(matches!(taken, Err(ServerDirError::Taken { .. })), "{taken:?}");
        fs::remove_dir_all(&one).unwrap();
        prepare(&dir, &build("one", &two, &two.join("ca"), &hosts)).unwrap();
        assert!(matches!(prepare(&dir, &build("../x", &two, &two, &hosts)), Err(ServerDirError::Name(_))));
    }

    #[test]
    fn next_authority_is_published_before_it_signs() {
        let place = Scratch::new("server-dir-succession");
        let dir = place.at("serve");
        let (one, two) = (place.at("one"), place.at("two"));
        let hosts = ["localhost".to_owned()];
        let days_ago = |days: u32| SystemTime::now() - Duration::from_secs(24 * 3_600) * days;
        let at = |state: &Path| Authorities::read(&state.join(AUTHORITY)).unwrap().unwrap();
        for state in [&one, &two] {
            fs::create_dir_all(state).unwrap();
        }
        Authorities::open(&one.join(AUTHORITY), days_ago(3_560)).unwrap();
        prepare(&dir, &build("one", &one, &one.join(AUTHORITY), &hosts)).unwrap();
        prepare(&dir, &build("two", &two, &two.join(AUTHORITY), &hosts)).unwrap();
        let both = trusted_authorities(&dir).unwrap();
        assert_eq!(both.matches("BEGIN CERTIFICATE").count(), 2);
        assert!(both == at(&one).trusted() && !at(&two).are_in(&both));
        let leaf = || fs::read_to_string(dir.join("tls/leaf.pem")).unwrap();
        let first = leaf();
        renew_old(&dir).unwrap();
        assert_eq!((leaf(), trusted_authorities(&dir).unwrap()), (first.clone(), both), "it is not time yet");

        // As if it had been announced for longer.
        fs::remove_dir_all(one.join(AUTHORITY)).unwrap();
        let old = Authorities::open(&one.join(AUTHORITY), days_ago(3_600)).unwrap().advance(days_ago(40)).unwrap();
        fs::write(dir.join("tls/authority.pem"), old.trusted()).unwrap();
        renew_old(&dir).unwrap();
        let second = trusted_authorities(&dir).unwrap();
        assert!(old.trusted().ends_with(&second) && old.trusted() != second && leaf() != first);
        prepare(&dir, &build("one", &one, &one.join(AUTHORITY), &hosts)).unwrap();
        assert_eq!(trusted_authorities(&dir).unwrap(), second);
    }

    #[test]
    fn one_server_has_the_lock() {
        let place = Scratch::new("server-dir-lock");
        assert_eq!(server_state(place.path()).unwrap(), ServerState::Stopped);
        let held = ServerLock::take(place.path()).unwrap();
        assert!(matches!(ServerLock::take(place.path()), Err(ServerDirError::Locked(_))));
        assert_eq!(server_state(place.path()).unwrap(), ServerState::Starting);
        let address = "[::1]:8443".parse().unwrap();
        held.announce(address).unwrap();
        assert_eq!(server_state(place.path()).unwrap(), ServerState::Listening(address));
        drop(held);
        assert_eq!(server_state(place.path()).unwrap(), ServerState::Stopped);
    }

    #[test]
    fn urls_and_names_follow_from_the_address() {
        let all = "0.0.0.0:8443".parse().unwrap();
        assert_eq!(url("", all, "master"), "https://master:8443");
        assert_eq!(url("", "10.0.0.1:80".parse().unwrap(), "master"), "https://10.0.0.1:80");
        assert_eq!(url("", "[fe80::1]:80".parse().unwrap(), "master"), "https://[fe80::1]:80");
        assert_eq!(url("https://build.example.org/", all, "master"), "https://build.example.org");
        let names = |url, listen: &str| certificate_names(url, listen.parse().unwrap(), "master").join(" ");
        assert_eq!(names("https://master:8443", "0.0.0.0:8443"), "127.0.0.1 ::1 localhost master");
        assert_eq!(
            names("https://b.example.org", "10.0.0.1:1"),
            "10.0.0.1 127.0.0.1 ::1 b.example.org localhost master"
        );
        assert_eq!(names("https://[fe80::1]:80", "[::]:80"), "127.0.0.1 ::1 fe80::1 localhost master");
    }
}
