//! Reports hits and misses of the action cache, with the reasons for misses.

use std::collections::BTreeMap;

use tanto_exec::job::{CacheOutcome, CacheUse};
use tanto_exec::text::table::printable;
use tanto_exec::text::units::{duration, grouped};

use crate::session::{Session, SessionJob};

use super::began;

/// Commands that are named for each reason.
const MAX_NAMED: usize = 3;

#[derive(Default)]
struct Counts {
    hits: u64,
    changed: u64,
    new: u64,
    not_cacheable: u64,
    depends_on_root: u64,
    saved_cpu_ms: i64,
}

/// Counts hits and misses, and lists reasons with the commands that they concern.
pub fn text(session: &Session) -> Vec<u8> {
    let jobs: Vec<(&SessionJob, &CacheUse)> =
        session.commands().filter_map(|job| Some((job, job.end.as_ref()?.cache.as_ref()?))).collect();
    if jobs.is_empty() {
        return b"no command of this build used the cache; it is turned on by --cache=on\n".to_vec();
    }
    let mut counts = Counts::default();
    jobs.iter().for_each(|(_, cache)| counts.add(cache));
    let mut text = format!("{} (UTC)\n{}", began(session), counts.text()).into_bytes();
    let refused = |cache: &CacheUse| cache.outcome == CacheOutcome::NotCacheable;
    list(&mut text, "not cacheable", jobs.iter().filter(|(_, cache)| refused(cache)));
    list(&mut text, "not stored", jobs.iter().filter(|(_, cache)| !refused(cache) && !cache.reason.is_empty()));
    text
}

impl Counts {
    fn add(&mut self, cache: &CacheUse) {
        match cache.outcome {
            CacheOutcome::Hit(cost) => {
                self.hits += 1;
                self.saved_cpu_ms += i64::from(cost.cpu_ms);
            }
            CacheOutcome::Changed => self.changed += 1,
            CacheOutcome::New => self.new += 1,
            CacheOutcome::NotCacheable => self.not_cacheable += 1,
        }
        self.depends_on_root += u64::from(cache.depends_on_root);
    }

    fn text(&self) -> String {
        let mut parts = Vec::new();
        for (count, kind) in
            [(self.changed, "with other inputs"), (self.new, "new"), (self.not_cacheable, "not cacheable")]
        {
            if count > 0 {
                parts.push(format!("{} {kind}", grouped(count)));
            }
        }
        let misses = self.changed + self.new + self.not_cacheable;
        let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
        let mut text = format!("hits {}, misses {}{parts}\n", grouped(self.hits), grouped(misses));
        if self.hits > 0 {
            text += &format!("{} of processor time saved\n", duration(self.saved_cpu_ms));
        }
        if self.depends_on_root > 0 {
            let (results, they) = match self.depends_on_root {
                1 => ("1 result".to_string(), "it"),
                count => (format!("{} results", grouped(count)), "they"),
            };
            text += &format!(
                "{results} cannot be used in other checkouts, because {they} may contain the path of this one: add \
                 -ffile-prefix-map=PATH=. (docs/cache.md has other reasons)\n"
            );
        }
        text
    }
}

/// Lists reasons, the most frequent first.
fn list<'s>(text: &mut Vec<u8>, title: &str, jobs: impl Iterator<Item = &'s (&'s SessionJob, &'s CacheUse)>) {
    let mut reasons: BTreeMap<&str, Vec<&SessionJob>> = BTreeMap::new();
    jobs.for_each(|(job, cache)| reasons.entry(&cache.reason).or_default().push(job));
    if reasons.is_empty() {
        return;
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, jobs)| std::cmp::Reverse(jobs.len()));
    text.extend_from_slice(format!("\n{title}\n").as_bytes());
    for (reason, jobs) in reasons {
        let names: Vec<_> = jobs.iter().take(MAX_NAMED).map(|job| printable(job.title())).collect();
        let more = if jobs.len() > MAX_NAMED { ", ..." } else { "" };
        text.extend_from_slice(format!("    {} ", grouped(jobs.len() as u64)).as_bytes());
        text.extend_from_slice(&printable(reason.as_bytes()));
        text.extend_from_slice(&[b" (", &names.join(&b", "[..])[..], more.as_bytes(), b")\n"].concat());
    }
}
