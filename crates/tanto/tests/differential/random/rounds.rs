//! Several rounds of changes and builds on a random graph.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::dice::Dice;
use super::graph::{Graph, Kind};
use crate::harness::{Case, Run, Side};

/// Prints the rounds if a comparison fails.
struct Story {
    seed: u64,
    lines: Vec<String>,
}

impl Drop for Story {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}:\n{}", self.seed, self.lines.join("\n"));
        }
    }
}

/// Runs one seed. Returns false if the reference ninja failed: with dyndep files it starts some commands too early or
/// twice, and may crash.
pub fn play(seed: u64) -> bool {
    let mut dice = Dice::new(seed);
    let mut graph = Graph::random(&mut dice);
    let mut story = Story { seed, lines: vec![graph.manifest()] };
    let mut case = write_all(Case::new().any_times(), &graph, &mut dice, &mut story);
    for round in 0..3 + dice.below(4) {
        if round > 0 {
            for _ in 0..1 + dice.below(3) {
                case = change(case, &mut graph, &mut dice, &mut story);
            }
        }
        case = build(case, &graph, &mut dice, &mut story);
    }
    case.check_unless_referee_errs()
}

fn write_all(mut case: Case, graph: &Graph, dice: &mut Dice, story: &mut Story) -> Case {
    // The reference ninja creates directories even in a dry run.
    case = case.file("build.ninja", graph.manifest()).file("d0/.keep", "").file("d1/.keep", "");
    for path in graph.sources.iter().chain(&graph.headers) {
        case = case.file(path, format!("{}\n", dice.below(4)));
    }
    for edge in graph.edges.iter().filter(|edge| edge.has_headers()) {
        let headers = dice.some(&graph.headers, 2).join(" ");
        story.lines.push(format!("hd{}: {headers}", edge.id));
        case = case.file(&format!("hd{}", edge.id), format!("{headers}\n"));
    }
    for dyndep in &graph.dyndeps {
        let text = graph.dyndep_text(dyndep);
        story.lines.push(format!("{}: {text}", dyndep.path));
        case = case.file(dyndep.source.as_ref().unwrap_or(&dyndep.path), text);
    }
    case
}

fn change(case: Case, graph: &mut Graph, dice: &mut Dice, story: &mut Story) -> Case {
    let files: Vec<String> = graph.sources.iter().chain(&graph.headers).cloned().collect();
    let targets = graph.targets();
    let id = dice.below(graph.edges.len());
    let (file, target) = (dice.pick(&files).clone(), dice.pick(&targets).clone());
    let mut say = |text: String| story.lines.push(text);
    match dice.below(13) {
        0..=2 => {
            let digit = dice.below(4);
            say(format!("write {file} {digit}"));
            case.file(&file, format!("{digit}\n"))
        }
        3 | 4 => {
            say(format!("touch {file}"));
            case.touch(&file)
        }
        5 | 6 => {
            say(format!("delete {target}"));
            case.act(move |side| {
                if side.root.join(&target).is_file() {
                    side.delete(&target)
                }
            })
        }
        7 => {
            say(format!("touch {target} if there"));
            case.act(move |side| {
                if side.root.join(&target).is_file() {
                    side.touch(&target, None)
                }
            })
        }
        8 => {
            say(format!("make {target} old if there"));
            case.act(move |side| {
                if side.root.join(&target).is_file() {
                    side.touch(&target, Some(1_100_000_000))
                }
            })
        }
        9 => {
            say(format!("toggle fail{id}"));
            let path = format!("fail{id}");
            case.act(
                move |side| if side.root.join(&path).exists() { side.delete(&path) } else { side.touch(&path, None) },
            )
        }
        10 => {
            graph.edges[id].version += 1;
            say(format!("new command of r{id}"));
            case.file("build.ninja", graph.manifest())
        }
        11 => {
            let headers = dice.some(&graph.headers, 2).join(" ");
            say(format!("hd{id}: {headers}"));
            if graph.edges[id].has_headers() { case.file(&format!("hd{id}"), format!("{headers}\n")) } else { case }
        }
        _ => change_rarely(case, graph, dice, story),
    }
}

