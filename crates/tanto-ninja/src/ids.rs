//! Numbers of nodes, edges, rules, pools and scopes.

macro_rules! ids {
    ($($(#[$about:meta])* $name:ident)*) => {$(
        tanto_sys::pod! {
            $(#[$about])*
            #[derive(PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
            pub struct $name(pub u32);
        }

        impl $name {
            /// As an index into arrays.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// A file, by its canonical path.
    NodeId
    /// A build statement.
    EdgeId
    /// A rule. `RuleId::PHONY` is the builtin one.
    RuleId
    /// A pool. `PoolId::DEFAULT` is unlimited, `PoolId::CONSOLE` the builtin one of depth 1.
    PoolId
    /// A file's scope of variables and rules. Scope 0 is the top one.
    ScopeId
}

impl NodeId {
    /// No node.
    pub(crate) const NONE: NodeId = NodeId(u32::MAX);
}

impl EdgeId {
    /// No edge.
    pub(crate) const NONE: EdgeId = EdgeId(u32::MAX);
}

impl RuleId {
    /// The builtin rule `phony`.
    pub const PHONY: RuleId = RuleId(0);
}

impl PoolId {
    /// The pool without a name, for every edge that names none.
    pub const DEFAULT: PoolId = PoolId(0);
    /// The builtin pool `console`.
    pub const CONSOLE: PoolId = PoolId(1);
}

impl ScopeId {
    /// The scope of the manifest named by `-f`.
    pub const TOP: ScopeId = ScopeId(0);
}
