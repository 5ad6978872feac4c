//! Explanation things are dirty, in ninja's words (`-d explain`). Costs nothing unless asked for, and little if it is: what is
//! noted becomes words only when somebody reads them. Does not know how it is shown.

use crate::disk::Mtime;
use crate::graph::Graph;
use crate::hash::Map;
use crate::ids::NodeId;

/// So many reasons for one node are enough for a record of the build. Fewer, and the one that tells most may be lost;
/// more, and a program that is linked from thousands of new files has a reason for each.
const MAX_BRIEF: u32 = 4;

/// How much is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExplainLevel {
    /// Nothing.
    Off,
    /// A few reasons for each node, and nothing that is to be said at once.
    Brief,
    /// Everything.
    All,
}

/// Explanation a node is dirty. Times are those of files or of the log, in nanoseconds since 1970.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Explanation {
    /// It is a source, and not there.
    NoSource,
    /// This input is dirty.
    Input(NodeId),
    /// It is an output, and not there.
    Missing,
    /// It is a group without inputs, which is no file either.
    EmptyGroup,
    /// It is older than its newest input.
    Older(NewestInput),
    /// Its command ran before its newest input was written.
    LoggedBefore(NewestInput),
    /// The log does not know it.
    NotLogged,
    /// Its command was another one.
    OtherCommand,
    /// Nobody knows what its command read.
    NoDeps,
    /// It was written at `theirs`, after what its command read was noted at `ours`.
    OldDeps {
        /// What the log of dependencies says.
        ours: Mtime,
        /// What the file says.
        theirs: Mtime,
    },
    /// Something else, in words.
    Other(Vec<u8>),
}

/// The newest input, and how its time and the output's differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewestInput {
    /// Which it is; none if there is no input at all.
    pub input: Option<NodeId>,
    /// The output's time, or when its command ran.
    pub ours: Mtime,
    /// The input's.
    pub theirs: Mtime,
}

/// Reasons by the node they are about, and sentences that are to be said at once.
pub struct Explanations {
    level: ExplainLevel,
    by_node: Map<NodeId, NodeNotes>,
    notes: Vec<Note>,
    announcements: Vec<Vec<u8>>,
}

/// The notes about one node.
struct NodeNotes {
    first: u32,
    last: u32,
    count: u32,
}

struct Note {
    explanation: Explanation,
    /// The next one about the same node, if there is one.
    next: u32,
}

/// No note has this number.
const NONE: u32 = u32::MAX;

impl Explanations {
    /// Keeps so much.
    pub fn new(level: ExplainLevel) -> Self {
        Explanations { level, by_node: Map::default(), notes: Vec::new(), announcements: Vec::new() }
    }

    /// Notes a reason, if it is to be kept.
    pub fn note(&mut self, node: NodeId, explanation: Explanation) {
        let at = self.notes.len() as u32;
        if self.level == ExplainLevel::Off || at == NONE {
            return;
        }
        let notes_of_node = self.by_node.entry(node).or_insert(NodeNotes { first: at, last: NONE, count: 0 });
        if self.level == ExplainLevel::Brief && notes_of_node.count >= MAX_BRIEF {
            return;
        }
        if let Some(last) = self.notes.get_mut(notes_of_node.last as usize) {
            last.next = at;
        }
        (notes_of_node.last, notes_of_node.count) = (at, notes_of_node.count + 1);
        self.notes.push(Note { explanation, next: NONE });
    }

    /// Has something to say that belongs to no command.
    pub fn announce(&mut self, parts: &[&[u8]]) {
        if self.level == ExplainLevel::All {
            self.announcements.push(parts.concat());
        }
    }

    /// What is to be said at once, handed over.
    pub fn take_announcements(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.announcements)
    }

    /// All sentences about these nodes, in order.
    pub fn of_nodes(&self, graph: &Graph<'_>, nodes: &[NodeId]) -> Vec<Vec<u8>> {
        let mut sentences = Vec::new();
        for &node in nodes {
            let mut at = self.by_node.get(&node).map_or(NONE, |notes_of_node| notes_of_node.first);
            while let Some(note) = self.notes.get(at as usize) {
                sentences.push(sentence(graph, node, &note.explanation));
                at = note.next;
            }
        }
        sentences
    }
}

fn sentence(graph: &Graph<'_>, node: NodeId, explanation: &Explanation) -> Vec<u8> {
    let path = graph.path(node);
    match explanation {
        Explanation::NoSource => [path, b" has no in-edge and is missing"].concat(),
        Explanation::Input(input) => [graph.path(*input), b" is dirty"].concat(),
        Explanation::Missing => [b"output ", path, b" doesn't exist"].concat(),
        Explanation::EmptyGroup => [b"output ", path, b" of phony edge with no inputs doesn't exist"].concat(),
        Explanation::Older(newest) => [b"output ", path, &older_than(graph, *newest)[..]].concat(),
        Explanation::LoggedBefore(newest) => [b"recorded mtime of ", path, &older_than(graph, *newest)[..]].concat(),
        Explanation::NotLogged => [b"command line not found in log for ", path].concat(),
        Explanation::OtherCommand => [b"command line changed for ", path].concat(),
        Explanation::NoDeps => [b"deps for '", path, b"' are missing"].concat(),
        Explanation::OldDeps { ours, theirs } => {
            [b"stored deps info out of date for '", path, b"'", &times(*ours, *theirs)[..]].concat()
        }
        Explanation::Other(words) => words.clone(),
    }
}

fn older_than(graph: &Graph<'_>, NewestInput { input, ours, theirs }: NewestInput) -> Vec<u8> {
    let input = input.map_or(&b""[..], |input| graph.path(input));
    [b" older than most recent input ", input, &times(ours, theirs)].concat()
}

fn times(ours: Mtime, theirs: Mtime) -> Vec<u8> {
    format!(" ({ours} vs {theirs})").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Arena;

    fn kept(level: ExplainLevel, count: usize) -> usize {
        let arena = Arena::new();
        let mut graph = arena.empty();
        let (node, other) = (graph.intern(b"node"), graph.intern(b"other"));
        let mut explanations = Explanations::new(level);
        for number in 0..count {
            explanations.note(node, Explanation::Other(number.to_string().into()));
            explanations.note(other, Explanation::Missing);
        }
        explanations.announce(&[b"now"]);
        let sentences = explanations.of_nodes(&graph, &[node]);
        assert!(sentences.iter().enumerate().all(|(at, sentence)| *sentence == at.to_string().into_bytes()));
        assert_eq!(explanations.take_announcements().len(), usize::from(level == ExplainLevel::All));
        sentences.len()
    }

    #[test]
    fn as_much_is_kept_as_is_wanted() {
        assert_eq!(
            [kept(ExplainLevel::Off, 9), kept(ExplainLevel::Brief, 9), kept(ExplainLevel::All, 9)],
            [0, MAX_BRIEF as usize, 9]
        );
        assert_eq!([kept(ExplainLevel::Brief, 0), kept(ExplainLevel::Brief, 2)], [0, 2]);
    }
}
