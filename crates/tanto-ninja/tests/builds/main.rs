//! Builds on a virtual disk with a fake runner: what is dirty, what runs, and what is remembered.

mod ahead;
mod alike;
mod basics;
mod discovered;
mod dynamic;
mod restat;
mod urgency;
mod world;
