//! Evaluation of many commands by one thread, which reuses files, rules and buffers.

use std::sync::Arc;

use super::BindingBlock;
use super::block::MAX_CACHED_RULES;
use crate::error::Result;
use crate::graph::GraphView;
use crate::hash::Map;
use crate::ids::{EdgeId, RuleId};

/// Evaluates commands. They are valid only if `are_unchanged` returns true afterwards.
pub struct CommandEvaluator<'g, 't> {
    graph: &'g GraphView<'t>,
    rules: Map<RuleId, Arc<BindingBlock>>,
    /// Manifests that were read.
    files: Vec<u32>,
    /// Reused buffers for an edge's bindings and its command.
    own: Vec<u8>,
    command: Vec<u8>,
}

impl<'g, 't> CommandEvaluator<'g, 't> {
    pub fn new(graph: &'g GraphView<'t>) -> Self {
        CommandEvaluator { graph, rules: Map::default(), files: Vec::new(), own: Vec::new(), command: Vec::new() }
    }

    /// Like `GraphView::command_for_hash`.
    pub fn for_hash(&mut self, edge: EdgeId) -> Result<&[u8]> {
        let graph = self.graph;
        let rule_block = self.rule(RuleId(graph.data.edges.get(edge.index()).rule))?;
        let own = match graph.bindings_span(edge) {
            None => None,
            Some(span) => {
                self.note_read(span.file);
                self.own.clear();
                graph.data.manifests.read_into(span, &mut self.own)?;
                Some(BindingBlock::new(std::mem::take(&mut self.own)))
            }
        };
        let values = graph.values_of(edge, own, rule_block);
        self.command.clear();
        graph.append_for_hash(edge, &values, &mut self.command)?;
        self.own = values.bindings.map_or_else(Vec::new, BindingBlock::into_text);
        graph.check()?;
        Ok(&self.command)
    }

    /// Checks that the manifests have not changed since they were loaded.
    pub fn are_unchanged(&self) -> bool {
        self.files.iter().all(|&file| self.graph.data.manifests.is_unchanged(file))
    }

    fn rule(&mut self, rule: RuleId) -> Result<Arc<BindingBlock>> {
        if let Some(block) = self.rules.get(&rule) {
            return Ok(Arc::clone(block));
        }
        let span = self.graph.data.env.rule(rule).span;
        self.note_read(span.file);
        let mut text = Vec::new();
        self.graph.data.manifests.read_into(span, &mut text)?;
        let block = Arc::new(BindingBlock::new(text));
        if self.rules.len() >= MAX_CACHED_RULES {
            self.rules.clear();
        }
        self.rules.insert(rule, Arc::clone(&block));
        Ok(block)
    }

    fn note_read(&mut self, file: u32) {
        if self.files.last() != Some(&file) && !self.files.contains(&file) {
            self.files.push(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use tanto_testing::Scratch;

    use super::*;
    use crate::disk::RealDisk;
    use crate::graph::Arena;
    use crate::load::{LoadOptions, load};

    /// More text than a load keeps, with more rules than are cached.
    fn manifest() -> String {
        let mut text =
            "rule one\n  command = one $in > $out $flags\n  rspfile = $out.rsp\n  rspfile_content = $in_newline\n"
                .to_owned();
        for number in 0..400 {
            let filler = "x".repeat(4000);
            let _ = writeln!(text, "rule r{number}\n  command = r{number} $in $flags\nbuild a{number}: r{number} i");
            let _ =
                writeln!(text, "build b{number}: one i\n  flags = {number}{filler}\nbuild c{number}: one i a'{number}");
        }
        text
    }

    #[test]
    fn batch_gives_the_same_commands() {
        let dir = Scratch::new("many-commands");
        dir.write("build.ninja", manifest());
        let arena = Arena::new();
        let options = LoadOptions::default();
        let graph = load(&arena, &RealDisk, &dir.bytes("build.ninja"), options, &mut |_| {}).unwrap();
        let mut commands = CommandEvaluator::new(&graph);
        for edge in graph.edge_ids() {
            assert_eq!(commands.for_hash(edge).unwrap(), graph.command_for_hash(edge).unwrap());
        }
        assert!(commands.are_unchanged());
        dir.write("build.ninja", manifest() + "#");
        assert!(!commands.are_unchanged());
        let mut late = CommandEvaluator::new(&graph);
        assert!(late.are_unchanged());
        late.for_hash(EdgeId(0)).unwrap();
        assert!(!late.are_unchanged());
    }
}
