//! Builds on a virtual disk with a fake runner: what is dirty, what runs, and what is remembered.

mod basics;
mod discovered;
mod dyndep;
mod equivalence;
mod prefetch;
mod priorities;
mod restat;
mod world;
