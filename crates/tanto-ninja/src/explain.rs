//! Collects reasons for dirty nodes (`-d explain`), worded as in ninja. Reasons are turned into text only on demand.

use crate::disk::Mtime;
use crate::graph::Graph;
use crate::hash::Map;
use crate::ids::NodeId;

/// The limit per node for `Brief`. With fewer, the most useful reason may be lost; with more, a program linked from
/// thousands of new files would have thousands of reasons.
const MAX_BRIEF: u32 = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExplainLevel {
    Off,
    /// At most `MAX_BRIEF` reasons per node, and no announcements.
    Brief,
    All,
}

/// The reason a node is dirty. Times are in nanoseconds since 1970, from files or the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Explanation {
    /// A source is missing.
    NoSource,
    /// This input is dirty.
    Input(NodeId),
    /// An output is missing.
    Missing,
    /// A phony target without inputs, which does not exist as a file.
    EmptyGroup,
    /// Older than the newest input.
    Older(NewestInput),
    /// The command started before the newest input was written.
    LoggedBefore(NewestInput),
    NotLogged,
    OtherCommand,
    /// This input has another content than when the command ran, although it is not newer.
    OtherContent(NodeId),
    /// The user wants the command to run.
    Forced,
    /// The command's discovered inputs are unknown.
    NoDeps,
    /// The output was written after the deps record.
    OldDeps {
        /// The mtime in the deps log.
        ours: Mtime,
        /// The mtime of the file.
        theirs: Mtime,
    },
    /// A complete sentence.
    Other(Vec<u8>),
}

/// The newest input, with its time and the output's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewestInput {
    /// `None` if the edge has no inputs.
    pub input: Option<NodeId>,
    /// The output's mtime, or the start of its command.
    pub ours: Mtime,
    /// The input's mtime.
    pub theirs: Mtime,
}

/// Reasons by node, and announcements that belong to no node.
pub struct Explanations {
    level: ExplainLevel,
    by_node: Map<NodeId, NodeNotes>,
    notes: Vec<Note>,
    announcements: Vec<Vec<u8>>,
}

/// A linked list of the notes about one node.
struct NodeNotes {
    first: u32,
    last: u32,
    count: u32,
}

struct Note {
    explanation: Explanation,
    /// The next note about the same node, or `NONE`.
    next: u32,
}

const NONE: u32 = u32::MAX;

impl Explanations {
    pub fn new(level: ExplainLevel) -> Self {
        Explanations { level, by_node: Map::default(), notes: Vec::new(), announcements: Vec::new() }
    }

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

    /// Adds a message to be printed at once.
    pub fn announce(&mut self, parts: &[&[u8]]) {
        if self.are_announced() {
            self.announcements.push(parts.concat());
        }
    }

    /// Returns whether announcements are printed.
    pub fn are_announced(&self) -> bool {
        self.level == ExplainLevel::All
    }

    pub fn take_announcements(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.announcements)
    }

    /// All reasons for these nodes, in order.
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
        Explanation::OtherContent(input) => {
            [b"content of ", graph.path(*input), b" changed since ", path, b" was built"].concat()
        }
        Explanation::Forced => [b"command for ", path, b" is run again on request"].concat(),
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
    fn level_limits_the_reasons_kept() {
        assert_eq!(
            [kept(ExplainLevel::Off, 9), kept(ExplainLevel::Brief, 9), kept(ExplainLevel::All, 9)],
            [0, MAX_BRIEF as usize, 9]
        );
        assert_eq!([kept(ExplainLevel::Brief, 0), kept(ExplainLevel::Brief, 2)], [0, 2]);
    }
}
