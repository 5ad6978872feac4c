//! Temporary directories for tests.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// An empty directory, removed when dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// `name` identifies directories left behind by killed tests.
    pub fn new(name: &str) -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("tanto-{}-{number}-{name}", std::process::id()));
        // A killed test may have left it, and process ids are reused.
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).expect("a new directory");
        Scratch(dir)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn text(&self) -> &str {
        self.0.to_str().expect("a temporary directory's name is text")
    }

    /// Returns the path of an entry.
    pub fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Like `at`, in bytes.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        self.at(name).into_os_string().into_encoded_bytes()
    }

    /// Writes a file and creates its parent directories.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.at(name);
        fs::create_dir_all(path.parent().expect("it lies in the directory")).expect("directories");
        fs::write(path, content).expect("a file");
    }

    /// Like `write`, for programs. Another process writes it: a process started by a concurrent test could inherit the
    /// open file, and a file that is open for writing cannot be executed.
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
