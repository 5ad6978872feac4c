//! Tanto under the name `ninja` beside the referee: the same tree, the same changes, the same answers. It knows
//! nothing of Tanto's insides, but for `harness/alike.rs`, which looks at each tree with one thread and with several.
//!
//! - `TANTO_REFEREE`: ninja 1.13.2. Without it nothing here runs, and one line says so.
//! - `TANTO_NINJA_1_11`: ninja 1.11.1, for logs of version 5.
//! - `TANTO_SUBJECT`: another program in Tanto's place (the referee itself proves that the cases are deterministic).
//! - `TANTO_OWN=1`: with a subject, play `own` too: a case that another ninja passes does not tell Tanto from it.
//! - `TANTO_KEEP=1`: keep the trees of cases that fail.
//! - `TANTO_SHOW=1`: with `--nocapture`, what the referee said in each case.
//! - `TANTO_SEEDS`, `TANTO_SEED`: how many random graphs, or which one.

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
