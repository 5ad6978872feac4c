//! The text of `.ninja_log` and which of its lines count: for each output the last one. Does not touch the disk.
//!
//! Lines stay text until someone asks for one; where they begin is known by node. Lines that are not of their form are
//! skipped; one without a line end is torn, and no part of the text as it is kept here.

use std::collections::HashSet;
use std::ops::Range;

use tanto_sys::threads::map_parallel;

use crate::flat::Slab;
use crate::graph::GraphView;
use crate::ids::NodeId;

use super::ReadPlan;
use super::build_log_line::{self, Entry, Header, NEWEST, OLDEST};
use super::fingerprint::LogFingerprint;
use super::log_buffer::{Content, LogBuffer};
use super::overlay_vec::OverlayVec;
use super::saved_index::BuildLogState;
use super::saved_index::LoggedCommand;
use super::unindexed_lines::UnindexedLines;

/// A picture of the file, as far as it is sound, with an index.
pub(super) struct Entries {
    /// The version of the text, or of the text to come.
    version: u32,
    /// The file's bytes up to the last line end.
    text: LogBuffer,
    /// By node, as many as there were when the index was begun: where its last line begins; 0 for none.
    last: OverlayVec<u64>,
    /// By node, where that was kept: what this line says.
    made: OverlayVec<LoggedCommand>,
    /// How many nodes have a line.
    nodes: usize,
    /// The lines of other outputs.
    side: UnindexedLines,
    /// How many lines there are, those that do not count included.
    lines: usize,
    /// How many of the bytes are known from what was kept.
    saved: usize,
}

/// What was found in a text, to be kept.
pub(super) struct EntryIndex {
    pub(super) version: u32,
    pub(super) lines: usize,
    pub(super) nodes: usize,
    pub(super) last: Slab<u64>,
    pub(super) side: Slab<u64>,
    pub(super) made: Slab<LoggedCommand>,
}

/// A line in a chunk: its output's node, if that is in the index, and where in the chunk it begins.
type Found = (Option<NodeId>, u32);

impl Entries {
    /// No text yet. The index will be for so many nodes.
    pub(super) fn new(version: u32, nodes: usize) -> Self {
        assert!((OLDEST..=NEWEST).contains(&version), "no log is written in version {version}");
        let last = OverlayVec::Owned(vec![0; nodes]);
        let (text, side, made) = (LogBuffer::default(), UnindexedLines::default(), OverlayVec::default());
        Entries { version, text, last, made, nodes: 0, side, lines: 0, saved: 0 }
    }

    /// Forgets everything but the version.
    pub(super) fn clear(&mut self, graph: &GraphView<'_>) {
        *self = Entries::new(self.version, graph.steady_count());
    }

    /// Goes on from an index of the first `length` bytes of a text.
    pub(super) fn resume(
        text: LogBuffer,
        length: usize,
        index: EntryIndex,
        graph: &GraphView<'_>,
        plan: ReadPlan,
    ) -> Self {
        let EntryIndex { version, lines, nodes, last, side, made } = index;
        let (last, made, side) = (last.into(), made.into(), UnindexedLines::new(side));
        let mut entries = Entries { version, text, last, made, nodes, side, lines, saved: length };
        entries.read_from(length, 0, graph, plan);
        entries
    }

    /// What is known now.
    pub(super) fn state(&self, fingerprint: LogFingerprint) -> BuildLogState {
        let (last, side) = (self.last.to_vec(), self.side.places().to_vec());
        BuildLogState { fingerprint, version: self.version, lines: self.lines, text: self.text.clone(), last, side }
    }

    /// Reads more text. After a header that is not `Supported` nothing is kept.
    pub(super) fn read(&mut self, content: Content, graph: &GraphView<'_>, plan: ReadPlan) -> Header {
        let at = self.text.len();
        let is_begin = at == 0 && !content.is_empty();
        self.text.add(content);
        if is_begin {
            let (header, version) = build_log_line::read_header(self.text.rest(0));
            if header != Header::Supported {
                self.clear(graph);
                return header;
            }
            self.version = version;
        }
        let header = if is_begin { memchr::memchr(b'\n', self.text.rest(0)).map_or(0, |end| end + 1) } else { 0 };
        self.read_from(at, header, graph, plan);
        Header::Supported
    }

