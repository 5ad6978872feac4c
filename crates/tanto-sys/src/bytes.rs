//! Operations on blocks of bytes.

pub mod checksum;
pub mod classes;
pub mod pod;
