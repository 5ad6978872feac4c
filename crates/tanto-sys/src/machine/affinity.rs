//! CPU affinity.

use std::fmt;
use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::call_error;

/// A set of processors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CpuMask(Vec<usize>);

/// The size of the kernel's mask.
const MAX_CPUS: usize = CpuSet::MAX_CPU;

impl CpuMask {
    /// Returns the mask of the calling thread.
    pub fn current() -> io::Result<CpuMask> {
        let set = sched_getaffinity(None).map_err(|error| call_error("sched_getaffinity", None, error.into()))?;
        Ok(CpuMask((0..MAX_CPUS).filter(|&cpu| set.is_set(cpu)).collect()))
    }

    /// Parses a list such as `0-3,8`.
    pub fn parse(text: &[u8]) -> Option<CpuMask> {
        let number = |text: &str| text.parse().ok().filter(|&cpu: &usize| cpu < MAX_CPUS && !text.starts_with('+'));
        let mut cpus = Vec::new();
        for part in std::str::from_utf8(text).ok()?.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            cpus.extend((first <= last).then_some(first..=last)?);
        }
        cpus.sort_unstable();
        cpus.dedup();
        Some(CpuMask(cpus))
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the processors that are not in `others`.
    pub fn without(&self, others: &CpuMask) -> CpuMask {
        CpuMask(self.0.iter().copied().filter(|cpu| !others.0.contains(cpu)).collect())
    }

    /// Restricts the calling thread and its future children to this set.
    pub fn apply(&self) -> io::Result<()> {
        let mut set = CpuSet::new();
        self.0.iter().for_each(|&cpu| set.set(cpu));
        sched_setaffinity(None, &set).map_err(|error| call_error("sched_setaffinity", None, error.into()))
    }

    /// Formats the set as a hexadecimal bit mask, like `taskset`.
    pub fn hex(&self) -> String {
        let nibbles = self.0.last().map_or(1, |last| last / 4 + 1);
        let digit = |nibble: usize| self.0.iter().filter(|&&cpu| cpu / 4 == nibble).map(|cpu| 1_u8 << (cpu % 4)).sum();
        (0..nibbles).rev().map(|nibble| format!("{:x}", u8::min(digit(nibble), 15))).collect()
    }
}

impl fmt::Display for CpuMask {
    /// Formats the set as `parse` reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = &self.0[..];
        let mut comma = "";
        while let Some(&first) = rest.first() {
            let length = rest.iter().enumerate().take_while(|&(at, &cpu)| cpu == first + at).count();
            match length {
                1 => write!(f, "{comma}{first}")?,
                _ => write!(f, "{comma}{first}-{}", first + length - 1)?,
            }
            (rest, comma) = (&rest[length..], ",");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_parsed_and_formatted() {
        for (text, shown, hex) in
            [("0", "0", "1"), ("3,1-2", "1-3", "e"), ("0-3,8", "0-3,8", "10f"), ("4,4", "4", "10"), ("0,2", "0,2", "5")]
        {
            let mask = CpuMask::parse(text.as_bytes()).unwrap();
            assert_eq!((mask.to_string().as_str(), mask.hex().as_str()), (shown, hex), "{text}");
        }
        for bad in ["", "-", "1-", "2-1", "x", "1,", "99999", "+1", "-1", "0x3", "1-2-3"] {
            assert_eq!(CpuMask::parse(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(CpuMask::parse(b"0-3").unwrap().without(&CpuMask::parse(b"0,2").unwrap()).to_string(), "1,3");
    }

    #[test]
    fn a_thread_can_be_restricted_to_one_processor() {
        std::thread::spawn(|| {
            let all = CpuMask::current().unwrap();
            let one = CpuMask(vec![all.0[0]]);
            one.apply().unwrap();
            assert_eq!(CpuMask::current().unwrap(), one);
            all.apply().unwrap();
            assert_eq!(CpuMask::current().unwrap(), all);
            assert!(CpuMask(Vec::new()).apply().is_err());
        })
        .join()
        .unwrap();
    }
}
