//! Requests and answers of clients as bodies of HTTP: the JSON of the inner message alone. The path names the request and
//! the version.

use serde::{Deserialize, Serialize};

use crate::{ClientAnswer, ClientRequest, Message, MessageError, VERSION, within};

/// The body of a request or an answer that has none.
#[derive(Serialize, Deserialize)]
struct Empty {}

impl ClientRequest {
    /// The names of all requests, which are the last parts of their paths.
    pub const NAMES: [&str; 7] = ["describe", "hello", "work", "heartbeat", "result", "scan", "bye"];

    /// Decodes and checks the body of the request of this name. `None` if no request has the name.
    pub fn from_body(name: &str, bytes: &[u8]) -> Option<Result<ClientRequest, MessageError>> {
        let parsed = match name {
            "describe" => Ok(ClientRequest::Describe),
            "hello" => serde_json::from_slice(bytes).map(ClientRequest::Hello),
            "work" => serde_json::from_slice(bytes).map(ClientRequest::Work),
            "heartbeat" => serde_json::from_slice(bytes).map(ClientRequest::Heartbeat),
            "result" => serde_json::from_slice(bytes).map(ClientRequest::Result),
            "scan" => serde_json::from_slice(bytes).map(ClientRequest::Scan),
            "bye" => serde_json::from_slice(bytes).map(ClientRequest::Bye),
            _ => return None,
        };
        let checked = |request: ClientRequest| request.check().map(|()| request);
        Some(within(bytes.len(), ClientRequest::MAX_BYTES).and_then(|()| checked(parsed?)))
    }

    pub fn to_body(&self) -> Result<Vec<u8>, MessageError> {
        self.check()?;
        let bytes = match self {
            ClientRequest::Describe => serde_json::to_vec(&Empty {}),
            ClientRequest::Hello(hello) => serde_json::to_vec(hello),
            ClientRequest::Work(work) => serde_json::to_vec(work),
            ClientRequest::Heartbeat(heartbeat) => serde_json::to_vec(heartbeat),
            ClientRequest::Result(report) => serde_json::to_vec(report),
            ClientRequest::Scan(request) => serde_json::to_vec(request),
            ClientRequest::Bye(bye) => serde_json::to_vec(bye),
        }?;
        within(bytes.len(), ClientRequest::MAX_BYTES).map(|()| bytes)
    }

    /// The path of the request on a server.
    pub fn path(&self, build: &str) -> String {
        format!("/v{VERSION}/{build}/{}", self.name())
    }
}

impl ClientAnswer {
    /// Decodes and checks the answer to a request. A refusal has another HTTP status than 200 and is decoded alone.
    pub fn from_body(request: &ClientRequest, bytes: &[u8]) -> Result<ClientAnswer, MessageError> {
        within(bytes.len(), ClientAnswer::MAX_BYTES)?;
        let answer = match request {
            ClientRequest::Describe => ClientAnswer::Describe(serde_json::from_slice(bytes)?),
            ClientRequest::Hello(_) => ClientAnswer::Hello(serde_json::from_slice(bytes)?),
            ClientRequest::Work(_) => ClientAnswer::Work(serde_json::from_slice(bytes)?),
            ClientRequest::Heartbeat(_) => ClientAnswer::Heartbeat(serde_json::from_slice(bytes)?),
            ClientRequest::Result(_) => ClientAnswer::Result(serde_json::from_slice(bytes)?),
            ClientRequest::Scan(_) => ClientAnswer::Scan(serde_json::from_slice(bytes)?),
            ClientRequest::Bye(_) => ClientAnswer::Bye,
        };
        answer.check().map(|()| answer)
    }

    pub fn to_body(&self) -> Result<Vec<u8>, MessageError> {
        self.check()?;
        let bytes = match self {
            ClientAnswer::Describe(description) => serde_json::to_vec(description),
            ClientAnswer::Hello(answer) => serde_json::to_vec(answer),
            ClientAnswer::Work(answer) => serde_json::to_vec(answer),
            ClientAnswer::Heartbeat(answer) => serde_json::to_vec(answer),
            ClientAnswer::Result(answer) => serde_json::to_vec(answer),
            ClientAnswer::Scan(answer) => serde_json::to_vec(answer),
            ClientAnswer::Bye => serde_json::to_vec(&Empty {}),
            ClientAnswer::Refused(refusal) => serde_json::to_vec(refusal),
        }?;
        within(bytes.len(), ClientAnswer::MAX_BYTES).map(|()| bytes)
    }
}
