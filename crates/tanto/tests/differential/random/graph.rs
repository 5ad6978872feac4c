//! Random graphs and their manifests.

use std::fmt::Write;

use super::dice::Dice;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Always writes its outputs.
    Plain,
    /// Writes an output only if its content changes.
    Restat,
    /// A restat rule that always writes.
    RestatAlways,
    Phony,
    /// Has a depfile that is kept.
    Depfile,
    /// Has a depfile that goes into the deps log.
    Deps,
    /// Combines `Deps` and `Restat`.
    DepsRestat,
    Generator,
    Rspfile,
    /// Makes nothing.
    Nothing,
}

use Kind::{Depfile, Deps, DepsRestat, Generator, Nothing, Phony, Plain, Restat, RestatAlways, Rspfile};

const KINDS: &[Kind] = &[
    Plain,
    Plain,
    Plain,
    Restat,
    Restat,
    RestatAlways,
    Phony,
    Phony,
    Depfile,
    Deps,
    Deps,
    DepsRestat,
    Generator,
    Rspfile,
    Nothing,
];

#[derive(Clone, Debug)]
pub struct Edge {
    /// Part of its file names.
    pub id: usize,
    pub kind: Kind,
    pub outs: Vec<String>,
    pub implicit_outs: Vec<String>,
    pub ins: Vec<String>,
    pub implicit: Vec<String>,
    pub order_only: Vec<String>,
    pub validations: Vec<String>,
    pub dyndep: Option<String>,
    pub pool: Option<&'static str>,
    /// Part of the command.
    pub version: usize,
}

impl Edge {
    pub fn all_outs(&self) -> impl Iterator<Item = &String> {
        self.outs.iter().chain(&self.implicit_outs)
    }

    pub fn all_ins(&self) -> impl Iterator<Item = &String> {
        self.ins.iter().chain(&self.implicit).chain(&self.order_only)
    }

    /// Has a depfile with the contents in `hdN`.
    pub fn has_headers(&self) -> bool {
        matches!(self.kind, Depfile | Deps | DepsRestat)
    }
}

#[derive(Clone, Debug)]
pub struct Dyndep {
    pub path: String,
    /// The file it is copied from, if an edge makes it.
    pub source: Option<String>,
    /// Edge, inputs, outputs, restat.
    pub lines: Vec<(usize, Vec<String>, Vec<String>, bool)>,
}

pub struct Graph {
    /// Files that no edge makes; each contains a digit.
    pub sources: Vec<String>,
    /// Named only in depfiles.
    pub headers: Vec<String>,
    /// In topological order.
    pub edges: Vec<Edge>,
    pub dyndeps: Vec<Dyndep>,
    pub defaults: Vec<String>,
}

impl Graph {
    /// A graph of 4 to 16 edges.
    pub fn random(dice: &mut Dice) -> Graph {
        let names = |prefix: &str, count: usize| (0..count).map(|n| format!("{prefix}{n}")).collect::<Vec<_>>();
        let (sources, headers) = (names("s", 2 + dice.below(4)), names("h", 3));
        let mut graph = Graph { sources, headers, edges: Vec::new(), dyndeps: Vec::new(), defaults: Vec::new() };
        let count = 4 + dice.below(13);
        for id in 0..count {
            let edge = graph.edge(dice, id);
            graph.edges.push(edge);
        }
        graph.add_dyndeps(dice);
        graph.add_validations(dice);
        if dice.chance(40) {
            graph.defaults = dice.some(&graph.targets(), 4);
        }
        graph
    }

    fn edge(&self, dice: &mut Dice, id: usize) -> Edge {
        let kind = *dice.pick(KINDS);
        let known: Vec<String> = self.sources.iter().cloned().chain(self.targets()).collect();
        // Prefers later nodes, because long chains find more bugs.
        let late = &known[known.len().saturating_sub(8)..];
        let mut edge = Edge {
            id,
            kind,
            outs: vec![if dice.chance(20) { format!("d{}/o{id}", id % 2) } else { format!("o{id}") }],
            implicit_outs: Vec::new(),
            ins: dice.some(late, 3),
            implicit: if dice.chance(30) { dice.some(&known, 2) } else { Vec::new() },
            order_only: if dice.chance(30) { dice.some(late, 2) } else { Vec::new() },
            validations: Vec::new(),
            dyndep: None,
            pool: if dice.chance(15) { Some(*dice.pick(&["one", "two"])) } else { None },
            version: 0,
        };
        if kind != Phony && dice.chance(20) {
            edge.outs.push(format!("o{id}b"));
        }
        if kind != Phony && dice.chance(15) {
            edge.implicit_outs.push(format!("o{id}i"));
        }
        edge
    }

    /// Moves inputs, outputs or restat of some edges to dyndep files, existing or built.
    fn add_dyndeps(&mut self, dice: &mut Dice) {
        if !dice.chance(50) {
            return;
        }
        for n in 0..1 + dice.below(2) {
            let is_made = dice.chance(60);
            let mut dyndep =
                Dyndep { path: format!("dd{n}"), source: is_made.then(|| format!("dd{n}.in")), lines: Vec::new() };
            for at in 0..self.edges.len() {
                if self.edges[at].dyndep.is_some() || self.edges[at].kind == Phony || !dice.chance(25) {
                    continue;
                }
                let before: Vec<String> = self.edges[..at].iter().flat_map(|edge| edge.all_outs().cloned()).collect();
                let known: Vec<String> = self.sources.iter().cloned().chain(before).collect();
                let outs = if dice.chance(30) { vec![format!("o{at}dd")] } else { Vec::new() };
                dyndep.lines.push((at, dice.some(&known, 2), outs, dice.chance(20)));
                self.edges[at].order_only.push(dyndep.path.clone());
                self.edges[at].dyndep = Some(dyndep.path.clone());
            }
            if !dyndep.lines.is_empty() {
                self.dyndeps.push(dyndep);
            }
        }
    }

