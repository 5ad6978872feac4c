//! Summary statistics and outliers.

/// Converts the median absolute deviation of normal numbers to a standard deviation.
const MAD_TO_SIGMA: f64 = 1.4826;
/// Converts the mean absolute deviation likewise.
const MEAN_TO_SIGMA: f64 = 1.2533;

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Summary {
    pub min: f64,
    pub mean: f64,
    pub median: f64,
    pub max: f64,
}

impl Summary {
    /// Returns `None` for an empty slice.
    pub fn of(values: &[f64]) -> Option<Summary> {
        let sorted = sorted(values);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Some(Summary { min, mean, median: quantile(&sorted, 0.5)?, max })
    }
}

pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// Returns a quantile (`share` is 0 to 1) of ascending numbers, interpolated linearly.
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let at = share * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (at.floor() as usize, at.ceil() as usize);
    Some(sorted[below] + (sorted[above] - sorted[below]) * at.fract())
}

pub fn median(values: &[f64]) -> Option<f64> {
    quantile(&sorted(values), 0.5)
}

/// Returns a robust standard deviation: from the median absolute deviation or, if more than half of the numbers are
/// equal, from the mean absolute deviation.
pub fn scatter(values: &[f64]) -> Option<f64> {
    let middle = median(values)?;
    let far: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    let usual = median(&far)? * MAD_TO_SIGMA;
    let mean = far.iter().sum::<f64>() / far.len() as f64 * MEAN_TO_SIGMA;
    Some(if usual > 0.0 { usual } else { mean })
}

/// Outliers are this many standard deviations from the median: one of two thousand normal numbers.
const OUTLIER_DISTANCE: f64 = 3.5;
/// Fewer numbers have no outliers.
const MIN_COUNT: usize = 6;

/// Returns the indexes of outliers.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    let (Some(middle), Some(scatter)) = (median(values), scatter(values)) else { return Vec::new() };
    if values.len() < MIN_COUNT {
        return Vec::new();
    }
    let is_outlier = |value: f64| (value - middle).abs() > OUTLIER_DISTANCE * scatter;
    (0..values.len()).filter(|&at| is_outlier(values[at])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_quantiles_are_interpolated() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), Some(3.0));
        assert_eq!(quantile(&[0.0, 10.0], 0.25), Some(2.5));
        let summary = Summary { min: 1.0, mean: 4.0, median: 3.0, max: 9.0 };
        assert_eq!(Summary::of(&[4.0, 1.0, 2.0, 9.0]), Some(summary));
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn outliers_are_found() {
        assert_eq!(outliers(&[1.0, 1.1, 0.9, 1.0, 5.0, 1.05, 0.95]), [4]);
        assert!(outliers(&[1.0, 1.1, 0.9, 1.0, 1.05, 0.95]).is_empty());
        assert_eq!(outliers(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0]), [8]);
        assert!(outliers(&[1.0, 1.0, 1.0, 1.0, 9.0]).is_empty());
        assert!(outliers(&[1.0; 9]).is_empty());
    }

    #[test]
    fn the_scatter_is_robust_against_an_outlier() {
        let mut values: Vec<f64> = (0..21).map(f64::from).collect();
        let before = scatter(&values).unwrap();
        values[20] = 1e9;
        assert!((scatter(&values).unwrap() / before - 1.0).abs() < 0.1);
        assert_eq!(scatter(&[1.0, 1.0, 1.0]), Some(0.0));
        assert!(scatter(&[1.0, 1.0, 1.0, 2.0]).unwrap() > 0.0);
    }
}
