//! The report, for people.

use std::fmt::Write;

use super::case::{Case, Figures, Kind, Whose};
use super::facts::Facts;
use super::programs::Suite;

/// What was seen. Of two machines, the first is the one that led.
pub struct Report {
    /// The tests that the suite was limited to.
    pub tests: Option<String>,
    pub pairs: u32,
    pub iterations: u32,
    pub machines: [Facts; 2],
    pub conformance: [Suite; 2],
    pub measured: Vec<Measured>,
    pub devinfo: [String; 2],
}

/// The runs of one measurement.
pub struct Measured {
    pub case: Case,
    perftest: Vec<Figures>,
    ours: Vec<Figures>,
    /// Why there are no more of them.
    pub failure: Option<String>,
}

/// Least, median, greatest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub least: f64,
    pub median: f64,
    pub greatest: f64,
}

impl Spread {
    fn of(numbers: impl Iterator<Item = f64>) -> Option<Spread> {
        let mut all: Vec<f64> = numbers.collect();
        all.sort_by(f64::total_cmp);
        let (least, greatest) = (*all.first()?, *all.last()?);
        let middle = all.len() / 2;
        let median = match all.len() % 2 {
            0 => (all[middle - 1] + all[middle]) / 2.0,
            _ => all[middle],
        };
        Some(Spread { least, median, greatest })
    }

    fn text(this: Option<Spread>, digits: usize) -> String {
        this.map_or("-".to_owned(), |Spread { least, median, greatest }| {
            format!("{median:.digits$} ({least:.digits$} to {greatest:.digits$})")
        })
    }
}

impl Measured {
    pub fn of(case: Case) -> Measured {
        Measured { case, perftest: Vec::new(), ours: Vec::new(), failure: None }
    }

    pub fn add(&mut self, whose: Whose, figures: Figures) {
        match whose {
            Whose::Perftest => self.perftest.push(figures),
            Whose::Ours => self.ours.push(figures),
        }
    }

    /// Of each pair of runs: above 1 is better for ours.
    pub fn ratio(&self) -> Option<Spread> {
        let pairs = self.perftest.iter().zip(&self.ours);
        Spread::of(pairs.map(|(perftest, ours)| match self.case.kind {
            Kind::Latency => perftest.value / ours.value,
            Kind::Bandwidth | Kind::Rate => ours.value / perftest.value,
        }))
    }

    fn line(&self) -> String {
        let digits = match self.case.kind {
            Kind::Latency => 2,
            Kind::Bandwidth | Kind::Rate => 1,
        };
        let of = |runs: &[Figures]| Spread::of(runs.iter().map(|run| run.value));
        let slowest = |runs: &[Figures]| Spread::of(runs.iter().filter_map(|run| run.slowest));
        let tail = match (slowest(&self.perftest), slowest(&self.ours)) {
            (Some(perftest), Some(ours)) => format!("{:.2}, {:.2}", perftest.median, ours.median),
            _ => String::new(),
        };
        format!(
            "| {} | {} | {} | {} | {} | {tail} |",
            self.case,
            self.case.unit(),
            Spread::text(of(&self.perftest), digits),
            Spread::text(of(&self.ours), digits),
            Spread::text(self.ratio(), 2),
        )
    }
}

impl Report {
    pub fn has_failed(&self) -> bool {
        self.conformance.iter().any(|suite| !suite.failed.is_empty())
            || self.measured.iter().any(|one| one.failure.is_some())
    }

    /// One line.
    pub fn summary(&self) -> String {
        let [here, there] = &self.conformance;
        let failed = self.measured.iter().filter(|one| one.failure.is_some()).count();
        format!(
            "Conformance: {} passed and {} failed here, {} and {} there. Measurements: {} done, \
             {failed} failed",
            here.passed,
            here.failed.len(),
            there.passed,
            there.failed.len(),
            self.measured.len() - failed,
        )
    }

    pub fn markdown(&self) -> String {
        let mut page = String::from("# proverbs between two machines\n\n");
        page.push_str("Written by `cargo xtask hardware`. It names no host and no address.\n\n");
        page.push_str("| | this machine | the server |\n|---|---|---|\n");
        let [here, there] = &self.machines;
        for ((name, here), (_, there)) in here.0.iter().zip(&there.0) {
            let _ = writeln!(page, "| {name} | {here} | {there} |");
        }
        self.conformance(&mut page);
        self.measurements(&mut page);
        for (whose, devinfo) in ["this machine", "the server"].iter().zip(&self.devinfo) {
            let _ = writeln!(page, "\n## devinfo -v of {whose}\n\n```text\n{devinfo}```");
        }
        page
    }

