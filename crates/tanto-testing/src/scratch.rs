//! Directories for tests. Does not know what is put there.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A new, empty directory of one test, gone with it.
pub struct Scratch(PathBuf);

impl Scratch {
    /// `name` is for whoever looks at what a killed test left.
    pub fn new(name: &str) -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("tanto-{}-{number}-{name}", std::process::id()));
        // A test that was killed may have left it, and another process may get the same number.
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).expect("a new directory");
        Scratch(dir)
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The directory itself, as text.
    pub fn text(&self) -> &str {
        self.0.to_str().expect("a temporary directory's name is text")
    }

    /// What has this name in it.
    pub fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// As `at`, in bytes.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        self.at(name).into_os_string().into_encoded_bytes()
    }

    /// Writes a file, and makes the directories above it.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.at(name);
        fs::create_dir_all(path.parent().expect("it lies in the directory")).expect("directories");
        fs::write(path, content).expect("a file");
    }

    /// As `write`, for what is run. Another process writes it: what a test beside this one starts just then would have it
    /// open too, and as long as somebody can write to a file nobody can run it.
    pub fn program(&self, name: &str, content: impl AsRef<[u8]>) {
        self.write(name, "");
        let mut shell = Command::new("sh");
        shell.args(["-c", "cat >\"$1.new\" && chmod 755 \"$1.new\" && mv \"$1.new\" \"$1\"", "sh"]).arg(self.at(name));
        let mut child = shell.stdin(Stdio::piped()).spawn().expect("a shell");
        child.stdin.take().expect("its input").write_all(content.as_ref()).expect("a shell that reads");
        assert!(child.wait().expect("its end").success(), "{name} is written");
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
