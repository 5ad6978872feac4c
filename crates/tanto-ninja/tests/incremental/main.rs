//! Incremental builds with a virtual disk and a fake runner.

mod basics;
mod discovered;
mod dyndep;
mod equivalence;
mod prefetch;
mod priorities;
mod restat;
mod world;
