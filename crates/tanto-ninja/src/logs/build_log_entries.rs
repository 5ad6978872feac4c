//! The text of `.ninja_log` with an index of the last line of each output.
//!
//! Lines are parsed on demand. Malformed lines are skipped; an incomplete last line is dropped.

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

pub(super) struct Entries {
    /// The version of the text, or of a new log.
    version: u32,
    /// The file up to its last line end.
    text: LogBuffer,
    /// By node, for the nodes that existed when the index was created: the offset of the last line, or 0.
    last: OverlayVec<u64>,
    /// By node, if saved: the parsed last line.
    logged: OverlayVec<LoggedCommand>,
    /// The number of nodes with a line.
    nodes: usize,
    /// Lines of other outputs.
    unindexed: UnindexedLines,
    /// All lines, including superseded ones.
    lines: usize,
    /// The number of bytes covered by the saved index.
    saved: usize,
}

/// The index of a text, in saved form.
pub(super) struct EntryIndex {
    pub(super) version: u32,
    pub(super) lines: usize,
    pub(super) nodes: usize,
    pub(super) last: Slab<u64>,
    pub(super) unindexed: Slab<u64>,
    pub(super) logged: Slab<LoggedCommand>,
}

/// A line in a chunk: the output's node, if indexed, and the offset in the chunk.
type Found = (Option<NodeId>, u32);

impl Entries {
    /// An empty log with an index for this many nodes.
    pub(super) fn new(version: u32, nodes: usize) -> Self {
        assert!((OLDEST..=NEWEST).contains(&version), "no log is written in version {version}");
        let last = OverlayVec::Owned(vec![0; nodes]);
        let (text, unindexed, logged) = (LogBuffer::default(), UnindexedLines::default(), OverlayVec::default());
        Entries { version, text, last, logged, nodes: 0, unindexed, lines: 0, saved: 0 }
    }

    /// Resets everything but the version.
    pub(super) fn clear(&mut self, graph: &GraphView<'_>) {
        *self = Entries::new(self.version, graph.steady_count());
    }

    /// Continues from an index of the first `length` bytes.
    pub(super) fn resume(
        text: LogBuffer,
        length: usize,
        index: EntryIndex,
        graph: &GraphView<'_>,
        plan: ReadPlan,
    ) -> Self {
        let EntryIndex { version, lines, nodes, last, unindexed, logged } = index;
        let (last, logged, unindexed) = (last.into(), logged.into(), UnindexedLines::new(unindexed));
        let mut entries = Entries { version, text, last, logged, nodes, unindexed, lines, saved: length };
        entries.read_from(length, 0, graph, plan);
        entries
    }

    pub(super) fn state(&self, fingerprint: LogFingerprint) -> BuildLogState {
        let (last, unindexed) = (self.last.to_vec(), self.unindexed.places().to_vec());
        BuildLogState {
            fingerprint,
            version: self.version,
            lines: self.lines,
            text: self.text.clone(),
            last,
            unindexed,
        }
    }

    /// Reads more text. If the header is not `Supported`, nothing is kept.
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

