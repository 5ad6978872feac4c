//! Random numbers of the kernel, which nobody can predict.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// Returns random bytes.
pub fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut at = 0;
    while at < N {
        at += getrandom(&mut bytes[at..], GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ() {
        assert_ne!(bytes::<16>().unwrap(), bytes::<16>().unwrap());
        assert_eq!(bytes::<0>().unwrap(), []);
        assert!(bytes::<4096>().unwrap().iter().any(|&byte| byte != 0));
    }
}
