//! Addresses of host names.
//!
//! `getaddrinfo` in a static program loads shared libraries of the system's glibc, and crashes if that is another version
//! (`mdns`, `ldap` and others in nsswitch.conf). So `getent ahosts` is asked, a program of the system that resolves as all
//! others do. Without it, only names in /etc/hosts are known.

use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Most addresses that are tried.
const MAX_ADDRESSES: usize = 8;
/// Most output that is read, in bytes.
const MAX_OUTPUT: u64 = 64 << 10;

#[derive(Debug)]
pub(super) struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(&self, uri: &Uri, _: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let host = uri.host().ok_or(Error::HostNotFound)?;
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("http") { 80 } else { 443 });
        let mut found = self.empty();
        let seconds = timeout.after.as_secs().clamp(1, 60);
        for ip in addresses(host, seconds)?.into_iter().take(MAX_ADDRESSES) {
            found.push(SocketAddr::new(ip, port));
        }
        if found.is_empty() { Err(Error::HostNotFound) } else { Ok(found) }
    }
}

fn addresses(host: &str, seconds: u64) -> Result<Vec<IpAddr>, Error> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(ip) = bare.parse() {
        return Ok(vec![ip]);
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if host.len() > 253 || host.starts_with('-') || !host.bytes().all(plain) {
        return Err(Error::HostNotFound);
    }
    match getent(host, seconds) {
        Ok(output) => Ok(parse_getent(&output)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
            Ok(parse_hosts(&hosts, host))
        }
        Err(error) => Err(Error::Io(error)),
    }
}

/// The output of `getent ahosts`, empty for an unknown name.
fn getent(host: &str, seconds: u64) -> std::io::Result<String> {
    let mut command = Command::new("getent");
    // How long the resolver library waits for each name server.
    command.env("RES_OPTIONS", format!("timeout:{} attempts:2", (seconds / 4).clamp(1, 5)));
    command.args(["ahosts", host]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let mut output = String::new();
    let read = child.stdout.take().map_or(Ok(0), |from| from.take(MAX_OUTPUT).read_to_string(&mut output));
    // A program that reaps all its children may have reaped it: the output alone counts.
    let _ = child.wait();
    read.map(|_| output)
}

/// Lines are `ADDRESS TYPE [NAME]`, with a line for each type of socket.
fn parse_getent(output: &str) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = Vec::new();
    for ip in output.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()) {
        if !found.contains(&ip) {
            found.push(ip);
        }
    }
    found
}

/// Lines are `ADDRESS NAME...`, with comments after `#`.
fn parse_hosts(hosts: &str, wanted: &str) -> Vec<IpAddr> {
    let lines = hosts.lines().map(|line| line.split('#').next().unwrap_or_default());
    let found = lines.filter_map(|line| {
        let mut words = line.split_whitespace();
        let ip = words.next()?.parse().ok()?;
        words.any(|name| name.eq_ignore_ascii_case(wanted)).then_some(ip)
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_files_are_parsed() {
        let output = "192.0.2.7       STREAM build.example\n192.0.2.7  DGRAM\n2001:db8::1 STREAM\nx\n\n";
        assert_eq!(parse_getent(output), ["192.0.2.7", "2001:db8::1"].map(|ip| ip.parse::<IpAddr>().unwrap()));
        let hosts = "127.0.0.1 localhost # a.example\n192.0.2.8\tA.example a\n#192.0.2.9 a.example\n";
        assert_eq!(parse_hosts(hosts, "a.example"), ["192.0.2.8".parse::<IpAddr>().unwrap()]);
        assert_eq!(parse_hosts(hosts, "b.example"), [] as [IpAddr; 0]);
    }

    #[test]
    fn addresses_need_no_program_and_odd_names_are_unknown() {
        assert_eq!(addresses("[::1]", 1).unwrap(), ["::1".parse::<IpAddr>().unwrap()]);
        assert_eq!(addresses("127.0.0.1", 1).unwrap(), [IpAddr::from([127, 0, 0, 1])]);
        assert!(addresses("localhost", 5).unwrap().iter().all(IpAddr::is_loopback));
        for name in ["-s", "a b", "a;b", "a/b", &"a".repeat(254)] {
            assert!(matches!(addresses(name, 1), Err(Error::HostNotFound)), "{name}");
        }
    }
}
