//! Which command goes when. Does not know what they do.

/// The sides of a round, in the order in which they run: A B, B A, B A, A B ... None is always first, and none always
/// comes after the same other one, so that what changes with time hits all alike.
pub fn of_round(round: usize, sides: usize) -> Vec<usize> {
    let turned = (0..sides).map(|place| (place + round / 2) % sides);
    if round.is_multiple_of(2) { turned.collect() } else { turned.rev().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_go_by_turns() {
        let rounds: Vec<_> = (0..4).map(|round| of_round(round, 2)).collect();
        assert_eq!(rounds, [[0, 1], [1, 0], [1, 0], [0, 1]]);
    }

    #[test]
    fn all_have_each_place_as_often() {
        for sides in 2..=5 {
            let rounds: Vec<_> = (0..2 * sides).map(|round| of_round(round, sides)).collect();
            for side in 0..sides {
                for place in 0..sides {
                    assert_eq!(rounds.iter().filter(|order| order[place] == side).count(), 2, "{rounds:?}");
                }
            }
        }
    }
}
