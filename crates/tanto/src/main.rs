//! The program: its doors, its settings and its wiring. Everything else it asks the other crates.

fn main() {}