    /// Reads the text from `at` on, where a line begins, but for so many bytes.
    fn read_from(&mut self, at: usize, skipped: usize, graph: &GraphView<'_>, plan: ReadPlan) {
        let sound = memchr::memrchr(b'\n', self.text.rest(at)).map_or(0, |end| end + 1);
        self.text.truncate(at + sound);
        self.read_lines(at + skipped, graph, plan);
    }

    fn read_lines(&mut self, at: usize, graph: &GraphView<'_>, plan: ReadPlan) {
        let text = self.text.rest(at);
        let (chunks, known) = (text.len().div_ceil(plan.chunk), self.last.len());
        let found = map_parallel(plan.threads, (0..chunks).collect(), |chunk| {
            let start = chunk * plan.chunk;
            find_lines(text, start..text.len().min(start + plan.chunk), known, graph)
        });
        for (chunk, lines) in found.into_iter().enumerate() {
            for (node, line) in lines {
                self.put(node, at + chunk * plan.chunk + line as usize);
            }
        }
    }

    fn put(&mut self, node: Option<NodeId>, at: usize) {
        self.lines += 1;
        match node {
            Some(node) => {
                self.nodes += usize::from(self.last.get(node.index()) == Some(0));
                self.last.set(node.index(), at as u64);
                if node.index() < self.made.len() {
                    self.made.set(node.index(), LoggedCommand::UNKNOWN);
                }
            }
            None => self.side.put(at as u64, |at| output_at(&self.text, at)),
        }
    }

    /// The entry of an output.
    pub(super) fn get(&self, graph: &GraphView<'_>, output: NodeId) -> Option<Entry> {
        let at = match self.last.get(output.index()) {
            Some(at) => Some(at).filter(|&at| at != 0),
            None => self.side.find(graph.path(output), |at| output_at(&self.text, at)),
        };
        build_log_line::entry(self.text.rest(at? as usize))
    }

    /// What decides whether an output is dirty.
    pub(super) fn logged_command(&self, graph: &GraphView<'_>, output: NodeId) -> Option<LoggedCommand> {
        let entry = || self.get(graph, output).map(|entry| entry.logged_command());
        self.made.get(output.index()).filter(|made| *made != LoggedCommand::UNKNOWN).or_else(entry)
    }

    /// The place of an output's line, by path.
    fn find(&self, graph: &GraphView<'_>, output: &[u8]) -> Option<u64> {
        match indexed(graph, output, self.last.len()) {
            Some(node) => self.last.get(node.index()).filter(|&at| at != 0),
            None => self.side.find(output, |at| output_at(&self.text, at)),
        }
    }

    /// Outputs and entries, each output once, in the order in which they came into the log.
    pub(super) fn iter<'a>(&'a self, graph: &GraphView<'_>) -> impl Iterator<Item = (&'a [u8], Entry)> {
        let mut seen = HashSet::new();
        // The first one is the header.
        let lines = self.text.parts().into_iter().flat_map(lines).skip(1);
        lines.filter_map(build_log_line::output).filter_map(move |output| {
            let last = self.find(graph, output)?;
            let entry = build_log_line::entry(self.text.rest(last as usize))?;
            seen.insert(last).then_some((output, entry))
        })
    }

    /// Draws up the lines for these outputs, and the header if there is no text yet; changes nothing.
    pub(super) fn draft<'a>(&self, notes: &'a [(Vec<u8>, Entry)]) -> EntryDraft<'a> {
        let mut draft = EntryDraft { text: Vec::new(), lines: Vec::new() };
        if self.text.len() == 0 {
            draft.text.extend_from_slice(&build_log_line::header(self.version));
        }
        for (output, entry) in notes {
            draft.lines.push((output, draft.text.len()));
            build_log_line::write(&mut draft.text, output, entry);
        }
        draft
    }

    /// The draft is in the file now.
    pub(super) fn commit(&mut self, draft: EntryDraft<'_>, graph: &GraphView<'_>) {
        let before = self.text.len();
        self.text.push(&draft.text);
        for (output, line) in draft.lines {
            self.put(indexed(graph, output, self.last.len()), before + line);
        }
    }

    /// A new text with one line for each entry that `keep` keeps; it may change the entry.
    pub(super) fn rewritten<E>(
        &self,
        graph: &GraphView<'_>,
        mut keep: impl FnMut(&[u8], &mut Entry) -> Result<bool, E>,
    ) -> Result<Vec<u8>, E> {
        let mut text = build_log_line::header(self.version);
        for (output, mut entry) in self.iter(graph) {
            if keep(output, &mut entry)? {
                build_log_line::write(&mut text, output, &entry);
            }
        }
        Ok(text)
    }

    /// Is it mostly lines that later ones made void?
    pub(super) fn needs_recompaction(&self) -> bool {
        // Those that are no nodes are counted only where it depends on them.
        let exceeds = |outputs: usize| self.lines > outputs * 3;
        self.lines > 100 && exceeds(self.nodes) && exceeds(self.nodes + self.side.count(|at| output_at(&self.text, at)))
    }

    /// The version.
    pub(super) fn version(&self) -> u32 {
        self.version
    }

    /// How many bytes the file has, as far as we know it.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// How many bytes are not known from what was kept.
    pub(super) fn unsaved_bytes(&self) -> usize {
        self.len().saturating_sub(self.saved)
    }

    /// The text.
    pub(super) fn text(&self) -> &LogBuffer {
        &self.text
    }
}

