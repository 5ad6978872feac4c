//! How the time of a job falls with the number of workers: the laws of Amdahl and Gunther, fitted. Does not know what
//! the workers are.
//!
//! Amdahl (1967): a share `s` of the work is serial, so that N workers take `T(1) * (1 + s(N - 1)) / N`. Gunther's
//! universal scalability law (1993) adds what they cost each other, pair by pair: `T(1) * (1 + s(N - 1) + k N(N - 1)) / N`.
//! `N * T(N)` is linear in what is sought, so that least squares have one answer; each point counts by its relative
//! distance.

/// A fitted law.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Law {
    /// What one worker takes.
    pub one: f64,
    /// The share of the work that is serial, from 0 on.
    pub serial: f64,
    /// What each pair of workers costs, as a share of the work, from 0 on.
    pub contention: f64,
}

/// Counts that it takes at least to tell contention from a serial share, and both from noise.
const FEWEST_FOR_CONTENTION: usize = 4;

impl Law {
    /// What so many workers take.
    pub fn time(&self, workers: f64) -> f64 {
        let pairs = workers * (workers - 1.0);
        self.one * (1.0 + self.serial * (workers - 1.0) + self.contention * pairs) / workers
    }

    /// With more workers than this it takes longer again; none if it never does.
    pub fn peak(&self) -> Option<f64> {
        (self.contention > 0.0).then(|| ((1.0 - self.serial).max(0.0) / self.contention).sqrt())
    }
}

/// Amdahl's law through points of workers and time. None for fewer than two numbers of workers.
pub fn amdahl(points: &[(f64, f64)]) -> Option<Law> {
    (distinct(points) >= 2)
        .then(|| solve(points, [true, true, false]).or_else(|| solve(points, [true, false, false])))?
}

/// Gunther's law. None for fewer than four numbers of workers.
pub fn scalability(points: &[(f64, f64)]) -> Option<Law> {
    if distinct(points) < FEWEST_FOR_CONTENTION {
        return None;
    }
    // What is below 0 is 0; of those that are left the nearest is meant.
    let choices = [[true, true, true], [true, false, true], [true, true, false], [true, false, false]];
    let laws = choices.into_iter().filter_map(|choice| solve(points, choice));
    laws.min_by(|one, other| distance(one, points).total_cmp(&distance(other, points)))
}

fn distinct(points: &[(f64, f64)]) -> usize {
    let mut workers: Vec<f64> = points.iter().map(|point| point.0).collect();
    workers.sort_by(f64::total_cmp);
    workers.dedup();
    workers.len()
}

/// The sum of the squares of relative distances.
fn distance(law: &Law, points: &[(f64, f64)]) -> f64 {
    points.iter().map(|&(workers, time)| (law.time(workers) / time - 1.0).powi(2)).sum()
}

/// Least squares with those of the three terms that are `in_use`; none where they have no answer, or one below 0.
fn solve(points: &[(f64, f64)], in_use: [bool; 3]) -> Option<Law> {
    let mut normal = [[0.0; 4]; 3];
    for &(workers, time) in points {
        let weight = (workers * time).recip();
        let terms = [1.0, workers - 1.0, workers * (workers - 1.0)];
        let terms: [f64; 3] = std::array::from_fn(|at| if in_use[at] { terms[at] * weight } else { 0.0 });
        for (row, &left) in normal.iter_mut().zip(&terms) {
            terms.iter().chain([&1.0]).zip(row).for_each(|(&right, cell)| *cell += left * right);
        }
    }
    for (at, row) in normal.iter_mut().enumerate().filter(|&(at, _)| !in_use[at]) {
        row[at] = 1.0;
    }
    let [one, serial, contention] = eliminate(normal)?;
    let law = Law { one, serial: serial / one, contention: contention / one };
    (one > 0.0 && law.serial >= 0.0 && law.contention >= 0.0).then_some(law)
}

/// Gauss's way through three equations.
fn eliminate(mut rows: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for at in 0..3 {
        let pivot = (at..3).max_by(|&one, &other| rows[one][at].abs().total_cmp(&rows[other][at].abs()))?;
        rows.swap(at, pivot);
        let row = rows[at];
        if row[at].abs() < 1e-12 {
            return None;
        }
        for (_, other) in rows.iter_mut().enumerate().filter(|&(nth, _)| nth != at) {
            let factor = other[at] / row[at];
            other.iter_mut().zip(row).for_each(|(cell, own)| *cell -= factor * own);
        }
    }
    Some([0, 1, 2].map(|at| rows[at][3] / rows[at][at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(law: Law, counts: &[u32]) -> Vec<(f64, f64)> {
        counts.iter().map(|&count| (f64::from(count), law.time(f64::from(count)))).collect()
    }

    fn near(found: Law, law: Law, most: f64) {
        assert!((found.one / law.one - 1.0).abs() < most, "{found:?}");
        assert!((found.serial - law.serial).abs() < most, "{found:?}");
        assert!((found.contention - law.contention).abs() < most, "{found:?}");
    }

    #[test]
    fn a_law_is_found_again() {
        let counts = [1, 2, 3, 4, 6, 8, 12, 16];
        let law = Law { one: 120.0, serial: 0.05, contention: 0.002 };
        near(scalability(&points(law, &counts)).expect("enough"), law, 1e-9);
        assert!((law.peak().expect("it has one") - 21.79).abs() < 0.01);
        let plain = Law { contention: 0.0, ..law };
        near(amdahl(&points(plain, &counts)).expect("enough"), plain, 1e-9);
        near(amdahl(&points(plain, &[1, 2])).expect("enough"), plain, 1e-9);
        near(scalability(&points(plain, &counts)).expect("enough"), plain, 1e-6);
        assert_eq!(plain.peak(), None);
    }

    #[test]
    fn noise_moves_it_a_little() {
        let law = Law { one: 50.0, serial: 0.08, contention: 0.001 };
        let noisy = points(law, &[1, 2, 4, 8, 16, 32]).into_iter().enumerate();
        let noisy: Vec<_> = noisy.map(|(at, (n, time))| (n, time * if at % 2 == 0 { 1.01 } else { 0.99 })).collect();
        near(scalability(&noisy).expect("enough"), law, 0.03);
    }

    #[test]
    fn too_few_counts_have_no_law_and_none_is_below_0() {
        assert_eq!(amdahl(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(scalability(&[(1.0, 4.0), (2.0, 2.0), (4.0, 1.0)]), None);
        // Faster than ideal: what one worker lacked (memory, say) the others have brought along.
        let better = [(1.0, 10.0), (2.0, 4.0), (4.0, 1.8), (8.0, 0.8)];
        let law = scalability(&better).expect("enough");
        assert_eq!((law.serial, law.contention), (0.0, 0.0));
        assert_eq!(amdahl(&better).map(|law| law.serial), Some(0.0));
    }
}
