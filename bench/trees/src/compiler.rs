//! The compiler that the trees' commands run, the headers that it finds, and the flags that it gets.

use std::fs;
use std::io::Result;
use std::path::Path;
use std::process::Command;

use crate::hashes::random;

const SOURCE: &str = include_str!("fakecc.c");

const FLAGS: &[&str] = &[
    "-Werror=format-security",
    "-fno-exceptions",
    "-Wno-unused-parameter",
    "-D_FORTIFY_SOURCE=2",
    "-fstack-protector-strong",
    "-ffunction-sections",
    "-fdata-sections",
    "-Iframeworks/native/include",
    "-Isystem/core/include",
    "-Ihardware/libhardware/include",
    "-DANDROID",
    "-fmessage-length=0",
    "-W",
    "-Wall",
    "-Winit-self",
    "-Wpointer-arith",
    "-DNDEBUG",
    "-UDEBUG",
    "-fdebug-prefix-map=/proc/self/cwd=",
    "-isystem bionic/libc/include",
    "-isystem bionic/libc/kernel/uapi/asm-x86",
    "-Wno-reserved-id-macro",
    "-std=gnu++17",
    "-fvisibility-inlines-hidden",
    "-Wsign-promo",
    "-D_LIBCPP_ENABLE_THREAD_SAFETY_ANNOTATIONS",
    "-Iout/soong/.intermediates/bionic/libc/gen",
    "-nostdlibinc",
    "-march=prescott",
    "-O2",
];

/// Headers in a row, as they come in directories.
const RUN: u64 = 8;

/// Writes `tools/fakecc` below `dir`. Without a C compiler the tree can be loaded, but not built.
pub fn install(dir: &Path) -> Result<()> {
    let source = dir.join("tools/fakecc.c");
    fs::create_dir_all(dir.join("tools"))?;
    fs::write(&source, SOURCE)?;
    let made = Command::new("cc").args(["-O2", "-static", "-o"]).arg(dir.join("tools/fakecc")).arg(source).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("tanto-trees: warning: cc failed, so the tree's commands cannot run; install a C compiler");
    }
    Ok(())
}

/// Returns the path of a header.
pub fn header_path(prefix: &str, number: u64) -> String {
    format!("{prefix}/{}/include/header_{number}.h", number / 64)
}

/// The headers of a tree, and how many of them an object reads.
#[derive(Clone, Copy)]
pub struct Headers {
    pub seed: u64,
    pub average: u64,
    pub pool: u64,
}

impl Headers {
    /// Returns the headers that an object reads; `fakecc.c` computes the same.
    pub fn of(self, object: u64) -> Vec<u32> {
        let count = self.average / 2 + random(self.seed, object, 777) % self.average.max(1);
        let common = (count / 3).min(self.pool);
        let mut headers: Vec<u32> = (0..common as u32).collect();
        let mut number = common;
        while self.pool > common && number < count {
            let base = common + random(self.seed, object, number) % (self.pool - common);
            headers.extend((base..self.pool.min(base + RUN.min(count - number))).map(|header| header as u32));
            number += RUN;
        }
        headers
    }
}

/// Returns at least this many bytes of flags.
pub fn flags(seed: u64, bytes: usize) -> String {
    let mut flags = String::with_capacity(bytes + 40);
    for number in 0.. {
        if flags.len() >= bytes {
            break;
        }
        if !flags.is_empty() {
            flags.push(' ');
        }
        flags.push_str(FLAGS[(random(seed, number, 5) % FLAGS.len() as u64) as usize]);
    }
    flags
}
