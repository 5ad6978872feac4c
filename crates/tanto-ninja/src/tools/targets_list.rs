//! `-t targets`: targets by depth, by rule, or all of them.

use super::walk::inputs;
use super::{Context, Outcome, Stop};
use crate::error::Error;
use crate::ids::NodeId;
use crate::{suggest, targets};

pub(super) fn run(context: &mut Context<'_, '_>, args: &[Vec<u8>]) -> Outcome {
    let value = args.get(1).map_or(b"".as_slice(), |arg| arg);
    match args.first().map(Vec::as_slice) {
        None => by_depth(context, 1),
        Some(b"depth") => by_depth(context, if args.len() > 1 { leading_number(value) } else { 1 }),
        Some(b"rule") if value.is_empty() => sources(context),
        Some(b"rule") => by_rule(context, value),
        Some(b"all") => all(context),
        Some(mode) => Err(unknown(mode).into()),
    }
}

fn unknown(mode: &[u8]) -> Error {
    let modes: [&[u8]; 3] = [b"rule", b"depth", b"all"];
    Error::new(&[b"unknown target tool mode '", mode, b"'", &suggest::did_you_mean(mode, modes)])
}

/// As C's `atoi`: what follows the digits does not matter, and no digits are 0.
fn leading_number(text: &[u8]) -> i64 {
    let text = text.trim_ascii_start();
    let (sign, digits) = match text {
        [b'-', rest @ ..] => (-1, rest),
        [b'+', rest @ ..] => (1, rest),
        rest => (1, rest),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    sign * digits.fold(0i64, |number, digit| number.saturating_mul(10).saturating_add(i64::from(digit - b'0')))
}

/// The roots and what they need, `depth` levels of it; all of it where `depth` is not positive.
fn by_depth(context: &mut Context<'_, '_>, depth: i64) -> Outcome {
    let roots = targets::root_nodes(context.graph)?;
    let limit = if depth > 0 { usize::try_from(depth).unwrap_or(usize::MAX) } else { usize::MAX };
    let mut users: Vec<NodeId> = Vec::new();
    let mut is_user = vec![false; context.graph.node_count()];
    let mut path = vec![roots.iter()];
    while let Some(rest) = path.last_mut() {
        let Some(&node) = rest.next() else {
            path.pop();
            users.pop().inspect(|user| is_user[user.index()] = false);
            continue;
        };
        context.out.write_all(&b"  ".repeat(users.len()))?;
        line(context, node)?;
        if path.len() < limit && !inputs(context.graph, node).is_empty() {
            if std::mem::replace(&mut is_user[node.index()], true) {
                return Err(Error::new(&[b"dependency cycle at '", context.graph.path(node), b"'"]).into());
            }
            path.push(inputs(context.graph, node).iter());
            users.push(node);
        }
    }
    Ok(0)
}

/// A target with its rule, or a source alone.
fn line(context: &mut Context<'_, '_>, node: NodeId) -> Result<(), Stop> {
    let path = context.graph.path(node);
    match context.graph.in_edge(node) {
        Some(edge) => context.out.write_all(&[path, b": ", context.rule_name(edge), b"\n"].concat())?,
        None => context.out.write_all(&[path, b"\n"].concat())?,
    }
    Ok(())
}

fn all(context: &mut Context<'_, '_>) -> Outcome {
    for edge in context.graph.edge_ids() {
        for &out in context.graph.edge(edge).outs {
            line(context, out)?;
        }
    }
    Ok(0)
}

/// Inputs that nothing makes, as often as they are named.
fn sources(context: &mut Context<'_, '_>) -> Outcome {
    let inputs = context.graph.edges().flat_map(|edge| edge.ins);
    for &node in inputs.filter(|node| context.graph.in_edge(**node).is_none()) {
        context.out.write_all(&[context.graph.path(node), b"\n"].concat())?;
    }
    Ok(0)
}

/// What the edges of a rule make, sorted.
fn by_rule(context: &mut Context<'_, '_>, rule: &[u8]) -> Outcome {
    let edges = context.graph.edge_ids().filter(|edge| context.rule_name(*edge) == rule);
    let outs = edges.flat_map(|edge| context.graph.edge(edge).outs);
    let mut paths: Vec<&[u8]> = outs.map(|node| context.graph.path(*node)).collect();
    paths.sort_unstable();
    for path in paths {
        context.out.write_all(&[path, b"\n"].concat())?;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::leading_number;

    #[test]
    fn numbers_are_read_as_atoi_does() {
        assert_eq!(leading_number(b" 12x"), 12);
        assert_eq!(leading_number(b"-3"), -3);
        assert_eq!(leading_number(b"x"), 0);
        assert_eq!(leading_number(b""), 0);
    }
}
