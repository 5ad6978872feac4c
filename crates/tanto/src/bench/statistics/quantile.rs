//! Middles and spreads of numbers. Does not know what they are.

/// Turns the median absolute deviation into a standard deviation, where numbers lie as the normal law says.
const MAD_TO_SIGMA: f64 = 1.4826;
/// The same for the mean absolute deviation.
const MEAN_TO_SIGMA: f64 = 1.2533;

/// The smallest, the mean, the median and the largest.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Summary {
    /// The smallest.
    pub min: f64,
    /// The sum by the number.
    pub mean: f64,
    /// The one in the middle.
    pub median: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// Of these; none of nothing.
    pub fn of(values: &[f64]) -> Option<Summary> {
        let sorted = sorted(values);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Some(Summary { min, mean, median: quantile(&sorted, 0.5)?, max })
    }
}

/// In ascending order.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// Where this share (0 to 1) of numbers in ascending order lies below, between neighbours on the line through both.
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let at = share * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (at.floor() as usize, at.ceil() as usize);
    Some(sorted[below] + (sorted[above] - sorted[below]) * at.fract())
}

/// The one in the middle.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(&sorted(values), 0.5)
}

/// How far numbers lie from their median, as a standard deviation which outliers hardly change. Where more than half are
/// equal, outliers are all that there is to go by.
pub fn scatter(values: &[f64]) -> Option<f64> {
    let middle = median(values)?;
    let far: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    let usual = median(&far)? * MAD_TO_SIGMA;
    let mean = far.iter().sum::<f64>() / far.len() as f64 * MEAN_TO_SIGMA;
    Some(if usual > 0.0 { usual } else { mean })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_an_even_number_lies_between_two() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), Some(3.0));
        assert_eq!(quantile(&[0.0, 10.0], 0.25), Some(2.5));
        let summary = Summary { min: 1.0, mean: 4.0, median: 3.0, max: 9.0 };
        assert_eq!(Summary::of(&[4.0, 1.0, 2.0, 9.0]), Some(summary));
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn one_outlier_hardly_changes_the_scatter() {
        let mut values: Vec<f64> = (0..21).map(f64::from).collect();
        let before = scatter(&values).unwrap();
        values[20] = 1e9;
        assert!((scatter(&values).unwrap() / before - 1.0).abs() < 0.1);
        assert_eq!(scatter(&[1.0, 1.0, 1.0]), Some(0.0));
        assert!(scatter(&[1.0, 1.0, 1.0, 2.0]).unwrap() > 0.0);
    }
}
