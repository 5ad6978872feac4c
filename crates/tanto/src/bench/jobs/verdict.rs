//! What an experiment with numbers of jobs means: the best number, those that are as good, what limits, and which to
//! take. Does not know how it was measured.

use std::fmt::Write;
use tanto_exec::text::units::seconds;

use serde_json::{Value, json};

use super::experiment::Experiment;
use super::limits::{self, Limit};
use crate::bench::show;
use crate::bench::statistics::alike::alike;
use crate::bench::statistics::fit::{self, Law};
use crate::bench::statistics::quantile::Summary;
use tanto_exec::text::table::right_aligned;

/// One number of jobs.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Jobs at a time.
    pub jobs: u32,
    /// Its wall times in seconds.
    pub walls: Summary,
    /// How many times as fast as with the fewest jobs that were measured.
    pub speedup: f64,
    /// That, by how many times as many jobs there were.
    pub efficiency: f64,
}

/// All of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// By number of jobs, ascending.
    pub rows: Vec<Row>,
    /// The number with the smallest median.
    pub best: u32,
    /// Others that cannot be told from it; none if there were too few runs to say.
    pub alike: Option<Vec<u32>>,
    /// What limits there.
    pub limits: Vec<Limit>,
    /// Amdahl's law, fitted to the numbers of jobs up to that of processors.
    pub amdahl: Option<Law>,
    /// The universal scalability law, likewise.
    pub scalability: Option<Law>,
    /// Up to this number they were fitted.
    pub fitted_to: u32,
}

/// What takes no more than this as much time is about as fast.
const ABOUT_AS_FAST: f64 = 1.02;

impl Verdict {
    /// What follows; none without runs.
    pub fn of(experiment: &Experiment) -> Option<Verdict> {
        let (counts, walls): (Vec<u32>, Vec<Vec<f64>>) = experiment.walls().into_iter().unzip();
        let found = alike(&walls)?;
        let best = counts[found.best];
        let processors = u32::try_from(experiment.setup.cpus.count()).unwrap_or(u32::MAX);
        let fitted: Vec<(f64, f64)> = experiment
            .runs
            .iter()
            .filter(|run| run.jobs <= processors)
            .map(|run| (f64::from(run.jobs), run.sample.wall.as_secs_f64()))
            .collect();
        Some(Verdict {
            rows: rows(&counts, &walls)?,
            best,
            alike: found.alike.map(|alike| alike.into_iter().map(|at| counts[at]).collect()),
            limits: limits::at(experiment, best),
            amdahl: fit::amdahl(&fitted),
            scalability: fit::scalability(&fitted),
            fitted_to: counts.iter().copied().filter(|&count| count <= processors).max().unwrap_or(0),
        })
    }

    /// The fewest jobs that are as good as the best, for they need the least memory: those that cannot be told from it,
    /// and were about as fast. Where nothing can be told because all is noise, the first alone would say little.
    /// `None` if other programs kept the processors busy: then the figures are about them.
    pub fn recommended(&self) -> Option<u32> {
        if self.limits.iter().any(|limit| matches!(limit, Limit::Others(_))) {
            return None;
        }
        let median = |jobs: u32| self.rows.iter().find(|row| row.jobs == jobs).map(|row| row.walls.median);
        let most = median(self.best).map(|best| best * ABOUT_AS_FAST);
        let alike = self.alike.iter().flatten().copied().filter(|&jobs| median(jobs) <= most);
        alike.chain([self.best]).min()
    }

    /// The table and the sentences.
    pub fn text(&self) -> String {
        let mut text = self.table();
        let _ = writeln!(text, "\n{}", self.sentence());
        if let Some(laws) = self.laws() {
            let _ = writeln!(text, "{laws}");
        }
        let _ = writeln!(text, "What limits at -j {}: {}", self.best, limits::text(&self.limits));
        let _ = match self.recommended() {
            Some(jobs) if jobs == self.best => writeln!(text, "Recommended: -j {jobs}"),
            Some(jobs) => writeln!(text, "Recommended: -j {jobs}, the fewest that are as good"),
            None => writeln!(text, "No recommendation: measure again when they rest (--settle 1m waits for that)"),
        };
        text
    }

