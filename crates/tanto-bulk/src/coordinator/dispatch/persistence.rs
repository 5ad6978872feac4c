//! Records of leases, and the state that they restore.

use std::collections::BTreeMap;

use tanto_protocol::LeaseId;

use super::lease::{LastProgress, LeaseEntry, LeasePurpose, LeaseRecord, LeaseState, LeaseTerms};
use super::local::LocalSlots;
use super::remote::{ClientWork, RemoteClient};
use super::{Dispatch, LeaseTimes};
use crate::resolve::PackageId;

impl Dispatch {
    /// Restores leases from the last record of each, with `began_ms` on this coordinator's clock. Their clients have to say
    /// hello again. `work`: what clients have done before, by name.
    pub fn restore(
        times: LeaseTimes,
        local: LocalSlots,
        now_ms: i64,
        records: &[LeaseRecord],
        work: BTreeMap<String, ClientWork>,
        terms: impl Fn(PackageId) -> LeaseTerms,
    ) -> Dispatch {
        let mut dispatch = Dispatch { work, ..Dispatch::new(times, local, now_ms) };
        for record in records {
            let client = dispatch
                .find_client(&record.client, &record.token)
                .unwrap_or_else(|| dispatch.add_client(now_ms, &record.client, &record.token));
            let entry = dispatch.restored(now_ms, client, record, terms(record.package));
            dispatch.count_loss(entry.package, entry.state);
            dispatch.add_lease(record.lease, entry);
        }
        dispatch
    }

    fn restored(&self, now_ms: i64, client: usize, record: &LeaseRecord, terms: LeaseTerms) -> LeaseEntry {
        let now = self.link.at(now_ms);
        let state = match record.state {
            LeaseState::Offered { .. } => LeaseState::Offered { until_ms: None },
            // Earlier versions recorded these.
            LeaseState::Missing { .. } | LeaseState::Reported => LeaseState::Running,
            state => state,
        };
        LeaseEntry {
            package: record.package,
            purpose: LeasePurpose::Build,
            attempt: record.attempt,
            client,
            tree: record.tree,
            terms,
            began_ms: record.began_ms,
            since_ms: now,
            follow: false,
            state,
            progress: LastProgress { at_ms: now, ..LastProgress::default() },
        }
    }

    /// The record of a lease in this state.
    pub(super) fn record(&self, lease: LeaseId, state: LeaseState) -> LeaseRecord {
        let LeaseEntry { package, attempt, client, tree, began_ms, .. } = self.leases[&lease];
        let RemoteClient { name, token, .. } = &self.clients[client];
        let (client, token) = (name.clone(), token.clone());
        LeaseRecord { lease, package, attempt, client, token, tree, began_ms, state }
    }
}