    /// Reads the text from the line at offset `at`, without the first `skipped` bytes.
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
                if node.index() < self.logged.len() {
                    self.logged.set(node.index(), LoggedCommand::UNKNOWN);
                }
            }
            None => self.unindexed.put(at as u64, |at| output_at(&self.text, at)),
        }
    }

    pub(super) fn get(&self, graph: &GraphView<'_>, output: NodeId) -> Option<Entry> {
        let at = match self.last.get(output.index()) {
            Some(at) => Some(at).filter(|&at| at != 0),
            None => self.unindexed.find(graph.path(output), |at| output_at(&self.text, at)),
        };
        build_log_line::entry(self.text.rest(at? as usize))
    }

    pub(super) fn logged_command(&self, graph: &GraphView<'_>, output: NodeId) -> Option<LoggedCommand> {
        let entry = || self.get(graph, output).map(|entry| entry.logged_command());
        self.logged.get(output.index()).filter(|logged| *logged != LoggedCommand::UNKNOWN).or_else(entry)
    }

    /// The offset of an output's last line.
    fn find(&self, graph: &GraphView<'_>, output: &[u8]) -> Option<u64> {
        match indexed(graph, output, self.last.len()) {
            Some(node) => self.last.get(node.index()).filter(|&at| at != 0),
            None => self.unindexed.find(output, |at| output_at(&self.text, at)),
        }
    }

    /// Outputs with their entries, without duplicates, in the order of their first line.
    pub(super) fn iter<'a>(&'a self, graph: &GraphView<'_>) -> impl Iterator<Item = (&'a [u8], Entry)> {
        let mut seen = HashSet::new();
        // Skips the header.
        let lines = self.text.parts().into_iter().flat_map(lines).skip(1);
        lines.filter_map(build_log_line::output).filter_map(move |output| {
            let last = self.find(graph, output)?;
            let entry = build_log_line::entry(self.text.rest(last as usize))?;
            seen.insert(last).then_some((output, entry))
        })
    }

    /// Formats the lines for these outputs, with the header if the log is empty.
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

    /// Adds lines that were written to the file.
    pub(super) fn commit(&mut self, draft: EntryDraft<'_>, graph: &GraphView<'_>) {
        let before = self.text.len();
        self.text.push(&draft.text);
        for (output, line) in draft.lines {
            self.put(indexed(graph, output, self.last.len()), before + line);
        }
    }

    /// Returns a new text with one line for each entry that `keep` accepts; `keep` may change the entry.
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

    /// Returns whether most lines are superseded.
    pub(super) fn needs_recompaction(&self) -> bool {
        // Unindexed outputs are counted only if they matter, because that builds a table.
        let exceeds = |outputs: usize| self.lines > outputs * 3;
        self.lines > 100
            && exceeds(self.nodes)
            && exceeds(self.nodes + self.unindexed.count(|at| output_at(&self.text, at)))
    }

    pub(super) fn version(&self) -> u32 {
        self.version
    }

    /// The number of bytes known, which is the size of the file.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    pub(super) fn unsaved_bytes(&self) -> usize {
        self.len().saturating_sub(self.saved)
    }

    pub(super) fn text(&self) -> &LogBuffer {
        &self.text
    }
}

/// Lines to append.
pub(super) struct EntryDraft<'a> {
    pub(super) text: Vec<u8>,
    /// Outputs, and the offsets of their lines in `text`.
    lines: Vec<(&'a [u8], usize)>,
}

/// The node of an output, if it is one of the first `known` nodes.
fn indexed(graph: &GraphView<'_>, output: &[u8], known: usize) -> Option<NodeId> {
    graph.lookup(output).filter(|node| node.index() < known)
}

/// The lines that begin in a chunk of `text`.
fn find_lines(text: &[u8], chunk: Range<usize>, known: usize, graph: &GraphView<'_>) -> Vec<Found> {
    let (mut outputs, mut places) = (Vec::new(), Vec::new());
    let mut at = match chunk.start {
        0 => 0,
        // Starts after the line that began in an earlier chunk, if that ends in this one.
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

/// All lines without their ends.
fn lines(mut text: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let end = memchr::memchr(b'\n', text)?;
        let line = &text[..end];
        text = &text[end + 1..];
        Some(line)
    })
}

/// The output of a line. It is empty if the file was changed since.
fn output_at(text: &LogBuffer, at: u64) -> &[u8] {
    let text = text.rest(at as usize);
    build_log_line::output(build_log_line::first(&text[..text.len().min(build_log_line::TOO_LONG)])).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Arena;

    #[test]
    fn malformed_lines_are_skipped() {
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
    fn log_with_incomplete_header_is_empty() {
        let arena = Arena::new();
        let graph = arena.empty();
        for (text, version) in [(b"".as_slice(), 7), (b"# ninja log v5", 5)] {
            let mut entries = Entries::new(7, 0);
            assert_eq!(entries.read(Content::Read(text.into()), &graph, ReadPlan::ONE), Header::Supported);
            assert_eq!((entries.version(), entries.len()), (version, 0));
        }
    }
}
