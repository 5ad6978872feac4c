//! Who gets the job tokens that are free. Does not know what they are for, nor how they reach anybody.

/// How well it is known that somebody can use a token; who surely can is served before all others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Demand {
    /// Has one and does not use it.
    Unlikely,
    /// Has none, and has not shown that it could use one.
    Unknown,
    /// Uses all that it has, or waits for the first.
    Certain,
}

/// Somebody who could use tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Whether it could.
    pub demand: Demand,
    /// Of two claims of the same need the one with the higher number is served first.
    pub priority: i64,
    /// More than so many are of no use.
    pub max: usize,
}

/// By claim: how many of so many free tokens it gets. Of those with a sure need the most urgent gets all that it can use,
/// and so on; then come the others. Of two that are alike it is the first.
pub fn allocate(mut free: usize, claims: &[Request]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..claims.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse((claims[at].demand, claims[at].priority)));
    let mut shares = vec![0; claims.len()];
    for at in order {
        shares[at] = claims[at].max.min(free);
        free -= shares[at];
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_urgent_is_served_first() {
        let claim = |need| move |(urgency, most)| Request { demand: need, priority: urgency, max: most };
        let claims = [(1, 3), (9, 2), (5, 4), (9, 2)].map(claim(Demand::Certain));
        assert_eq!(allocate(7, &claims), [0, 2, 3, 2]);
        assert_eq!(allocate(3, &claims), [0, 2, 0, 1]);
        assert_eq!(allocate(100, &claims), [3, 2, 4, 2]);
        assert_eq!(allocate(0, &claims), [0; 4]);
        let unsure = [claim(Demand::Unlikely)((9, 1)), claim(Demand::Unknown)((5, 1)), claim(Demand::Certain)((1, 1))];
        assert_eq!([1, 2, 3].map(|free| allocate(free, &unsure)), [[0, 0, 1], [0, 1, 1], [1, 1, 1]]);
    }
}
