//! Output of a command that is too large for memory: an unnamed, mapped file.

use std::fs::File;
use std::io::{self, Write};
use std::rc::Rc;

use tanto_sys::memory::map::Map;

/// The file disappears with the last clone.
#[derive(Clone, Debug)]
pub struct Spilled {
    file: Rc<File>,
    map: Rc<Map>,
}

impl Spilled {
    /// Maps a completely written file.
    pub fn new(file: File) -> io::Result<Spilled> {
        let map = Rc::new(Map::new(&file, file.metadata()?.len())?);
        Ok(Spilled { file: Rc::new(file), map })
    }

    pub fn bytes(&self) -> &[u8] {
        self.map.bytes()
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        (&*self.file).write_all(bytes)?;
        self.map = Rc::new(Map::new(&self.file, self.file.metadata()?.len())?);
        Ok(())
    }
}

impl PartialEq for Spilled {
    fn eq(&self, other: &Spilled) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Spilled {}
