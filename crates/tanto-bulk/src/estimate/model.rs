//! Ridge regression. The penalty keeps features of few packages small.

use super::features::Feature;

/// Weights; the first feature is a constant.
pub(super) struct Model {
    weights: Vec<f64>,
}

/// The penalty.
const PENALTY: f64 = 5.0;

impl Model {
    /// Fits sparse rows and their values.
    pub(super) fn fit<'a>(count: usize, rows: impl Iterator<Item = (&'a [Feature], f64)>) -> Model {
        let mut matrix = vec![vec![0.0; count]; count];
        let mut right = vec![0.0; count];
        for (features, value) in rows {
            for &(row, factor) in features {
                right[row] += factor * value;
                features.iter().for_each(|&(column, other)| matrix[row][column] += factor * other);
            }
        }
        // Makes the system solvable without rows.
        (0..count).for_each(|at| matrix[at][at] += if at == 0 { 1e-9 } else { PENALTY });
        Model { weights: solve(matrix, right) }
    }

    pub(super) fn predict(&self, features: &[Feature]) -> f64 {
        features.iter().map(|&(place, value)| self.weights[place] * value).sum()
    }
}

/// Solves a symmetric positive definite system by Cholesky decomposition.
fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    for row in 0..right.len() {
        for column in 0..=row {
            let dot: f64 = (0..column).map(|at| matrix[row][at] * matrix[column][at]).sum();
            let left = matrix[row][column] - dot;
            matrix[row][column] =
                if row == column { left.max(f64::MIN_POSITIVE).sqrt() } else { left / matrix[column][column] };
        }
        let known: f64 = (0..row).map(|at| matrix[row][at] * right[at]).sum();
        right[row] = (right[row] - known) / matrix[row][row];
    }
    for row in (0..right.len()).rev() {
        let known: f64 = (row + 1..right.len()).map(|at| matrix[at][row] * right[at]).sum();
        right[row] = (right[row] - known) / matrix[row][row];
    }
    right
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_system_is_solved() {
        let solution =
            solve(vec![vec![4.0, 2.0, 0.0], vec![2.0, 5.0, 1.0], vec![0.0, 1.0, 3.0]], vec![8.0, 15.0, 11.0]);
        for (is, expected) in solution.iter().zip([1.0, 2.0, 3.0]) {
            assert!((is - expected).abs() < 1e-9, "{solution:?}");
        }
    }

    #[test]
    fn many_rows_outweigh_the_penalty() {
        let rows: Vec<(Vec<Feature>, f64)> =
            (0..1000).map(|at| (vec![(0, 1.0), (1, f64::from(at % 2))], f64::from(3 + at % 2 * 2))).collect();
        let model = Model::fit(2, rows.iter().map(|(features, value)| (&features[..], *value)));
        assert!((model.predict(&[(0, 1.0)]) - 3.0).abs() < 0.1);
        assert!((model.predict(&[(0, 1.0), (1, 1.0)]) - 5.0).abs() < 0.1);
    }
}
