//! Analyzes an experiment with several numbers of jobs: the best number, ties, bottlenecks and a recommendation.

use std::fmt::Write;

use serde_json::{Value, json};
use tanto_exec::text::table::right_aligned;
use tanto_exec::text::units::seconds;

use super::bottlenecks::{self, Bottleneck};
use super::experiment::Experiment;
use crate::format::percent;
use crate::statistics::fit::{self, ScalingLaw};
use crate::statistics::summary::Summary;
use crate::statistics::ties::find_ties;

#[derive(Clone, PartialEq, Debug)]
pub struct JobCountResult {
    pub jobs: u32,
    /// Wall times in seconds.
    pub wall: Summary,
    /// Relative to the smallest number of jobs that was measured.
    pub speedup: f64,
    /// The speedup divided by the ratio of the numbers of jobs.
    pub efficiency: f64,
}

#[derive(Clone, PartialEq, Debug)]
pub struct JobsAnalysis {
    /// Ascending by number of jobs.
    pub rows: Vec<JobCountResult>,
    /// The number of jobs with the smallest median.
    pub best: u32,
    /// Numbers of jobs not significantly slower than the best; `None` if there are too few runs.
    pub ties: Option<Vec<u32>>,
    /// At the best number of jobs.
    pub bottlenecks: Vec<Bottleneck>,
    /// Amdahl's law, fitted to numbers of jobs up to that of processors.
    pub amdahl: Option<ScalingLaw>,
    /// The universal scalability law, fitted likewise.
    pub usl: Option<ScalingLaw>,
    /// The largest number of jobs used for the fits.
    pub fitted_to: u32,
}

/// A recommended number of jobs takes at most this many times the best time.
const MAX_SLOWDOWN: f64 = 1.02;

impl JobsAnalysis {
    /// Returns `None` without runs.
    pub fn of(experiment: &Experiment) -> Option<JobsAnalysis> {
        let (counts, times): (Vec<u32>, Vec<Vec<f64>>) = experiment.wall_times().into_iter().unzip();
        let found = find_ties(&times)?;
        let best = counts[found.best];
        let processors = u32::try_from(experiment.setup.cpus.count()).unwrap_or(u32::MAX);
        let points: Vec<(f64, f64)> = experiment
            .runs
            .iter()
            .filter(|run| run.jobs <= processors)
            .map(|run| (f64::from(run.jobs), run.sample.wall.as_secs_f64()))
            .collect();
        Some(JobsAnalysis {
            rows: rows(&counts, &times)?,
            best,
            ties: found.ties.map(|ties| ties.into_iter().map(|at| counts[at]).collect()),
            bottlenecks: bottlenecks::find(experiment, best),
            amdahl: fit::amdahl(&points),
            usl: fit::universal(&points),
            fitted_to: counts.iter().copied().filter(|&count| count <= processors).max().unwrap_or(0),
        })
    }

    /// Returns the smallest number of jobs that ties with the best and is about as fast, since fewer jobs need less
    /// memory. With much noise all numbers tie, so a tie alone is not enough. `None` if other programs were a bottleneck.
    pub fn recommended(&self) -> Option<u32> {
        if self.bottlenecks.iter().any(|bottleneck| matches!(bottleneck, Bottleneck::OtherPrograms(_))) {
            return None;
        }
        let median = |jobs: u32| self.rows.iter().find(|row| row.jobs == jobs).map(|row| row.wall.median);
        let limit = median(self.best).map(|best| best * MAX_SLOWDOWN);
        let ties = self.ties.iter().flatten().copied().filter(|&jobs| median(jobs) <= limit);
        ties.chain([self.best]).min()
    }

    /// Returns the table and the conclusions.
    pub fn text(&self) -> String {
        let mut text = self.table();
        let _ = writeln!(text, "\n{}", self.conclusion());
        if let Some(laws) = self.scaling_laws() {
            let _ = writeln!(text, "{laws}");
        }
        let _ = writeln!(text, "Bottleneck at -j {}: {}", self.best, bottlenecks::text(&self.bottlenecks));
        let _ = match self.recommended() {
            Some(jobs) if jobs == self.best => writeln!(text, "Recommended: -j {jobs}"),
            Some(jobs) => writeln!(text, "Recommended: -j {jobs}, the smallest number that is as fast"),
            None => writeln!(
                text,
                "No recommendation: measure again when other programs are idle (--settle 1m waits for that)"
            ),
        };
        text
    }

