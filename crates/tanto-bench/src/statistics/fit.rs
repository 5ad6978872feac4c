//! Fits the scaling laws of Amdahl and Gunther.
//!
//! Amdahl (1967): with a serial fraction `s`, N workers take `T(1) * (1 + s(N - 1)) / N`. Gunther's universal scalability
//! law (1993) adds the cost of coherency between pairs of workers: `T(1) * (1 + s(N - 1) + k N(N - 1)) / N`. `N * T(N)` is
//! linear in the parameters, so least squares have one solution; residuals are relative.

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ScalingLaw {
    /// The time of one worker.
    pub one_worker: f64,
    /// The serial fraction, at least 0.
    pub contention: f64,
    /// The cost of each pair of workers as a fraction of the work, at least 0.
    pub coherency: f64,
}

/// Distinct numbers of workers necessary to separate coherency, contention and noise.
const MIN_COUNTS_FOR_USL: usize = 4;

impl ScalingLaw {
    pub fn time(&self, workers: f64) -> f64 {
        let pairs = workers * (workers - 1.0);
        self.one_worker * (1.0 + self.contention * (workers - 1.0) + self.coherency * pairs) / workers
    }

    /// Returns the fastest number of workers; `None` if more workers are always faster.
    pub fn peak(&self) -> Option<f64> {
        (self.coherency > 0.0).then(|| ((1.0 - self.contention).max(0.0) / self.coherency).sqrt())
    }
}

/// Fits Amdahl's law to points of workers and time. `None` for fewer than two numbers of workers.
pub fn amdahl(points: &[(f64, f64)]) -> Option<ScalingLaw> {
    (distinct(points) >= 2)
        .then(|| solve(points, [true, true, false]).or_else(|| solve(points, [true, false, false])))?
}

/// Fits the universal scalability law. `None` for fewer than four numbers of workers.
pub fn universal(points: &[(f64, f64)]) -> Option<ScalingLaw> {
    if distinct(points) < MIN_COUNTS_FOR_USL {
        return None;
    }
    // Negative parameters become 0; of the remaining solutions, the nearest one is used.
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

/// Returns the sum of squared relative residuals.
fn distance(law: &ScalingLaw, points: &[(f64, f64)]) -> f64 {
    points.iter().map(|&(workers, time)| (law.time(workers) / time - 1.0).powi(2)).sum()
}

/// Solves the least squares problem with the terms `in_use`; `None` if it is singular or a parameter is negative.
fn solve(points: &[(f64, f64)], in_use: [bool; 3]) -> Option<ScalingLaw> {
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
    let [one_worker, contention, coherency] = eliminate(normal)?;
    let law = ScalingLaw { one_worker, contention: contention / one_worker, coherency: coherency / one_worker };
    (one_worker > 0.0 && law.contention >= 0.0 && law.coherency >= 0.0).then_some(law)
}

/// Solves three linear equations by Gaussian elimination.
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

    fn points(law: ScalingLaw, counts: &[u32]) -> Vec<(f64, f64)> {
        counts.iter().map(|&count| (f64::from(count), law.time(f64::from(count)))).collect()
    }

    fn near(found: ScalingLaw, law: ScalingLaw, most: f64) {
        assert!((found.one_worker / law.one_worker - 1.0).abs() < most, "{found:?}");
        assert!((found.contention - law.contention).abs() < most, "{found:?}");
        assert!((found.coherency - law.coherency).abs() < most, "{found:?}");
    }

    #[test]
    fn exact_points_are_fitted() {
        let counts = [1, 2, 3, 4, 6, 8, 12, 16];
        let law = ScalingLaw { one_worker: 120.0, contention: 0.05, coherency: 0.002 };
        near(universal(&points(law, &counts)).expect("enough"), law, 1e-9);
        assert!((law.peak().expect("it has one") - 21.79).abs() < 0.01);
        let plain = ScalingLaw { coherency: 0.0, ..law };
        near(amdahl(&points(plain, &counts)).expect("enough"), plain, 1e-9);
        near(amdahl(&points(plain, &[1, 2])).expect("enough"), plain, 1e-9);
        near(universal(&points(plain, &counts)).expect("enough"), plain, 1e-6);
        assert_eq!(plain.peak(), None);
    }

    #[test]
    fn noisy_points_are_fitted() {
        let law = ScalingLaw { one_worker: 50.0, contention: 0.08, coherency: 0.001 };
        let noisy = points(law, &[1, 2, 4, 8, 16, 32]).into_iter().enumerate();
        let noisy: Vec<_> = noisy.map(|(at, (n, time))| (n, time * if at % 2 == 0 { 1.01 } else { 0.99 })).collect();
        near(universal(&noisy).expect("enough"), law, 0.03);
    }

    #[test]
    fn too_few_counts_have_no_law_and_parameters_are_not_negative() {
        assert_eq!(amdahl(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(universal(&[(1.0, 4.0), (2.0, 2.0), (4.0, 1.0)]), None);
        // Superlinear, for example because several workers have larger caches.
        let better = [(1.0, 10.0), (2.0, 4.0), (4.0, 1.8), (8.0, 0.8)];
        let law = universal(&better).expect("enough");
        assert_eq!((law.contention, law.coherency), (0.0, 0.0));
        assert_eq!(amdahl(&better).map(|law| law.contention), Some(0.0));
    }
}
