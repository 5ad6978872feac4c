//! Verifies signatures in the signer: PGP with `gpgv`, X.509 with `openssl`.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::signed_archive::SignatureForm;
use crate::error::BulkError;

/// Verifies signatures with one set of public keys.
pub(super) struct Verifier {
    /// A private directory with the inputs of the programs.
    dir: PathBuf,
    /// The public keys; `None` until `gpg --export` is needed.
    keys: Option<PathBuf>,
    /// The user chose `keys`, so X.509 certificates must lead to it.
    is_chosen: bool,
}

impl Verifier {
    /// Uses the keys of a file, or those that `gpg` finds if the path is empty.
    pub(super) fn new(keys: &Path) -> Result<Verifier, String> {
        let dir = std::env::temp_dir().join(format!("tanto-signer-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&dir).map_err(message("making ", &dir))?;
        let is_chosen = !keys.as_os_str().is_empty();
        Ok(Verifier { dir, keys: is_chosen.then(|| keys.to_owned()), is_chosen })
    }

    /// Fails unless the signature is good and in a form that pkg_install reads.
    pub(super) fn verify(&mut self, text: &[u8], signature: &[u8]) -> Result<(), String> {
        let form = SignatureForm::of(signature).ok_or_else(|| NO_SIGNATURE.to_owned())?;
        self.write("text", text)?;
        self.write("signature", signature)?;
        match form {
            SignatureForm::Pgp => self.pgp(),
            SignatureForm::X509 => self.x509(),
        }
    }

    fn pgp(&mut self) -> Result<(), String> {
        let keys = self.public_keys()?;
        let mut command = Command::new("gpgv");
        command.args(["--status-fd", "1", "--keyring"]).arg(keys).args(["signature", "text"]);
        let output = self.run(command)?;
        let status = String::from_utf8_lossy(&output.stdout);
        let has = |word: &str| status.lines().any(|line| line.split(' ').nth(1) == Some(word));
        // gpgv also accepts expired keys.
        let is_good = output.status.success() && has("GOODSIG") && !EXPIRED.iter().any(|word| has(word));
        if is_good { Ok(()) } else { Err(rejected("gpgv", &output)) }
    }

    fn x509(&self) -> Result<(), String> {
        let mut command = Command::new("openssl");
        command.args(["smime", "-verify", "-binary", "-inform", "PEM", "-in", "signature", "-content", "text"]);
        command.args(["-out", "/dev/null"]);
        match &self.keys {
            Some(keys) if self.is_chosen => {
                command.args(["-purpose", "any", "-partial_chain", "-CAfile"]).arg(keys);
            }
            _ => {
                command.arg("-noverify");
            }
        }
        let output = self.run(command)?;
        if output.status.success() { Ok(()) } else { Err(rejected("openssl", &output)) }
    }

    fn public_keys(&mut self) -> Result<&Path, String> {
        if self.keys.is_none() {
            let mut command = Command::new("gpg");
            command.args(["--batch", "--no-tty", "--export"]);
            let output = self.run(command)?;
            if !output.status.success() || output.stdout.is_empty() {
                return Err("no public key to verify the signature: gpg --export found none in sign_keys; \
                            set sign_public_key to a file that contains it"
                    .into());
            }
            self.write("keys", &output.stdout)?;
        }
        Ok(self.keys.get_or_insert_with(|| self.dir.join("keys")))
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<(), String> {
        let path = self.dir.join(name);
        fs::write(&path, content).map_err(message("writing ", &path))
    }

    fn run(&self, mut command: Command) -> Result<Output, String> {
        let program = command.get_program().to_owned();
        command.current_dir(&self.dir).output().map_err(|error| {
            let program = Path::new(&program);
            let package = if program == Path::new("gpg") { "gnupg".into() } else { program.display().to_string() };
            message("starting ", program)(error) + &format!(" (it verifies the signature; 'apt-get install {package}')")
        })
    }
}

impl Drop for Verifier {
    fn drop(&mut self) {
        // A leftover temporary directory does no harm.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

const NO_SIGNATURE: &str = "the sign_command printed no signature: it should print what 'gpg --detach-sign --armor' or \
                            'openssl smime -sign -binary -outform PEM' prints";
const EXPIRED: [&str; 4] = ["EXPSIG", "EXPKEYSIG", "REVKEYSIG", "BADSIG"];
/// The limit of the output of a program in a message, in characters.
const MAX_OUTPUT: usize = 400;

fn message(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> String {
    let path = path.to_owned();
    move |error| BulkError::io(action, path)(error).to_string()
}

fn rejected(program: &str, output: &Output) -> String {
    let output_text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = output_text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let output_text: String = lines.join("; ").chars().filter(|it| !it.is_control()).take(MAX_OUTPUT).collect();
    format!("the sign_command printed a signature that {program} does not accept for this package: {output_text}")
}
