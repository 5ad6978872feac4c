//! Joining, roles, expiry and revocation.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use tanto_protocol::*;
use tanto_serve::Limits;
use tanto_serve::client::{self, Connection};
use tanto_serve::tokens::{self, TokenError, TokenKind};

use super::coordinator::HELD;
use super::site::{Site, until, work};

#[test]
fn a_secret_is_exchanged_once_and_a_repeat_gets_the_same_token() {
    let site = Site::new(Limits::default());
    let file = site.join_file("alpha", &[Role::Build], None);
    let (key, other) = (client::random_key().unwrap(), client::random_key().unwrap());
    let answer = client::join(&file, key).unwrap();
    assert_eq!(client::join(&file, key).unwrap(), answer);
    let error = client::join(&file, other).unwrap_err();
    assert_eq!((error.refusal(), error.is_transient()), (Some(RefusalCode::Token), false), "{error}");
    let stored = std::fs::read_to_string(site.dir.at("serve/tokens.json")).unwrap();
    let secrets = [&file.secret, &answer.token].map(|text| text.split_once('.').unwrap().1.to_owned());
    assert!(secrets.iter().all(|secret| !stored.contains(secret)), "only hashes are stored");
    let mode = std::fs::metadata(site.dir.at("serve/tokens.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn clients_of_a_pool_get_numbered_names_up_to_its_limit() {
    let site = Site::new(Limits::default());
    let file = site.join_file("array", &[Role::Build], Some(2));
    let join = || client::join(&file, client::random_key().unwrap()).map(|answer| answer.name);
    assert_eq!([join().unwrap(), join().unwrap()], ["array-1", "array-2"]);
    assert_eq!(join().unwrap_err().refusal(), Some(RefusalCode::Token));
}

#[test]
fn wrong_and_expired_secrets_are_refused() {
    let site = Site::new(Limits::default());
    let key = client::random_key().unwrap();
    let mut file = site.join_file_for("late", &[Role::Build], None, Duration::ZERO, None);
    assert_eq!(client::join(&file, key).unwrap_err().refusal(), Some(RefusalCode::Token));
    let good = site.join_file("good", &[Role::Build], None);
    file = JoinFile { build: "other".to_owned(), ..good.clone() };
    assert_eq!(client::join(&file, key).unwrap_err().refusal(), Some(RefusalCode::Token));
    let (id, secret) = good.secret.split_once('.').unwrap();
    let flipped = if secret.starts_with('0') { '1' } else { '0' };
    for secret in [format!("{id}.{flipped}{}", &secret[1..]), id.to_owned(), String::new()] {
        file = JoinFile { secret, ..good.clone() };
        assert_eq!(client::join(&file, key).unwrap_err().refusal(), Some(RefusalCode::Token));
    }
    // A secret is no token.
    let client = Connection::new(&good, &good.secret).unwrap();
    assert_eq!(client.describe().unwrap_err().refusal(), Some(RefusalCode::Token));
    assert_eq!(client::join(&good, key).unwrap().name, "good");
}

#[test]
fn a_revoked_token_fails_at_once_and_in_a_long_poll() {
    let site = Site::new(Limits::default());
    let (dir, client) = (site.dir.at("serve"), site.client("alpha"));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| client.work(work(HELD)));
        let (number, ..) = site.coordinator.next_request();
        let removed = tokens::revoke(&dir, "main", "alpha").unwrap();
        assert_eq!(removed.len(), 2, "the token and its secret");
        let answer = ClientAnswer::Work(WorkAnswer::default());
        site.coordinator.send(&ToServer::Answer { number, answer });
        assert_eq!(waiting.join().unwrap().unwrap_err().refusal(), Some(RefusalCode::Token));
    });
    assert_eq!(client.describe().unwrap_err().refusal(), Some(RefusalCode::Token));
    assert!(matches!(tokens::revoke(&dir, "main", "alpha"), Err(TokenError::Unknown(_))));
}

#[test]
fn an_expired_token_is_refused() {
    let site = Site::new(Limits::default());
    let day = Duration::from_secs(24 * 3_600);
    let file = site.join_file_for("alpha", &[Role::Build], None, day, Some(Duration::ZERO));
    let answer = client::join(&file, client::random_key().unwrap()).unwrap();
    let client = Connection::new(&file, &answer.token).unwrap();
    assert_eq!(client.describe().unwrap_err().refusal(), Some(RefusalCode::Token));
    let listed = tokens::list(&site.dir.at("serve")).unwrap();
    let kinds: Vec<TokenKind> = listed.iter().map(|token| token.kind).collect();
    assert_eq!(kinds, [TokenKind::Join { joined: 1, max_clients: 1 }, TokenKind::Client]);
}

#[test]
fn the_server_works_on_while_the_file_is_damaged() {
    let site = Site::new(Limits::default());
    let client = site.client("alpha");
    let path = site.dir.at("serve/tokens.json");
    let good = std::fs::read(&path).unwrap();
    std::fs::write(&path, "{").unwrap();
    let error = client.describe().unwrap_err();
    assert!(error.is_transient(), "{error}");
    std::fs::write(&path, good).unwrap();
    until("the file is read again", || client.describe().is_ok());
}
