//! Variables, rules and pools of all scopes.
//!
//! A `subninja` has its own scope; the parent is the scope of the including file. A position in the manifests is
//! the number of edges before it. Definitions carry their position, so that any thread can later look up the meaning
//! of a name for an edge.

use std::ops::Range;
use std::sync::Arc;

use bytemuck::cast_slice;

use super::hash_index::{HashIndex, HashIndexBuilder};
use super::text_pool::{TextPool, TextPoolBuilder};
use crate::flat::{Blocks, Slab};
use crate::hash::rapidhash as hash;
use crate::ids::{PoolId, RuleId, ScopeId};
use crate::syntax::statements::{RuleBody, Span, is_reserved};

/// The position after all statements.
pub(crate) const END_OF_MANIFEST: u32 = u32::MAX;

tanto_sys::pod! {
    /// A name in `Env::names`.
    #[derive(Default, Debug)]
    pub(crate) struct NameSpan {
        at: u32,
        len: u32,
    }
}

tanto_sys::pod! {
    #[derive(Default, Debug)]
    struct Variable {
        scope: u32,
        name: NameSpan,
        /// Index of its values, which are in manifest order.
        first: u32,
        count: u32,
    }
}

tanto_sys::pod! {
    #[derive(Default, Debug)]
    struct Value {
        at: u64,
        len: u32,
        position: u32,
    }
}

tanto_sys::pod! {
    /// A rule. The text of its bindings is read on demand.
    #[derive(Default, Debug)]
    pub(crate) struct Rule {
        name: NameSpan,
        scope: u32,
        position: u32,
        /// Location of its bindings.
        pub(crate) span: Span,
        /// Bit set of the variables that the rule binds.
        pub(crate) set_vars: u16,
        /// Those with a nonempty value.
        pub(crate) nonempty: u16,
        /// Those with a variable or an escape in the value.
        pub(crate) dynamic: u16,
        padding: u16,
    }
}

tanto_sys::pod! {
    #[derive(Default, Debug)]
    pub(crate) struct Pool {
        name: NameSpan,
        position: u32,
        /// Maximum number of running edges; 0 means unlimited.
        pub(crate) depth: u32,
    }
}

pub(crate) struct Env {
    /// By scope; the top scope is its own parent.
    parents: Slab<u32>,
    variables: Slab<Variable>,
    by_variable: HashIndex,
    values: Slab<Value>,
    rules: Slab<Rule>,
    by_rule: HashIndex,
    pools: Slab<Pool>,
    names: Slab<u8>,
    text: TextPool,
    /// Whether any scope sets a rule variable (such as `restat = 1` for a whole file).
    pub(crate) sets_reserved: bool,
}

