//! Differential tests: runs Tanto, under the name `ninja`, and a reference ninja on the same trees, and compares the
//! results. Only `harness/alike.rs` uses Tanto's crates: it loads each tree with one thread and with several.
//!
//! - `TANTO_REFEREE`: path of ninja 1.13.2, the reference. Without it the tests are skipped with a message.
//! - `TANTO_NINJA_1_11`: path of ninja 1.11.1, for logs of version 5.
//! - `TANTO_SUBJECT`: another program in place of Tanto. With the reference itself, the cases must pass.
//! - `TANTO_OWN=1`: run `own` also with another subject: a case that it passes does not test a difference.
//! - `TANTO_KEEP=1`: keep the trees of failed cases.
//! - `TANTO_SHOW=1`: with `--nocapture`, print the output of the reference in each case.
//! - `TANTO_SEEDS`, `TANTO_SEED`: the number of random graphs, or a single seed.

mod console;
mod dyndep;
mod errors;
mod flags;
mod harness;
mod interrupt;
mod jobserver;
mod language;
mod logs;
mod manifest;
mod nested;
mod own;
mod pools;
mod random;
mod rebuild;
mod regressions;
mod restat;
mod tools;