/// Changes that make many files dirty, or are unusual.
fn change_rarely(case: Case, graph: &Graph, dice: &mut Dice, story: &mut Story) -> Case {
    let path = match dice.below(5) {
        0 => ".ninja_log".to_owned(),
        1 => ".ninja_deps".to_owned(),
        2 => format!("{}.d", dice.pick(&graph.targets())),
        3 => dice.pick(&graph.headers).clone(),
        _ => {
            let Some(source) = graph.dyndeps.first().map(|dyndep| dyndep.source.as_ref().unwrap_or(&dyndep.path))
            else {
                return case;
            };
            story.lines.push(format!("touch {source}"));
            return case.touch(source);
        }
    };
    story.lines.push(format!("delete {path} if there"));
    case.act(move |side| {
        if side.root.join(&path).is_file() {
            side.delete(&path)
        }
    })
}

/// One build with random targets and flags.
fn build(case: Case, graph: &Graph, dice: &mut Dice, story: &mut Story) -> Case {
    let one = dice.chance(50);
    let mut run = Run::new(if one { "-j1 -k0" } else { "-j4 -k0" });
    // After loading a dyndep file, the reference ninja prints some explanations twice.
    if one && graph.dyndeps.is_empty() && dice.chance(60) {
        run = run.arg("-d").arg("explain");
    }
    // Even in a dry run, the reference ninja writes and removes response files.
    if dice.chance(10) && graph.edges.iter().all(|edge| edge.kind != Kind::Rspfile) {
        run = run.arg("-n");
    }
    if dice.chance(30) {
        for target in dice.some(&graph.targets(), 3) {
            run = run.arg(&target);
        }
    }
    run = if one { run.view(reasons_once) } else { run.any_order() };
    story.lines.push(format!("ninja {}", run.args.join(" ")));
    let order = Rc::new(direct_needs(graph));
    case.run(run.env("T", "../trace")).act(move |side| file_trace(side, &order))
}

/// Removes repeated explanations, and the newest input, which may depend on clock ticks.
fn reasons_once(text: &str) -> String {
    const NEWEST: &str = "most recent input ";
    let mut seen = BTreeSet::new();
    let lines = text.lines().map(|line| line.split_once(NEWEST).map_or(line, |(reason, _)| reason));
    lines.filter(|line| !line.starts_with("ninja explain: ") || seen.insert(*line)).collect::<Vec<_>>().join("\n")
}

/// The edges that must finish before another starts, according to the manifest.
fn direct_needs(graph: &Graph) -> BTreeMap<String, Vec<String>> {
    let maker = |path: &String| graph.edges.iter().find(|edge| edge.all_outs().any(|out| out == path));
    let is_command = |kind: Kind| kind != Kind::Phony;
    let needs = |ins: Vec<String>| {
        ins.iter().filter_map(maker).filter(|edge| is_command(edge.kind)).map(|edge| format!("e{}", edge.id)).collect()
    };
    graph.edges.iter().map(|edge| (format!("s{}", edge.id), needs(edge.all_ins().cloned().collect()))).collect()
}

/// Checks the order of the commands, and writes them to the tree for the next comparison.
fn file_trace(side: &mut Side, needs: &BTreeMap<String, Vec<String>>) {
    let path = side.base().join("trace");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let _ = std::fs::remove_file(&path);
    let mut marks: Vec<&str> = text.lines().collect();
    if let Some(fault) = fault_in(&marks, needs) {
        assert!(side.name() == "referee", "{fault}");
        side.astray = true;
    }
    marks.sort_unstable();
    side.write("../traced", marks.join(" ").as_bytes(), None);
    std::fs::rename(side.base().join("traced"), side.root.join("trace")).expect("one file system");
}

/// The first error in the order of starts and ends.
fn fault_in(marks: &[&str], needs: &BTreeMap<String, Vec<String>>) -> Option<String> {
    for (at, mark) in marks.iter().enumerate() {
        let later = &marks[at + 1..];
        let needed = needs.get(*mark).into_iter().flatten();
        if let Some(need) = needed.into_iter().find(|need| later.contains(&need.as_str())) {
            return Some(format!("{mark} before {need}"));
        }
        if later.contains(mark) {
            return Some(format!("{mark} twice"));
        }
    }
    None
}