    fn table(&self) -> String {
        let base = self.rows.first().map_or(1, |row| row.jobs);
        let heads = ["-j", "median", "min", "max", &format!("times -j {base}"), "efficiency", ""];
        let mut table = vec![heads.map(str::to_owned).to_vec()];
        table.extend(self.rows.iter().map(|row| {
            let Summary { median, min, max, .. } = row.walls;
            let mark = match row.jobs {
                jobs if jobs == self.best => "best",
                jobs if self.alike.iter().flatten().any(|&alike| alike == jobs) => "as good",
                _ => "",
            };
            vec![
                row.jobs.to_string(),
                seconds(median),
                seconds(min),
                seconds(max),
                format!("{:.2}", row.speedup),
                show::percent(Some(row.efficiency)),
                mark.to_owned(),
            ]
        }));
        right_aligned(&table)
    }

    fn sentence(&self) -> String {
        let best = format!("The best is -j {}.", self.best);
        match &self.alike {
            None => best + " One run of each does not tell a difference from noise; --runs 3 or more does.",
            Some(alike) if alike.is_empty() && self.rows.len() == 1 => best + " Nothing else was measured.",
            Some(alike) if alike.is_empty() => best + " All others are slower, and that is no noise.",
            Some(alike) => format!("{best} Not to be told from it: {}.", listed(alike)),
        }
    }

    fn laws(&self) -> Option<String> {
        let amdahl = self.amdahl?;
        let to = self.fitted_to;
        let mut text = format!("Serial share: {:.1} % (Amdahl's law, up to -j {to}).", amdahl.serial.min(1.0) * 100.0);
        if let Some(law) = self.scalability {
            let (serial, contention) = (law.serial * 100.0, law.contention);
            let _ = write!(text, " Scalability law: serial {serial:.1} %, contention {contention:.5}");
            let _ = match law.peak() {
                Some(peak) => write!(text, ", so that more than {peak:.0} workers would be slower again."),
                None => write!(text, ", so that more workers would always be faster."),
            };
        }
        Some(text)
    }

    /// For other programs.
    pub fn json(&self) -> Value {
        let law = |law: Option<Law>| {
            law.map(|law| json!({"one_job_s": law.one, "serial": law.serial, "contention": law.contention}))
        };
        let rows = self.rows.iter().map(|row| {
            let Summary { min, mean, median, max } = row.walls;
            json!({
                "jobs": row.jobs, "min_s": min, "mean_s": mean, "median_s": median, "max_s": max,
                "speedup": row.speedup, "efficiency": row.efficiency,
            })
        });
        json!({
            "counts": rows.collect::<Vec<_>>(),
            "best": self.best,
            "alike": self.alike,
            "recommended": self.recommended(),
            "limits": self.limits.iter().map(Limit::json).collect::<Vec<_>>(),
            "amdahl": law(self.amdahl),
            "scalability": law(self.scalability),
            "fitted_to": self.fitted_to,
        })
    }
}

fn rows(counts: &[u32], walls: &[Vec<f64>]) -> Option<Vec<Row>> {
    let summaries = walls.iter().map(|walls| Summary::of(walls)).collect::<Option<Vec<_>>>()?;
    let (fewest, slowest) = (*counts.first()?, summaries.first()?.median);
    let row = |(&jobs, walls): (&u32, Summary)| {
        let speedup = slowest / walls.median;
        Row { jobs, walls, speedup, efficiency: speedup * f64::from(fewest) / f64::from(jobs) }
    };
    Some(counts.iter().zip(summaries).map(row).collect())
}

