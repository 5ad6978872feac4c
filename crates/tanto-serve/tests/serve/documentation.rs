//! The examples of docs/protocol.md are messages of this version.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use tanto_protocol::*;

/// The examples by kind.
fn examples() -> Vec<(String, String)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocol.md");
    let text = std::fs::read_to_string(path).unwrap();
    let blocks = text.split("```json ").skip(1).map(|block| block.split_once("```").unwrap().0);
    blocks.map(|block| block.split_once('\n').unwrap()).map(|(kind, json)| (kind.to_owned(), json.to_owned())).collect()
}

fn message<T: Message>(json: &str) -> Result<(), String> {
    T::decode(json.as_bytes()).map(drop).map_err(|error| error.to_string())
}

fn body<T: DeserializeOwned>(json: &str) -> Result<(), String> {
    serde_json::from_str::<T>(json).map(drop).map_err(|error| error.to_string())
}

fn check(kind: &str, json: &str) -> Result<(), String> {
    if let Some(name) = kind.strip_suffix("-request").filter(|name| !["join", "tree"].contains(name)) {
        let request = ClientRequest::from_body(name, json.as_bytes()).ok_or("no such request")?;
        return request.map(drop).map_err(|error| error.to_string());
    }
    match kind {
        "join-file" => message::<JoinFile>(json),
        "join-request" => body::<JoinRequest>(json),
        "join-answer" => body::<JoinAnswer>(json),
        "describe-answer" => body::<BuildDescription>(json),
        "hello-answer" => body::<HelloAnswer>(json),
        "work-answer" => body::<WorkAnswer>(json),
        "heartbeat-answer" => body::<HeartbeatAnswer>(json),
        "result-answer" => body::<ResultAnswer>(json),
        "tree-request" => body::<TreeRequest>(json),
        "tree-answer" => body::<TreeAnswer>(json),
        "scan-answer" => body::<ScanAnswer>(json),
        "digests" => body::<Vec<Digest>>(json),
        "refusal" => body::<Refusal>(json),
        "to-server" => message::<ToServer>(json),
        "to-coordinator" => message::<ToCoordinator>(json),
        _ => Err("an unknown kind".to_owned()),
    }
}

#[test]
fn examples_are_understood() {
    let examples = examples();
    for (kind, json) in &examples {
        check(kind, json).unwrap_or_else(|error| panic!("{kind}: {error}\n{json}"));
    }
    let kinds: BTreeSet<&str> = examples.iter().map(|(kind, _)| &kind[..]).collect();
    for request in ClientRequest::NAMES.into_iter().filter(|name| *name != "describe") {
        assert!(kinds.contains(&format!("{request}-request")[..]), "{request}");
    }
    assert_eq!(kinds.len(), 21);
}
