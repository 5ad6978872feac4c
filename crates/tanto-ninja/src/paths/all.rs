//! The paths of a table, and others whose numbers come behind those. Does not know whose they are.

use super::table::PathTable;
use crate::ids::NodeId;

/// Paths by number.
#[derive(Clone, Copy)]
pub struct AllPaths<'t> {
    /// The first ones.
    pub table: &'t PathTable,
    /// The others, in order.
    pub others: &'t [&'t [u8]],
}

impl<'t> AllPaths<'t> {
    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.table.len() + self.others.len()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The path with this number; empty if there is none.
    #[inline]
    pub fn path(&self, id: NodeId) -> &'t [u8] {
        match id.index().checked_sub(self.table.len()) {
            None => self.table.path(id),
            Some(other) => self.others.get(other).copied().unwrap_or_default(),
        }
    }
}