    fn table(&self) -> String {
        let base = self.rows.first().map_or(1, |row| row.jobs);
        let heads = ["-j", "median", "min", "max", &format!("speedup over -j {base}"), "efficiency", ""];
        let mut table = vec![heads.map(str::to_owned).to_vec()];
        table.extend(self.rows.iter().map(|row| {
            let Summary { median, min, max, .. } = row.wall;
            let mark = match row.jobs {
                jobs if jobs == self.best => "best",
                jobs if self.ties.iter().flatten().any(|&tie| tie == jobs) => "tie",
                _ => "",
            };
            vec![
                row.jobs.to_string(),
                seconds(median),
                seconds(min),
                seconds(max),
                format!("{:.2}", row.speedup),
                percent(Some(row.efficiency)),
                mark.to_owned(),
            ]
        }));
        right_aligned(&table)
    }

    fn conclusion(&self) -> String {
        let best = format!("Best: -j {}.", self.best);
        match &self.ties {
            None => best + " A single run of each shows no significance; use --runs 3 or more.",
            Some(ties) if ties.is_empty() && self.rows.len() == 1 => best + " No other number was measured.",
            Some(ties) if ties.is_empty() => best + " All others are significantly slower.",
            Some(ties) => format!("{best} Not significantly slower: {}.", list(ties)),
        }
    }

    fn scaling_laws(&self) -> Option<String> {
        let amdahl = self.amdahl?;
        let to = self.fitted_to;
        let serial = amdahl.contention.min(1.0) * 100.0;
        let mut text = format!("Amdahl's law up to -j {to}: serial fraction {serial:.1} %.");
        if let Some(law) = self.usl {
            let (contention, coherency) = (law.contention * 100.0, law.coherency);
            let _ =
                write!(text, " Universal scalability law: contention {contention:.1} %, coherency {coherency:.5}, ");
            let _ = match law.peak() {
                Some(peak) => write!(text, "fastest with {peak:.0} workers."),
                None => write!(text, "no slowdown with more workers."),
            };
        }
        Some(text)
    }

    pub fn json(&self) -> Value {
        let law = |law: Option<ScalingLaw>| {
            let fields = |law: ScalingLaw| json!({"one_worker_s": law.one_worker, "contention": law.contention, "coherency": law.coherency});
            law.map(fields)
        };
        let rows = self.rows.iter().map(|row| {
            let Summary { min, mean, median, max } = row.wall;
            json!({
                "jobs": row.jobs, "min_s": min, "mean_s": mean, "median_s": median, "max_s": max,
                "speedup": row.speedup, "efficiency": row.efficiency,
            })
        });
        json!({
            "counts": rows.collect::<Vec<_>>(),
            "best": self.best,
            "ties": self.ties,
            "recommended": self.recommended(),
            "bottlenecks": self.bottlenecks.iter().map(Bottleneck::json).collect::<Vec<_>>(),
            "amdahl": law(self.amdahl),
            "usl": law(self.usl),
            "fitted_to": self.fitted_to,
        })
    }
}

fn rows(counts: &[u32], times: &[Vec<f64>]) -> Option<Vec<JobCountResult>> {
    let summaries = times.iter().map(|times| Summary::of(times)).collect::<Option<Vec<_>>>()?;
    let (fewest, slowest) = (*counts.first()?, summaries.first()?.median);
    let row = |(&jobs, wall): (&u32, Summary)| {
        let speedup = slowest / wall.median;
        JobCountResult { jobs, wall, speedup, efficiency: speedup * f64::from(fewest) / f64::from(jobs) }
    };
    Some(counts.iter().zip(summaries).map(row).collect())
}

