//! Formats a report as one HTML page without scripts or external files.

use std::fmt::Write;

use tanto_exec::text::html::escape;
use tanto_exec::text::units::memory;
use tanto_record::views::html;

use super::changes::Change;
use super::text::{NO_WAITS, ms, waited};
use super::timeline::picture;
use super::{Failure, Report, machine};
use crate::coordinator::verification;

/// The number of slowest packages.
const SHOWN: usize = 200;
const OWN_STYLE: &str = "svg { display: block; width: 100%; background: var(--card); border: 1px solid var(--line); \
    border-radius: 8px; }\npre { margin: 4px 0 0; white-space: pre-wrap; overflow-wrap: anywhere; }\n\
    .scroll { max-height: none; }\n.done { fill: var(--c0); }\n.failed { fill: var(--bad); }\n\
    .machine { fill: var(--c1); }\n";

impl Report<'_> {
    pub fn html(&self) -> String {
        let title = format!("Bulk build {}", self.rows.run.run);
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <title>{title}</title>\n<style>\n{}{OWN_STYLE}</style>\n</head>\n<body>\n<main>\n<header>\n\
             <h1>{title}</h1>\n{}</header>\n",
            html::STYLE,
            self.tiles()
        );
        for part in [
            self.changes(),
            self.failures(),
            self.masked(),
            self.retries(),
            self.unequal_packages(),
            self.notes(),
            self.lanes(),
            self.stages(),
        ] {
            page += &part;
        }
        page + &self.chain() + &self.packages() + "</main>\n</body>\n</html>\n"
    }

    fn tiles(&self) -> String {
        let run = self.rows.run;
        let ended = run.ended_ms.map_or("which has not ended".to_owned(), |ms| format!("to {}", machine::iso(ms)));
        let mut text = format!("<p>{} {ended} (UTC)</p>\n<dl>\n", machine::iso(run.began_ms));
        let mut tile = |name: &str, value: String, note: String| {
            let _ = writeln!(text, "<div><dt>{name}</dt><dd>{value}<small>{note}</small></dd></div>");
        };
        tile("packages", self.rows.packages.len().to_string(), format!("{} built now", self.costs.packages.len()));
        for (state, count) in self.counts() {
            tile(state.name(), count.to_string(), String::new());
        }
        let span = &self.costs.span;
        if let Some(ratio) = span.ratio() {
            tile("time", ms(span.wall_ms), format!("{ratio:.3} x the lower bound"));
            tile("longest chain", ms(span.chain_ms()), format!("{} packages", span.chain.len()));
            tile("all work", ms(span.work_ms), format!("on {}", span.clients_text()));
        }
        for (it, what) in self.costs.estimates.iter().zip(["built before", "guessed"]) {
            if let Some(median) = it.median {
                tile("estimates", format!("\u{d7} {median:.2}"), format!("half of {} {what}", it.count));
            }
        }
        text + "</dl>\n"
    }

    fn changes(&self) -> String {
        let Some(changes) = &self.changes else { return String::new() };
        let kinds =
            [("broken", &changes.broken), ("fixed", &changes.fixed), ("new", &changes.new), ("gone", &changes.gone)];
        let rows = kinds.into_iter().flat_map(|(what, all)| all.iter().map(move |it| changed(what, it)));
        table(&format!("Since bulk build {}", changes.since.run), &["what", "package", "then", "now"], rows)
    }

    fn failures(&self) -> String {
        let row = |failure: &Failure| {
            let it = self.package(failure.package);
            let lines: Vec<String> =
                failure.found.iter().flat_map(|found| &found.lines).map(|line| escape(line)).collect();
            let log = if failure.log.is_empty() { String::new() } else { log_link(&failure.log, &it.name) };
            vec![
                number(&failure.blocks.to_string()),
                cell(&it.name),
                cell(&it.location),
                cell(self.maintainer(failure.package)),
                format!("<td class=\"name\">{}{log}<pre>{}</pre></td>", escape(&self.why(failure)), lines.join("\n")),
            ]
        };
        let heads = ["blocks", "package", "directory", "maintainer", "why"];
        table("Failed packages, most blocking first", &heads, self.failures.iter().map(row))
    }

    fn masked(&self) -> String {
        let rows = self.masked.iter().map(|masked| {
            let it = self.package(masked.package);
            vec![number(&masked.blocks.to_string()), cell(&it.name), cell(&it.location), cell(&it.why)]
        });
        table("Cannot be built", &["blocks", "package", "directory", "why"], rows)
    }

    fn retries(&self) -> String {
        let rows = self.retries.iter().map(|it| {
            let attempt = number(&it.attempt.to_string());
            vec![cell(&self.package(it.package).name), attempt, cell(&it.client), cell(&it.why)]
        });
        table("Retried after machine failures", &["package", "attempt", "client", "why"], rows)
    }

    fn unequal_packages(&self) -> String {
        let rows = self.unequal().map(|row| vec![cell(&row.name), cell(&verification::describe(row))]);
        table("Built again by other clients, but", &["package", "result"], rows)
    }

    fn notes(&self) -> String {
        let rows = self.notes.iter().map(|&package| {
            let it = self.package(package);
            vec![cell(&it.name), cell(&it.location), cell(&it.why)]
        });
        table("Built, but", &["package", "directory", "note"], rows)
    }

    fn lanes(&self) -> String {
        let drawn = picture(self.rows);
        if drawn.is_empty() {
            return drawn;
        }
        format!("<section>\n<h2>Packages over time</h2>\n{drawn}</section>\n")
    }

    fn stages(&self) -> String {
        let rows = self.costs.stages.iter().map(|it| {
            let numbers = [it.count.to_string(), it.failed.to_string(), ms(it.wall_ms), ms(it.cpu_ms)];
            let numbers =
                numbers.into_iter().chain(waited(it.waits)).chain([memory(it.peak_kib)]).map(|it| number(&it));
            std::iter::once(cell(&it.name)).chain(numbers).collect()
        });
        table(
            "Stages",
            &["stage", "times", "failed", "time", "processors", "I/O wait", "CPU wait", "most memory"],
            rows,
        )
    }

    fn chain(&self) -> String {
        let rows = self.costs.span.chain.iter();
        let rows = rows.map(|&(package, took)| vec![number(&ms(took)), cell(&self.package(package).name)]);
        table("Critical path", &["time", "package"], rows)
    }

    fn packages(&self) -> String {
        let rows = self.costs.packages.iter().take(SHOWN).map(|it| {
            let expected = it.expected_ms.map(ms).unwrap_or_default();
            let [io, cpu] = waited(it.waits);
            let numbers = [ms(it.wall_ms), ms(it.cpu_ms), io, cpu, memory(it.peak_kib), expected];
            let name = std::iter::once(cell(&self.package(it.package).name));
            numbers.iter().map(|it| number(it)).chain(name).collect()
        });
        let headings = ["time", "processors", "I/O wait", "CPU wait", "memory", "expected", "package"];
        let note = if self.costs.knows_waits() { String::new() } else { format!("<p>{NO_WAITS}</p>\n") };
        table("Slowest packages", &headings, rows) + &note
    }
}

