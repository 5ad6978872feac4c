//! Disables a client or slot on which several packages in a row fail through no fault of their own.

use std::collections::BTreeSet;

use crate::resolve::PackageId;

/// Failures of this many different packages disable a client.
const MAX_FAILURES: usize = 3;

#[derive(Clone, Default, Debug)]
pub struct Health {
    disabled: bool,
    /// Packages that failed here through no fault of their own since the last success.
    failures: BTreeSet<PackageId>,
}

impl Health {
    pub fn is_disabled(&self) -> bool {
        self.disabled
    }

    /// Records a failure through no fault of the package. Returns whether it disables the client.
    pub fn record_machine_failure(&mut self, package: PackageId) -> bool {
        self.failures.insert(package);
        let was_disabled = std::mem::replace(&mut self.disabled, self.failures.len() >= MAX_FAILURES);
        self.disabled && !was_disabled
    }

    pub fn record_success(&mut self) {
        self.failures.clear();
    }
}
