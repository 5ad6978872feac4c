//! Counters of the server, as OpenMetrics text.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

#[derive(Default)]
pub(super) struct Metrics {
    /// Answers by route and status; 0 for none.
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    pub(super) received_bytes: AtomicU64,
    pub(super) failed_handshakes: AtomicU64,
}

impl Metrics {
    pub(super) fn count(&self, route: &'static str, status: u16) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((route, status)).or_default() += 1;
    }

    /// `links` has the build of the token and whether its coordinator is connected.
    pub(super) fn text(&self, build: &str, is_linked: bool) -> String {
        let mut text = String::from("# TYPE tanto_requests counter\n# HELP tanto_requests Answered requests.\n");
        for ((route, status), count) in &*self.requests.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = writeln!(text, "tanto_requests_total{{route=\"{route}\",status=\"{status}\"}} {count}");
        }
        let counters = [
            ("tanto_received_bytes", "Bytes of bodies of requests.", &self.received_bytes),
            ("tanto_failed_handshakes", "Failed TLS handshakes.", &self.failed_handshakes),
        ];
        for (name, help, counter) in counters {
            let count = counter.load(Ordering::Relaxed);
            let _ = write!(text, "# TYPE {name} counter\n# HELP {name} {help}\n{name}_total {count}\n");
        }
        text += "# TYPE tanto_linked gauge\n# HELP tanto_linked Whether the coordinator is connected.\n";
        let _ = writeln!(text, "tanto_linked{{build=\"{build}\"}} {}", u8::from(is_linked));
        text + "# EOF\n"
    }
}
