//! Allocates free job tokens among running and waiting commands.

/// How certain it is that a command can use another token; the most certain are served first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Demand {
    /// It has an unused one.
    Unlikely,
    /// It has none, and has not shown that it could use one.
    Unknown,
    /// It uses all that it has, or waits for its first one.
    Certain,
}

/// Request of one command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    pub demand: Demand,
    /// Breaks ties of `demand`: the higher goes first.
    pub priority: i64,
    /// Maximum number of tokens.
    pub max: usize,
}

/// Returns the number of tokens for each request. Among requests of equal demand, the one of the highest priority gets
/// its maximum, then the next; ties go to the first.
pub fn allocate(mut free: usize, requests: &[Request]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse((requests[at].demand, requests[at].priority)));
    let mut shares = vec![0; requests.len()];
    for at in order {
        shares[at] = requests[at].max.min(free);
        free -= shares[at];
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_priority_is_served_first() {
        let request = |demand| move |(priority, most)| Request { demand, priority, max: most };
        let requests = [(1, 3), (9, 2), (5, 4), (9, 2)].map(request(Demand::Certain));
        assert_eq!(allocate(7, &requests), [0, 2, 3, 2]);
        assert_eq!(allocate(3, &requests), [0, 2, 0, 1]);
        assert_eq!(allocate(100, &requests), [3, 2, 4, 2]);
        assert_eq!(allocate(0, &requests), [0; 4]);
        let unsure =
            [request(Demand::Unlikely)((9, 1)), request(Demand::Unknown)((5, 1)), request(Demand::Certain)((1, 1))];
        assert_eq!([1, 2, 3].map(|free| allocate(free, &unsure)), [[0, 0, 1], [0, 1, 1], [1, 1, 1]]);
    }
}
