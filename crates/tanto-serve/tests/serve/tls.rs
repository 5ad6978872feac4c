//! Certificates and versions of TLS.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tanto_protocol::{JoinFile, Role};
use tanto_serve::authority::Authorities;
use tanto_serve::client::{self, ClientError, Connection};
use tanto_serve::{Limits, Options, Renewal, ServeError, Server};
use tanto_testing::Scratch;

use super::site::{Site, authorities, issue_leaf, until};

#[test]
fn a_server_with_another_authority_or_name_is_refused() {
    let site = Site::new(Limits::default());
    let (file, token) = site.token("alpha", &[Role::Build]);
    let other = Scratch::new("other-ca");
    let other = Authorities::open(&other.at("ca"), SystemTime::now()).unwrap().trusted();
    let foreign = JoinFile { authority: other.clone(), ..file.clone() };
    let named = JoinFile { url: format!("https://127.0.0.2:{}", site.address.port()), ..file.clone() };
    for file in [foreign, named] {
        let error = Connection::new(&file, &token).unwrap().describe().unwrap_err();
        assert!(matches!(error, ClientError::Certificate(_) | ClientError::Unreachable(_)), "{error}");
    }
    let foreign = JoinFile { authority: other, ..file };
    let error = client::join(&foreign, client::random_key().unwrap()).unwrap_err();
    assert!(matches!(error, ClientError::Certificate(_)), "{error}");
    assert!(!error.is_transient());
}

#[test]
fn the_server_is_found_by_name() {
    let site = Site::new(Limits::default());
    let (file, token) = site.token("alpha", &[Role::Build]);
    let file = JoinFile { url: format!("https://localhost:{}/", site.address.port()), ..file };
    let client = Connection::new(&file, &token).unwrap();
    until("a link", || client.describe().is_ok());
}

/// The certificate that the server shows.
fn shown(site: &Site, versions: &[&'static rustls::SupportedProtocolVersion]) -> std::io::Result<Vec<u8>> {
    let mut roots = RootCertStore::empty();
    let pem = authorities(&site.dir).trusted();
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let mut client = ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap();
    let mut stream = std::net::TcpStream::connect(site.address).unwrap();
    while client.is_handshaking() {
        client.complete_io(&mut stream)?;
    }
    Ok(client.peer_certificates().unwrap()[0].to_vec())
}

#[test]
fn only_tls_1_3_is_spoken() {
    let site = Site::new(Limits::default());
    shown(&site, &[&rustls::version::TLS13]).unwrap();
    let error = shown(&site, &[&rustls::version::TLS12]).unwrap_err();
    assert!(error.to_string().contains("ProtocolVersion"), "{error}");
}

#[test]
fn a_new_certificate_is_used_at_once_and_a_broken_one_never() {
    let site = Site::new(Limits::default());
    let show = || shown(&site, &[&rustls::version::TLS13]).unwrap();
    let first = show();
    assert_eq!(show(), first);
    issue_leaf(&site.dir);
    let second = show();
    assert_ne!(second, first);
    std::fs::write(site.dir.at("serve/tls/leaf.pem"), "-----BEGIN CERTIFICATE-----\n").unwrap();
    assert_eq!(show(), second);
    std::fs::remove_file(site.dir.at("serve/tls/leaf.pem")).unwrap();
    assert_eq!(show(), second);
}

#[test]
fn a_certificate_is_renewed_while_the_server_runs() {
    let place = Scratch::new("renewal");
    // It fails until there is a new certificate.
    let script = "mv \"$0/new.pem\" \"$(cat \"$0/leaf\")\"";
    let arguments = ["-c".into(), script.into(), place.at("").into_os_string()].to_vec();
    let interval = std::time::Duration::from_millis(20);
    let site = Site::renewed(Renewal { program: "/bin/sh".into(), arguments, interval });
    let show = || shown(&site, &[&rustls::version::TLS13]).unwrap();
    let first = show();
    place.write("leaf", site.dir.at("serve/tls/leaf.pem").to_str().unwrap());
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    authorities(&site.dir).issue_leaf(&names, &place.at("new.pem"), SystemTime::now()).unwrap();
    until("another certificate", || show() != first);
}

#[test]
fn clients_follow_to_the_next_authority() {
    let site = Site::new(Limits::default());
    let (file, token) = site.token("alpha", &[Role::Build]);
    let (here, away) = (Scratch::new("follows"), Scratch::new("away"));
    let connect = |dir: &Scratch| Connection::lasting(&file, &token, dir.path()).unwrap();
    let client = connect(&here);
    until("a link", || client.describe().is_ok());
    let advance = |days: u32| {
        let now = SystemTime::now() + Duration::from_secs(24 * 3_600) * days;
        let advanced = authorities(&site.dir).advance(now).unwrap();
        issue_leaf(&site.dir);
        advanced.trusted()
    };
    let both = advance(3_600);
    assert_eq!(both.matches("BEGIN CERTIFICATE").count(), 2);
    // A client asks when it starts, and then each day.
    let client = connect(&here);
    client.describe().unwrap();
    let stored =
        || std::fs::read_dir(here.path()).unwrap().map(|it| std::fs::read_to_string(it.unwrap().path()).unwrap());
    assert_eq!(stored().collect::<Vec<_>>(), [&*both]);
    let second = advance(3_640);
    assert!(both.ends_with(&second) && both != second);
    client.describe().unwrap();
    connect(&here).describe().unwrap();
    assert_eq!(stored().collect::<Vec<_>>(), [second]);
    let error = connect(&away).describe().unwrap_err();
    assert!(error.to_string().contains("needs a new join file"), "{error}");
    std::fs::read_dir(here.path()).unwrap().for_each(|it| std::fs::write(it.unwrap().path(), "").unwrap());
    let error = Connection::lasting(&file, &token, here.path()).err().unwrap().to_string();
    assert!(error.starts_with(here.path().to_str().unwrap()) && error.contains("no certificate"), "{error}");
}

#[test]
fn without_tls_only_loopback_addresses_are_used() {
    let dir = Scratch::new("plain");
    let listen = "0.0.0.0:0".parse().unwrap();
    let (dir, limits) = (dir.at("serve"), Limits::default());
    let options = Options { dir, listen, plain: true, limits, renewal: None, log: |_| () };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert!(matches!(runtime.block_on(Server::bind(options)), Err(ServeError::PlainAddress(_))));
    for url in ["http://192.0.2.1:1", "http://localhost", "ftp://127.0.0.1", "127.0.0.1:8443", ""] {
        let file = JoinFile {
            url: url.to_owned(),
            build: "main".to_owned(),
            name: "x".to_owned(),
            secret: String::new(),
            authority: String::new(),
        };
        assert!(matches!(Connection::new(&file, "x"), Err(ClientError::JoinFile(_))), "{url}");
    }
}
