//! Tests that the number of threads and the chunk size do not change the result of loading.

use crate::disk::Mtime;
use crate::graph::Graph;
use crate::ids::NodeId;
use crate::logs::Entry;
use crate::logs::ReadPlan;
use crate::logs::build_log_entries::Entries;
use crate::logs::build_log_line;
use crate::logs::build_log_line::Header;
use crate::logs::deps_log_format::{HEADER, ReadStatus, write_deps, write_path};
use crate::logs::deps_log_records::Records;
use crate::logs::log_buffer::Content;

use super::{Seeded, graph_with};

/// Read plans that must give the same result; they vary with the seed.
fn ways(seed: u64) -> impl Iterator<Item = ReadPlan> {
    (1..=8).map(move |threads| ReadPlan { chunk: [16, 64, 200, 1000][(seed as usize + threads / 2) % 4], threads })
}

/// Random outputs; some are nodes.
fn output(random: &mut Seeded) -> String {
    match random.below(30) {
        0 => "x".repeat(random.below(500)),
        1 => String::new(),
        _ => format!("out/{}.o", random.below(40)),
    }
}

fn some_nodes() -> Graph<'static> {
    let outputs: Vec<String> = (0..20).map(|number| format!("out/{number}.o")).collect();
    graph_with(&outputs.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Random lines, some of them malformed, with changed bytes, and sometimes truncated.
fn random_lines(random: &mut Seeded) -> Vec<u8> {
    let mut text = build_log_line::header(5 + random.below(3) as u32);
    for _ in 0..random.below(200) {
        let entry = Entry {
            command_hash: random.below(1 << 30) as u64,
            start_ms: random.below(1000) as i32,
            end_ms: random.below(100_000) as i32,
            mtime: random.below(1 << 30) as Mtime,
        };
        match random.below(20) {
            0 => text.extend_from_slice(&b"\n\t1\t2\t3\tout/3.o\n\t\t\t\t\n"[random.below(10)..]),
            _ => build_log_line::write(&mut text, output(random).as_bytes(), &entry),
        }
    }
    spoil(&mut text, random, |random| b"\n\t0x\0"[random.below(5)]);
    text
}

/// Changes bytes or truncates; often does nothing.
fn spoil(bytes: &mut Vec<u8>, random: &mut Seeded, byte: impl Fn(&mut Seeded) -> u8) {
    for _ in 0..[0, 0, 1, 5][random.below(4)] {
        let at = random.below(bytes.len());
        bytes[at] = byte(random);
    }
    if random.below(3) == 0 {
        bytes.truncate(random.below(bytes.len() + 1));
    }
}

/// All observable state.
fn said(entries: &Entries, graph: &mut Graph<'_>) -> impl PartialEq + std::fmt::Debug + use<> {
    let all: Vec<_> = entries.iter(graph).map(|(output, entry)| (output.to_vec(), entry)).collect();
    let nodes: Vec<NodeId> = all.iter().map(|(output, _)| graph.intern(output)).collect();
    let found: Vec<_> = nodes.iter().map(|&node| entries.get(graph, node)).collect();
    assert!(all.iter().zip(&found).all(|((_, entry), found)| Some(entry) == found.as_ref()));
    (all, entries.version(), entries.len(), entries.needs_recompaction())
}

#[test]
fn threads_do_not_change_the_lines_found() {
    for seed in 0..100 {
        let mut random = Seeded(seed);
        let (text, more) = (random_lines(&mut random), random_lines(&mut random));
        let read = |plan| {
            let mut graph = some_nodes();
            let mut entries = Entries::new(7, graph.node_count());
            let header = entries.read(Content::Read(text.clone()), &graph, plan);
            let first = said(&entries, &mut graph);
            if header == Header::Supported {
                entries.read(Content::Read(more.clone()), &graph, plan);
            }
            (header, first, said(&entries, &mut graph))
        };
        let expected = read(ReadPlan::ONE);
        for plan in ways(seed) {
            assert_eq!(read(plan), expected, "seed {seed}, {plan:?}");
        }
    }
}

/// The offsets of fields.
struct Fields(Vec<usize>);

/// Valid records; paths precede their first use, as in real logs.
fn random_records(random: &mut Seeded) -> (Vec<u8>, Fields) {
    let (mut bytes, mut fields, mut ids) = (HEADER.to_vec(), Fields(vec![0, 12]), 0);
    for _ in 0..random.below(150) {
        let at = bytes.len();
        if ids == 0 || random.below(3) == 0 {
            let path = match random.below(3) {
                0 => format!("out/{ids}.o"),
                1 => format!("{}{ids}.h", "include/".repeat(random.below(8))),
                _ => ids.to_string(),
            };
            write_path(&mut bytes, path.as_bytes(), ids);
            // Length, text, padding, complement.
            fields.0.extend([at, at + 4, bytes.len() - 5, bytes.len() - 4]);
            ids += 1;
        } else {
            let mut id = || random.below(ids as usize) as u32;
            let ins: Vec<u32> = (0..id() % 40).map(|_| id()).collect();
            write_deps(&mut bytes, id(), Mtime::from(id()) << 31, ins.into_iter());
            // Length, output, mtime, inputs.
            fields.0.extend([at, at + 4, at + 8, at + 12, bytes.len() - 4]);
        }
    }
    (bytes, fields)
}

/// Overwrites a field or truncates the log in it.
fn spoil_field(bytes: &mut Vec<u8>, fields: &Fields, random: &mut Seeded) {
    let at = fields.0[random.below(fields.0.len())];
    if at + 4 > bytes.len() {
        return;
    }
    match random.below(8) {
        0 => bytes.truncate(at + random.below(4)),
        1 => bytes[at + random.below(4)] ^= 1 << random.below(8),
        2 => bytes[at..at + 4].fill(0),
        3 => bytes[at..at + 4].fill(0xff),
        4 => bytes[at..at + 4].copy_from_slice(&(random.below(200) as u32).to_le_bytes()),
        5 => bytes[at..at + 4].copy_from_slice(&(!(random.below(50) as u32)).to_le_bytes()),
        6 => drop(bytes.drain(at..at + random.below(5))),
        _ => drop(bytes.splice(at..at, [0; 4].into_iter().take(random.below(5)))),
    }
}

/// All observable state.
fn known(records: &Records, graph: &Graph<'_>) -> impl PartialEq + std::fmt::Debug + use<> {
    let deps = |node| records.get(node).map(|deps| (deps.mtime, deps.ins().collect::<Vec<_>>()));
    let all: Vec<_> = records.nodes().iter().map(|&node| (node, graph.path(node).to_vec(), deps(node))).collect();
    (all, records.len(), records.needs_recompaction(), graph.node_count())
}

#[test]
fn threads_do_not_change_the_records_found() {
    let (mut sound, mut torn) = (0, 0);
    for seed in 0..200 {
        let mut random = Seeded(seed);
        let (mut bytes, fields) = random_records(&mut random);
        for _ in 0..random.below(3) {
            spoil_field(&mut bytes, &fields, &mut random);
        }
        let cut = random.below(bytes.len() + 1);
        let read = |plan| {
            let mut graph = some_nodes();
            let mut records = Records::default();
            let whole = records.read(Content::Read(bytes.clone()), &mut graph, plan);
            let first = known(&records, &graph);
            // Reads the same bytes in two parts.
            records.clear();
            let status = records.read(Content::Read(bytes[..cut].to_vec()), &mut graph, plan);
            if matches!(status, ReadStatus::Valid | ReadStatus::Torn) {
                records.read(Content::Read(bytes[records.len()..].to_vec()), &mut graph, plan);
            }
            (whole, first, known(&records, &graph))
        };
        let expected = read(ReadPlan::ONE);
        *(if expected.0 == ReadStatus::Valid { &mut sound } else { &mut torn }) += 1;
        for plan in ways(seed) {
            assert_eq!(read(plan), expected, "seed {seed}, {plan:?}");
        }
    }
    assert!(sound > 20 && torn > 20, "{sound} sound, {torn} torn");
}
