//! Errors of requests, and which of them pass with time.

use std::fmt::Display;
use std::io;

use tanto_protocol::{Digest, Refusal, RefusalCode};

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address or the certificates of the join file cannot be used.
    #[error("the join file cannot be used: {0}")]
    JoinFile(String),
    /// No answer: the network, the server, or its name.
    #[error("cannot reach the server: {0}")]
    Unreachable(String),
    /// Another authority than the join file's, another name, or an expired certificate.
    #[error("the server's certificate is not valid: {0}. A client that was away for months needs a new join file")]
    Certificate(String),
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// The answer is not one of this protocol.
    #[error("the server's answer cannot be understood: {0}")]
    Protocol(String),
    /// What was received has another digest.
    #[error("the server sent something else than the blob {0}")]
    Mismatch(Digest),
    #[error("{0}")]
    File(#[from] io::Error),
}

impl ClientError {
    /// The same request may succeed later, without any change at the client.
    pub fn is_transient(&self) -> bool {
        match self {
            ClientError::Unreachable(_) => true,
            ClientError::Refused(refusal) => {
                matches!(refusal.code, RefusalCode::Busy | RefusalCode::Unavailable | RefusalCode::DiskFull)
            }
            ClientError::JoinFile(_)
            | ClientError::Certificate(_)
            | ClientError::Protocol(_)
            | ClientError::Mismatch(_)
            | ClientError::File(_) => false,
        }
    }

    /// Why the coordinator or the server refused the request.
    pub fn refusal(&self) -> Option<RefusalCode> {
        match self {
            ClientError::Refused(refusal) => Some(refusal.code),
            _ => None,
        }
    }

    pub(super) fn protocol(error: impl Display) -> ClientError {
        ClientError::Protocol(error.to_string())
    }
}

impl From<ureq::Error> for ClientError {
    fn from(error: ureq::Error) -> ClientError {
        let tls = match &error {
            ureq::Error::Rustls(error) => Some(error),
            ureq::Error::Io(error) => error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()),
            _ => None,
        };
        match tls {
            Some(rustls::Error::InvalidCertificate(reason)) => ClientError::Certificate(reason.to_string()),
            _ => match error {
                ureq::Error::Protocol(error) => ClientError::protocol(error),
                ureq::Error::Http(error) => ClientError::protocol(error),
                ureq::Error::BadUri(error) => ClientError::JoinFile(error),
                error => ClientError::Unreachable(error.to_string()),
            },
        }
    }
}
