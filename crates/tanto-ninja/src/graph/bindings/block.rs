//! The indented bindings of a `build` or `rule` statement.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use crate::error::Result;
use crate::hash::Map;
use crate::ids::RuleId;
use crate::syntax::expansion::append_value;
use crate::syntax::lexer::Lexer;
use crate::syntax::statements::binding;

/// Names and unevaluated values with valid escapes.
pub(crate) struct BindingBlock {
    text: Vec<u8>,
    bindings: Vec<(Range<usize>, Range<usize>)>,
}

impl BindingBlock {
    /// Parses a text that was parsed without error before.
    pub(crate) fn new(text: Vec<u8>) -> Self {
        let mut bindings = Vec::new();
        let mut lexer = Lexer::new(b"", &text);
        while let Ok(Some((name, raw))) = binding(&mut lexer) {
            let position = |part: &[u8]| {
                let start = part.as_ptr() as usize - text.as_ptr() as usize;
                start..start + part.len()
            };
            bindings.push((position(name), position(raw.text)));
        }
        BindingBlock { text, bindings }
    }

    /// Returns the text, to reuse its memory.
    pub(super) fn into_text(self) -> Vec<u8> {
        self.text
    }

    /// Returns the unevaluated value of a variable. The last binding of a name wins.
    pub(crate) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        let found = self.bindings.iter().rev().find(|(own, _)| self.text[own.clone()] == *name);
        found.map(|(_, raw)| &self.text[raw.clone()])
    }

    /// Returns names and values in order. Values see the variables of the file, not each other.
    pub(crate) fn evaluated<'v>(&self, look_up: impl Fn(&[u8]) -> Option<&'v [u8]>) -> Result<Vec<(&[u8], Vec<u8>)>> {
        let one = |(name, raw): &(Range<usize>, Range<usize>)| {
            let mut value = Vec::new();
            append_value(&self.text[raw.clone()], &mut value, &look_up)?;
            Ok((&self.text[name.clone()], value))
        };
        self.bindings.iter().map(one).collect()
    }
}

/// A cache of rule bindings. Most trees have few rules for many edges.
#[derive(Default)]
pub(crate) struct RuleBlockCache(RwLock<Map<RuleId, Arc<BindingBlock>>>);

/// Smaller: trees with more rules read them repeatedly. Larger: trees with a rule per edge keep text that is not
/// needed again.
pub(super) const MAX_CACHED_RULES: usize = 128;

impl RuleBlockCache {
    /// Returns the rule's bindings; `read` returns their text.
    pub(crate) fn get<'t>(
        &self,
        rule: RuleId,
        read: impl FnOnce() -> Result<Cow<'t, [u8]>>,
    ) -> Result<Arc<BindingBlock>> {
        if let Some(block) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&rule) {
            return Ok(Arc::clone(block));
        }
        let block = Arc::new(BindingBlock::new(read()?.into_owned()));
        let mut blocks = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if blocks.len() >= MAX_CACHED_RULES {
            blocks.clear();
        }
        blocks.insert(rule, Arc::clone(&block));
        Ok(block)
    }
}
