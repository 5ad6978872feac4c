//! Counters of the server, as OpenMetrics text.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tanto_protocol::{Gauge, GaugeKind};

use crate::link::Link;

/// What the coordinator counts.
const KINDS: [(GaugeKind, &str, &str); 3] = [
    (GaugeKind::Packages, "tanto_packages", "Packages by state."),
    (GaugeKind::Clients, "tanto_clients", "Clients on other machines by state."),
    (GaugeKind::Leases, "tanto_leases", "Leases by state."),
];

#[derive(Default)]
pub(super) struct Metrics {
    /// Answers by route and status; 0 for none.
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    pub(super) received_bytes: AtomicU64,
    /// Of blobs.
    pub(super) sent_bytes: AtomicU64,
    pub(super) failed_handshakes: AtomicU64,
}

impl Metrics {
    pub(super) fn count(&self, route: &'static str, status: u16) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((route, status)).or_default() += 1;
    }

    /// The text for a build, with the link to its coordinator.
    pub(super) fn text(&self, build: &str, link: Option<&Link>) -> String {
        let mut text = String::from("# TYPE tanto_requests counter\n# HELP tanto_requests Answered requests.\n");
        for ((route, status), count) in &*self.requests.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = writeln!(text, "tanto_requests_total{{route=\"{route}\",status=\"{status}\"}} {count}");
        }
        let counters = [
            ("tanto_received_bytes", "Bytes of bodies of requests.", &self.received_bytes),
            ("tanto_sent_blob_bytes", "Bytes of blobs and packs in answers.", &self.sent_bytes),
            ("tanto_failed_handshakes", "Failed TLS handshakes.", &self.failed_handshakes),
        ];
        for (name, help, counter) in counters {
            let count = counter.load(Ordering::Relaxed);
            let _ = write!(text, "# TYPE {name} counter\n# HELP {name} {help}\n{name}_total {count}\n");
        }
        let (is_linked, (gauges, pending)) = link.map_or_else(Default::default, |link| (link.is_up(), link.gauges()));
        let own = [
            ("tanto_linked", "Whether the coordinator is connected.", u64::from(is_linked)),
            ("tanto_waiting_requests", "Requests that wait for the coordinator.", pending as u64),
        ];
        for (name, help, value) in own {
            let _ = write!(text, "# TYPE {name} gauge\n# HELP {name} {help}\n{name}{{build=\"{build}\"}} {value}\n");
        }
        for (kind, name, help) in KINDS {
            let _ = write!(text, "# TYPE {name} gauge\n# HELP {name} {help}\n");
            for Gauge { state, value, .. } in gauges.iter().filter(|gauge| gauge.of == kind) {
                let _ = writeln!(text, "{name}{{build=\"{build}\",state=\"{state}\"}} {value}");
            }
        }
        text + "# EOF\n"
    }
}
