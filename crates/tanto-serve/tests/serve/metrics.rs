//! The metrics are valid OpenMetrics text, and have the numbers of the coordinator.

use std::collections::BTreeMap;

use tanto_protocol::{Gauge, GaugeKind, Role, ToServer};
use tanto_serve::Limits;

use super::site::{Site, until};

/// The samples of a text. Panics if it is no valid OpenMetrics text of counters and gauges.
fn samples(text: &str) -> BTreeMap<String, u64> {
    let mut samples = BTreeMap::new();
    let mut families: BTreeMap<&str, &str> = BTreeMap::new();
    let mut family = "";
    for line in text.strip_suffix("# EOF\n").expect("it ends with a line").lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, kind) = declared.split_once(' ').unwrap();
            assert!(families.insert(name, kind).is_none(), "{name} is declared once");
            assert!(["counter", "gauge"].contains(&kind), "{line}");
            family = name;
            continue;
        }
        if let Some(help) = line.strip_prefix("# HELP ") {
            assert!(help.starts_with(&format!("{family} ")), "{line}");
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = sample.split_once('{').unwrap_or((sample, "}"));
        let suffix = if families[family] == "counter" { "_total" } else { "" };
        assert_eq!(name, format!("{family}{suffix}"), "families do not mix");
        let labels = labels.strip_suffix('}').unwrap();
        for label in labels.split(',').filter(|label| !label.is_empty()) {
            let (name, value) = label.split_once('=').unwrap();
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase()), "{line}");
            assert!(
                value.starts_with('"') && value.ends_with('"') && !value[1..value.len() - 1].contains('"'),
                "{line}"
            );
        }
        assert!(samples.insert(sample.to_owned(), value.parse().unwrap()).is_none(), "{line} is there once");
    }
    samples
}

#[test]
fn metrics_have_the_numbers_of_the_coordinator() {
    let site = Site::plain(Limits::default());
    let (_, token) = site.token("watcher", &[Role::Watch]);
    let metrics = || {
        let (status, text) = site.request("GET", "/v1/main/metrics", &token, b"");
        assert_eq!(status, 200, "{text}");
        samples(text.split_once("\r\n\r\n").unwrap().1)
    };
    until("a link", || metrics()["tanto_linked{build=\"main\"}"] == 1);
    let before = metrics();
    assert!(!before.keys().any(|sample| sample.starts_with("tanto_packages")));
    let gauge = |of, state: &str, value| Gauge { of, state: state.into(), value };
    site.coordinator.send(&ToServer::Gauges {
        gauges: vec![
            gauge(GaugeKind::Packages, "indirect-failed", 7),
            gauge(GaugeKind::Clients, "lost", 1),
            gauge(GaugeKind::Leases, "running", 3),
        ],
    });
    until("the numbers", || metrics().contains_key("tanto_packages{build=\"main\",state=\"indirect-failed\"}"));
    let after = metrics();
    assert_eq!(after["tanto_packages{build=\"main\",state=\"indirect-failed\"}"], 7);
    assert_eq!(after["tanto_clients{build=\"main\",state=\"lost\"}"], 1);
    assert_eq!(after["tanto_leases{build=\"main\",state=\"running\"}"], 3);
    assert_eq!(after["tanto_waiting_requests{build=\"main\"}"], 0);
    let answered = "tanto_requests_total{route=\"metrics\",status=\"200\"}";
    assert!(after[answered] > before[answered]);
    site.coordinator.cut();
    until("no numbers of a coordinator that is gone", || !metrics().keys().any(|it| it.starts_with("tanto_packages")));
}
