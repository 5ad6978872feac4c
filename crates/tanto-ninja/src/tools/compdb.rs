//! `-t compdb` and `-t compdb-targets`: print commands as a JSON compilation database.

use std::os::unix::ffi::OsStringExt;

use super::walk::EdgeCollector;
use super::{Context, Flags, Given, ToolError, ToolResult, letter};
use crate::error::Error;
use crate::graph::Escape;
use crate::graph::Graph;
use crate::ids::{EdgeId, NodeId};

const FLAGS: Flags = Flags {
    known: &[letter(b'h'), letter(b'x')],
    usage: "\
usage: ninja -t compdb [options] [rules]

options:
  -x     expand @rspfile style response file invocations
",
};

const TARGETS_FLAGS: Flags = Flags {
    known: &[letter(b'h'), letter(b'x')],
    usage: "\
usage: ninja -t compdb [-hx] target [targets]

options:
  -h     display this help message
  -x     expand @rspfile style response file invocations
",
};

pub(super) fn run(context: &mut Context<'_, '_>, args: &[Vec<u8>]) -> ToolResult {
    let parsed = FLAGS.parse(context, args)?;
    let rules = &parsed.operands;
    let mut edges = Vec::new();
    for edge in context.graph.edge_ids() {
        let name = context.rule_name(edge);
        let times = if rules.is_empty() { 1 } else { rules.iter().filter(|rule| *rule == name).count() };
        edges.extend(std::iter::repeat_n(edge, times));
    }
    print(context, &edges, &parsed)
}

pub(super) fn run_for_targets(context: &mut Context<'_, '_>, args: &[Vec<u8>]) -> ToolResult {
    let parsed = TARGETS_FLAGS.parse(context, args)?;
    if parsed.operands.is_empty() {
        context.error(b"compdb-targets expects the name of at least one target")?;
        return Err(ToolError::Usage(TARGETS_FLAGS.usage));
    }
    let mut edges = EdgeCollector::new(context.graph);
    for arg in &parsed.operands {
        let target = context.target(arg).map_err(|error| Error::fatal(&[&error.text()]))?;
        must_be_made(context.graph, target)?;
        edges.add_all(context.graph, target);
    }
    print(context, &edges.found, &parsed)
}

fn must_be_made(graph: &Graph<'_>, target: NodeId) -> Result<(), Error> {
    if graph.in_edge(target).is_some() {
        return Ok(());
    }
    let why = b"' is not a target (i.e. it is not an output of any `build` statement)";
    Err(Error::fatal(&[b"'", graph.path(target), why]))
}

/// Skips edges without inputs.
fn print(context: &mut Context<'_, '_>, edges: &[EdgeId], parsed: &Given) -> ToolResult {
    let directory = std::env::current_dir()?.into_os_string().into_vec();
    let with_inputs = edges.iter().copied().filter(|edge| !context.graph.edge(*edge).ins.is_empty());
    context.out.write_all(b"[")?;
    for (i, edge) in with_inputs.enumerate() {
        let mut text = if i == 0 { Vec::new() } else { b",".to_vec() };
        object(context.graph, edge, &directory, parsed.has("x"), &mut text)?;
        context.out.write_all(&text)?;
    }
    context.out.write_all(b"\n]\n")?;
    Ok(0)
}

fn object(graph: &Graph<'_>, id: EdgeId, directory: &[u8], expand: bool, text: &mut Vec<u8>) -> Result<(), ToolError> {
    let edge = graph.edge(id);
    let command = if expand { expanded_command(graph, id)? } else { graph.binding(id, b"command", Escape::Shell)? };
    let file = edge.ins.first().map_or(b"".as_slice(), |node| graph.path(*node));
    let output = edge.outs.first().map_or(b"".as_slice(), |node| graph.path(*node));
    let members: [(&[u8], &[u8]); 4] =
        [(b"directory", directory), (b"command", &command), (b"file", file), (b"output", output)];
    for (i, (name, value)) in members.into_iter().enumerate() {
        text.extend_from_slice(if i == 0 { b"\n  {\n    \"" } else { b",\n    \"" });
        text.extend_from_slice(name);
        text.extend_from_slice(b"\": \"");
        escape_json(value, text);
        text.push(b'"');
    }
    text.extend_from_slice(b"\n  }");
    Ok(())
}

/// Replaces `@file`, `-f file` or `--option-file=file` by the content of the response file.
fn expanded_command(graph: &Graph<'_>, edge: EdgeId) -> Result<Vec<u8>, ToolError> {
    let command = graph.binding(edge, b"command", Escape::Shell)?;
    let rspfile = graph.binding(edge, b"rspfile", Escape::None)?;
    let Some((start, end)) = response_file(&command, &rspfile) else { return Ok(command) };
    let mut content = graph.binding(edge, b"rspfile_content", Escape::Shell)?;
    content.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
    Ok([&command[..start], &content, &command[end..]].concat())
}

/// The range of the response file's name, including the flag. Like ninja, considers only the first occurrence of the
/// name and of each flag.
fn response_file(command: &[u8], rspfile: &[u8]) -> Option<(usize, usize)> {
    if rspfile.is_empty() {
        return None;
    }
    let name = memchr::memmem::find(command, rspfile)?;
    let end = name + rspfile.len();
    if command[..name].ends_with(b"@") {
        return Some((name - 1, end));
    }
    let flags: [&[u8]; 2] = [b"-f ", b"--option-file="];
    let starts = flags.into_iter().filter_map(|flag| Some((memchr::memmem::find(command, flag)?, flag.len())));
    let (start, _) = starts.into_iter().find(|(start, length)| start + length == name)?;
    Some((start, end))
}

/// Appends text escaped for a JSON string. Non-ASCII bytes are copied.
fn escape_json(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'\x08' => out.extend(b"\\b"),
            b'\x0c' => out.extend(b"\\f"),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            b'\\' | b'"' => out.extend([b'\\', byte]),
            0..0x20 => out.extend(format!("\\u{byte:04x}").bytes()),
            _ => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::response_file;

    fn cut(command: &str) -> String {
        match response_file(command.as_bytes(), b"a.rsp") {
            Some((start, end)) => format!("{}|{}", &command[..start], &command[end..]),
            None => "none".into(),
        }
    }

    #[test]
    fn three_forms_of_response_files_are_found() {
        assert_eq!(cut("cc @a.rsp -o b"), "cc | -o b");
        assert_eq!(cut("cc -f a.rsp"), "cc |");
        assert_eq!(cut("cc --option-file=a.rsp x"), "cc | x");
        assert_eq!(cut("@a.rsp"), "|");
    }

    #[test]
    fn other_mentions_are_kept() {
        assert_eq!(cut("cc a.rsp"), "none");
        assert_eq!(cut("a.rsp"), "none");
        assert_eq!(cut("cc x"), "none");
        assert_eq!(cut("cc -f b -f a.rsp"), "none");
        assert_eq!(cut("cc a.rsp @a.rsp"), "none");
    }

    #[test]
    fn escapes_what_json_forbids_and_nothing_else() {
        let mut out = Vec::new();
        super::escape_json(b"a\"b\\c\n\t\r\x08\x0c\x01\x1f\x7f/\xc3\xa9", &mut out);
        assert_eq!(out, b"a\\\"b\\\\c\\n\\t\\r\\b\\f\\u0001\\u001f\x7f/\xc3\xa9");
    }
}