/// `-j 3, -j 5 and -j 6`.
fn listed(counts: &[u32]) -> String {
    let names: Vec<String> = counts.iter().map(|count| format!("-j {count}")).collect();
    match names.as_slice() {
        [most @ .., last] if !most.is_empty() => format!("{} and {last}", most.join(", ")),
        names => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::jobs::experiment::tests::experiment;

    /// Three runs of each, a little apart.
    fn verdict(times: &[(u32, f64)]) -> Verdict {
        let runs: Vec<(u32, f64)> =
            times.iter().flat_map(|&(jobs, time)| [0.998, 1.0, 1.003].map(|factor| (jobs, time * factor))).collect();
        Verdict::of(&experiment(&runs)).expect("there are runs")
    }

    #[test]
    fn the_fewest_of_the_best_are_recommended() {
        let it = verdict(&[(1, 100.0), (4, 26.0), (8, 15.0), (16, 15.02), (32, 18.0)]);
        assert_eq!((it.best, it.alike.clone(), it.recommended()), (8, Some(vec![16]), Some(8)));
        let it = verdict(&[(1, 100.0), (8, 15.02), (16, 15.0)]);
        assert_eq!((it.best, it.alike.clone(), it.recommended()), (16, Some(vec![8]), Some(8)));
        let noisy = [(1, 9.0), (1, 12.0), (2, 9.5), (2, 8.0), (4, 8.1), (4, 9.2)];
        let noise = Verdict::of(&experiment(&noisy)).expect("there are runs");
        assert_eq!((noise.best, noise.alike.clone(), noise.recommended()), (4, Some(vec![1, 2]), Some(2)));
        let text = it.text();
        assert!(text.contains("The best is -j 16. Not to be told from it: -j 8."), "{text}");
        assert!(text.contains("Recommended: -j 8, the fewest that are as good"), "{text}");
        assert!((it.rows[1].speedup - 100.0 / 15.02).abs() < 1e-9);
        assert!((it.rows[1].efficiency - 100.0 / 15.02 / 8.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_is_recommended_from_a_time_when_others_kept_the_machine_busy() {
        let mut busy = experiment(&[(1, 10.0), (2, 9.0), (4, 8.0), (1, 10.1), (2, 9.1), (4, 8.1)]);
        busy.runs.iter_mut().for_each(|run| run.sample.conditions.background = Some(0.9));
        let it = Verdict::of(&busy).expect("there are runs");
        assert_eq!((it.recommended(), &it.json()["recommended"]), (None, &Value::Null));
        let text = it.text();
        assert!(text.contains("No recommendation: measure again") && !text.contains("Recommended"), "{text}");
    }

    #[test]
    fn the_laws_are_fitted_to_what_has_processors() {
        let law = Law { one: 100.0, serial: 0.05, contention: 0.001 };
        let times: Vec<(u32, f64)> = [1, 2, 4, 8, 16].map(|jobs| (jobs, law.time(f64::from(jobs)))).to_vec();
        // With more jobs than processors it gets no faster, and that says nothing of either.
        let it = verdict(&[&times[..], &[(32, 12.0), (64, 13.0)]].concat());
        let found = it.scalability.expect("five numbers");
        assert!((found.serial - 0.05).abs() < 0.002 && (found.contention - 0.001).abs() < 0.0002, "{found:?}");
        assert_eq!(it.fitted_to, 16);
        assert!(it.text().contains("Serial share: "), "{}", it.text());
    }

    #[test]
    fn one_run_of_each_tells_no_difference_from_noise() {
        let it = Verdict::of(&experiment(&[(1, 10.0), (2, 5.0)])).expect("there are runs");
        assert_eq!((it.best, it.alike.clone(), it.recommended()), (2, None, Some(2)));
        assert!(it.text().contains("does not tell a difference from noise"), "{}", it.text());
        assert_eq!(Verdict::of(&experiment(&[])), None);
        assert!(verdict(&[(3, 10.0)]).text().contains("Nothing else was measured."));
    }

    #[test]
    fn lists_are_sentences() {
        assert_eq!([listed(&[2]), listed(&[2, 3, 4])], ["-j 2", "-j 2, -j 3 and -j 4"]);
        let json = verdict(&[(1, 10.0), (2, 5.0)]).json();
        assert_eq!((json["best"].as_u64(), json["counts"][1]["jobs"].as_u64()), (Some(2), Some(2)));
    }
}
