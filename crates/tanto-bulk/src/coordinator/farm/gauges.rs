//! Numbers for the metrics of the server.

use std::collections::BTreeMap;

use tanto_protocol::{Gauge, GaugeKind, ToServer};

use crate::coordinator::frontend::Coordinator;

/// The interval of messages with the numbers, in milliseconds.
const INTERVAL_MS: i64 = 5_000;

impl Coordinator<'_> {
    /// Sends the numbers to the server, if it is time.
    pub(super) fn send_gauges(&mut self, now_ms: i64) {
        let Some(farm) = &mut self.farm else { return };
        if now_ms < farm.gauges_due_ms {
            return;
        }
        farm.gauges_due_ms = now_ms.saturating_add(INTERVAL_MS);
        let gauges = self.gauges();
        self.control.send_to_server(&ToServer::Gauges { gauges });
    }

    fn gauges(&self) -> Vec<Gauge> {
        let gauge = |of, state: &str, value: usize| Gauge { of, state: state.to_owned(), value: value as u64 };
        let mut gauges: Vec<Gauge> =
            self.counts().into_iter().map(|(state, count)| gauge(GaugeKind::Packages, state, count)).collect();
        let mut clients =
            BTreeMap::from([("connected", 0), ("draining", 0), ("disabled", 0), ("lost", 0), ("left", 0)]);
        for client in self.dispatch.clients() {
            let state = match () {
                () if !client.is_live() => {
                    if client.silent {
                        "lost"
                    } else {
                        "left"
                    }
                }
                () if client.is_disabled() => "disabled",
                () if client.draining => "draining",
                () => "connected",
            };
            *clients.entry(state).or_default() += 1;
        }
        clients.insert("refused", self.dispatch.refused().count());
        gauges.extend(clients.into_iter().map(|(state, count)| gauge(GaugeKind::Clients, state, count)));
        let leases = self.dispatch.count_leases();
        gauges.extend(leases.into_iter().map(|(state, count)| gauge(GaugeKind::Leases, state, count)));
        gauges
    }
}