/// Returns `-j 3, -j 5 and -j 6`.
fn list(counts: &[u32]) -> String {
    let names: Vec<String> = counts.iter().map(|count| format!("-j {count}")).collect();
    match names.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        names => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::experiment::tests::experiment;

    /// Analyzes three runs of each number, with a small spread.
    fn analysis(times: &[(u32, f64)]) -> JobsAnalysis {
        let runs: Vec<(u32, f64)> =
            times.iter().flat_map(|&(jobs, time)| [0.998, 1.0, 1.003].map(|factor| (jobs, time * factor))).collect();
        JobsAnalysis::of(&experiment(&runs)).expect("there are runs")
    }

    #[test]
    fn the_smallest_tied_number_is_recommended() {
        let it = analysis(&[(1, 100.0), (4, 26.0), (8, 15.0), (16, 15.02), (32, 18.0)]);
        assert_eq!((it.best, it.ties.clone(), it.recommended()), (8, Some(vec![16]), Some(8)));
        let it = analysis(&[(1, 100.0), (8, 15.02), (16, 15.0)]);
        assert_eq!((it.best, it.ties.clone(), it.recommended()), (16, Some(vec![8]), Some(8)));
        let noisy = [(1, 9.0), (1, 12.0), (2, 9.5), (2, 8.0), (4, 8.1), (4, 9.2)];
        let noise = JobsAnalysis::of(&experiment(&noisy)).expect("there are runs");
        assert_eq!((noise.best, noise.ties.clone(), noise.recommended()), (4, Some(vec![1, 2]), Some(2)));
        let text = it.text();
        assert!(text.contains("Best: -j 16. Not significantly slower: -j 8."), "{text}");
        assert!(text.contains("Recommended: -j 8, the smallest number that is as fast"), "{text}");
        assert!((it.rows[1].speedup - 100.0 / 15.02).abs() < 1e-9);
        assert!((it.rows[1].efficiency - 100.0 / 15.02 / 8.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_is_recommended_on_a_busy_machine() {
        let mut busy = experiment(&[(1, 10.0), (2, 9.0), (4, 8.0), (1, 10.1), (2, 9.1), (4, 8.1)]);
        busy.runs.iter_mut().for_each(|run| run.sample.conditions.background = Some(0.9));
        let it = JobsAnalysis::of(&busy).expect("there are runs");
        assert_eq!((it.recommended(), &it.json()["recommended"]), (None, &Value::Null));
        let text = it.text();
        assert!(text.contains("No recommendation: measure again") && !text.contains("Recommended"), "{text}");
    }

    #[test]
    fn laws_are_fitted_up_to_the_number_of_processors() {
        let law = ScalingLaw { one_worker: 100.0, contention: 0.05, coherency: 0.001 };
        let times: Vec<(u32, f64)> = [1, 2, 4, 8, 16].map(|jobs| (jobs, law.time(f64::from(jobs)))).to_vec();
        // More jobs than processors do not follow the laws.
        let it = analysis(&[&times[..], &[(32, 12.0), (64, 13.0)]].concat());
        let found = it.usl.expect("five numbers");
        assert!((found.contention - 0.05).abs() < 0.002 && (found.coherency - 0.001).abs() < 0.0002, "{found:?}");
        assert_eq!(it.fitted_to, 16);
        assert!(it.text().contains("serial fraction "), "{}", it.text());
    }

    #[test]
    fn single_runs_show_no_significance() {
        let it = JobsAnalysis::of(&experiment(&[(1, 10.0), (2, 5.0)])).expect("there are runs");
        assert_eq!((it.best, it.ties.clone(), it.recommended()), (2, None, Some(2)));
        assert!(it.text().contains("shows no significance"), "{}", it.text());
        assert_eq!(JobsAnalysis::of(&experiment(&[])), None);
        assert!(analysis(&[(3, 10.0)]).text().contains("No other number was measured."));
    }

    #[test]
    fn lists_end_with_and() {
        assert_eq!([list(&[2]), list(&[2, 3, 4])], ["-j 2", "-j 2, -j 3 and -j 4"]);
        let json = analysis(&[(1, 10.0), (2, 5.0)]).json();
        assert_eq!((json["best"].as_u64(), json["counts"][1]["jobs"].as_u64()), (Some(2), Some(2)));
    }
}
