//! The certificate authority of a coordinator, its successor, and the server's certificate.
//!
//! Each authority is a file with its certificate and its key in a directory of the coordinator, which the server cannot read.
//! The successor takes over by a rename. The server gets one file with its key and its certificate, so that both are replaced
//! at once.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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
/// How long it is valid at least, even if its authority ends before: it is renewed after 30 days.
const SHORTEST_LEAF_LIFETIME: Duration = DAY.saturating_mul(40);
const AUTHORITY_LIFETIME: Duration = DAY.saturating_mul(3_650);
/// An authority has a successor when it has no more time left than this.
const SUCCESSION: Duration = DAY.saturating_mul(120);
/// The successor takes over when no more time is left than this.
const TAKEOVER: Duration = DAY.saturating_mul(60);
/// How long clients can learn of the successor, at least.
const ANNOUNCEMENT: Duration = DAY.saturating_mul(30);

const CURRENT: &str = "authority.pem";
const NEXT: &str = "next.pem";
/// The first line of a file: the time in seconds since 1970. Times of files do not survive copies.
const CREATED: &str = "Created: ";
const KEY: &str = "-----BEGIN PRIVATE KEY-----";

#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} is damaged", .0.display())]
    Damaged(PathBuf),
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> AuthorityError {
    let path = path.to_owned();
    move |source| AuthorityError::File { path, source }
}

struct Authority {
    /// PEM.
    certificate: String,
    key: String,
    created: SystemTime,
}

/// The authority of a directory, and its successor once there is one.
pub struct Authorities {
    dir: PathBuf,
    current: Authority,
    next: Option<Authority>,
}

impl Authorities {
    /// Reads the authorities of a directory. `None` if it has none.
    pub fn read(dir: &Path) -> Result<Option<Authorities>, AuthorityError> {
        let Some(current) = Authority::read(&dir.join(CURRENT))? else { return Ok(None) };
        Ok(Some(Authorities { dir: dir.to_owned(), current, next: Authority::read(&dir.join(NEXT))? }))
    }

    /// Reads the authorities of a directory. Creates the first one.
    pub fn open(dir: &Path, now: SystemTime) -> Result<Authorities, AuthorityError> {
        private_files::create_dir(dir).map_err(failed(dir))?;
        match Authorities::read(dir)? {
            Some(authorities) => Ok(authorities),
            None => {
                let current = Authority::create(&dir.join(CURRENT), now)?;
                Ok(Authorities { dir: dir.to_owned(), current, next: None })
            }
        }
    }

    /// Creates the successor, or lets it take over, when it is time.
    pub fn advance(mut self, now: SystemTime) -> Result<Authorities, AuthorityError> {
        let end = self.current.created + AUTHORITY_LIFETIME;
        let next = self.dir.join(NEXT);
        // The clock was ahead when a successor was created in the future.
        match self.next.take().filter(|it| it.created <= now) {
            Some(successor) if now >= (successor.created + ANNOUNCEMENT).max(end - TAKEOVER) => {
                fs::rename(&next, self.dir.join(CURRENT)).map_err(failed(&next))?;
                self.current = successor;
            }
            Some(successor) => self.next = Some(successor),
            None if now >= end - SUCCESSION => self.next = Some(Authority::create(&next, now)?),
            None => {}
        }
        Ok(self)
    }

    /// The certificates that clients have to trust, as PEM.
    pub fn trusted(&self) -> String {
        self.all().map(|it| &*it.certificate).collect()
    }

    /// Whether one of these certificates is in the text.
    pub fn are_in(&self, pem: &str) -> bool {
        self.all().any(|it| pem.contains(&it.certificate))
    }

    fn all(&self) -> impl Iterator<Item = &Authority> {
        std::iter::once(&self.current).chain(&self.next)
    }

    /// Signs a certificate for the server's host names and addresses, and replaces the file `leaf`.
    pub fn issue_leaf(&self, names: &[String], leaf: &Path, now: SystemTime) -> Result<(), AuthorityError> {
        let key = KeyPair::generate()?;
        let issuer = Issuer::new(authority_params(self.current.created)?, KeyPair::from_pem(&self.current.key)?);
        let signed = leaf_params(names, now, self.leaf_lifetime(now))?.signed_by(&key, &issuer)?;
        let content = format!("{}{}", key.serialize_pem(), signed.pem());
        replace_private(leaf, content.as_bytes()).map_err(failed(leaf))
    }

    /// A leaf ends with its authority, unless that ends before the next renewal.
    fn leaf_lifetime(&self, now: SystemTime) -> Duration {
        let left = (self.current.created + AUTHORITY_LIFETIME).duration_since(now).unwrap_or_default();
        LEAF_LIFETIME.min(left).max(SHORTEST_LEAF_LIFETIME)
    }
}

impl Authority {
    fn create(path: &Path, now: SystemTime) -> Result<Authority, AuthorityError> {
        let key = KeyPair::generate()?;
        let created = UNIX_EPOCH + Duration::from_secs(now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs());
        let certificate = authority_params(created)?.self_signed(&key)?.pem();
        let authority = Authority { certificate, key: key.serialize_pem(), created };
        replace_private(path, authority.text().as_bytes()).map_err(failed(path))?;
        Ok(authority)
    }

    fn text(&self) -> String {
        let seconds = self.created.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        format!("{CREATED}{seconds}\n{}{}", self.certificate, self.key)
    }

