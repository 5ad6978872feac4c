//! Ids of nodes, edges, rules, pools and scopes: indexes into parallel arrays.

macro_rules! ids {
    ($($(#[$about:meta])* $name:ident)*) => {$(
        tanto_sys::pod! {
            $(#[$about])*
            #[derive(PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
            pub struct $name(pub u32);
        }

        impl $name {
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// A file, identified by its canonical path.
    NodeId
    /// A build statement.
    EdgeId
    /// A rule; `RuleId::PHONY` is the builtin one.
    RuleId
    /// A pool; `PoolId::DEFAULT` is unlimited, `PoolId::CONSOLE` the builtin one of depth 1.
    PoolId
    /// The scope of a file's variables and rules.
    ScopeId
}

impl NodeId {
    pub(crate) const NONE: NodeId = NodeId(u32::MAX);
}

impl EdgeId {
    pub(crate) const NONE: EdgeId = EdgeId(u32::MAX);
}

impl RuleId {
    pub const PHONY: RuleId = RuleId(0);
}

impl PoolId {
    /// The pool of edges without a `pool` binding.
    pub const DEFAULT: PoolId = PoolId(0);
    pub const CONSOLE: PoolId = PoolId(1);
}

impl ScopeId {
    /// The scope of the manifest given by `-f`.
    pub const TOP: ScopeId = ScopeId(0);
}
