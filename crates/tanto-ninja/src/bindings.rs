//! What a variable means for an edge: `$in`, `$out`, its own bindings, its rule's, its scopes'. Does not know what
//! the values are for.

use crate::error::{Error, Result};
use crate::graph::{Edge, EdgeId, Graph, Known, Rule, RuleId, ScopeId, Text};
use crate::load::expand::{Piece, Pieces, check_length};

/// How `$in` and `$out` are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Escape {
    /// Quoted for the shell where needed: for commands and everything that is not a file name.
    Shell,
    /// As they are: for `depfile`, `dyndep` and `rspfile`.
    None,
}

/// The variables that a rule may have. An edge and a scope may have any.
pub(crate) const RESERVED: [&[u8]; 11] = [
    b"command",
    b"depfile",
    b"deps",
    b"description",
    b"dyndep",
    b"generator",
    b"msvc_deps_prefix",
    b"pool",
    b"restat",
    b"rspfile",
    b"rspfile_content",
];

/// May a rule have this variable?
pub fn is_reserved(name: &[u8]) -> bool {
    RESERVED.contains(&name)
}

/// Appends `text` as one word of a shell's command line, quoted only where needed.
pub fn shell_quote_into(text: &[u8], out: &mut Vec<u8>) {
    let safe = |b: &u8| b.is_ascii_alphanumeric() || b"_+-./".contains(b);
    if text.iter().all(safe) {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'\'');
    for (number, part) in text.split(|&b| b == b'\'').enumerate() {
        if number > 0 {
            out.extend_from_slice(b"'\\''");
        }
        out.extend_from_slice(part);
    }
    out.push(b'\'');
}

impl<'t> Known<'t> {
    /// The value of a variable for an edge; empty where nothing sets it. An error is a cycle among the rule's
    /// variables.
    pub fn binding(&self, edge: EdgeId, name: &[u8], escape: Escape) -> Result<Vec<u8>> {
        self.value_for(&self.edge(edge), name, escape)
    }

    /// Is the variable set to something? (`restat`, `generator`; a dyndep file's `restat` counts.)
    pub fn flag(&self, edge: EdgeId, name: &[u8]) -> Result<bool> {
        Ok(!self.binding(edge, name, Escape::Shell)?.is_empty())
    }

    /// The command, for the log's hash: with `;rspfile=` and the response file's content where there is one.
    pub fn command_for_hash(&self, edge: EdgeId) -> Result<Vec<u8>> {
        let mut command = self.binding(edge, b"command", Escape::Shell)?;
        let content = self.binding(edge, b"rspfile_content", Escape::Shell)?;
        if !content.is_empty() {
            command.extend_from_slice(b";rspfile=");
            command.extend_from_slice(&content);
        }
        Ok(command)
    }

    /// As `binding`, for an edge that may not be in the graph yet.
    pub(crate) fn value_for(&self, edge: &Edge<'t>, name: &[u8], escape: Escape) -> Result<Vec<u8>> {
        let mut value = Vec::new();
        Evaluator { graph: self, edge, escape, within: Vec::new() }.append(name, &mut value)?;
        Ok(value)
    }

    /// The value of a variable in a scope or, where it has none, in those around it.
    pub fn variable(&self, scope: ScopeId, name: &[u8]) -> Option<Text<'t>> {
        let mut next = Some(scope);
        while let Some(scope) = next {
            let scope = &self.scopes[scope.index()];
            if let Some(value) = scope.variables.get(name) {
                return Some(value);
            }
            next = scope.parent;
        }
        None
    }

    /// The value that the edge's own environment gives, before its rule is asked: its bindings or, where it has
    /// none at all, its file's.
    fn own_variable(&self, edge: &Edge<'t>, name: &[u8]) -> Option<Text<'t>> {
        if edge.bindings.is_empty() {
            let scope = self.scopes_may_set(name).then(|| &self.scopes[edge.scope.index()])?;
            return scope.variables.get(name).copied();
        }
        edge.bindings.iter().rev().find(|(own, _)| *own == name).map(|&(_, value)| value)
    }

    /// The unevaluated value that the rule gives. A response file is the rule's alone: where a rule has none, no
    /// scope around gives it one.
    fn rule_variable(&self, rule: RuleId, name: &[u8]) -> Option<Text<'t>> {
        let none = || (rule != RuleId::PHONY && matches!(name, b"rspfile" | b"rspfile_content")).then_some(&b""[..]);
        self.rules[rule.index()].binding(name).or_else(none)
    }

    /// The unevaluated value that a rule gives to a variable.
    pub fn rule_text(&self, rule: RuleId, name: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.rules[rule.index()].binding(name).map(<[u8]>::to_vec))
    }

    /// Sets a variable of a scope.
    pub(crate) fn set_variable(&mut self, scope: ScopeId, name: Text<'t>, value: Text<'t>) {
        self.scopes_set_reserved |= is_reserved(name);
        self.scopes[scope.index()].variables.insert(name, value);
    }

    /// The value that the scopes around the edge's own environment give.
    fn outer_variable(&self, edge: &Edge<'t>, name: &[u8]) -> Option<Text<'t>> {
        if !self.scopes_may_set(name) {
            return None;
        }
        let outer = match edge.bindings {
            [] => self.scopes[edge.scope.index()].parent?,
            _ => edge.scope,
        };
        self.variable(outer, name)
    }

    /// Spares the look-ups of what every edge is asked for and hardly any file sets (`restat`, `deps`).
    fn scopes_may_set(&self, name: &[u8]) -> bool {
        self.scopes_set_reserved || !is_reserved(name)
    }
}

