//! What there is of the machine for a bulk build: job tokens, with what packages are given to use them; memory; room on
//! the disk. Does not know who gets how much.

use std::path::PathBuf;

use tanto_bulk::attempt::make_wrappers::Makes;
use tanto_bulk::config::{Config, NO_SANDBOX, Scratch};
use tanto_exec::jobserver::Jobserver;
use tanto_exec::jobserver::broker::TokenBroker;
use tanto_exec::resource_sampler;
use tanto_exec::schedule::ResourceSample;
use tanto_sys::fs::page_cache;

use super::meta;

/// One pool for all packages.
pub(super) fn pool(config: &Config) -> Jobserver {
    Jobserver::Broker(TokenBroker::new(all(config), of_each(config)))
}

/// MAKE_JOBS.
pub(super) fn of_each(config: &Config) -> usize {
    if config.make_jobs == 0 { all(config) } else { config.make_jobs }
}

/// What packages are built with so that they share; nothing, if each has but one job.
pub(super) fn makes(config: &Config) -> Result<Option<Makes>, Vec<u8>> {
    if of_each(config) == 1 {
        return Ok(None);
    }
    // Sandboxes show them to whoever builds there. Without one, the unprivileged user gets to the logs, and not to the state.
    let place = if config.sandbox == NO_SANDBOX { meta::dir(config) } else { PathBuf::from(&config.state) };
    let dir = place.join("makes");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let makes = Makes::write(&dir, &config.make, &path);
    makes.map(Some).map_err(|error| [b"writing the makes of packages: ", &tanto_sys::error::text(&error)[..]].concat())
}

/// Says how much memory and disk are free. Processors are dealt out by tokens, and may all be busy.
pub(super) fn sampler(config: &Config) -> impl FnMut() -> ResourceSample {
    let mut machine = resource_sampler::machine();
    let place = PathBuf::from(&config.state);
    move || ResourceSample { free_disk_kib: page_cache::free_kib(&place), cpu_some: 0.0, ..machine() }
}

/// How many bytes each package may write in memory, if so many are built at a time, by an ordinary user or by root; none:
/// they write on the disk.
pub(super) fn memory(config: &Config, clients: usize, as_user: bool) -> Option<u64> {
    let most = match config.scratch_size {
        Scratch::Most(bytes) => return Some(bytes),
        Scratch::Disk => return None,
        // An ordinary user's overlays mark with attributes what they have replaced.
        Scratch::Auto if as_user && !page_cache::tmpfs_supports_xattrs() => return None,
        // The other half is for processes.
        Scratch::Auto => resource_sampler::machine()().free_kib? * 1024 / 2 / clients.max(1) as u64,
    };
    (most >= LEAST).then_some(most)
}

/// With less memory than this, most packages would have to be begun again on the disk.
const LEAST: u64 = 256 << 20;

fn all(config: &Config) -> usize {
    if config.jobs == 0 { tanto_sys::machine::cpu::count() } else { config.jobs }
}
