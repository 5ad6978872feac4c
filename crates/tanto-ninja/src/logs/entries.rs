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

use super::image::{Content, Image};
use super::line::{self, Entry, Header, NEWEST, OLDEST};
use super::parts::Made;
use super::pieces::Shares;
use super::row::Row;
use super::seal::Seal;
use super::seen::SeenBuild;
use super::side::Side;

/// A picture of the file, as far as it is sound, with an index.
pub(super) struct Entries {
    /// The version of the text, or of the text to come.
    version: u32,
    /// The file's bytes up to the last line end.
    text: Image,
    /// By node, as many as there were when the index was begun: where its last line begins; 0 for none.
    last: Row<u64>,
    /// By node, where that was kept: what this line says.
    made: Row<Made>,
    /// How many nodes have a line.
    nodes: usize,
    /// The lines of other outputs.
    side: Side,
    /// How many lines there are, those that do not count included.
    lines: usize,
    /// How many of the bytes are known from what was kept.
    kept: usize,
}

/// What was found in a text, to be kept.
pub(super) struct Index {
    pub(super) version: u32,
    pub(super) lines: usize,
    pub(super) nodes: usize,
    pub(super) last: Slab<u64>,
    pub(super) side: Slab<u64>,
    pub(super) made: Slab<Made>,
}

/// A line in a piece: its output's node, if that is in the index, and where in the piece it begins.
type Found = (Option<NodeId>, u32);

impl Entries {
    /// No text yet. The index will be for so many nodes.
    pub(super) fn new(version: u32, nodes: usize) -> Self {
        assert!((OLDEST..=NEWEST).contains(&version), "no log is written in version {version}");
        let last = Row::Own(vec![0; nodes]);
        let (text, side, made) = (Image::default(), Side::default(), Row::default());
        Entries { version, text, last, made, nodes: 0, side, lines: 0, kept: 0 }
    }

    /// Forgets everything but the version.
    pub(super) fn clear(&mut self, graph: &GraphView<'_>) {
        *self = Entries::new(self.version, graph.steady_count());
    }

    /// Goes on from an index of the first `length` bytes of a text.
    pub(super) fn resume(text: Image, length: usize, index: Index, graph: &GraphView<'_>, shares: Shares) -> Self {
        let Index { version, lines, nodes, last, side, made } = index;
        let (last, made, side) = (last.into(), made.into(), Side::new(side));
        let mut entries = Entries { version, text, last, made, nodes, side, lines, kept: length };
        entries.read_on(length, 0, graph, shares);
        entries
    }

    /// What is known now.
    pub(super) fn seen(&self, seal: Seal) -> SeenBuild {
        let (last, side) = (self.last.to_vec(), self.side.places().to_vec());
        SeenBuild { seal, version: self.version, lines: self.lines, text: self.text.clone(), last, side }
    }

    /// Reads more text. After a header that is not `Known` nothing is kept.
    pub(super) fn read(&mut self, content: Content, graph: &GraphView<'_>, shares: Shares) -> Header {
        let at = self.text.len();
        let is_begin = at == 0 && !content.is_empty();
        self.text.add(content);
        if is_begin {
            let (header, version) = line::read_header(self.text.rest(0));
            if header != Header::Known {
                self.clear(graph);
                return header;
            }
            self.version = version;
        }
        let header = if is_begin { memchr::memchr(b'\n', self.text.rest(0)).map_or(0, |end| end + 1) } else { 0 };
        self.read_on(at, header, graph, shares);
        Header::Known
    }

    /// Reads the text from `at` on, where a line begins, but for so many bytes.
    fn read_on(&mut self, at: usize, skipped: usize, graph: &GraphView<'_>, shares: Shares) {
        let sound = memchr::memrchr(b'\n', self.text.rest(at)).map_or(0, |end| end + 1);
        self.text.truncate(at + sound);
        self.read_lines(at + skipped, graph, shares);
    }

