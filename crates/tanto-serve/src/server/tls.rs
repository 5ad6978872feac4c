//! TLS 1.3 with a certificate that is read again when its file changes.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::ServerConfig;
use rustls::crypto::ring::{default_provider, sign::any_supported_type};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

use super::ServeError;
use crate::files::Stamp;

/// The server's key and certificates, in one PEM file.
#[derive(Debug)]
pub(super) struct Leaf {
    path: PathBuf,
    log: fn(&str),
    current: Mutex<(Option<Stamp>, Arc<CertifiedKey>)>,
}

impl Leaf {
    pub(super) fn read(path: PathBuf, log: fn(&str)) -> Result<Leaf, ServeError> {
        let failed = |reason: String| ServeError::Certificate { path: path.clone(), reason };
        let stamp = Stamp::of(&path).map_err(|error| failed(error.to_string()))?;
        let key = read_key(&path).map_err(failed)?;
        Ok(Leaf { path, log, current: Mutex::new((stamp, key)) })
    }

    /// Returns the certificate. A new file that cannot be used is reported once, and the old certificate stays.
    fn current(&self) -> Arc<CertifiedKey> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = Stamp::of(&self.path).ok().flatten();
        if stamp != current.0 {
            current.0 = stamp;
            match read_key(&self.path) {
                Ok(key) => current.1 = key,
                Err(reason) => {
                    (self.log)(&format!("{}: {reason}; the former certificate stays in use", self.path.display()));
                }
            }
        }
        current.1.clone()
    }
}

fn read_key(path: &std::path::Path) -> Result<Arc<CertifiedKey>, String> {
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain.map_err(|error| error.to_string())?;
    let key = PrivateKeyDer::from_pem_slice(&text).map_err(|error| error.to_string())?;
    let key = any_supported_type(&key).map_err(|error| error.to_string())?;
    if chain.is_empty() {
        return Err("no certificate".to_owned());
    }
    let certified = CertifiedKey::new(chain, key);
    certified.keys_match().map_err(|_| "the key does not belong to the first certificate".to_owned())?;
    Ok(Arc::new(certified))
}

impl ResolvesServerCert for Leaf {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

pub(super) fn acceptor(leaf: Arc<Leaf>) -> TlsAcceptor {
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider has cipher suites of TLS 1.3");
    let mut config = config.with_no_client_auth().with_cert_resolver(leaf);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    TlsAcceptor::from(Arc::new(config))
}
