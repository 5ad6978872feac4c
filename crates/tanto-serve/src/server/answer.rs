//! Answers: their bodies, and refusals as JSON.

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use tanto_protocol::{Refusal, RefusalCode};

pub(super) type Body = UnsyncBoxBody<Bytes, std::io::Error>;
pub(super) type Answer = Response<Body>;

pub(super) fn whole(bytes: Vec<u8>) -> Body {
    Full::new(Bytes::from(bytes)).map_err(|never| match never {}).boxed_unsync()
}

pub(super) fn json(status: StatusCode, bytes: Vec<u8>) -> Answer {
    let mut answer = Response::new(whole(bytes));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

/// Why a request is not done: an answer that is not 200.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Refused {
    pub(super) status: StatusCode,
    pub(super) refusal: Refusal,
    /// The connection ends: its state is unclear, or the client is over a limit.
    pub(super) closes: bool,
    /// Bytes of an upload that have arrived.
    pub(super) offset: Option<u64>,
}

impl Refused {
    pub(super) fn new(code: RefusalCode, message: impl Into<String>) -> Refused {
        Refusal { code, message: message.into() }.into()
    }

    /// With another status than the code's.
    pub(super) fn with_status(self, status: StatusCode) -> Refused {
        Refused { status, ..self }
    }

    pub(super) fn closing(self) -> Refused {
        Refused { closes: true, ..self }
    }

    pub(super) fn answer(&self) -> Answer {
        let mut answer = json(self.status, serde_json::to_vec(&self.refusal).unwrap_or_default());
        let headers = answer.headers_mut();
        if matches!(self.refusal.code, RefusalCode::Busy | RefusalCode::Unavailable | RefusalCode::DiskFull) {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.closes {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(offset) = self.offset {
            headers.insert("upload-offset", offset.into());
        }
        answer
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Refused {
        let status = StatusCode::from_u16(refusal.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Refused { status, refusal, closes: false, offset: None }
    }
}
