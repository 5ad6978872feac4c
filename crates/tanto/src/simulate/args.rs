//! What `tanto simulate` is asked for. Does not know where builds come from.

use tanto_ninja::getopt::{self, Bad, Getopt};

use crate::flags::number;
use crate::settings::layer::{self, Memory};

/// In which order jobs go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    /// That which a build would take.
    Ours,
    /// The longest chain by time first.
    Critical,
    /// The longest chain by its number of commands first.
    Ninja,
    /// As they stand in the manifest.
    Fifo,
}

/// A command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Args {
    pub(super) dir: Option<Vec<u8>>,
    pub(super) manifest: Vec<u8>,
    /// Commands at a time, one after the other.
    pub(super) slots: Vec<usize>,
    /// `Off`, or so much.
    pub(super) memory: Memory,
    pub(super) order: Wanted,
    /// A recorded build instead of the manifest's.
    pub(super) session: Option<Vec<u8>>,
    pub(super) targets: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Id {
    Help,
    Directory,
    Manifest,
    Jobs,
    Memory,
    Order,
    Session,
}

struct Flag {
    id: Id,
    letter: Option<u8>,
    name: Option<&'static str>,
}

static FLAGS: [Flag; 7] = [
    Flag { id: Id::Help, letter: Some(b'h'), name: Some("help") },
    Flag { id: Id::Directory, letter: Some(b'C'), name: None },
    Flag { id: Id::Manifest, letter: Some(b'f'), name: None },
    Flag { id: Id::Jobs, letter: Some(b'j'), name: None },
    Flag { id: Id::Memory, letter: None, name: Some("memory") },
    Flag { id: Id::Order, letter: None, name: Some("order") },
    Flag { id: Id::Session, letter: None, name: Some("session") },
];

/// More at a time are no machine's.
const MOST_SLOTS: i64 = 1 << 20;

impl getopt::Flag for Flag {
    fn letter(&self) -> Option<u8> {
        self.letter
    }

    fn name(&self) -> Option<&'static str> {
        self.name
    }

    fn takes_value(&self) -> bool {
        self.id != Id::Help
    }
}

impl Args {
    /// Reads the words after `simulate`; none if help is wanted. An error is a text for the user.
    pub(super) fn read(words: &[Vec<u8>]) -> Result<Option<Args>, Vec<u8>> {
        let mut args = Args {
            dir: None,
            manifest: b"build.ninja".to_vec(),
            slots: usual_slots(tanto_sys::cpu::count()),
            memory: Memory::Off,
            order: Wanted::Ours,
            session: None,
            targets: Vec::new(),
        };
        let mut getopt = Getopt::new(&FLAGS, words, getopt::is_posix());
        while let Some((flag, value)) = getopt.flag().map_err(|Bad(message)| message)? {
            match flag.id {
                Id::Help => return Ok(None),
                Id::Directory => args.dir = Some(value.to_vec()),
                Id::Manifest => args.manifest = value.to_vec(),
                Id::Jobs => args.slots = slots(value).ok_or(b"expected numbers such as -j 4,8,16")?,
                Id::Memory => args.memory = memory(value).ok_or(b"expected 'off' or a size such as --memory 8G")?,
                Id::Session => args.session = Some(value.to_vec()),
                Id::Order => {
                    args.order = order(value).ok_or(b"expected --order auto, critical, ninja or fifo")?;
                }
            }
        }
        args.targets = getopt.into_operands();
        if args.session.is_some() && !args.targets.is_empty() {
            return Err(b"a session has no targets: all that ran in it is simulated".into());
        }
        Ok(Some(args))
    }
}

/// 1, 2, 4 ... to 64, and as many as there are processors.
fn usual_slots(processors: usize) -> Vec<usize> {
    let mut slots: Vec<usize> = (0..7).map(|power| 1 << power).chain([processors.max(1)]).collect();
    slots.sort_unstable();
    slots.dedup();
    slots
}

fn slots(value: &[u8]) -> Option<Vec<usize>> {
    let count = |text: &[u8]| number::integer(text).filter(|count| (1..=MOST_SLOTS).contains(count));
    value.split(|&byte| byte == b',').map(|text| Some(count(text)? as usize)).collect()
}

fn memory(value: &[u8]) -> Option<Memory> {
    layer::memory(value).filter(|&memory| memory != Memory::Free)
}

fn order(value: &[u8]) -> Option<Wanted> {
    match value {
        b"auto" => Some(Wanted::Ours),
        b"critical" => Some(Wanted::Critical),
        b"ninja" => Some(Wanted::Ninja),
        b"fifo" => Some(Wanted::Fifo),
        _ => None,
    }
}
