//! `-t rules`: the rules of the top scope.

use super::flags::{Flags, letter};
use super::{Context, Outcome};
use crate::graph::ScopeId;
use crate::load;

const FLAGS: Flags = Flags {
    known: &[letter(b'h'), letter(b'd')],
    usage: "\
usage: ninja -t rules [options]

options:
  -d     also print the description of the rule
  -h     print this message
",
};

pub(super) fn run(context: &mut Context<'_, '_>, args: &[Vec<u8>]) -> Outcome {
    let parsed = FLAGS.parse(context, args)?;
    let scope = &context.graph.scopes[ScopeId::TOP.index()];
    let mut rules: Vec<_> = scope.rules.iter().collect();
    rules.sort_unstable();
    for (name, id) in rules {
        let mut line = name.to_vec();
        let bindings = &context.graph.rules[id.index()].bindings;
        let description = bindings.iter().rev().find(|(key, _)| *key == b"description");
        if let Some((_, raw)) = description.filter(|_| parsed.has("d")) {
            line.extend_from_slice(&[b": ", load::unparse(raw).as_slice()].concat());
        }
        line.push(b'\n');
        context.out.write_all(&line)?;
    }
    Ok(0)
}
