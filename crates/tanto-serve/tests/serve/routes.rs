//! Every route with every role, and with tokens that are not valid, compared with docs/protocol.md.

use std::collections::BTreeMap;
use std::time::Duration;

use tanto_protocol::*;
use tanto_serve::Limits;
use tanto_serve::client;
use tanto_serve::tokens;

use super::site::Site;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocol.md");

/// A request that the page describes.
#[derive(Clone, Debug)]
struct Route {
    method: String,
    /// After the name of the build.
    path: String,
    /// The heading of its section.
    section: String,
}

/// The routes in the headings of the page.
fn routes(page: &str) -> Vec<Route> {
    let (mut routes, mut section) = (Vec::new(), "");
    for line in page.lines().filter(|line| line.starts_with("##")) {
        if let Some(heading) = line.strip_prefix("## ") {
            section = heading;
        }
        let Some((method, path)) = line.trim_start_matches("#").trim().trim_matches('`').split_once(' ') else {
            continue;
        };
        if !["GET", "HEAD", "POST", "PUT", "PATCH"].contains(&method) {
            continue;
        }
        let path = path.strip_prefix("/v1/BUILD/").unwrap_or(path).split('?').next().unwrap();
        let path = path.replace("DIGEST", &"0".repeat(64));
        routes.push(Route { method: method.to_owned(), path, section: section.to_owned() });
    }
    routes
}

/// For each role, the words of its row: names of requests, and groups of them.
fn permitted(page: &str) -> BTreeMap<Role, String> {
    let table = page.split_once("| role | requests |\n").unwrap().1.split_once("\n\n").unwrap().0;
    let mut roles = BTreeMap::new();
    for row in table.lines().skip(1) {
        let mut cells = row.trim_matches('|').splitn(2, '|').map(str::trim);
        let (names, requests) = (cells.next().unwrap(), cells.next().unwrap());
        for name in names.split(", ") {
            let role = Role::named(name.trim_matches('`')).unwrap_or_else(|| panic!("no role: {name}"));
            roles.insert(role, requests.to_owned());
        }
    }
    roles
}

/// Whether a row of the table covers a route.
fn covers(requests: &str, route: &Route) -> bool {
    let path = route.path.replace(&"0".repeat(64), "DIGEST");
    requests == "all"
        || requests.contains(&format!("`{path}`"))
        || requests.contains(&format!("`{} {path}`", route.method))
        || requests.contains("all requests for blobs") && route.section == "Blobs"
}

/// Returns the status. No body is a valid one, so that nothing is changed.
fn send(site: &Site, route: &Route, build: &str, token: &str) -> u16 {
    site.request(&route.method, &format!("/v1/{build}/{}", route.path), token, b"-").0
}

fn site() -> Site {
    Site::plain(Limits { failures: 1e6, ..Limits::default() })
}

/// Those that need a token.
fn routes_with_token(page: &str) -> Vec<Route> {
    routes(page).into_iter().filter(|route| route.path != "join").collect()
}

#[test]
fn the_page_has_all_routes_and_roles() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let mut found: Vec<String> = routes(&page).iter().map(|it| format!("{} {}", it.method, &it.path)).collect();
    let blob = format!("cas/{}", "0".repeat(64));
    let blobs = ["GET", "HEAD", "PATCH", "PUT"].map(|method| format!("{method} {blob}"));
    let others = ["GET authority", "GET metrics", "POST join", "POST missing", "POST pack", "POST tree", "PUT pack"]
        .map(str::to_owned);
    let relayed = ClientRequest::NAMES.map(|name| format!("POST {name}"));
    let mut expected = [&blobs[..], &others, &relayed].concat();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(permitted(&page).len(), Role::ALL.len());
}

#[test]
fn each_role_can_send_its_requests_only() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (site, permitted) = (site(), permitted(&page));
    for role in Role::ALL {
        let (_, token) = site.token(role.name(), &[role]);
        for route in routes_with_token(&page) {
            let status = send(&site, &route, "main", &token);
            let is_permitted = !matches!(status, 401 | 403);
            assert_eq!(is_permitted, covers(&permitted[&role], &route), "{route:?} as {}: {status}", role.name());
            assert!(is_permitted || status == 403, "{route:?} as {}: {status}", role.name());
        }
    }
    let (_, token) = site.token("none", &[]);
    for route in routes_with_token(&page) {
        assert_eq!(send(&site, &route, "main", &token), 403, "{route:?} without a role");
    }
    let (_, answer) = site.request("POST", "/v1/main/work", &token, b"{}");
    assert!(answer.contains("this needs the role build or scan; the token of 'none' has: "), "{answer}");
}

#[test]
fn tokens_that_are_not_valid_are_refused_by_each_route() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let site = site();
    let (file, good) = site.token("good", &[Role::Admin]);
    let (_, revoked) = site.token("revoked", &[Role::Admin]);
    tokens::revoke(&site.dir.at("serve"), "main", "revoked").unwrap();
    let day = Duration::from_secs(24 * 3_600);
    let expired = site.join_file_for("expired", &[Role::Admin], None, day, Some(Duration::ZERO));
    let expired = client::join(&expired, client::random_key().unwrap()).unwrap().token;
    let other = other_build(&site);
    let key = good.split_once('.').unwrap().1;
    let unknown = format!("{}.{key}", "0".repeat(12));
    let bad = [("no", ""), ("a revoked", &revoked), ("an expired", &expired), ("another build's", &other)];
    let bad = [&bad[..], &[("an unknown", &unknown), ("a secret as a", &file.secret)]].concat();
    for route in routes_with_token(&page) {
        for (kind, token) in &bad {
            assert_eq!(send(&site, &route, "main", token), 401, "{route:?} with {kind} token");
        }
        assert_eq!(send(&site, &route, "other", &good), 401, "{route:?} of another build");
        assert!(![401, 403].contains(&send(&site, &route, "main", &good)), "{route:?}");
    }
    let body = format!("{{\"key\":\"{}\"}}", "7".repeat(64));
    for (kind, token) in bad.iter().chain([&("a", &*good)]) {
        let status = site.request("POST", "/v1/main/join", token, body.as_bytes()).0;
        assert_eq!(status, 401, "join with {kind} token");
    }
}

/// A valid token of another build.
fn other_build(site: &Site) -> String {
    let file = site.join_file("other", &[Role::Admin], None);
    let day = Duration::from_secs(24 * 3_600);
    let new = tokens::NewSecret {
        build: "other".to_owned(),
        name: "other".to_owned(),
        roles: Roles(vec![Role::Admin]),
        pool: None,
        joinable: day,
        lifetime: None,
    };
    let secret = tokens::add(&site.dir.at("serve"), &new).unwrap();
    let file = JoinFile { build: "other".to_owned(), secret, ..file };
    client::join(&file, client::random_key().unwrap()).unwrap().token
}
