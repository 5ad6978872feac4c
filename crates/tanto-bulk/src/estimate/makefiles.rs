//! Shared makefiles as features: build systems, languages, families of programs.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::package::records::Record;

/// The minimum number of readers.
const READERS: usize = 15;
/// The limit of makefiles; the most read ones are kept.
const MOST: usize = 200;

pub(super) struct Makefiles {
    of: Vec<Vec<usize>>,
    count: usize,
}

impl Makefiles {
    pub(super) fn new(records: &[Record<'_>]) -> Makefiles {
        let mut numbers: HashMap<Vec<u8>, usize, RandomState> = HashMap::default();
        let mut readers: Vec<usize> = Vec::new();
        let mut of: Vec<Vec<usize>> = records
            .iter()
            .map(|record| {
                let numbered = shared(record).map(|path| {
                    let next = numbers.len();
                    *numbers.entry_ref(path).or_insert(next)
                });
                let mut read: Vec<usize> = numbered.collect();
                read.sort_unstable();
                read.dedup();
                readers.resize(numbers.len(), 0);
                read.iter().for_each(|&it| readers[it] += 1);
                read
            })
            .collect();
        let places = places(&readers, records.len());
        of.iter_mut().for_each(|read| *read = read.iter().filter_map(|it| places.get(it).copied()).collect());
        Makefiles { of, count: places.len() }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The indices of the makefiles that a package reads.
    pub(super) fn of(&self, package: usize) -> &[usize] {
        &self.of[package]
    }
}

/// Makefiles that nearly all packages read are left out.
fn places(readers: &[usize], packages: usize) -> HashMap<usize, usize, RandomState> {
    let tells = |&it: &usize| (READERS..=packages / 5 * 4).contains(&readers[it]);
    let mut chosen: Vec<usize> = (0..readers.len()).filter(tells).collect();
    chosen.sort_by_key(|&it| std::cmp::Reverse(readers[it]));
    chosen.truncate(MOST);
    chosen.into_iter().zip(0..).collect()
}

/// Makefiles of other directories, without buildlink files, whose content ALL_DEPENDS has.
fn shared<'t>(record: &Record<'t>) -> impl Iterator<Item = &'t [u8]> {
    let all = record.value("SCAN_DEPENDS").unwrap_or_default().split(|&byte| byte == b' ');
    let paths = all.filter_map(|path| path.strip_prefix(b"../../"));
    paths.filter(|path| !path.ends_with(b"/buildlink3.mk") && !path.ends_with(b"/builtin.mk"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makefiles_of_many_but_not_all_are_features() {
        let text = |at: usize| {
            let own = if at < 20 { " ../../mk/cmake.mk ../../mk/cmake.mk" } else { "" };
            format!("SCAN_DEPENDS=../../mk/all.mk Makefile ../../x/y/buildlink3.mk{own}\n").into_bytes()
        };
        let texts: Vec<Vec<u8>> = (0..40).map(text).collect();
        let record = |text| Record { name: b"x-1", location: b"a/x", text };
        let records: Vec<Record<'_>> = texts.iter().map(|text| record(&text[..])).collect();
        let makefiles = Makefiles::new(&records);
        assert_eq!((makefiles.count(), makefiles.of(3), makefiles.of(30)), (1, &[0][..], &[][..]));
    }
}
