//! What `tanto simulate` is asked for. Does not know where builds come from.

use tanto_ninja::getopt::Bad;
use tanto_ninja::getopt::given::{Given, Plain, both, letter, name};

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

static FLAGS: [Plain; 7] = [
    both(b'h', "help"),
    letter(b'C').with_value(),
    letter(b'f').with_value(),
    letter(b'j').with_value(),
    name("memory").with_value(),
    name("order").with_value(),
    name("session").with_value(),
];

/// More at a time are no machine's.
const MOST_SLOTS: i64 = 1 << 20;

impl Args {
    /// Reads the words after `simulate`; none if help is wanted. An error is a text for the user.
    pub(super) fn read(words: &[Vec<u8>]) -> Result<Option<Args>, Vec<u8>> {
        let given = Given::read(&FLAGS, words).map_err(Bad::with_hint)?;
        if given.has("h") {
            return Ok(None);
        }
        let owned = |key: &str| given.value(key).map(<[u8]>::to_vec);
        let args = Args {
            dir: owned("C"),
            manifest: owned("f").unwrap_or(b"build.ninja".to_vec()),
            slots: match given.value("j") {
                None => usual_slots(tanto_sys::machine::cpu::count()),
                Some(value) => slots(value).ok_or(b"expected numbers such as -j 4,8,16")?,
            },
            memory: match given.value("memory") {
                None => Memory::Off,
                Some(value) => memory(value).ok_or(b"expected 'off' or a size such as --memory 8G")?,
            },
            order: match given.value("order") {
                None => Wanted::Ours,
                Some(value) => order(value).ok_or(b"expected --order auto, critical, ninja or fifo")?,
            },
            session: owned("session"),
            targets: given.operands.clone(),
        };
        if args.session.is_some() && !args.targets.is_empty() {
            return Err(b"a session has no targets: all that ran in it is simulated".into());
        }
        Ok(Some(args))
    }
}

/// 1, 2, 4 ... to 64, and as many as there are processors.
pub(crate) fn usual_slots(processors: usize) -> Vec<usize> {
    let mut slots: Vec<usize> = (0..7).map(|power| 1 << power).chain([processors.max(1)]).collect();
    slots.sort_unstable();
    slots.dedup();
    slots
}

/// Numbers of commands at a time, separated by commas.
pub(crate) fn slots(value: &[u8]) -> Option<Vec<usize>> {
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
