//! Statistics of a set of latencies.

use std::time::Duration;

/// Samples, sorted.
pub struct Latencies(Vec<Duration>);

impl Latencies {
    /// `None` if there are no samples.
    pub fn new(mut samples: Vec<Duration>) -> Option<Latencies> {
        samples.sort_unstable();
        (!samples.is_empty()).then_some(Latencies(samples))
    }

    pub fn min(&self) -> f64 {
        micros(self.0[0])
    }

    pub fn max(&self) -> f64 {
        micros(self.0[self.0.len() - 1])
    }

    /// The nearest rank: the smallest sample that at least `percent` % of all samples do not
    /// exceed.
    pub fn percentile(&self, percent: f64) -> f64 {
        let rank = (self.0.len() as f64 * percent / 100.0).ceil() as usize;
        micros(self.0[rank.clamp(1, self.0.len()) - 1])
    }

    pub fn median(&self) -> f64 {
        self.percentile(50.0)
    }

    pub fn mean(&self) -> f64 {
        self.micros().sum::<f64>() / self.0.len() as f64
    }

    /// The sample standard deviation; 0 for one sample.
    pub fn deviation(&self) -> f64 {
        let mean = self.mean();
        let squares: f64 = self.micros().map(|micros| (micros - mean).powi(2)).sum();
        (squares / (self.0.len() - 1).max(1) as f64).sqrt()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The samples in µs, in ascending order.
    pub fn micros(&self) -> impl Iterator<Item = f64> {
        self.0.iter().map(|&sample| micros(sample))
    }

    /// The number of samples in each of `bins` equal parts of `start..end` µs. Samples outside are
    /// not counted.
    pub fn histogram(&self, bins: usize, start: f64, end: f64) -> Vec<u32> {
        let mut counts = vec![0; bins];
        for micros in self.micros().filter(|&micros| micros >= start) {
            let bin = (micros - start) / (end - start) * bins as f64;
            if let Some(count) = counts.get_mut(bin as usize) {
                *count += 1;
            }
        }
        counts
    }
}

fn micros(sample: Duration) -> f64 {
    sample.as_nanos() as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(micros: impl IntoIterator<Item = u64>) -> Latencies {
        let samples = micros.into_iter().map(Duration::from_micros).collect();
        Latencies::new(samples).expect("there are samples")
    }

    #[test]
    fn percentiles_are_the_nearest_rank() {
        // 1 to 1000, shuffled: 7 and 1000 have no common divisor.
        let all = of((0..1000).map(|i| i * 7 % 1000 + 1));
        assert_eq!(all.min(), 1.0);
        assert_eq!(all.median(), 500.0);
        assert_eq!(all.percentile(99.0), 990.0);
        assert_eq!(all.percentile(99.9), 999.0);
        assert_eq!(all.percentile(100.0), 1000.0);
        assert_eq!(all.max(), 1000.0);
        assert_eq!(all.mean(), 500.5);
    }

    #[test]
    fn few_samples_have_percentiles_too() {
        let one = of([5]);
        assert_eq!([one.min(), one.median(), one.percentile(99.9), one.max()], [5.0; 4]);
        assert_eq!(one.deviation(), 0.0);
        let three = of([3, 1, 2]);
        assert_eq!((three.median(), three.percentile(99.0)), (2.0, 3.0));
        assert_eq!(three.deviation(), 1.0);
        assert!(Latencies::new(Vec::new()).is_none());
    }

    #[test]
    fn a_histogram_counts_what_is_within_its_bounds() {
        assert_eq!(of([0, 1, 2, 3, 4, 5, 9]).histogram(2, 1.0, 5.0), [2, 2]);
    }
}
