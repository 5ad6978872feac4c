//! Numbers far from all others: they are named, and stay. Does not know what to do about them.

use super::quantile::{median, scatter};

/// So many standard deviations from the median is far: one of two thousand, where numbers lie as the normal law says.
const FAR: f64 = 3.5;
/// With fewer nobody can say what is usual.
const FEWEST: usize = 6;

/// The places of those that lie far from the median.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    let (Some(middle), Some(scatter)) = (median(values), scatter(values)) else { return Vec::new() };
    if values.len() < FEWEST {
        return Vec::new();
    }
    let is_far = |value: f64| (value - middle).abs() > FAR * scatter;
    (0..values.len()).filter(|&at| is_far(values[at])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_named() {
        assert_eq!(outliers(&[1.0, 1.1, 0.9, 1.0, 5.0, 1.05, 0.95]), [4]);
        assert!(outliers(&[1.0, 1.1, 0.9, 1.0, 1.05, 0.95]).is_empty());
        assert_eq!(outliers(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0]), [8]);
        assert!(outliers(&[1.0, 1.0, 1.0, 1.0, 9.0]).is_empty());
        assert!(outliers(&[1.0; 9]).is_empty());
    }
}
