//! The statements of a manifest but for `build`: variables, rules, pools, defaults; and how a value is evaluated
//! while the manifests are read.

use super::Loader;
use super::expand::append_value;
use super::lexer::{Raw, Token, did_you_mean};
use super::version;
use crate::bindings::{RESERVED, is_reserved};
use crate::error::Result;
use crate::graph::{Pool, PoolId, Rule, RuleId, Text};

/// Names and values that shadow those of the scope.
pub(super) type Bindings<'b, 't> = &'b [(Text<'t>, Text<'t>)];

impl<'t> Loader<'t, '_> {
    /// `name = value`
    pub(super) fn variable(&mut self) -> Result<()> {
        self.lexer.unread();
        let (name, raw) = self.assignment()?;
        let value = self.evaluate(raw, &[])?;
        if name == b"ninja_required_version" {
            version::check(value, self.warn)?;
        }
        self.graph.set_variable(self.scope, name, value);
        Ok(())
    }

    /// Reads a name, `=`, and a value up to the line's end.
    pub(super) fn assignment(&mut self) -> Result<(Text<'t>, Raw<'t>)> {
        let name = self.name(b"variable name")?;
        self.lexer.expect(Token::Equals)?;
        Ok((name, self.lexer.value()?))
    }

    pub(super) fn name(&mut self, what: &[u8]) -> Result<Text<'t>> {
        self.lexer.name().ok_or_else(|| self.lexer.error(&[b"expected ", what]))
    }

    /// The value of a raw text, in the arena.
    pub(super) fn evaluate(&mut self, raw: Raw<'t>, bindings: Bindings<'_, 't>) -> Result<Text<'t>> {
        if raw.plain {
            return Ok(raw.text);
        }
        let mut value = std::mem::take(&mut self.scratch.value);
        value.clear();
        self.append(raw, bindings, &mut value)?;
        let text = self.graph.arena.alloc_slice_copy(&value);
        self.scratch.value = value;
        Ok(text)
    }

    pub(super) fn append(&self, raw: Raw<'t>, bindings: Bindings<'_, 't>, value: &mut Vec<u8>) -> Result<()> {
        let look_up = |name: &[u8]| self.look_up(bindings, name);
        append_value(raw, value, look_up).map_err(|error| self.lexer.error(&[&error.text]))
    }

    /// What a variable stands for here and now.
    fn look_up(&self, bindings: Bindings<'_, 't>, name: &[u8]) -> Option<Text<'t>> {
        let own = bindings.iter().rev().find(|(own, _)| *own == name).map(|&(_, value)| value);
        own.or_else(|| self.graph.variable(self.scope, name))
    }

    /// `rule name`, and its variables on indented lines
    pub(super) fn rule(&mut self) -> Result<()> {
        let name = self.name(b"rule name")?;
        self.lexer.expect(Token::Newline)?;
        if self.graph.scopes[self.scope.index()].rules.contains_key(name) {
            return Err(self.lexer.error(&[b"duplicate rule '", name, b"'"]));
        }
        let mut rule = Rule { name, bindings: Vec::new() };
        while self.lexer.peek(Token::Indent) {
            let (key, raw) = self.assignment()?;
            if !is_reserved(key) {
                let error = self.lexer.error(&[b"unexpected variable '", key, b"'"]);
                return Err(did_you_mean(error, key, RESERVED));
            }
            rule.set(key, raw.text);
        }
        if rule.sets(b"rspfile") != rule.sets(b"rspfile_content") {
            return Err(self.lexer.error_about(name, &[b"rspfile and rspfile_content need to be both specified"]));
        }
        if !rule.sets(b"command") {
            return Err(self.lexer.error_about(name, &[b"expected 'command =' line"]));
        }
        let id = RuleId(u32::try_from(self.graph.rules.len()).expect("under 2^32 rules"));
        self.graph.rules.push(rule);
        self.graph.scopes[self.scope.index()].rules.insert(name, id);
        Ok(())
    }

    /// `pool name`, and its depth on an indented line
    pub(super) fn pool(&mut self) -> Result<()> {
        let name = self.name(b"pool name")?;
        self.lexer.expect(Token::Newline)?;
        if self.pools.contains_key(name) {
            return Err(self.lexer.error(&[b"duplicate pool '", name, b"'"]));
        }
        let mut depth = None;
        while self.lexer.peek(Token::Indent) {
            let (key, raw) = self.assignment()?;
            if key != b"depth" {
                return Err(self.lexer.error(&[b"unexpected variable '", key, b"'"]));
            }
            let number = version::leading_number(self.evaluate(raw, &[])?);
            depth = Some(u32::try_from(number).map_err(|_| self.lexer.error(&[b"invalid pool depth"]))?);
        }
        let depth = depth.ok_or_else(|| self.lexer.error_about(name, &[b"expected 'depth =' line"]))?;
        let id = PoolId(u32::try_from(self.graph.pools.len()).expect("under 2^32 pools"));
        self.graph.pools.push(Pool { name, depth });
        self.pools.insert(name, id);
        Ok(())
    }

    /// `default targets...`
    pub(super) fn default(&mut self) -> Result<()> {
        let mut raw = self.lexer.path()?;
        if raw.text.is_empty() {
            return Err(self.lexer.error(&[b"expected target name"]));
        }
        while !raw.text.is_empty() {
            let path = self.canonical_path(raw, &[])?;
            let node = self.graph.lookup(&path);
            let node = node.ok_or_else(|| {
                let error = self.lexer.error_about(raw.text, &[b"unknown target '", &path, b"'"]);
                did_you_mean(error, &path, self.graph.nodes.iter().map(|node| node.path))
            })?;
            self.graph.defaults.push(node);
            self.scratch.path = path;
            raw = self.lexer.path()?;
        }
        self.lexer.expect(Token::Newline)
    }
}

impl<'t> Rule<'t> {
    fn set(&mut self, name: Text<'t>, raw: Text<'t>) {
        match self.bindings.iter_mut().find(|(own, _)| *own == name) {
            Some(binding) => binding.1 = raw,
            None => self.bindings.push((name, raw)),
        }
    }

    fn sets(&self, name: &[u8]) -> bool {
        self.binding(name).is_some_and(|raw| !raw.is_empty())
    }
}