fn hash_in(scope: ScopeId, name: &[u8]) -> u64 {
    // Separates equal names in different scopes; the constant is the golden ratio.
    hash(name) ^ u64::from(scope.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Env {
    /// Number of arrays.
    pub(crate) const ROWS: usize = 9;

    /// Returns all arrays but the last, as bytes.
    pub(crate) fn rows(&self) -> [&[u8]; Env::ROWS - 1] {
        [
            cast_slice(self.parents.all()),
            cast_slice(self.variables.all()),
            cast_slice(self.by_variable.slots()),
            cast_slice(self.values.all()),
            cast_slice(self.rules.all()),
            cast_slice(self.by_rule.slots()),
            cast_slice(self.pools.all()),
            self.names.all(),
        ]
    }

    /// Returns the last array, in segments.
    pub(crate) fn texts(&self) -> Vec<&[u8]> {
        self.text.all()
    }

    /// Maps the arrays, in the order of `rows`.
    pub(crate) fn mapped(blocks: &Arc<Blocks>, rows: [Range<usize>; Env::ROWS], sets_reserved: bool) -> Env {
        let [parents, variables, by_variable, values, rules, by_rule, pools, names, text] = rows;
        Env {
            parents: Slab::mapped(blocks, parents),
            variables: Slab::mapped(blocks, variables),
            by_variable: HashIndex::mapped(blocks, by_variable),
            values: Slab::mapped(blocks, values),
            rules: Slab::mapped(blocks, rules),
            by_rule: HashIndex::mapped(blocks, by_rule),
            pools: Slab::mapped(blocks, pools),
            names: Slab::mapped(blocks, names),
            text: TextPool::mapped(blocks, text),
            sets_reserved,
        }
    }

    fn name(&self, text: NameSpan) -> &[u8] {
        self.names.slice(text.at as usize..text.at as usize + text.len as usize)
    }

    /// Returns true if any scope may set the variable. Saves lookups of rule variables such as `restat` and `deps`,
    /// which hardly any file sets.
    pub(crate) fn may_set(&self, name: &[u8]) -> bool {
        self.sets_reserved || !is_reserved(name)
    }

    pub(crate) fn parent(&self, scope: ScopeId) -> Option<ScopeId> {
        // Parents have smaller ids than children, so that a damaged snapshot cannot cause an endless loop.
        Some(ScopeId(self.parents.get(scope.index()))).filter(|parent| *parent < scope)
    }

    /// Returns the value of a variable at a position, in a scope or its parents.
    pub(crate) fn variable(&self, scope: ScopeId, name: &[u8], position: u32) -> Option<&[u8]> {
        let mut next = Some(scope);
        while let Some(scope) = next {
            if let Some(value) = self.variable_in(scope, name, position) {
                return Some(value);
            }
            next = self.parent(scope);
        }
        None
    }

    /// Returns true if the variable does not change after this position.
    pub(crate) fn is_stable(&self, scope: ScopeId, name: &[u8], position: u32) -> bool {
        let mut next = Some(scope);
        while let Some(scope) = next {
            if let Some(values) = self.values_in(scope, name) {
                return values.last().is_some_and(|last| last.position <= position);
            }
            next = self.parent(scope);
        }
        true
    }

    /// Like `variable`, without parents.
    pub(crate) fn variable_in(&self, scope: ScopeId, name: &[u8], position: u32) -> Option<&[u8]> {
        let values = self.values_in(scope, name)?;
        let value = values[..values.partition_point(|value| value.position <= position)].last()?;
        Some(self.text.get(value.at, value.len as usize))
    }

    fn values_in(&self, scope: ScopeId, name: &[u8]) -> Option<&[Value]> {
        let is_match = |id: u32| {
            let it = self.variables.get(id as usize);
            it.scope == scope.0 && self.name(it.name) == name
        };
        let it = self.variables.get(self.by_variable.find(hash_in(scope, name), is_match)? as usize);
        Some(self.values.slice(it.first as usize..it.first as usize + it.count as usize))
    }

    /// Returns the rule with this name in a scope, without parents.
    pub(crate) fn rule_in(&self, scope: ScopeId, name: &[u8]) -> Option<RuleId> {
        let is_match = |id: u32| {
            let it = self.rules.get(id as usize);
            it.scope == scope.0 && self.name(it.name) == name
        };
        self.by_rule.find(hash_in(scope, name), is_match).map(RuleId)
    }

    /// Returns all rules of a scope; those of the top scope include `phony`.
    pub(crate) fn rules_in(&self, scope: ScopeId) -> impl Iterator<Item = RuleId> {
        let rules = self.rules.all().iter();
        (0..).map(RuleId).zip(rules).filter(move |(_, rule)| rule.scope == scope.0).map(|(id, _)| id)
    }

    /// Returns the rule with this name at a position, in a scope or its parents.
    pub(crate) fn rule_for(&self, scope: ScopeId, name: &[u8], position: u32) -> Option<RuleId> {
        let mut next = Some(scope);
        while let Some(scope) = next {
            if let Some(rule) = self.rule_in(scope, name).filter(|rule| self.rule(*rule).position <= position) {
                return Some(rule);
            }
            next = self.parent(scope);
        }
        None
    }

    /// Returns true if this rule exists, has this scope and name, and is defined before the position.
    pub(crate) fn is_rule(&self, id: RuleId, scope: ScopeId, name: &[u8], position: u32) -> bool {
        if id.index() >= self.rules.len() {
            return false;
        }
        let rule = self.rule(id);
        rule.scope == scope.0 && rule.position <= position && self.name(rule.name) == name
    }

    pub(crate) fn rule(&self, id: RuleId) -> Rule {
        self.rules.get(id.index())
    }

    pub(crate) fn rule_name(&self, id: RuleId) -> &[u8] {
        self.name(self.rules.get(id.index()).name)
    }

    /// Returns the rule names that are visible at a position.
    pub(crate) fn rule_names(&self, scope: ScopeId, position: u32) -> impl Iterator<Item = &[u8]> {
        let scopes: Vec<u32> = std::iter::successors(Some(scope), |scope| self.parent(*scope)).map(|it| it.0).collect();
        let is_match = move |rule: &&Rule| rule.position <= position && scopes.contains(&rule.scope);
        self.rules.all().iter().filter(is_match).map(|rule| self.name(rule.name))
    }

    pub(crate) fn pool(&self, id: PoolId) -> Pool {
        self.pools.get(id.index())
    }

    /// Returns the pool with this name at a position.
    pub(crate) fn pool_named(&self, name: &[u8], position: u32) -> Option<PoolId> {
        let is_match = |pool: &Pool| pool.position <= position && self.name(pool.name) == name;
        self.pools.all().iter().skip(1).position(is_match).map(|at| PoolId(at as u32 + 1))
    }

    /// Returns the names of pools at a position.
    pub(crate) fn pool_names(&self, position: u32) -> impl Iterator<Item = &[u8]> {
        self.pools.all().iter().skip(1).filter(move |pool| pool.position <= position).map(|pool| self.name(pool.name))
    }
}

/// Builds an [`Env`] while the manifests are evaluated in order.
#[derive(Default)]
pub(crate) struct EnvBuilder {
    parents: Vec<u32>,
    variables: Vec<Variable>,
    by_variable: HashIndexBuilder,
    /// Variable and value.
    values: Vec<(u32, Value)>,
    /// By variable: index of its current value.
    last: Vec<u32>,
    rules: Vec<Rule>,
    by_rule: HashIndexBuilder,
    pools: Vec<Pool>,
    names: Vec<u8>,
    text: TextPoolBuilder,
    sets_reserved: bool,
}

impl Default for Env {
    fn default() -> Self {
        EnvBuilder::new().finish()
    }
}

impl EnvBuilder {
    /// Starts with the top scope, the builtin rule and the builtin pools.
    pub(crate) fn new() -> Self {
        let mut new = EnvBuilder { parents: vec![0], ..EnvBuilder::default() };
        new.add_rule(ScopeId::TOP, b"phony", 0, RuleBody::default());
        new.add_pool(b"", 0, 0);
        new.add_pool(b"console", 1, 0);
        new
    }

    fn name(&self, text: NameSpan) -> &[u8] {
        &self.names[text.at as usize..text.at as usize + text.len as usize]
    }

    fn add_name(&mut self, text: &[u8]) -> NameSpan {
        let at = u32::try_from(self.names.len()).expect("under 4 GiB of names");
        self.names.extend_from_slice(text);
        NameSpan { at, len: text.len() as u32 }
    }

    pub(crate) fn add_scope(&mut self, parent: ScopeId) -> ScopeId {
        self.parents.push(parent.0);
        ScopeId(u32::try_from(self.parents.len() - 1).expect("under 2^32 scopes"))
    }

    fn find_variable(&self, scope: ScopeId, name: &[u8]) -> Option<u32> {
        let is_match = |id: u32| {
            let it = &self.variables[id as usize];
            it.scope == scope.0 && self.name(it.name) == name
        };
        self.by_variable.find(hash_in(scope, name), is_match)
    }

    /// Returns the current value of a variable, in a scope or its parents.
    pub(crate) fn variable(&self, scope: ScopeId, name: &[u8]) -> Option<&[u8]> {
        let id = self.scopes(scope).find_map(|scope| self.find_variable(scope, name))?;
        let (_, value) = self.values[self.last[id as usize] as usize];
        Some(self.text.get(value.at, value.len as usize))
    }

    /// Sets a variable to a copy of `value`.
    pub(crate) fn set(&mut self, scope: ScopeId, name: &[u8], value: &[u8], position: u32) {
        let at = self.text.copy(value);
        self.set_to(scope, name, Value { at, len: value.len() as u32, position });
    }

    /// Adds a text that contains values; returns its offset.
    pub(crate) fn add_text(&mut self, text: &Arc<Vec<u8>>) -> u64 {
        self.text.add(text)
    }

    /// Sets a variable to a part of an added text.
    pub(crate) fn set_part(&mut self, scope: ScopeId, name: &[u8], at: u64, len: u32, position: u32) {
        self.set_to(scope, name, Value { at, len, position });
    }

    fn set_to(&mut self, scope: ScopeId, name: &[u8], value: Value) {
        self.sets_reserved |= is_reserved(name);
        let id = match self.find_variable(scope, name) {
            Some(id) => id,
            None => self.add_variable(scope, name),
        };
        self.last[id as usize] = self.values.len() as u32;
        self.values.push((id, value));
        self.variables[id as usize].count += 1;
    }

    fn add_variable(&mut self, scope: ScopeId, name: &[u8]) -> u32 {
        let id = self.variables.len() as u32;
        let span = self.add_name(name);
        self.variables.push(Variable { scope: scope.0, name: span, first: 0, count: 0 });
        self.last.push(0);
        self.by_variable.push(hash_in(scope, name));
        id
    }

    /// Returns true if the scope itself has a rule with this name.
    pub(crate) fn has_rule(&self, scope: ScopeId, name: &[u8]) -> bool {
        let is_match = |id: u32| {
            let it = &self.rules[id as usize];
            it.scope == scope.0 && self.name(it.name) == name
        };
        self.by_rule.find(hash_in(scope, name), is_match).is_some()
    }

    /// Returns true if the scope or one of its parents has a rule with this name.
    pub(crate) fn has_rule_in_scope(&self, scope: ScopeId, name: &[u8]) -> bool {
        self.scopes(scope).any(|scope| self.has_rule(scope, name))
    }

    /// Returns the names of visible rules.
    pub(crate) fn rule_names(&self, scope: ScopeId) -> impl Iterator<Item = &[u8]> {
        let scopes: Vec<u32> = self.scopes(scope).map(|scope| scope.0).collect();
        self.rules.iter().filter(move |rule| scopes.contains(&rule.scope)).map(|rule| self.name(rule.name))
    }

    /// Returns the scope and its parents.
    fn scopes(&self, scope: ScopeId) -> impl Iterator<Item = ScopeId> {
        let parent = |scope: &ScopeId| Some(ScopeId(self.parents[scope.index()])).filter(|parent| parent < scope);
        std::iter::successors(Some(scope), parent)
    }

    /// Adds a rule. The scope must have none with this name.
    pub(crate) fn add_rule(&mut self, scope: ScopeId, name: &[u8], position: u32, body: RuleBody) {
        let RuleBody { span, set_vars, nonempty, dynamic } = body;
        let name_span = self.add_name(name);
        self.rules.push(Rule {
            name: name_span,
            scope: scope.0,
            position,
            span,
            set_vars,
            nonempty,
            dynamic,
            padding: 0,
        });
        self.by_rule.push(hash_in(scope, name));
    }

    pub(crate) fn has_pool(&self, name: &[u8]) -> bool {
        self.pools.iter().skip(1).any(|pool| self.name(pool.name) == name)
    }

    pub(crate) fn add_pool(&mut self, name: &[u8], depth: u32, position: u32) {
        let name = self.add_name(name);
        self.pools.push(Pool { name, position, depth });
    }

    pub(crate) fn finish(mut self) -> Env {
        let values = self.sorted_values();
        Env {
            parents: self.parents.into(),
            variables: self.variables.into(),
            by_variable: self.by_variable.finish(),
            values: values.into(),
            rules: self.rules.into(),
            by_rule: self.by_rule.finish(),
            pools: self.pools.into(),
            names: self.names.into(),
            text: self.text.finish(),
            sets_reserved: self.sets_reserved,
        }
    }

    /// Returns the values grouped by variable, each in manifest order.
    fn sorted_values(&mut self) -> Vec<Value> {
        let mut first = 0;
        for variable in &mut self.variables {
            variable.first = first;
            first += std::mem::take(&mut variable.count);
        }
        let mut sorted = vec![Value::default(); self.values.len()];
        for &(id, value) in &self.values {
            let variable = &mut self.variables[id as usize];
            let value = Value { at: self.text.final_offset(value.at), ..value };
            sorted[(variable.first + variable.count) as usize] = value;
            variable.count += 1;
        }
        sorted
    }
}
