//! Who gets the job tokens that are free. Does not know what they are for, nor how they reach anybody.

/// Somebody who could use tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Of two claims the one with the higher number is served first.
    pub urgency: i64,
    /// More than so many are of no use.
    pub most: usize,
}

/// By claim: how many of so many free tokens it gets. The most urgent gets all that it can use, and so on; of two that are
/// alike the first.
pub fn deal(mut free: usize, claims: &[Claim]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..claims.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(claims[at].urgency));
    let mut shares = vec![0; claims.len()];
    for at in order {
        shares[at] = claims[at].most.min(free);
        free -= shares[at];
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_urgent_is_served_first() {
        let claims = [(1, 3), (9, 2), (5, 4), (9, 2)].map(|(urgency, most)| Claim { urgency, most });
        assert_eq!(deal(7, &claims), [0, 2, 3, 2]);
        assert_eq!(deal(3, &claims), [0, 2, 0, 1]);
        assert_eq!(deal(100, &claims), [3, 2, 4, 2]);
        assert_eq!(deal(0, &claims), [0; 4]);
    }
}
