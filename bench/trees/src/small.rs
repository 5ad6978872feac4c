//! Two small trees: many commands that do nothing, and ten edges.

use std::fmt::Write;
use std::fs;
use std::io::Result;
use std::path::Path;

/// Writes a manifest of `count` edges that run the same command, and a makefile that does the same.
pub fn write_spawn(dir: &Path, count: u64, command: &str) -> Result<()> {
    let (mut manifest, mut makefile) = (format!("rule r\n  command = {command}\n"), String::from("all:"));
    let mut rules = String::new();
    for number in 0..count {
        let written = writeln!(manifest, "build o{number}: r")
            .and_then(|()| write!(makefile, " o{number}"))
            .and_then(|()| writeln!(rules, "o{number}:\n\t@{command}"));
        written.expect("a string takes all");
    }
    fs::write(dir.join("build.ninja"), manifest)?;
    fs::write(dir.join("Makefile"), format!("{makefile}\n{rules}"))
}

/// Writes ten edges that copy and join files.
pub fn write_tiny(dir: &Path) -> Result<()> {
    let mut manifest = String::from("rule cc\n  command = cp $in $out\n");
    for number in 0..9 {
        manifest.push_str(&format!("build o{number}: cc i{number}\n"));
        fs::write(dir.join(format!("i{number}")), "")?;
    }
    manifest.push_str("rule ld\n  command = cat $in > $out\nbuild all: ld o0 o1 o2 o3 o4 o5 o6 o7 o8\n");
    fs::write(dir.join("build.ninja"), manifest)
}
