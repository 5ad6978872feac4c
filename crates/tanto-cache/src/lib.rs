//! Action cache: results of commands, found again by the content of everything that the command looked at.
//!
//! An *action* is a command line with all that decides which inputs it looks at first: its directory and some variables.
//! Its *key* leads to up to 16 *entries*, each the list of the inputs of one run and its result. An entry whose inputs are
//! all as they were is a hit: its result is what the command would write.

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
mod plain_files;
mod recorded_inputs;
mod restore;
mod roots;
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
