//! The `-t` tools that print lists: `commands`, `inputs`, `multi-inputs`, `rules`, `targets`, `deps` and `urtle`.

use tanto_exec::text::shell;

use super::walk::{EdgeCollector, NodeWalk, inputs};
use super::{Context, Flags, ToolError, ToolResult, both, letter};
use crate::error::Error;
use crate::graph::{Escape, Graph};
use crate::ids::NodeId;
use crate::syntax::expansion::unparse;
use crate::targets;
use tanto_exec::text::suggest;

const COMMANDS_FLAGS: Flags = Flags {
    known: &[letter(b'h'), letter(b's')],
    usage: "\
usage: ninja -t commands [options] [targets]

options:
  -s     only print the final command to build [target], not the whole chain
",
};

pub(super) fn commands(context: &mut Context<'_, '_>, args: &[Vec<u8>]) -> ToolResult {
    let parsed = COMMANDS_FLAGS.parse(context, args)?;
    let mut edges = EdgeCollector::new(context.graph);
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

const INPUTS_FLAGS: Flags = Flags {
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

const MULTI_INPUTS_FLAGS: Flags = Flags {
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

pub(super) fn inputs_of_targets(context: &mut Context<'_, '_>, args: &[Vec<u8>]) -> ToolResult {
    let parsed = INPUTS_FLAGS.parse(context, args)?;
    let mut nodes = Vec::new();
    let mut walk = NodeWalk::new(context.graph);
    for target in context.targets(&parsed.operands)? {
        collect_inputs(context.graph, &mut walk, target, &mut nodes);
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
        path.push(line_end(parsed.has("print0")));
        context.out.write_all(&path)?;
    }
    Ok(0)
}

pub(super) fn multi_inputs(context: &mut Context<'_, '_>, args: &[Vec<u8>]) -> ToolResult {
    let parsed = MULTI_INPUTS_FLAGS.parse(context, args)?;
    let delimiter = parsed.value("delimiter").unwrap_or(b"\t");
    let end = line_end(parsed.has("print0"));
    for target in context.targets(&parsed.operands)? {
        let mut nodes = Vec::new();
        collect_inputs(context.graph, &mut NodeWalk::new(context.graph), target, &mut nodes);
        for node in nodes {
            // Like ninja, without shell quoting.
            let line = [context.graph.path(target), delimiter, context.graph.path(node), &[end]];
            context.out.write_all(&line.concat())?;
        }
    }
    Ok(0)
}

/// Collects everything `target` needs, except phony targets.
fn collect_inputs(graph: &Graph<'_>, walk: &mut NodeWalk, target: NodeId, into: &mut Vec<NodeId>) {
    let is_phony = |node: NodeId| graph.in_edge(node).is_some_and(|edge| graph.edge(edge).is_phony());
    walk.post_order_below(graph, target, |node| {
        if !is_phony(node) {
            into.push(node);
        }
    });
}

fn line_end(zero: bool) -> u8 {
    if zero { 0 } else { b'\n' }
}

fn quoted(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    shell::quote_into(path, &mut out);
    out
}

const RULES_FLAGS: Flags = Flags {
    known: &[letter(b'h'), letter(b'd')],
    usage: "\
usage: ninja -t rules [options]

options:
  -d     also print the description of the rule
  -h     print this message
",
};

pub(super) fn rules(context: &mut Context<'_, '_>, args: &[Vec<u8>]) -> ToolResult {
    let parsed = RULES_FLAGS.parse(context, args)?;
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

pub(super) fn targets_list(context: &mut Context<'_, '_>, args: &[Vec<u8>]) -> ToolResult {
    let value = args.get(1).map_or(b"".as_slice(), |arg| arg);
    match args.first().map(Vec::as_slice) {
        None => targets_by_depth(context, 1),
        Some(b"depth") => targets_by_depth(context, if args.len() > 1 { leading_number(value) } else { 1 }),
        Some(b"rule") if value.is_empty() => list_sources(context),
        Some(b"rule") => targets_by_rule(context, value),
        Some(b"all") => all_targets(context),
        Some(mode) => Err(unknown_mode(mode).into()),
    }
}

fn unknown_mode(mode: &[u8]) -> Error {
    let modes: [&[u8]; 3] = [b"rule", b"depth", b"all"];
    Error::new(&[b"unknown target tool mode '", mode, b"'", &suggest::did_you_mean(mode, modes)])
}

/// Parses like C's `atoi`: 0 without digits, ignores a suffix.
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

/// The roots and the levels below, up to `depth`; all levels if `depth` is not positive.
fn targets_by_depth(context: &mut Context<'_, '_>, depth: i64) -> ToolResult {
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
        print_target(context, node)?;
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

fn print_target(context: &mut Context<'_, '_>, node: NodeId) -> Result<(), ToolError> {
    let path = context.graph.path(node);
    match context.graph.in_edge(node) {
        Some(edge) => context.out.write_all(&[path, b": ", context.rule_name(edge), b"\n"].concat())?,
        None => context.out.write_all(&[path, b"\n"].concat())?,
    }
    Ok(())
}

fn all_targets(context: &mut Context<'_, '_>) -> ToolResult {
    for edge in context.graph.edge_ids() {
        for &out in context.graph.edge(edge).outs {
            print_target(context, out)?;
        }
    }
    Ok(0)
}

/// Prints inputs that no edge makes, once per use.
fn list_sources(context: &mut Context<'_, '_>) -> ToolResult {
    let inputs = context.graph.edges().flat_map(|edge| edge.ins);
    for &node in inputs.filter(|node| context.graph.in_edge(**node).is_none()) {
        context.out.write_all(&[context.graph.path(node), b"\n"].concat())?;
    }
    Ok(0)
}

/// The outputs of a rule, sorted.
fn targets_by_rule(context: &mut Context<'_, '_>, rule: &[u8]) -> ToolResult {
    let edges = context.graph.edge_ids().filter(|edge| context.rule_name(*edge) == rule);
    let outs = edges.flat_map(|edge| context.graph.edge(edge).outs);
    let mut paths: Vec<&[u8]> = outs.map(|node| context.graph.path(*node)).collect();
    paths.sort_unstable();
    for path in paths {
        context.out.write_all(&[path, b"\n"].concat())?;
    }
    Ok(0)
}

pub(super) fn deps(context: &mut Context<'_, '_>, args: &[Vec<u8>]) -> ToolResult {
    let nodes = if args.is_empty() { nodes_with_deps(context)? } else { context.targets(args)? };
    for node in nodes {
        print_deps(context, node)?;
    }
    Ok(0)
}

/// The nodes in the log made by an edge with `deps`, in log order.
fn nodes_with_deps(context: &Context<'_, '_>) -> Result<Vec<NodeId>, ToolError> {
    let mut nodes = Vec::new();
    for &node in context.deps_log.nodes() {
        if let Some(edge) = context.graph.in_edge(node)
            && !context.graph.binding(edge, b"deps", Escape::Shell)?.is_empty()
        {
            nodes.push(node);
        }
    }
    Ok(nodes)
}

fn print_deps(context: &mut Context<'_, '_>, node: NodeId) -> Result<(), ToolError> {
    let path = context.graph.path(node);
    let Some(deps) = context.deps_log.deps(node) else {
        return Ok(context.out.write_all(&[path, b": deps not found\n"].concat())?);
    };
    let mtime = match context.disk.mtime(path) {
        Ok(mtime) => mtime,
        Err(error) => {
            context.error(&Error::stat(path, &error).text())?;
            -1
        }
    };
    let state = if mtime == 0 || mtime > deps.mtime { "STALE" } else { "VALID" };
    context.out.write_all(path)?;
    writeln!(context.out, ": #deps {}, deps mtime {} ({state})", deps.ins().len(), deps.mtime)?;
    for dep in deps.ins() {
        context.out.write_all(&[b"    ", context.graph.path(dep), b"\n"].concat())?;
    }
    Ok(context.out.write_all(b"\n")?)
}

const TURTLE: &str = r"
                    __
         .,-;-;-,. /'_\
       _/_/_/_|_\_\) /
     '-<_<_<_>_>_>=/\
       `/_/====/_/-'\_\
        ''     ''    ''
";

pub(super) fn urtle(context: &mut Context<'_, '_>, _args: &[Vec<u8>]) -> ToolResult {
    context.out.write_all(TURTLE.as_bytes())?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::leading_number;

    #[test]
    fn numbers_are_parsed_like_atoi() {
        assert_eq!(leading_number(b" 12x"), 12);
        assert_eq!(leading_number(b"-3"), -3);
        assert_eq!(leading_number(b"x"), 0);
        assert_eq!(leading_number(b""), 0);
    }
}
