//! Digests of blobs and random identifiers, as hexadecimal text.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A text is not the lowercase hexadecimal number of the right length.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{0}' is not {1} lowercase hexadecimal digits")]
pub struct HexError(String, usize);

fn parse<const N: usize>(text: &str) -> Result<[u8; N], HexError> {
    let error = || HexError(text.chars().take(2 * N).collect(), 2 * N);
    let digits = text.as_bytes();
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    if digits.len() != 2 * N {
        return Err(error());
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = [value(pair[0]), value(pair[1])];
        *byte = high.zip(low).map(|(high, low)| high << 4 | low).ok_or_else(error)?;
    }
    Ok(bytes)
}

macro_rules! hex_type {
    ($(#[$doc:meta])* $name:ident, $bytes:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(pub [u8; $bytes]);

        impl fmt::Display for $name {
            fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(to, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, to)
            }
        }

        impl FromStr for $name {
            type Err = HexError;

            fn from_str(text: &str) -> Result<$name, HexError> {
                parse(text).map($name)
            }
        }

        impl TryFrom<String> for $name {
            type Error = HexError;

            fn try_from(text: String) -> Result<$name, HexError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(it: $name) -> String {
                it.to_string()
            }
        }
    };
}

hex_type!(
    /// The SHA-256 digest of a blob.
    Digest, 32
);
hex_type!(
    /// A client's process.
    InstanceId, 16
);
hex_type!(
    /// A client's process between `hello` and `bye`.
    ConnectionId, 16
);
hex_type!(
    /// A lease. With the number of the attempt, it is the fencing token.
    LeaseId, 16
);
