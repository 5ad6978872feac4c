//! Whether one command has to wait for another, by the manifest alone.

use crate::graph::Graph;
use crate::hash::Map;
use crate::ids::EdgeId;

/// Cached answers to `exists`.
#[derive(Default)]
pub(crate) struct DependencyPaths {
    known: Map<EdgeId, Map<EdgeId, bool>>,
}

impl DependencyPaths {
    /// Returns whether `to` depends on `from` through inputs in the manifest.
    pub(crate) fn exists(&mut self, graph: &Graph<'_>, from: EdgeId, to: EdgeId) -> bool {
        let known = self.known.entry(from).or_default();
        if let Some(known) = known.get(&to) {
            return *known;
        }
        known.insert(to, false);
        let mut path = vec![(to, graph.edge(to).ins.iter())];
        while let Some((_, rest)) = path.last_mut() {
            let Some(input) = rest.next() else {
                path.pop();
                continue;
            };
            let Some(maker) = graph.in_edge(*input) else { continue };
            if maker == from || known.get(&maker) == Some(&true) {
                known.extend(path.iter().map(|(edge, _)| (*edge, true)));
                return true;
            }
            if !known.contains_key(&maker) {
                known.insert(maker, false);
                path.push((maker, graph.edge(maker).ins.iter()));
            }
        }
        false
    }
}
