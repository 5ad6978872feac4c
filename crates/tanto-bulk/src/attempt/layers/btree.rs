//! Writes a B-tree file of Berkeley DB 1.85 from sorted entries, for `pkgdb.byfile.db`.

const PAGE: usize = 4096;
/// Number, left and right neighbour, kind, and bounds of the free space.
const PAGE_HEADER: usize = 20;
const INTERNAL: u32 = 0x01;
const LEAF: u32 = 0x02;
const ROOT: u32 = 1;
const MAGIC: u32 = 0x0005_3162;
const VERSION: u32 = 3;
/// Flag: keys are unique.
const UNIQUE: u32 = 0x20;
/// The maximum size of an entry. Longer ones need overflow pages.
const MAX_ENTRY: usize = (PAGE - PAGE_HEADER) / 2 - 2 - 12;

/// A page that has no number yet.
struct Page {
    first_key: Vec<u8>,
    items: Vec<Vec<u8>>,
}

/// Encodes a file with these keys and values, to which it appends the NUL of C strings. `None` if an entry is too long.
pub(super) fn encode<'a>(entries: impl Iterator<Item = (Vec<u8>, &'a [u8])>) -> Option<Vec<u8>> {
    let mut leaves = Pages::default();
    for (mut key, value) in entries {
        key.push(0);
        if key.len() + value.len() + 1 > MAX_ENTRY {
            return None;
        }
        leaves.add(leaf(&key, value), key);
    }
    Some(encode_levels(leaves))
}

fn leaf(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut item = Vec::with_capacity(12 + key.len() + value.len());
    item.extend((key.len() as u32).to_le_bytes());
    item.extend((value.len() as u32 + 1).to_le_bytes());
    item.push(0);
    item.extend_from_slice(key);
    item.extend_from_slice(value);
    item.push(0);
    aligned(item)
}

fn internal(key: &[u8], child: u32) -> Vec<u8> {
    let mut item = Vec::with_capacity(12 + key.len());
    item.extend((key.len() as u32).to_le_bytes());
    item.extend(child.to_le_bytes());
    item.push(0);
    item.extend_from_slice(key);
    aligned(item)
}

fn aligned(mut item: Vec<u8>) -> Vec<u8> {
    item.resize(item.len().next_multiple_of(4), 0);
    item
}

/// The pages of one level, from left to right.
#[derive(Default)]
struct Pages {
    pages: Vec<Page>,
    /// Bytes used in the last page.
    used: usize,
}

impl Pages {
    fn add(&mut self, item: Vec<u8>, key: Vec<u8>) {
        let size = item.len() + 2;
        if self.pages.is_empty() || self.used + size > PAGE {
            self.pages.push(Page { first_key: key, items: Vec::new() });
            self.used = PAGE_HEADER;
        }
        self.used += size;
        self.pages.last_mut().expect("a page was added").items.push(item);
    }
}

/// Encodes all levels, bottom up. Page 0 describes the file, and page 1 is the root.
fn encode_levels(leaves: Pages) -> Vec<u8> {
    let mut file = vec![0; 2 * PAGE];
    for (at, number) in [MAGIC, VERSION, PAGE as u32, 0, 0, UNIQUE].into_iter().enumerate() {
        file[4 * at..4 * at + 4].copy_from_slice(&number.to_le_bytes());
    }
    let (mut level, mut kind) = (leaves.pages, LEAF);
    if level.is_empty() {
        level.push(Page { first_key: Vec::new(), items: Vec::new() });
    }
    while level.len() > 1 {
        let mut above = Pages::default();
        let (first, count) = ((file.len() / PAGE) as u32, level.len() as u32);
        for (number, page) in (first..).zip(level) {
            let left = if number == first { 0 } else { number - 1 };
            let right = if number + 1 == first + count { 0 } else { number + 1 };
            file.extend(page.bytes(number, (left, right), kind));
            above.add(internal(&page.first_key, number), page.first_key);
        }
        (level, kind) = (above.pages, INTERNAL);
    }
    if let Some(root) = level.first() {
        file[PAGE..2 * PAGE].copy_from_slice(&root.bytes(ROOT, (0, 0), kind));
    }
    file
}

