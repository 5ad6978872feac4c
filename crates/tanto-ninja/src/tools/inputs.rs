//! `-t inputs` and `-t multi-inputs`: every file that goes into the targets.

use super::flags::{Flags, both};
use super::walk::Walk;
use super::{Context, Outcome};
use crate::graph::Graph;
use crate::graph::shell_quote_into;
use crate::ids::NodeId;

const FLAGS: Flags = Flags {
    known: &[both(b'h', "help"), both(b'E', "no-shell-escape"), both(b'0', "print0"), both(b'd', "dependency-order")],
    usage: "\
Usage '-t inputs [options] [targets]

List all inputs used for a set of targets, sorted in dependency order.
Note that by default, results are shell escaped, and sorted alphabetically,
and never include validation target paths.

Options:
  -h, --help          Print this message.
  -0, --print0            Use \\0, instead of \\n as a line terminator.
  -E, --no-shell-escape   Do not shell escape the result.
  -d, --dependency-order  Sort results by dependency order.
",
};

const MULTI_FLAGS: Flags = Flags {
    known: &[both(b'h', "help"), both(b'd', "delimiter").with_value(), both(b'0', "print0")],
    usage: "\
Usage '-t multi-inputs [options] [targets]

Print one or more sets of inputs required to build targets, sorted in dependency order.
The tool works like inputs tool but with addition of the target for each line.
The output will be a series of lines with the following elements:
<target> <delimiter> <input> <terminator>
Note that a given input may appear for several targets if it is used by more than one targets.
Options:
  -h, --help                   Print this message.
  -d  --delimiter=DELIM        Use DELIM instead of TAB for field delimiter.
  -0, --print0                 Use \\0, instead of \\n as a line terminator.
",
};

pub(super) fn run(context: &mut Context<'_, '_>, args: &[Vec<u8>]) -> Outcome {
    let parsed = FLAGS.parse(context, args)?;
    let mut nodes = Vec::new();
    let mut walk = Walk::new(context.graph);
    for target in context.targets(&parsed.operands)? {
        collect(context.graph, &mut walk, target, &mut nodes);
    }
    let shown = |node: NodeId| -> Vec<u8> {
        let path = context.graph.path(node);
        if parsed.has("no-shell-escape") { path.to_vec() } else { quoted(path) }
    };
    let mut paths: Vec<Vec<u8>> = nodes.into_iter().map(shown).collect();
    if !parsed.has("dependency-order") {
        paths.sort_unstable();
    }
    for mut path in paths {
        path.push(end_of_line(parsed.has("print0")));
        context.out.write_all(&path)?;
    }
    Ok(0)
}

pub(super) fn run_multi(context: &mut Context<'_, '_>, args: &[Vec<u8>]) -> Outcome {
    let parsed = MULTI_FLAGS.parse(context, args)?;
    let delimiter = parsed.value("delimiter").unwrap_or(b"\t");
    let end = end_of_line(parsed.has("print0"));
    for target in context.targets(&parsed.operands)? {
        let mut nodes = Vec::new();
        collect(context.graph, &mut Walk::new(context.graph), target, &mut nodes);
        for node in nodes {
            // Ninja quotes these for no shell.
            let line = [context.graph.path(target), delimiter, context.graph.path(node), &[end]];
            context.out.write_all(&line.concat())?;
        }
    }
    Ok(0)
}

/// What `target` needs, without the phony targets on the way.
fn collect(graph: &Graph<'_>, walk: &mut Walk, target: NodeId, into: &mut Vec<NodeId>) {
    let is_phony = |node: NodeId| graph.in_edge(node).is_some_and(|edge| graph.edge(edge).is_phony());
    walk.below(graph, target, |node| {
        if !is_phony(node) {
            into.push(node);
        }
    });
}

fn end_of_line(zero: bool) -> u8 {
    if zero { 0 } else { b'\n' }
}

fn quoted(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    shell_quote_into(path, &mut out);
    out
}
