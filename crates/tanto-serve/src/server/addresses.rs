//! Limits per address: connections without a valid token, failed handshakes and failed logins.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::limits::Limits;

/// Most addresses that are remembered.
const MAX_ADDRESSES: usize = 16_384;

/// A budget that refills with time.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    most: f64,
    per_second: f64,
    left: f64,
    at: Instant,
}

impl Budget {
    pub(super) fn new(most: f64, per_second: f64, now: Instant) -> Budget {
        Budget { most, per_second, left: most, at: now }
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * self.per_second).min(self.most);
        self.at = now;
    }

    /// Takes one; returns false if there is none.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        self.refill(now);
        let is_there = self.left >= 1.0;
        self.left -= if is_there { 1.0 } else { 0.0 };
        is_there
    }

    fn is_empty(&mut self, now: Instant) -> bool {
        self.refill(now);
        self.left < 1.0
    }
}

struct Address {
    unverified: usize,
    failures: Budget,
}

pub(super) struct Addresses {
    unverified: usize,
    failures: Budget,
    known: Mutex<HashMap<IpAddr, Address>>,
}

impl Addresses {
    pub(super) fn new(limits: &Limits) -> Addresses {
        let failures = Budget::new(limits.failures, 1.0 / limits.failure_seconds, Instant::now());
        Addresses { unverified: limits.unverified, failures, known: Mutex::default() }
    }

    /// Admits a connection, which counts until the pass is dropped. `None`: the address is over a limit.
    pub(super) fn admit(self: &Arc<Self>, ip: IpAddr, now: Instant) -> Option<Pass> {
        let ip = network(ip);
        let mut known = self.known();
        if known.len() >= MAX_ADDRESSES {
            known.retain(|_, address| !address.is_forgotten(now));
        }
        if known.len() >= MAX_ADDRESSES && !known.contains_key(&ip) {
            return None;
        }
        let new = || Address { unverified: 0, failures: Budget { at: now, ..self.failures.clone() } };
        let address = known.entry(ip).or_insert_with(new);
        if address.unverified >= self.unverified || address.failures.is_empty(now) {
            return None;
        }
        address.unverified += 1;
        Some(Pass { addresses: self.clone(), ip })
    }

    /// Counts a failed handshake or login; returns false if the address is over the limit.
    pub(super) fn failed(&self, ip: IpAddr, now: Instant) -> bool {
        self.known().get_mut(&network(ip)).is_none_or(|address| address.failures.take(now))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<IpAddr, Address>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Address {
    fn is_forgotten(&mut self, now: Instant) -> bool {
        self.failures.refill(now);
        self.unverified == 0 && self.failures.left >= self.failures.most
    }
}

/// An IPv4 address, or the /64 network of an IPv6 address: a host has all addresses of such a network.
fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6((u128::from(ip) & !u128::from(u64::MAX)).into()),
        ip => ip,
    }
}

/// A connection that has not shown a valid token.
pub(super) struct Pass {
    addresses: Arc<Addresses>,
    ip: IpAddr,
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some(address) = self.addresses.known().get_mut(&self.ip) {
            address.unverified -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_address_with_many_failures_is_refused_until_time_has_passed() {
        let limits = Limits { failures: 3.0, failure_seconds: 10.0, unverified: 2, ..Limits::default() };
        let addresses = Arc::new(Addresses::new(&limits));
        let (ip, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let now = Instant::now();
        let passes = [(); 3].map(|()| addresses.admit(ip, now));
        assert_eq!(passes.each_ref().map(Option::is_some), [true, true, false]);
        drop(passes);
        assert_eq!([(); 4].map(|()| addresses.failed(ip, now)), [true, true, true, false]);
        assert!(addresses.admit(ip, now).is_none() && addresses.admit(other, now).is_some());
        assert!(addresses.admit(ip, now + Duration::from_secs(11)).is_some());
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_together() {
        let [first, second, third] =
            ["2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:1::1"].map(|ip| ip.parse().unwrap());
        assert_eq!(network(first), network(second));
        assert_ne!(network(first), network(third));
        assert_eq!(network("::ffff:10.0.0.1".parse().unwrap()), IpAddr::from([10, 0, 0, 1]));
    }

    #[test]
    fn memory_for_addresses_is_limited() {
        let addresses = Arc::new(Addresses::new(&Limits::default()));
        let now = Instant::now();
        let passes: Vec<_> =
            (0..MAX_ADDRESSES as u32).map(|ip| addresses.admit(IpAddr::from(ip.to_be_bytes()), now)).collect();
        let other = IpAddr::from([200, 0, 0, 1]);
        assert!(addresses.admit(other, now).is_none());
        drop(passes);
        assert!(addresses.admit(other, now).is_some());
        assert_eq!(addresses.known().len(), 1);
    }
}
