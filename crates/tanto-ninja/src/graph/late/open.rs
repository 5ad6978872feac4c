//! Manifests that are open. Does not know what is read from them.

use std::fs::File;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use tanto_sys::fs::file::path;

use crate::hash::Map;

/// So many are open at a time. Fewer, and manifests that are read by turns are opened again and again; more, and few
/// descriptors are left for commands: often there are 1,024 of them.
const MOST_OPEN: usize = 64;

/// By their numbers.
#[derive(Default)]
pub(super) struct Open(RwLock<Map<u32, Arc<File>>>);

impl Open {
    /// The file at this path, which has this number.
    pub(super) fn get(&self, number: u32, name: &[u8]) -> io::Result<Arc<File>> {
        if let Some(file) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&number) {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(File::open(path(name))?);
        let mut files = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if files.len() >= MOST_OPEN {
            files.clear();
        }
        Ok(Arc::clone(files.entry(number).or_insert(file)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn no_more_than_some_are_open() {
        let dir = Scratch::new("open");
        let open = Open::default();
        let count = || open.0.read().unwrap().len();
        for number in 0..3 * MOST_OPEN as u32 {
            dir.write(&number.to_string(), "");
            let name = dir.bytes(&number.to_string());
            let file = open.get(number, &name).unwrap();
            assert!(Arc::ptr_eq(&file, &open.get(number, &name).unwrap()));
            assert!((1..=MOST_OPEN).contains(&count()));
        }
        assert!(open.get(u32::MAX, &dir.bytes("none")).is_err());
    }
}