    fn read(path: &Path) -> Result<Option<Authority>, AuthorityError> {
        match fs::read_to_string(path) {
            Ok(text) => Authority::parse(&text).map(Some).ok_or_else(|| AuthorityError::Damaged(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(path)(error)),
        }
    }

    fn parse(text: &str) -> Option<Authority> {
        let (seconds, rest) = text.strip_prefix(CREATED)?.split_once('\n')?;
        let created = UNIX_EPOCH.checked_add(Duration::from_secs(seconds.parse().ok()?))?;
        let (certificate, key) = rest.split_at(rest.find(KEY)?);
        KeyPair::from_pem(key).ok()?;
        Some(Authority { certificate: certificate.to_owned(), key: key.to_owned(), created })
    }
}

/// The parameters of each authority: a leaf names its issuer by these and by the key.
fn authority_params(created: SystemTime) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.distinguished_name = common_name("Tanto bulk build authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_lifetime(&mut params, created, AUTHORITY_LIFETIME);
    Ok(params)
}

fn leaf_params(names: &[String], now: SystemTime, lifetime: Duration) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = common_name("Tanto server");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    set_lifetime(&mut params, now, lifetime);
    Ok(params)
}

fn common_name(text: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, text);
    name
}

/// Begins earlier, because clocks differ.
fn set_lifetime(params: &mut CertificateParams, begin: SystemTime, lifetime: Duration) {
    params.not_before = (begin - MAX_CLOCK_ERROR).into();
    params.not_after = (begin + lifetime).into();
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    const BEGIN: SystemTime = UNIX_EPOCH;

    fn day(number: u64) -> SystemTime {
        BEGIN + DAY * u32::try_from(20_000 + number).unwrap()
    }

    /// The certificates on a day, after the work of that day.
    fn on(dir: &Path, number: u64) -> (String, Option<String>) {
        let authorities = Authorities::open(dir, day(number)).unwrap().advance(day(number)).unwrap();
        (authorities.current.certificate.clone(), authorities.next.map(|it| it.certificate))
    }

    #[test]
    fn successor_is_announced_and_takes_over() {
        let place = Scratch::new("authority-life");
        let dir = place.at("ca");
        let (first, none) = on(&dir, 0);
        assert_eq!(none, None);
        assert_eq!(on(&dir, 3_529), (first.clone(), None));
        let (same, second) = on(&dir, 3_530);
        let second = second.unwrap();
        assert!(same == first && second != first);
        assert_eq!(on(&dir, 3_589), (first.clone(), Some(second.clone())));
        let authorities = Authorities::read(&dir).unwrap().unwrap();
        assert_eq!(authorities.trusted(), format!("{first}{second}"));
        assert!(authorities.are_in(&first) && authorities.are_in(&second) && !authorities.are_in(""));
        assert_eq!(on(&dir, 3_590), (second.clone(), None));
        assert_eq!(on(&dir, 3_590 + 3_400), (second, None), "it was created on day 3,530");
        assert!(on(&dir, 3_530 + 3_530).1.is_some());
    }

    #[test]
    fn successor_is_announced_for_a_month_even_after_the_end() {
        let place = Scratch::new("authority-late");
        let dir = place.at("ca");
        let (first, _) = on(&dir, 0);
        let second = on(&dir, 4_000).1.unwrap();
        assert_eq!(on(&dir, 4_029), (first, Some(second.clone())));
        assert_eq!(on(&dir, 4_030), (second, None));
    }

    #[test]
    fn wrong_clocks_end_no_authority() {
        let place = Scratch::new("authority-clock");
        let dir = place.at("ca");
        let (first, _) = on(&dir, 100);
        let future = on(&dir, 9_000).1.unwrap();
        assert_eq!(on(&dir, 99), (first.clone(), None), "it is set back");
        assert_eq!(on(&dir, 101), (first.clone(), None));
        let second = on(&dir, 3_700).1.unwrap();
        assert_ne!(second, future, "one of the future would take over too late");
        assert_eq!(on(&dir, 3_730), (second, None));
    }

    #[test]
    fn leaves_end_with_their_authority() {
        let place = Scratch::new("authority-leaf");
        let authorities = Authorities::open(&place.at("ca"), day(0)).unwrap();
        assert_eq!(authorities.leaf_lifetime(day(0)), LEAF_LIFETIME);
        assert_eq!(authorities.leaf_lifetime(day(3_590)), TAKEOVER);
        assert_eq!(authorities.leaf_lifetime(day(3_640)), SHORTEST_LEAF_LIFETIME);
        assert_eq!(authorities.leaf_lifetime(day(9_000)), SHORTEST_LEAF_LIFETIME);
    }

    #[test]
    fn copies_keep_dates_and_damage_is_an_error() {
        let place = Scratch::new("authority-copy");
        let (dir, copy) = (place.at("ca"), place.at("copy"));
        let (first, _) = on(&dir, 0);
        fs::create_dir(&copy).unwrap();
        fs::copy(dir.join(CURRENT), copy.join(CURRENT)).unwrap();
        let (same, next) = on(&copy, 3_530);
        assert!(same == first && next.is_some());
        let text = fs::read_to_string(dir.join(CURRENT)).unwrap();
        for broken in ["", "Created: x\n", &text[CREATED.len()..], &text[..text.len() / 2]] {
            fs::write(dir.join(CURRENT), broken).unwrap();
            assert!(matches!(Authorities::read(&dir), Err(AuthorityError::Damaged(_))), "{broken}");
        }
        // A killed process leaves a temporary file only.
        fs::remove_file(dir.join(CURRENT)).unwrap();
        fs::write(dir.join("authority.pem.new"), "half").unwrap();
        assert!(Authorities::read(&dir).unwrap().is_none());
        assert_ne!(on(&dir, 0).0, first);
    }
}
