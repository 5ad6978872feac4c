//! The blobs of the server that the build needs.

use tanto_protocol::{Digest, ToServer};

use crate::coordinator::farm::Farm;
use crate::coordinator::frontend::Coordinator;

/// The epoch of an answer for which the server has not asked.
const UNASKED: u64 = 0;

impl Coordinator<'_> {
    /// Answers the last clients, and names the blobs that are needed after the end of this process.
    pub(in crate::coordinator) fn leave_server(&mut self) {
        self.answer_clients(self.clock.now_ms());
        self.send_roots(UNASKED);
    }

    /// Names the blobs that the server has to keep. Files that the coordinator provides are not in its store.
    pub(super) fn send_roots(&mut self, epoch: u64) {
        if let Some(farm) = &self.farm {
            self.control.send_to_server(&ToServer::Roots { epoch, digests: farm.roots() });
        }
    }
}

impl Farm {
    /// The files that clients fetch when they start, trees of leases, and results that are being accepted or compared.
    fn roots(&self) -> Vec<Digest> {
        let accepting = self.accepting.values().map(|it| &it.report);
        let of_reports = self.reports.values().chain(accepting).flat_map(|report| {
            let files = report.packages.iter().map(|it| it.digest).chain(report.logs.iter().map(|it| it.digest));
            files.chain(report.distfiles.iter().filter_map(|it| it.digest))
        });
        self.description
            .blobs()
            .chain(self.tree.manifests().iter().copied())
            .chain(of_reports)
            .chain(self.verifications.blobs())
            .collect()
    }
}