impl Graph<'_> {
    /// A dyndep file says that the edge restats, as if it had the binding; ninja gives it to the whole file where the
    /// edge has none of its own.
    pub(crate) fn set_restat(&mut self, edge: EdgeId) {
        let arena = self.arena;
        let edge = &mut self.edges[edge.index()];
        let restat: (Text<'_>, Text<'_>) = (b"restat", b"1");
        match edge.bindings {
            [] => {
                let scope = edge.scope;
                self.set_variable(scope, restat.0, restat.1);
            }
            bindings => edge.bindings = arena.alloc_slice_copy(&[bindings, &[restat]].concat()),
        }
    }
}

impl<'t> Rule<'t> {
    /// The unevaluated value of one of its variables.
    pub fn binding(&self, name: &[u8]) -> Option<Text<'t>> {
        self.bindings.iter().rev().find(|(own, _)| *own == name).map(|&(_, raw)| raw)
    }
}

/// One evaluation for an edge.
struct Evaluator<'g, 't> {
    graph: &'g Known<'t>,
    edge: &'g Edge<'t>,
    escape: Escape,
    /// The rule's variables that are being evaluated, but for the first: ninja lets it come once more.
    within: Vec<Text<'t>>,
}

impl<'t> Evaluator<'_, 't> {
    fn append(&mut self, name: &[u8], out: &mut Vec<u8>) -> Result<()> {
        if self.append_paths(name, out) {
            return Ok(());
        }
        if let Some(value) = self.graph.own_variable(self.edge, name) {
            out.extend_from_slice(value);
        } else if let Some(raw) = self.graph.rule_variable(self.edge.rule, name) {
            self.append_raw(raw, out)?;
        } else if let Some(value) = self.graph.outer_variable(self.edge, name) {
            out.extend_from_slice(value);
        }
        check_length(out, name)
    }

    fn append_raw(&mut self, raw: Text<'t>, out: &mut Vec<u8>) -> Result<()> {
        for piece in Pieces(raw) {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Variable(name) => self.append_nested(name, out)?,
            }
        }
        Ok(())
    }

    fn append_nested(&mut self, name: Text<'t>, out: &mut Vec<u8>) -> Result<()> {
        if let Some(first) = self.within.iter().position(|&outer| outer == name) {
            let cycle = [&self.within[first..], &[name]].concat().join(&b" -> "[..]);
            return Err(Error::fatal(&[b"cycle in rule variables: ", &cycle]));
        }
        let recorded = self.graph.rule_variable(self.edge.rule, name).is_some();
        if recorded {
            self.within.push(name);
        }
        self.append(name, out)?;
        if recorded {
            self.within.pop();
        }
        Ok(())
    }

    /// Appends the paths that the name stands for, if it does.
    fn append_paths(&self, name: &[u8], out: &mut Vec<u8>) -> bool {
        let (nodes, separator) = match name {
            b"in" => (self.edge.explicit(), b' '),
            b"in_newline" => (self.edge.explicit(), b'\n'),
            b"out" => (&self.edge.outs[..self.edge.explicit_outs as usize], b' '),
            _ => return false,
        };
        for (number, &node) in nodes.iter().enumerate() {
            if number > 0 {
                out.push(separator);
            }
            match self.escape {
                Escape::Shell => shell_quote_into(self.graph.path(node), out),
                Escape::None => out.extend_from_slice(self.graph.path(node)),
            }
        }
        true
    }
}
