//! Ways to get at the content of files, each on several threads. Does not know how long they take.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};
use std::thread;

use tanto_sys::fs::file;
use tanto_sys::memory::{self, map::Map};

/// What threads that share a file take at a time, in bytes. A smaller file is read by one of them.
const PIECE: usize = 1 << 20;

/// Bytes to be read from the beginning of a file.
#[derive(Clone, Debug)]
pub struct Item {
    pub path: Vec<u8>,
    pub size: u64,
}

/// A way to read. After each, every byte is looked at once: what is only mapped was not read yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// One thread reads a file.
    Read,
    /// Threads read pieces of it into memory that they share.
    Pread,
    /// It is mapped, and threads look at pieces of it.
    Map,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 3] = [Way::Read, Way::Pread, Way::Map];

    /// What its users call it.
    pub fn name(self) -> &'static str {
        match self {
            Way::Read => "read",
            Way::Pread => "pread",
            Way::Map => "mmap",
        }
    }

    /// Reads all items, on so many threads where there is enough to do.
    pub fn read(self, items: &[Item], threads: usize) -> io::Result<()> {
        let is_shared = |item: &&Item| self != Way::Read && item.size > PIECE as u64;
        for item in items.iter().filter(is_shared) {
            self.item(item, threads)?;
        }
        share(items.iter().filter(|item| !is_shared(item)), threads, |item| self.item(item, 1))
    }

    fn item(self, item: &Item, threads: usize) -> io::Result<()> {
        let file = File::open(file::path(&item.path))?;
        let size = usize::try_from(item.size).map_err(|_| ErrorKind::OutOfMemory)?;
        match self {
            Way::Read => read(&file, size),
            Way::Pread => pread(&file, size, threads),
            Way::Map => map(&file, item.size, threads),
        }
    }
}

fn read(file: &File, size: usize) -> io::Result<()> {
    let mut content = Vec::with_capacity(size);
    memory::advise_huge_pages(&content);
    file.take(size as u64).read_to_end(&mut content)?;
    look(&content)?;
    whole(content.len() == size)
}

fn pread(file: &File, size: usize, threads: usize) -> io::Result<()> {
    let mut content = vec![0; size];
    memory::advise_huge_pages(&content);
    share(content.chunks_mut(PIECE).enumerate(), threads, |(number, piece)| {
        file.read_exact_at(piece, (number * PIECE) as u64)?;
        look(piece)
    })
}

fn map(file: &File, size: u64, threads: usize) -> io::Result<()> {
    let map = Map::new(file, size)?;
    share(map.chunks(PIECE), threads, look)?;
    whole(!map.is_torn())
}

fn whole(is_whole: bool) -> io::Result<()> {
    if is_whole { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
}

fn look(piece: &[u8]) -> io::Result<()> {
    black_box(piece.iter().fold(0_u8, |sum, &byte| sum.wrapping_add(byte)));
    Ok(())
}

/// Does something with each piece, on so many threads; the first error of each ends its work.
fn share<P: Send>(
    pieces: impl Iterator<Item = P> + Send,
    threads: usize,
    work: impl Fn(P) -> io::Result<()> + Sync,
) -> io::Result<()> {
    let pieces = Mutex::new(pieces.fuse());
    let next = || pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
    let all = || std::iter::from_fn(next).try_for_each(&work);
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(all)).collect();
        let ours = all();
        let joined = others.into_iter().map(|other| other.join().unwrap_or(Err(ErrorKind::Other.into())));
        joined.fold(ours, Result::and)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tanto_testing::Scratch;

    #[test]
    fn every_way_reads_files_of_every_size() {
        let dir = Scratch::new("bench-ways");
        let items: Vec<Item> = [1, 5000, PIECE, 3 * PIECE + 7]
            .iter()
            .map(|&size| {
                dir.write(&size.to_string(), vec![1; size]);
                Item { path: dir.bytes(&size.to_string()), size: size as u64 }
            })
            .collect();
        for way in Way::ALL {
            for threads in [1, 3] {
                way.read(&items, threads).unwrap();
            }
            // A file that has become shorter.
            for size in [10_000, 3 * PIECE + 8192] {
                let item = Item { path: dir.bytes("5000"), size: size as u64 };
                assert!(way.read(&[item], 2).is_err(), "{way:?}");
            }
            assert!(way.read(&[Item { path: dir.bytes("none"), size: 1 }], 2).is_err());
        }
    }

    #[test]
    fn each_piece_is_worked_on_once() {
        for threads in [1, 4] {
            let sum = AtomicUsize::new(0);
            let add = |number| {
                sum.fetch_add(number, Ordering::Relaxed);
                Ok(())
            };
            share(0..100, threads, add).unwrap();
            assert_eq!(sum.into_inner(), 4950);
            assert!(share(0..100, threads, |_| Err(ErrorKind::Other.into())).is_err());
        }
    }
}
