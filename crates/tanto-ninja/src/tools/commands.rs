//! `-t commands`: the command lines that would build the targets from nothing.

use super::flags::{Flags, letter};
use super::walk::Edges;
use super::{Context, Outcome};
use crate::graph::Escape;

const FLAGS: Flags = Flags {
    known: &[letter(b'h'), letter(b's')],
    usage: "\
usage: ninja -t commands [options] [targets]

options:
  -s     only print the final command to build [target], not the whole chain
",
};

pub(super) fn run(context: &mut Context<'_, '_>, args: &[Vec<u8>]) -> Outcome {
    let parsed = FLAGS.parse(context, args)?;
    let mut edges = Edges::new(context.graph);
    for target in context.targets(&parsed.operands)? {
        if parsed.has("s") {
            edges.add_last(context.graph, target);
        } else {
            edges.add_all(context.graph, target);
        }
    }
    for edge in edges.found {
        let mut line = context.graph.binding(edge, b"command", Escape::Shell)?;
        line.push(b'\n');
        context.out.write_all(&line)?;
    }
    Ok(0)
}