/// Lines that are to be appended.
pub(super) struct EntryDraft<'a> {
    pub(super) text: Vec<u8>,
    /// Their outputs, and where in `text` they begin.
    lines: Vec<(&'a [u8], usize)>,
}

/// The node of an output, if it is one of the first `known`.
fn indexed(graph: &GraphView<'_>, output: &[u8], known: usize) -> Option<NodeId> {
    graph.lookup(output).filter(|node| node.index() < known)
}

/// The lines that begin in a chunk of `text`.
fn find_lines(text: &[u8], chunk: Range<usize>, known: usize, graph: &GraphView<'_>) -> Vec<Found> {
    let (mut outputs, mut places) = (Vec::new(), Vec::new());
    let mut at = match chunk.start {
        0 => 0,
        // Behind the line before this chunk, if that ends in it at all.
        start => memchr::memchr(b'\n', &text[start - 1..chunk.end]).map_or(chunk.end, |end| start + end),
    };
    while at < chunk.end {
        let line = build_log_line::first(&text[at..]);
        if let Some(output) = build_log_line::output(line) {
            outputs.push(output);
            places.push((at - chunk.start) as u32);
        }
        at += line.len() + 1;
    }
    let mut nodes = Vec::new();
    graph.lookup_all(&outputs, &mut nodes);
    nodes.into_iter().map(|node| node.filter(|node| node.index() < known)).zip(places).collect()
}

/// All lines, without their ends.
fn lines(mut text: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let end = memchr::memchr(b'\n', text)?;
        let line = &text[..end];
        text = &text[end + 1..];
        Some(line)
    })
}

/// The output of a line that has one, unless the file was changed since.
fn output_at(text: &LogBuffer, at: u64) -> &[u8] {
    let text = text.rest(at as usize);
    build_log_line::output(build_log_line::first(&text[..text.len().min(build_log_line::TOO_LONG)])).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Arena;

    #[test]
    fn odd_lines_are_skipped() {
        let arena = Arena::new();
        let graph = arena.empty();
        let mut entries = Entries::new(7, 0);
        let long = [b"1\t2\t3\t".as_slice(), &vec![b'x'; build_log_line::TOO_LONG], b"\t4\n"].concat();
        let text =
            [b"# ninja log v6\t\tx\th\t\n1\t2\t3\ta\n\n\t\t\t\n1\t2\t3\tb\t4\n".as_slice(), &long, b"5\t6\t7\tc\t8"]
                .concat();
        assert_eq!(entries.read(Content::Read(text), &graph, ReadPlan::ONE), Header::Supported);
        assert_eq!(entries.version(), 6);
        let outputs: Vec<_> = entries.iter(&graph).map(|(output, _)| output.to_vec()).collect();
        assert_eq!(outputs, [b"b"]);
    }

    #[test]
    fn a_log_is_empty_until_its_header_is_whole() {
        let arena = Arena::new();
        let graph = arena.empty();
        for (text, version) in [(b"".as_slice(), 7), (b"# ninja log v5", 5)] {
            let mut entries = Entries::new(7, 0);
            assert_eq!(entries.read(Content::Read(text.into()), &graph, ReadPlan::ONE), Header::Supported);
            assert_eq!((entries.version(), entries.len()), (version, 0));
        }
    }
}
