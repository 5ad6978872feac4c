//! Counts transitive dependents.

/// Nodes in one pass.
const AT_ONCE: usize = 512;
const WORDS: usize = AT_ONCE / 64;

/// Returns the number of direct and indirect dependents of each node. An edge is a dependent and its dependency.
pub fn dependents(count: usize, edges: &[(u32, u32)]) -> Vec<u32> {
    let needs = Lists::new(count, edges.iter().copied());
    let order = order(count, edges);
    let mut dependents = vec![0; count];
    let mut reached = vec![[0_u64; WORDS]; count];
    for first in (0..count).step_by(AT_ONCE) {
        reached.iter_mut().for_each(|it| *it = [0; WORDS]);
        for &package in &order {
            // Dependencies come first, with their own sets.
            let mut all = [0; WORDS];
            for &needed in needs.of(package) {
                let needed = needed as usize;
                all.iter_mut().zip(&reached[needed]).for_each(|(all, one)| *all |= one);
                if let Some(bit) = needed.checked_sub(first).filter(|&bit| bit < AT_ONCE) {
                    all[bit / 64] |= 1 << (bit % 64);
                }
            }
            count_bits(&all, &mut dependents[first..]);
            reached[package as usize] = all;
        }
    }
    dependents
}

fn count_bits(words: &[u64; WORDS], counts: &mut [u32]) {
    for (at, &word) in words.iter().enumerate() {
        let mut rest = word;
        while rest != 0 {
            counts[at * 64 + rest.trailing_zeros() as usize] += 1;
            rest &= rest - 1;
        }
    }
}

/// A topological order; nodes in cycles are left out, which plans do not have.
pub(super) fn order(count: usize, edges: &[(u32, u32)]) -> Vec<u32> {
    let users = Lists::new(count, edges.iter().map(|&(package, needs)| (needs, package)));
    let mut missing = vec![0_u32; count];
    (0..count as u32).for_each(|it| users.of(it).iter().for_each(|&user| missing[user as usize] += 1));
    let mut order: Vec<u32> = (0..count as u32).filter(|&it| missing[it as usize] == 0).collect();
    let mut at = 0;
    while let Some(&package) = order.get(at) {
        at += 1;
        for &user in users.of(package) {
            missing[user as usize] -= 1;
            order.extend((missing[user as usize] == 0).then_some(user));
        }
    }
    order
}

pub(crate) struct Lists {
    starts: Vec<u32>,
    all: Vec<u32>,
}

impl Lists {
    /// Makes lists from pairs of an index and an element; indices out of range are left out.
    pub(crate) fn new(count: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Lists {
        let pairs = pairs.filter(|&(one, other)| (one as usize) < count && (other as usize) < count);
        let mut starts = vec![0_u32; count + 1];
        pairs.clone().for_each(|(one, _)| starts[one as usize + 1] += 1);
        for at in 0..count {
            starts[at + 1] += starts[at];
        }
        let mut next = starts.clone();
        let mut all = vec![0; starts[count] as usize];
        for (one, other) in pairs {
            all[next[one as usize] as usize] = other;
            next[one as usize] += 1;
        }
        Lists { starts, all }
    }

    pub(crate) fn of(&self, number: u32) -> &[u32] {
        let at = number as usize;
        &self.all[self.starts[at] as usize..self.starts[at + 1] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Random;

    #[test]
    fn diamond_counts_each_node_once() {
        assert_eq!(dependents(4, &[(1, 0), (2, 0), (3, 1), (3, 2)]), [3, 1, 1, 0]);
        assert!(dependents(0, &[]).is_empty());
    }

    #[test]
    fn many_nodes_are_counted() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let count = 1 + random.below(1200);
            let mut edges = Vec::new();
            for package in 1..count {
                for _ in 0..random.below(3) {
                    edges.push((package as u32, random.below(package) as u32));
                }
            }
            edges.sort_unstable();
            edges.dedup();
            let users = Lists::new(count, edges.iter().map(|&(package, needs)| (needs, package)));
            let one_by_one = |package: u32| {
                let mut found = vec![package];
                let mut at = 0;
                while at < found.len() {
                    let users = users.of(found[at]).to_vec();
                    found.extend(users.into_iter().filter(|user| !found.contains(user)).collect::<Vec<_>>());
                    at += 1;
                }
                found.len() as u32 - 1
            };
            let counted = dependents(count, &edges);
            for package in (0..count).step_by(37) {
                assert_eq!(counted[package], one_by_one(package as u32), "seed {seed}, {package}");
            }
        }
    }
}
