//! Compiles the library that is loaded into the user's compilers. It becomes part of the program.

use std::env;
use std::path::Path;
use std::process::Command;

const SOURCES: [&str; 9] = [
    "record.c",
    "libraries.c",
    "interpose.c",
    "interpose_programs.c",
    "frames.c",
    "process.c",
    "huge_pages.c",
    "driver_jobs.c",
    "fork_server.c",
];

fn main() {
    let dir = Path::new("../../preload");
    println!("cargo:rerun-if-changed={}", dir.display());
    println!("cargo:rerun-if-env-changed=CC");
    let out = Path::new(&env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("libtanto-preload.so");
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    // Only functions that replace others are visible, so that no program uses those of the library by accident.
    let status = Command::new(&compiler)
        .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-pthread", "-s"])
        .args(["-U_FORTIFY_SOURCE", "-fno-builtin", "-Wl,-z,now", "-Wl,-soname,libtanto-preload.so"])
        .arg("-o")
        .arg(&out)
        .args(SOURCES.map(|name| dir.join(name)))
        .args(["-ldl"])
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{} ended with {status}", compiler.display()),
        Err(error) => panic!("{} cannot be run: {error}", compiler.display()),
    }
}
