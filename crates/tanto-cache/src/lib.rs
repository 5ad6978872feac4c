//! Action cache: results of compiles, keyed by the content of all observed inputs.
//!
//! An *action* is a command line with its directory and some variables. Its *key* leads to up to 16 *entries*, each with
//! the inputs of one run and the result. An entry whose inputs are unchanged is a hit: the command would write its result.

mod action;
mod cache;
mod cache_dir;
#[doc(hidden)]
pub mod compile;
mod counters;
mod entry;
mod input_names;
mod maintenance;
mod observer;
mod places;
mod plain_files;
mod programs;
mod recorded_inputs;
mod restore;
mod runner;
mod variables;
mod ways;
mod workers;

#[doc(hidden)]
pub mod parsers;

pub use self::cache_dir::{CacheAccess, CacheError};
pub use self::counters::Counters;
pub use self::maintenance::{CacheContents, Verification, clear, contents, verify};
pub use self::runner::{CacheOptions, CacheRunner, CacheSummary};
