//! Signs packages: `publish` on one side, the signer, a process of its own, on the other.

mod verify;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tanto_bulk::config::Config;
use tanto_bulk::package::ALL;
use tanto_bulk::package::archive;
use tanto_bulk::package::digest::hex;
use tanto_bulk::publish::sign::client::{Client, digest};
use tanto_bulk::publish::sign::{seal, signer};
use tanto_sys::user;

use self::verify::Verifier;
use super::files::failed;
use super::publish::{Digests, as_built, unusable_package};
use crate::flags::door::Door;
use crate::flags::stop::Stop;

const ROOT: u32 = 0;

/// Signs the packages of these names that were not signed since they were built.
pub(super) fn all(config: &Config, names: &[&str], built: &Digests, told: &mut String) -> Result<(), Vec<u8>> {
    let to = Path::new(&config.signed).join(ALL);
    fs::create_dir_all(&to).map_err(|error| failed("making ", to.as_os_str().as_encoded_bytes(), &error))?;
    let file = |name: &&str| format!("{name}{}", config.pkg_sufx);
    let pairs = names.iter().map(|name| (*name, file(name)));
    let pairs = pairs.map(|(name, file)| (name, Path::new(&config.packages).join(ALL).join(&file), to.join(file)));
    let due: Vec<_> = pairs.filter(|(_, from, to)| !is_of(from, to)).collect();
    if due.is_empty() {
        return Ok(());
    }
    let (mut child, stream) = start(config).map_err(|error| failed("", b"starting the signer", &error))?;
    let mut client = Client::new(stream);
    let signed = due.iter().try_for_each(|(name, from, to)| one(&mut client, built, name, from, to));
    drop(client);
    let ended = child.wait();
    signed?;
    if !ended.as_ref().is_ok_and(std::process::ExitStatus::success) {
        return Err(b"the signer did not end well".into());
    }
    *told += &format!("{} packages were signed\n", due.len());
    Ok(())
}

/// Was this signed package made from that file? It has its time then.
fn is_of(from: &Path, signed: &Path) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    modified(from).is_some_and(|time| modified(signed) == Some(time))
}

/// Signs a package if it is the file that was built. Of one that Tanto did not build no digest is noted: its content is
/// compared with the digests that it carries.
fn one(client: &mut Client<UnixStream>, built: &Digests, name: &str, from: &Path, to: &Path) -> Result<(), Vec<u8>> {
    let bad = |error: io::Error| failed("signing ", from.as_os_str().as_encoded_bytes(), &error);
    let mut package = File::open(from).map_err(bad)?;
    let digest = digest(&mut package).map_err(bad)?;
    as_built(name, from, &hex(&digest), built)?;
    if !built.contains_key(name) {
        package.rewind().map_err(bad)?;
        archive::verify(&package).map_err(|bad| unusable_package(from, &bad, name))?;
    }
    let (text, signature) = client
        .sign(name, digest, &mut package)
        .map_err(|why| format!("{} is not signed: {why}", from.display()).into_bytes())?;
    let file = to.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let modified = package.metadata().and_then(|data| data.modified()).map_err(bad)?;
    let write = |out: &mut File| {
        let mut out = io::BufWriter::new(out);
        seal(&mut out, (&text, &signature), (file, &mut package), digest)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.set_modified(modified)
    };
    tanto_sys::fs::file::write_atomically(to, write)
        .map_err(|error| failed("writing ", to.as_os_str().as_encoded_bytes(), &error))
}

/// A signer, which knows nothing of our environment, and the stream to it. Where we are root it is another user.
fn start(config: &Config) -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new("/proc/self/exe");
    command
        .args(["bulk", "signer", &config.sign_command, &config.sign_public_key])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)));
    command.env("LC_ALL", "C").envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    if !config.sign_keys.is_empty() {
        command.env("GNUPGHOME", &config.sign_keys).env("HOME", &config.sign_keys);
    }
    if user::effective() == ROOT && !config.sign_user.is_empty() {
        let (uid, gid) = user::lookup(&config.sign_user)?;
        command.uid(uid).gid(gid);
    }
    Ok((command.spawn()?, ours))
}

/// The signer: its questions come from standard input. Its arguments are `sign_command` and `sign_public_key`.
pub(crate) fn serve(args: &[Vec<u8>]) -> Stop {
    let served = || {
        let [line, keys] = args else { return Err(io::ErrorKind::InvalidInput.into()) };
        let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let mut verifier = Verifier::new(tanto_sys::fs::file::path(keys)).map_err(io::Error::other)?;
        signer::serve(stream, |text| {
            let signature = signature(line, text)?;
            verifier.verify(text, &signature).map(|()| signature)
        })
    };
    match served() {
        Ok(()) => Stop::printed("", 0),
        Err(error) => Stop::failed(Door::Tanto, "error", &failed("", b"signing", &error)),
    }
}

/// What the user's line makes of a text.
fn signature(line: &[u8], text: &[u8]) -> Result<Vec<u8>, String> {
    let told = |error: io::Error| String::from_utf8_lossy(&failed("", b"the sign_command", &error)).into_owned();
    let input = scratch(text).map_err(told)?;
    let line = std::str::from_utf8(line).map_err(|_| "the sign_command is no text".to_owned())?;
    let mut child =
        Command::new("/bin/sh").args(["-c", line]).stdin(input).stdout(Stdio::piped()).spawn().map_err(told)?;
    let mut signature = Vec::new();
    let read = child.stdout.take().map_or(Ok(0), |out| out.take(LONGEST).read_to_end(&mut signature));
    let status = child.wait().map_err(told)?;
    read.map_err(told)?;
    if status.success() { Ok(signature) } else { Err(format!("the sign_command ended with {status}")) }
}

/// More than any signature has.
const LONGEST: u64 = 1 << 20;

/// A file without a name, to be read from its beginning.
fn scratch(text: &[u8]) -> io::Result<File> {
    let path: PathBuf = std::env::temp_dir().join(format!("tanto-{}", std::process::id()));
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(&path)?;
    file.write_all(text)?;
    file.rewind()?;
    Ok(file)
}
