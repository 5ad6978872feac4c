//! Starts the signer process and has packages signed; and the signer's side of it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tanto_sys::fs::file;
use tanto_sys::user;

use super::client::{Client, digest};
use super::verify::Verifier;
use super::{signed_archive, signer};
use crate::config::Config;
use crate::error::{BulkError, cause};
use crate::package::digest::hex;
use crate::package::{ALL, archive};
use crate::publish::publication::{Digests, check_digest, unusable_package};

const ROOT: u32 = 0;

/// Signs the named packages that were not signed since they were built.
pub(in crate::publish) fn sign_all(
    config: &Config,
    names: &[&str],
    built: &Digests,
    log: &mut String,
) -> Result<(), BulkError> {
    let to = Path::new(&config.signed).join(ALL);
    fs::create_dir_all(&to).map_err(BulkError::io("making ", &to))?;
    let file = |name: &&str| format!("{name}{}", config.pkg_sufx);
    let pairs = names.iter().map(|name| (*name, file(name)));
    let pairs = pairs.map(|(name, file)| (name, Path::new(&config.packages).join(ALL).join(&file), to.join(file)));
    let due: Vec<_> = pairs.filter(|(_, from, to)| !is_signed(from, to)).collect();
    if due.is_empty() {
        return Ok(());
    }
    let (mut child, stream) = start(config).map_err(BulkError::of("starting the signer"))?;
    let mut client = Client::new(stream);
    let signed = due.iter().try_for_each(|(name, from, to)| sign(&mut client, built, name, from, to));
    drop(client);
    let ended = child.wait();
    signed?;
    if !ended.as_ref().is_ok_and(std::process::ExitStatus::success) {
        return Err("the signer failed".into());
    }
    *log += &format!("{} packages were signed\n", due.len());
    Ok(())
}

/// Whether a signed package was made from this file: it has its mtime then.
fn is_signed(from: &Path, signed: &Path) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    modified(from).is_some_and(|time| modified(signed) == Some(time))
}

/// Signs a package if it is the file that was built. The content of a package that Tanto did not build is compared with the
/// digests that it carries.
fn sign(client: &mut Client<UnixStream>, built: &Digests, name: &str, from: &Path, to: &Path) -> Result<(), BulkError> {
    let bad = |error: io::Error| BulkError::io("signing ", from)(error);
    let mut package = File::open(from).map_err(bad)?;
    let digest = digest(&mut package).map_err(bad)?;
    check_digest(name, from, &hex(&digest), built)?;
    if !built.contains_key(name) {
        package.rewind().map_err(bad)?;
        archive::verify(&package).map_err(|bad| unusable_package(from, &bad, name))?;
    }
    let (text, signature) =
        client.sign(name, digest, &mut package).map_err(|why| format!("cannot sign {}: {why}", from.display()))?;
    let file_name = to.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let modified = package.metadata().and_then(|data| data.modified()).map_err(bad)?;
    let write = |out: &mut File| {
        let mut out = io::BufWriter::new(out);
        signed_archive::write(&mut out, (&text, &signature), (file_name, &mut package), digest)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.set_modified(modified)
    };
    file::write_atomically(to, write).map_err(BulkError::io("writing ", to))
}

/// Starts the signer with an empty environment, as `sign_user` if this process is root. Returns the stream to it.
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

/// Runs the signer, with requests on standard input.
pub fn serve(sign_command: &str, public_key: &Path) -> Result<(), BulkError> {
    let failed = BulkError::of("signing");
    let run = || {
        let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let mut verifier = Verifier::new(public_key).map_err(io::Error::other)?;
        signer::serve(stream, |text| {
            let signature = signature(sign_command, text)?;
            verifier.verify(text, &signature).map(|()| signature)
        })
    };
    run().map_err(failed)
}

/// Runs the user's command on a text.
fn signature(command: &str, text: &[u8]) -> Result<Vec<u8>, String> {
    let failed = |error: io::Error| format!("the sign_command: {}", cause(&error));
    let input = anonymous_file(text).map_err(failed)?;
    let mut child =
        Command::new("/bin/sh").args(["-c", command]).stdin(input).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut signature = Vec::new();
    let read = child.stdout.take().map_or(Ok(0), |out| out.take(MAX_SIGNATURE).read_to_end(&mut signature));
    let status = child.wait().map_err(failed)?;
    read.map_err(failed)?;
    if status.success() { Ok(signature) } else { Err(format!("the sign_command ended with {status}")) }
}

/// The limit of a signature, in bytes.
const MAX_SIGNATURE: u64 = 1 << 20;

/// Makes a file without a name, at its start.
fn anonymous_file(text: &[u8]) -> io::Result<File> {
    let path: PathBuf = std::env::temp_dir().join(format!("tanto-{}", std::process::id()));
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(&path)?;
    file.write_all(text)?;
    file.rewind()?;
    Ok(file)
}