fn changed(what: &str, it: &Change) -> Vec<String> {
    vec![cell(what), cell(&it.name), cell(&it.then), cell(&it.now)]
}

/// A link relative to the page in `meta`.
fn log_link(path: &str, package: &str) -> String {
    // Below the directory of the package, earlier versions of Tanto had none for each attempt.
    let from = path.rfind(&format!("/{package}/")).map_or(0, |at| at + 1);
    let file = path.rsplit('/').next().unwrap_or_default();
    format!(" <a href=\"../{}\">{}</a>", escape(&path[from..]), escape(file))
}

fn cell(text: &str) -> String {
    format!("<td>{}</td>", escape(text))
}

fn number(text: &str) -> String {
    format!("<td class=\"number\">{}</td>", escape(text))
}

/// A section with a table; empty without rows.
fn table(title: &str, heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let body: String = rows.map(|cells| format!("<tr>{}</tr>\n", cells.concat())).collect();
    if body.is_empty() {
        return body;
    }
    let heads: String = heads.iter().map(|head| format!("<th>{head}</th>")).collect();
    format!(
        "<section>\n<h2>{title}</h2>\n<div class=\"scroll\"><table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}\
         </tbody>\n</table></div>\n</section>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::log_link;

    #[test]
    fn logs_are_linked_from_the_directory_beside_them() {
        let link = |path| log_link(path, "a&b-1");
        assert_eq!(link("/x/a&b-1/y/a&b-1/2/build.log"), " <a href=\"../a&amp;b-1/2/build.log\">build.log</a>");
        assert_eq!(link("/x/a&b-1/build.log"), " <a href=\"../a&amp;b-1/build.log\">build.log</a>");
    }
}