    fn read_lines(&mut self, at: usize, graph: &GraphView<'_>, shares: Shares) {
        let text = self.text.rest(at);
        let (pieces, known) = (text.len().div_ceil(shares.piece), self.last.len());
        let found = map_parallel(shares.crew, (0..pieces).collect(), |piece| {
            let start = piece * shares.piece;
            find_lines(text, start..text.len().min(start + shares.piece), known, graph)
        });
        for (piece, lines) in found.into_iter().enumerate() {
            for (node, line) in lines {
                self.put(node, at + piece * shares.piece + line as usize);
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
                    self.made.set(node.index(), Made::UNKNOWN);
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
        line::entry(self.text.rest(at? as usize))
    }

    /// What decides whether an output is dirty.
    pub(super) fn made(&self, graph: &GraphView<'_>, output: NodeId) -> Option<Made> {
        let entry = || self.get(graph, output).map(|entry| entry.made());
        self.made.get(output.index()).filter(|made| *made != Made::UNKNOWN).or_else(entry)
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
        lines.filter_map(line::output).filter_map(move |output| {
            let last = self.find(graph, output)?;
            let entry = line::entry(self.text.rest(last as usize))?;
            seen.insert(last).then_some((output, entry))
        })
    }

    /// Draws up the lines for these outputs, and the header if there is no text yet; changes nothing.
    pub(super) fn draft<'a>(&self, notes: &'a [(Vec<u8>, Entry)]) -> Draft<'a> {
        let mut draft = Draft { text: Vec::new(), lines: Vec::new() };
        if self.text.len() == 0 {
            draft.text.extend_from_slice(&line::header(self.version));
        }
        for (output, entry) in notes {
            draft.lines.push((output, draft.text.len()));
            line::write(&mut draft.text, output, entry);
        }
        draft
    }

    /// The draft is in the file now.
    pub(super) fn commit(&mut self, draft: Draft<'_>, graph: &GraphView<'_>) {
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
        let mut text = line::header(self.version);
        for (output, mut entry) in self.iter(graph) {
            if keep(output, &mut entry)? {
                line::write(&mut text, output, &entry);
            }
        }
        Ok(text)
    }

    /// Is it mostly lines that later ones made void?
    pub(super) fn is_overgrown(&self) -> bool {
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
    pub(super) fn unsaved(&self) -> usize {
        self.len().saturating_sub(self.kept)
    }

    /// The text.
    pub(super) fn text(&self) -> &Image {
        &self.text
    }
}

/// Lines that are to be appended.
pub(super) struct Draft<'a> {
    pub(super) text: Vec<u8>,
    /// Their outputs, and where in `text` they begin.
    lines: Vec<(&'a [u8], usize)>,
}

/// The node of an output, if it is one of the first `known`.
fn indexed(graph: &GraphView<'_>, output: &[u8], known: usize) -> Option<NodeId> {
    graph.lookup(output).filter(|node| node.index() < known)
}

/// The lines that begin in a piece of `text`.
fn find_lines(text: &[u8], piece: Range<usize>, known: usize, graph: &GraphView<'_>) -> Vec<Found> {
    let (mut outputs, mut places) = (Vec::new(), Vec::new());
    let mut at = match piece.start {
        0 => 0,
        // Behind the line before this piece, if that ends in it at all.
        start => memchr::memchr(b'\n', &text[start - 1..piece.end]).map_or(piece.end, |end| start + end),
    };
    while at < piece.end {
        let line = line::first(&text[at..]);
        if let Some(output) = line::output(line) {
            outputs.push(output);
            places.push((at - piece.start) as u32);
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
fn output_at(text: &Image, at: u64) -> &[u8] {
    let text = text.rest(at as usize);
    line::output(line::first(&text[..text.len().min(line::TOO_LONG)])).unwrap_or_default()
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
        let long = [b"1\t2\t3\t".as_slice(), &vec![b'x'; line::TOO_LONG], b"\t4\n"].concat();
        let text =
            [b"# ninja log v6\t\tx\th\t\n1\t2\t3\ta\n\n\t\t\t\n1\t2\t3\tb\t4\n".as_slice(), &long, b"5\t6\t7\tc\t8"]
                .concat();
        assert_eq!(entries.read(Content::Read(text), &graph, Shares::ONE), Header::Known);
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
            assert_eq!(entries.read(Content::Read(text.into()), &graph, Shares::ONE), Header::Known);
            assert_eq!((entries.version(), entries.len()), (version, 0));
        }
    }
}