    fn add_validations(&mut self, dice: &mut Dice) {
        let targets = self.targets();
        for edge in &mut self.edges {
            // The reference ninja forgets to start validations of edges that dyndep files make wanted.
            if self.dyndeps.is_empty() && dice.chance(12) {
                edge.validations = dice.some(&targets, 1);
            }
        }
    }

    pub fn targets(&self) -> Vec<String> {
        self.edges.iter().flat_map(|edge| edge.all_outs().cloned()).collect()
    }

    pub fn dyndep_text(&self, dyndep: &Dyndep) -> String {
        let mut text = "ninja_dyndep_version = 1\n".to_owned();
        for (at, ins, outs, restat) in &dyndep.lines {
            let bar =
                |paths: &[String]| if paths.is_empty() { String::new() } else { format!(" | {}", paths.join(" ")) };
            let _ = writeln!(text, "build {}{}: dyndep{}", self.edges[*at].outs[0], bar(outs), bar(ins));
            if *restat {
                text.push_str("  restat = 1\n");
            }
        }
        text
    }

    pub fn manifest(&self) -> String {
        let mut text =
            "pool one\n  depth = 1\npool two\n  depth = 2\nrule copy\n  command = read -r x < $in; cp $in $out\n"
                .to_owned();
        for dyndep in &self.dyndeps {
            if let Some(source) = &dyndep.source {
                let _ = writeln!(text, "build {}: copy {source}", dyndep.path);
            }
        }
        for edge in &self.edges {
            if edge.kind != Phony {
                text.push_str(&self.rule(edge));
            }
            text.push_str(&statement(edge));
        }
        if !self.defaults.is_empty() {
            let _ = writeln!(text, "default {}", self.defaults.join(" "));
        }
        text
    }

    fn rule(&self, edge: &Edge) -> String {
        let id = edge.id;
        let mut text = format!("rule r{id}\n  command = {}\n", self.command(edge));
        match edge.kind {
            Restat | RestatAlways => text.push_str("  restat = 1\n"),
            Depfile => text.push_str("  depfile = $out1.d\n"),
            Deps => text.push_str("  depfile = $out1.d\n  deps = gcc\n"),
            DepsRestat => text.push_str("  depfile = $out1.d\n  deps = gcc\n  restat = 1\n"),
            Generator => text.push_str("  generator = 1\n"),
            Rspfile => {
                let _ = write!(text, "  rspfile = r{id}.rsp\n  rspfile_content = $in_newline v{}\n", edge.version);
            }
            _ => {}
        }
        if id.is_multiple_of(3) {
            let _ = writeln!(text, "  description = MAKE $out ({id})");
        }
        text
    }

    /// Uses only shell built-ins. Every output gets a digit computed from its explicit inputs; start and end are
    /// traced; a file `failN` makes the command fail before or after writing.
    fn command(&self, edge: &Edge) -> String {
        let id = edge.id;
        let found = self.dyndeps.iter().flat_map(|dyndep| &dyndep.lines).filter(|(at, ..)| *at == id);
        let outs: Vec<&String> = edge.all_outs().chain(found.flat_map(|(_, _, outs, _)| outs)).collect();
        let mut text = format!("echo s{id} >> $$T; s={}; ", edge.version);
        text.push_str("for f in $in; do if [ -f $$f ]; then read -r l < $$f; s=$$(( (s * 2 + l) % 4 )); fi; done; ");
        if id.is_multiple_of(2) {
            let _ = write!(text, "[ ! -e fail{id} ] || exit 1; ");
        }
        if edge.has_headers() {
            let _ = write!(text, "read -r h < hd{id}; echo \"$out1: $$h\" > $out1.d; ");
        }
        for out in outs {
            match edge.kind {
                Nothing => {}
                Restat | DepsRestat => {
                    let _ = write!(
                        text,
                        "l=; [ ! -f {out} ] || read -r l < {out}; [ \"$$l\" = $$s ] || echo $$s > {out}; "
                    );
                }
                _ => {
                    let _ = write!(text, "echo $$s > {out}; ");
                }
            }
        }
        if !id.is_multiple_of(2) {
            let _ = write!(text, "[ ! -e fail{id} ] || exit 1; ");
        }
        let _ = write!(text, "echo e{id} >> $$T");
        text
    }
}

fn statement(edge: &Edge) -> String {
    let with = |bar: &str, paths: &[String]| {
        if paths.is_empty() { String::new() } else { format!("{bar}{}", paths.join(" ")) }
    };
    let rule = if edge.kind == Phony { "phony".to_owned() } else { format!("r{}", edge.id) };
    let mut text = format!("build {}{}: {rule}", edge.outs.join(" "), with(" | ", &edge.implicit_outs));
    text.push_str(&with(" ", &edge.ins));
    text.push_str(&with(" | ", &edge.implicit));
    text.push_str(&with(" || ", &edge.order_only));
    text.push_str(&with(" |@ ", &edge.validations));
    text.push('\n');
    if edge.has_headers() {
        let _ = writeln!(text, "  out1 = {}", edge.outs[0]);
    }
    if let Some(dyndep) = &edge.dyndep {
        let _ = writeln!(text, "  dyndep = {dyndep}");
    }
    if let (Some(pool), true) = (edge.pool, edge.kind != Phony) {
        let _ = writeln!(text, "  pool = {pool}");
    }
    text
}
