//! The certificate authority of a coordinator, and the server's certificate that it signs.
//!
//! The authority is `ca.pem` and `ca.key` in a directory of the coordinator, which the server cannot read. The server gets
//! one file with its key and its certificates, so that both are replaced at once.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use tanto_sys::fs::private_files;

use crate::files::replace_private;

const DAY: Duration = Duration::from_secs(24 * 3_600);
/// How far behind the clock of a client may be.
const MAX_CLOCK_ERROR: Duration = DAY.saturating_mul(30);
/// How long the server's certificate is valid.
pub const LEAF_LIFETIME: Duration = DAY.saturating_mul(90);
const AUTHORITY_LIFETIME: Duration = DAY.saturating_mul(3_650);

#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> AuthorityError {
    let path = path.to_owned();
    move |source| AuthorityError::File { path, source }
}

/// Creates the authority. Keeps one that exists.
pub fn create(dir: &Path) -> Result<(), AuthorityError> {
    private_files::create_dir(dir).map_err(failed(dir))?;
    let (key_path, certificate_path) = (dir.join("ca.key"), dir.join("ca.pem"));
    if certificate_path.try_exists().map_err(failed(&certificate_path))? {
        return Ok(());
    }
    let key = KeyPair::generate()?;
    let certificate = authority_params()?.self_signed(&key)?;
    // The certificate is written last: without it, an interrupted call starts again.
    replace_private(&key_path, key.serialize_pem().as_bytes()).map_err(failed(&key_path))?;
    replace_private(&certificate_path, certificate.pem().as_bytes()).map_err(failed(&certificate_path))
}

/// Returns the authority's certificate for join files, as PEM.
pub fn certificate(dir: &Path) -> Result<String, AuthorityError> {
    let path = dir.join("ca.pem");
    fs::read_to_string(&path).map_err(failed(&path))
}

/// Signs a certificate for the server's host names and addresses, and replaces the file `leaf`.
pub fn issue_leaf(dir: &Path, names: &[String], leaf: &Path) -> Result<(), AuthorityError> {
    let path = dir.join("ca.key");
    let authority_key = KeyPair::from_pem(&fs::read_to_string(&path).map_err(failed(&path))?)?;
    let issuer = Issuer::new(authority_params()?, authority_key);
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = common_name("Tanto server");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    set_lifetime(&mut params, LEAF_LIFETIME);
    let signed = params.signed_by(&key, &issuer)?;
    let content = format!("{}{}", key.serialize_pem(), signed.pem());
    replace_private(leaf, content.as_bytes()).map_err(failed(leaf))
}

/// The parameters of each authority: a leaf names its issuer by these and by the key.
fn authority_params() -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.distinguished_name = common_name("Tanto bulk build authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_lifetime(&mut params, AUTHORITY_LIFETIME);
    Ok(params)
}

fn common_name(text: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, text);
    name
}

/// Valid since yesterday, because clocks differ.
fn set_lifetime(params: &mut CertificateParams, lifetime: Duration) {
    let now = SystemTime::now();
    params.not_before = (now - MAX_CLOCK_ERROR).into();
    params.not_after = (now + lifetime).into();
}