    fn conformance(&self, page: &mut String) {
        page.push_str(
            "\n## Conformance\n\nThe suite on each device, both ends on the one machine.",
        );
        if let Some(only) = &self.tests {
            let _ = write!(page, " Only tests with `{only}` in their names.");
        }
        page.push_str("\n\n| | passed | failed |\n|---|--:|--:|\n");
        for (whose, suite) in ["this machine", "the server"].iter().zip(&self.conformance) {
            let _ = writeln!(page, "| {whose} | {} | {} |", suite.passed, suite.failed.len());
        }
        for (whose, suite) in ["This machine", "The server"].iter().zip(&self.conformance) {
            if !suite.failed.is_empty() {
                let names = suite.failed.join("`, `");
                let said = &suite.said;
                let _ = writeln!(page, "\n{whose} fails `{names}`:\n\n```text\n{said}\n```");
            }
        }
    }

    fn measurements(&self, page: &mut String) {
        let _ = writeln!(
            page,
            "\n## perf beside perftest\n\nBoth ends are perftest's, or both ours, in turn: {} pairs \
             of {} exchanges each, the\norder alternating. Medians of the runs (least to greatest); \
             of latencies each run tells its\nmedian. The ratio is that of each pair: above 1 is \
             better for ours.\n\n![The ratios](report.svg)\n\n\
             | what | | perftest | ours | ratio | 99 %: perftest, ours |\n|---|---|---|---|---|---|",
            self.pairs, self.iterations
        );
        for one in &self.measured {
            let _ = writeln!(page, "{}", one.line());
        }
        for one in &self.measured {
            if let Some(why) = &one.failure {
                let _ = writeln!(page, "\n{} failed:\n\n```text\n{}\n```", one.case, why.trim());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::ALL;
    use super::*;

    fn measured(at: usize, perftest: &[f64], ours: &[f64]) -> Measured {
        let mut one = Measured::of(ALL[at]);
        for (whose, values) in [(Whose::Perftest, perftest), (Whose::Ours, ours)] {
            for value in values {
                one.add(whose, Figures { value: *value, slowest: Some(2.0 * value) });
            }
        }
        one
    }

    #[test]
    fn more_than_one_is_better_for_ours() {
        let latency = measured(0, &[2.0, 3.0, 4.0], &[1.0, 1.0, 1.0]);
        assert_eq!(latency.ratio(), Some(Spread { least: 2.0, median: 3.0, greatest: 4.0 }));
        assert_eq!(
            latency.line(),
            "| RC SEND, 64 bytes, latency | µs | 3.00 (2.00 to 4.00) | 1.00 (1.00 to 1.00) | \
             3.00 (2.00 to 4.00) | 6.00, 2.00 |"
        );
        let bandwidth = measured(6, &[100.0, 100.0], &[50.0, 150.0]);
        assert_eq!(bandwidth.ratio(), Some(Spread { least: 0.5, median: 1.0, greatest: 1.5 }));
    }

    #[test]
    fn what_failed_is_told() {
        let suite = |failed: &[&str]| Suite {
            passed: 7,
            failed: failed.iter().map(|&name| name.to_owned()).collect(),
            said: "left: 1".to_owned(),
        };
        let facts = || Facts(vec![("proverbs".to_owned(), "0.1.0".to_owned())]);
        let mut report = Report {
            tests: None,
            pairs: 1,
            iterations: 10,
            machines: [facts(), facts()],
            conformance: [suite(&[]), suite(&[])],
            measured: vec![measured(0, &[1.0], &[1.0]), measured(1, &[], &[])],
            devinfo: ["hca_id\n".to_owned(), "hca_id\n".to_owned()],
        };
        assert!(!report.has_failed());
        report.measured[1].failure = Some("ours: no device".to_owned());
        assert!(report.has_failed());
        let page = report.markdown();
        assert!(page.contains("RC WRITE, 64 bytes, latency failed:\n\n```text\nours: no device"));
        report.measured.pop();
        report.conformance[1] = suite(&["states::a"]);
        assert!(report.has_failed());
        assert!(report.markdown().contains("The server fails `states::a`:\n\n```text\nleft: 1"));
        assert!(report.summary().contains("7 passed and 0 failed here, 7 and 1 there"));
    }
}