impl Page {
    fn bytes(&self, number: u32, (left, right): (u32, u32), kind: u32) -> Vec<u8> {
        let mut page = vec![0; PAGE];
        let mut upper = PAGE;
        for (at, item) in self.items.iter().enumerate() {
            upper -= item.len();
            page[upper..upper + item.len()].copy_from_slice(item);
            page[PAGE_HEADER + 2 * at..PAGE_HEADER + 2 * at + 2].copy_from_slice(&(upper as u16).to_le_bytes());
        }
        for (at, word) in [number, left, right, kind].into_iter().enumerate() {
            page[4 * at..4 * at + 4].copy_from_slice(&word.to_le_bytes());
        }
        let lower = PAGE_HEADER + 2 * self.items.len();
        page[16..18].copy_from_slice(&(lower as u16).to_le_bytes());
        page[18..20].copy_from_slice(&(upper as u16).to_le_bytes());
        page
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tanto_testing::Random;

    fn word(bytes: &[u8], at: usize) -> usize {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
    }

    fn items(page: &[u8]) -> Vec<&[u8]> {
        let half = |at: usize| usize::from(u16::from_le_bytes([page[at], page[at + 1]]));
        (0..(half(16) - PAGE_HEADER) / 2).map(|at| &page[half(PAGE_HEADER + 2 * at)..]).collect()
    }

    fn page(file: &[u8], number: usize) -> &[u8] {
        assert_eq!(word(file, number * PAGE), number);
        &file[number * PAGE..][..PAGE]
    }

    /// Looks a key up as the library does: descends to the last item that is not greater.
    fn lookup(file: &[u8], key: &[u8]) -> Option<Vec<u8>> {
        let mut at = page(file, 1);
        while word(at, 12) == INTERNAL as usize {
            let items = items(at);
            let is_leftmost = word(at, 4) == 0;
            let name = |item: &[u8]| item[9..9 + word(item, 0)].to_vec();
            let after = items.iter().enumerate().skip(1).take_while(|(_, item)| name(item) <= [key, b"\0"].concat());
            let before = is_leftmost || name(items[0]) <= [key, b"\0"].concat();
            assert!(before, "the parent leads to a page of greater keys");
            at = page(file, word(items[after.last().map_or(0, |(at, _)| at)], 4));
        }
        items(at).into_iter().find(|item| item[9..9 + word(item, 0)] == [key, b"\0"].concat()).map(|item| {
            let value = &item[9 + word(item, 0)..][..word(item, 4)];
            value.strip_suffix(b"\0").unwrap().to_vec()
        })
    }

    /// Returns all entries, from leaf to leaf.
    pub(crate) fn entries(file: &[u8]) -> Vec<(String, String)> {
        let mut at = page(file, 1);
        while word(at, 12) == INTERNAL as usize {
            at = page(file, word(items(at)[0], 4));
        }
        let mut all = Vec::new();
        loop {
            for item in items(at) {
                let (key, value) = item[9..].split_at(word(item, 0));
                let text = |bytes: &[u8]| String::from_utf8(bytes.strip_suffix(b"\0").unwrap().to_vec()).unwrap();
                all.push((text(key), text(&value[..word(item, 4)])));
            }
            match word(at, 8) {
                0 => return all,
                next => at = page(file, next),
            }
        }
    }

    #[test]
    fn all_keys_are_found_and_no_others() {
        for (seed, count) in [0, 1, 30, 100, 3_000, 60_000].into_iter().enumerate() {
            let mut random = Random::new(seed as u64);
            let name =
                |random: &mut Random| format!("/usr/pkg/{}/{}", random.below(99), random.number() >> random.below(60));
            let expected: BTreeMap<String, String> =
                (0..count).map(|_| (name(&mut random), format!("package-{}", random.below(50)))).collect();
            let sorted = expected.iter().map(|(key, value)| (key.clone().into_bytes(), value.as_bytes()));
            let file = encode(sorted).unwrap();
            assert!(file.len() % PAGE == 0 && word(&file, 0) == MAGIC as usize && word(&file, 20) == UNIQUE as usize);
            assert!(entries(&file).into_iter().eq(expected.clone()), "{count}");
            for (key, value) in expected.iter().step_by(1 + count / 500) {
                assert_eq!(lookup(&file, key.as_bytes()), Some(value.clone().into_bytes()));
                assert_eq!(lookup(&file, format!("{key}/").as_bytes()), None);
            }
            assert_eq!((lookup(&file, b""), lookup(&file, b"\xff")), (None, None));
        }
    }

    #[test]
    fn too_long_entries_are_refused() {
        let long = vec![b'x'; MAX_ENTRY];
        assert!(encode([(long.clone(), &b""[..])].into_iter()).is_none());
        assert!(encode([(long[..MAX_ENTRY - 20].to_vec(), &b"lib-1"[..])].into_iter()).is_some());
    }
}
