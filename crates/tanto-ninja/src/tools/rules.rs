//! `-t rules`: the rules of the top scope.

use super::flags::{Flags, letter};
use super::{Context, Outcome};
use crate::syntax::expansion::unparse;

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
    for id in context.graph.top_rules() {
        let mut line = context.graph.rule_name(id).to_vec();
        if parsed.has("d")
            && let Some(raw) = context.graph.rule_text(id, b"description")?
        {
            line.extend_from_slice(&[b": ", unparse(&raw).as_slice()].concat());
        }
        line.push(b'\n');
        context.out.write_all(&line)?;
    }
    Ok(0)
}
