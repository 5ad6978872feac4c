//! Runs all read-only tools, and checks that they do not change the tree.

use super::case::Run;
use super::process::Ended;
use super::side::Side;
use super::tree::Tree;

pub struct Answer {
    pub run: Run,
    pub ended: Ended,
    /// Changes that the tool made to the tree.
    pub changed: Option<String>,
}

/// `@` stands for the targets of the manifest.
const QUESTIONS: &[&str] = &[
    "-t targets",
    "-t targets depth 0",
    "-t targets rule",
    "-t rules -d",
    "-t deps",
    "-t query @",
    "-t commands",
    "-t inputs",
    "-t inputs -d @",
    "-t multi-inputs @",
    "-t compdb",
    "-t compdb -x",
    "-t compdb-targets @",
    "-t graph",
    "-t missingdeps",
    "-n -t clean",
    "-n -t cleandead",
    "-n",
];

pub fn ask(side: &mut Side, flags: &[String]) -> Vec<Answer> {
    let all = ask_one(side, with(flags, "-t targets all"));
    let targets = targets(&all.ended.out);
    let mut answers = vec![all];
    for question in QUESTIONS {
        let mut run = with(flags, question.trim_end_matches(" @"));
        if question.ends_with('@') {
            if targets.is_empty() {
                continue;
            }
            run.args.extend(targets.iter().cloned());
        }
        answers.push(ask_one(side, run));
    }
    answers
}

fn with(flags: &[String], question: &str) -> Run {
    let mut run =
        Run { args: flags.to_vec(), any_order: ["-n -t cleandead", "-t deps"].contains(&question), ..Run::default() };
    run.args.extend(question.split(' ').map(str::to_owned));
    run
}

fn ask_one(side: &mut Side, run: Run) -> Answer {
    let before = Tree::raw(&side.root);
    let ended = super::process::Running::start(&mut side.command(&run)).end();
    let after = Tree::raw(&side.root);
    let changed = (before != after).then(|| super::compare::trees(&before, &after));
    Answer { run, ended, changed }
}

/// At most 40 targets from `-t targets all`.
fn targets(out: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(out);
    text.lines().filter_map(|line| line.rsplit_once(": ")).map(|(path, _)| path.to_owned()).take(40).collect()
}
