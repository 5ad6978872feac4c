//! The fuzz targets: a function per format that reads an input and checks invariants.

use std::collections::HashSet;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::{content, packages, server, snapshot};

use tanto_ninja::canon::canonicalize_into;
use tanto_ninja::disk::{Disk, Mtime};
use tanto_ninja::graph::Escape;
use tanto_ninja::graph::{Arena, Graph};
use tanto_ninja::load::{LoadOptions, load};
use tanto_ninja::logs::{BuildLog, DepsLog, Entry};
use tanto_record::session::Session;
use tanto_record::views::report::timings::Timings;
use tanto_record::views::{html, report::rebuilds, trace};
use tanto_sys::threads::ThreadLimit;

pub struct Target {
    /// The name on the command line and in the corpus.
    pub name: &'static str,
    /// Tokens of the format.
    pub tokens: &'static [&'static [u8]],
    /// Length of the header that names the format and its version.
    pub head: usize,
    /// Reads an input; panics if an invariant is violated. The path is a scratch file.
    pub run: fn(&[u8], &Path),
}

pub const TARGETS: [Target; 19] = [
    content::ACTION,
    Target {
        name: "manifest",
        tokens: &[
            b"build ",
            b"rule ",
            b"pool ",
            b"default ",
            b"include ",
            b"subninja ",
            b"build.ninja",
            b"a.ninja",
            b": ",
            b" | ",
            b" || ",
            b" |@ ",
            b" = ",
            b"\n",
            b"\n  ",
            b"\r\n",
            b"$\n",
            b"$",
            b"$$",
            b"$ ",
            b"$:",
            b"${in}",
            b"$out",
            b"$in_newline",
            b"command",
            b"depfile",
            b"deps",
            b"gcc",
            b"dyndep",
            b"rspfile",
            b"rspfile_content",
            b"restat",
            b"generator",
            b"depth",
            b"phony",
            b"../",
            b"./",
            b"//",
            b"#",
            b"\t",
            b"\0",
            b"ninja_required_version",
            b"builddir",
            b"\xff",
        ],
        head: 0,
        run: manifest,
    },
    Target {
        name: "depfile",
        tokens: &[
            b": ", b":", b"\\\n", b"\\\r\n", b"\n", b"\r\n", b"\\ ", b"\\#", b"\\:", b"\\\\", b"$$", b"$", b"%",
            b"a.c", b"out", b"|", b"\t", b"\0", b"c:\\",
        ],
        head: 0,
        run: depfile,
    },
    Target {
        name: "dyndep",
        tokens: &[
            b"ninja_dyndep_version = 1\n",
            b"build ",
            b"out",
            b"other",
            b"stranger",
            b"side",
            b": dyndep",
            b" | ",
            b" || ",
            b"\n",
            b"\n  restat = 1\n",
            b"restat",
            b"$\n",
            b"$ ",
            b"$",
            b"#",
            b"in",
            b"../",
            b"new",
            b" = ",
            b"\r\n",
            b"\0",
        ],
        head: 25,
        run: dyndep,
    },
    Target {
        name: "log",
        tokens: &[
            b"# ninja log v",
            b"7",
            b"6",
            b"5",
            b"4",
            b"\t",
            b"\n",
            b"\t0\t",
            b"out.o",
            b"ffffffffffffffff",
            b"-1",
        ],
        head: 15,
        run: log,
    },
    Target {
        name: "deps",
        tokens: &[b"# ninjadeps\n", b"\x04\0\0\0", b"out.o\0\0\0", b"\x0c\0\0\0", b"\x10\0\0\x80", b"\xff\xff\xff\xff"],
        head: 16,
        run: deps,
    },
    snapshot::SNAPSHOT,
    content::CONTENTS,
    Target {
        name: "session",
        tokens: &[
            b"{\"event\":\"",
            b"}\n",
            b"\"",
            b",",
            b":",
            b"[",
            b"]",
            b"\"job\":",
            b"\"at_ms\":",
            b"\"after\":[0,1]",
            b"\"outputs\":[\"a\"]",
            b"started",
            b"finished",
            b"nothing_to_run",
            b"planned",
            b"throttled",
            b"terminated",
            b"left_behind",
            b"1099511627776",
            b"-1",
            b"1e9",
            b"\\u0000",
            b"\xf4\x8f\x9e\x80",
        ],
        head: 0,
        run: session,
    },
    Target {
        name: "scan",
        tokens: &[
            b"PKGNAME=",
            b"PKG_LOCATION=",
            b"ALL_DEPENDS=",
            b"a/lib",
            b"lib-[0-9]*",
            b">=1",
            b"{,nb*}",
            b":../../",
            b" ",
            b"\t",
            b"\n",
            b"lib-1.0nb2",
        ],
        head: 0,
        run: packages::scan,
    },
    Target {
        name: "pattern",
        tokens: &[
            b"{",
            b",",
            b"}",
            b"*",
            b"?",
            b"[",
            b"]",
            b"[!",
            b"[^",
            b"[]",
            b"-",
            b"\\",
            b".",
            b">",
            b">=",
            b"<",
            b"<=",
            b"nb1",
            b"rc",
            b"alpha",
            b"99999999999999999999",
            b"[:digit:]",
            b"\n",
            b"lib-1.0",
        ],
        head: 0,
        run: packages::pattern,
    },
    Target {
        name: "http",
        tokens: &[
            b" /v1/main/",
            b"GET",
            b"HEAD",
            b"POST",
            b"PUT",
            b"PATCH",
            b" HTTP/1.1\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"Authorization: Bearer TOKEN\r\n",
            b"Content-Length: 4\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"Expect: 100-continue\r\n",
            b"Range: bytes=1-2\r\n",
            b"\r\n\r\n",
            b"cas/",
            b"3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7",
            b"?at=0&size=4",
            b"18446744073709551615",
            b"work",
            b"missing",
            b"pack",
            b"join",
            b"metrics",
            b"../",
            b"%2e",
        ],
        head: 0,
        run: server::http,
    },
    Target {
        name: "message",
        tokens: &[
            br#"{"protocol":1,"body":{"#,
            br#""name":"lib-1.0""#,
            br#""location":"devel/lib""#,
            br#""arguments":["A=1"]"#,
            br#""depends":["a-1"]"#,
            br#""scratch_memory":null"#,
            br#""outcome":{"kind":"built","why":""}"#,
            br#""kind":"failed""#,
            br#""stages":[]"#,
            br#""leases":[]"#,
            br#""connection":"00000000000000000000000000000000""#,
            b"}}",
            b",",
            b"null",
            b"true",
            b"18446744073709551616",
            b"-1",
            b"1e99",
            b"\\u0000",
            b"../",
        ],
        head: 0,
        run: packages::message,
    },
    Target {
        name: "record",
        tokens: &[
            b"\x0c\x00\x01\x00",
            b"\x0e\x00\x08\x02",
            b"\x10\x00\x0d\x00",
            b"\x0c\x00\x03\x00",
            b"\x00\x00",
            b"\xff\xff",
            b"/a",
            b"/usr/include/a.h",
            b"\0value",
            b"\t\n\\",
            b"\xff",
        ],
        head: 0,
        run: content::record,
    },
    Target {
        name: "package",
        tokens: &[
            b"+CONTENTS",
            b"+BUILD_INFO",
            b"+PKG_HASH",
            b"ustar\x0000",
            b"!<arch>\n",
            b"`\n",
            b"#1/20",
            b"\x1f\x8b\x08",
            b"00000000010\0",
            b"77777777777\0",
            b"\x80\0\0\0\0\0\0\0\0\0\x10\0",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            b"12 path=a/b\n",
            b"14 size=99999\n",
            b"15 mtime=-1.5\n",
            b"@name lib-1.0\n",
            b"@cwd /pkg\n",
            b"@ignore\n",
            b"@comment MD5:0\n",
            b"\0",
        ],
        head: 0,
        run: packages::package,
    },
    Target {
        name: "failure",
        tokens: &[
            b"\n",
            b"\r",
            b"\x1b[",
            b"\x1b[31m",
            b"x.c:1:2: error: no",
            b"make[1]: *** [x] Error 1",
            b"*** Error code 1",
            b"(ignored)",
            b"configure: error: x:",
            b"ERROR: ",
            b"undefined reference to `x'",
            b"x/y.go:1:2: z",
            b"SomeError: why",
            b": not found",
            b"checking ",
        ],
        head: 0,
        run: packages::failure,
    },
    Target {
        name: "signer",
        tokens: &[
            b"P\x05lib-1",
            b"lib-1\n",
            b"+CONTENTS",
            b"@name lib-1\n",
            b"ustar\x0000",
            b"00000000014\0",
            b"!<arch>\n",
            b"\0\0\0\0\0\0\x01\0",
            b"\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\0",
        ],
        head: 0,
        run: packages::signer,
    },
    Target {
        name: "tree",
        tokens: &[
            b"f ",
            b"x ",
            b"l ",
            b"d ",
            b" 0 ",
            b" 1 ",
            b" 4095 ",
            b"18446744073709551615",
            b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            b"a/",
            b"/",
            b"..",
            b"../",
            b"./",
            b"\\n",
            b"\\\\",
            b"\n",
            b"\0",
            b"\xff",
        ],
        head: 0,
        run: content::tree,
    },
    Target {
        name: "pack",
        tokens: &[
            b"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
            b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            b" 0\n",
            b" 1\nx",
            b" 18446744073709551615\n",
            b"end\n",
            b"\n",
        ],
        head: 0,
        run: content::pack,
    },
];

/// Files in memory.
struct Files<'a>(&'a [(&'static [u8], &'a [u8])]);

impl Disk for Files<'_> {
    fn mtime(&mut self, path: &[u8]) -> io::Result<Mtime> {
        Ok(self.read(path).is_ok().into())
    }

    fn read(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        let found = self.0.iter().find(|(name, _)| *name == path);
        found.map(|(_, content)| content.to_vec()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn write(&mut self, _: &[u8], _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn make_parents(&mut self, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn remove(&mut self, _: &[u8]) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// An accepted manifest gives a consistent graph whose variables can be evaluated; an error has a message.
fn manifest(input: &[u8], _: &Path) {
    let arena = Arena::new();
    let files = [
        (b"build.ninja".as_slice(), input),
        (b"a.ninja", b"a = $flags\nrule included\n  command = $a $in\n"),
        (b"b.ninja", b"rule cc\n  command = $flags $in\nbuild inner: cc a.c\n"),
    ];
    let loaded = load(&arena, &Files(&files), b"build.ninja", LoadOptions::default(), &mut |_| ());
    let graph = match loaded {
        Ok(graph) => graph,
        Err(error) => return assert!(!error.text().is_empty()),
    };
    check_graph(&graph);
    for id in graph.edge_ids() {
        for name in [b"command".as_slice(), b"description", b"depfile", b"rspfile_content"] {
            // A cycle among variables is found only during evaluation.
            let _ = graph.binding(id, name, Escape::Shell);
        }
    }
}

/// Invariants of every graph.
fn check_graph(graph: &Graph<'_>) {
    for id in graph.edge_ids() {
        let edge = graph.edge(id);
        assert!(edge.explicit_outs as usize <= edge.outs.len());
        assert!(edge.explicit_ins as usize + edge.order_only_ins as usize <= edge.ins.len());
        assert!(edge.outs.iter().all(|&out| graph.in_edge(out) == Some(id)), "an output has another edge");
    }
    for node in graph.node_ids() {
        let path = graph.path(node);
        let mut again = Vec::new();
        canonicalize_into(path, &mut again);
        assert_eq!(again, path, "a path that is not canonical");
        assert_eq!(graph.lookup(path), Some(node));
    }
}

const DYNDEP_USERS: &[u8] = b"rule r
  command = r
build out | side: r in || dd
  dyndep = dd
build other: r in.b | dd
  dyndep = dd
build stranger: r out
build dd: r scan
";

/// Additions of a dyndep file are in the graph and keep it consistent.
fn dyndep(input: &[u8], _: &Path) {
    let arena = Arena::new();
    let files = [(b"build.ninja".as_slice(), DYNDEP_USERS), (b"dd", input)];
    let options = LoadOptions::default();
    let mut graph = load(&arena, &Files(&files), b"build.ninja", options, &mut |_| ()).expect("the manifest is valid");
    let file = graph.lookup(b"dd").expect("dd is an input");
    let users: Vec<_> = graph.edge_ids().filter(|&id| graph.edge(id).dyndep == Some(file)).collect();
    assert_eq!(users.len(), 2);
    let Ok(updates) = tanto_ninja::dyndep::load(&mut graph, &mut Files(&files), file, &users) else { return };
    check_graph(&graph);
    assert_eq!(updates.iter().map(|update| update.edge).collect::<Vec<_>>(), users);
    for update in &updates {
        let edge = graph.edge(update.edge);
        assert!(update.outs.iter().all(|out| edge.outs.contains(out)), "an output was not added");
        assert!(!update.restat || graph.flag(update.edge, b"restat") == Ok(true));
        assert!(update.ins.iter().all(|input| edge.dirtying_ins().contains(input)), "an input was not added");
    }
}

/// Names are unique and not empty.
fn depfile(input: &[u8], _: &Path) {
    let Ok(depfile) = tanto_ninja::depfile::parse(input) else { return };
    for names in [&depfile.outs, &depfile.ins] {
        assert!(names.iter().all(|name| !name.is_empty()));
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len(), "a name comes twice");
    }
}

/// Fails the whole run if the scratch file cannot be written: that is not a bug of the parser. Creates a new file
/// each time, since some file systems sync a file that is truncated and rewritten.
fn fill(scratch: &Path, input: &[u8]) {
    // It does not exist the first time.
    let _ = std::fs::remove_file(scratch);
    std::fs::write(scratch, input).expect("the scratch file can be written");
}

fn entries(log: &BuildLog, graph: &Graph<'_>) -> Vec<(Vec<u8>, Entry)> {
    log.entries(graph).map(|(output, entry)| (output.to_vec(), entry)).collect()
}

/// Entries read from any bytes are read again after a record was appended, and so is the record.
fn log(input: &[u8], scratch: &Path) {
    fill(scratch, input);
    let path = scratch.as_os_str().as_bytes();
    let arena = Arena::new();
    let mut graph = arena.empty();
    // A name that mutated inputs are likely to contain.
    graph.intern(b"out.o");
    let Ok((mut log, _)) = BuildLog::load(path, 7, &graph, ThreadLimit::ONE) else { return };
    let mut before = entries(&log, &graph);
    assert_eq!(std::fs::read(scratch).ok().as_deref(), Some(input), "loading wrote");
    let added = Entry { command_hash: 1, start_ms: 2, end_ms: 3, mtime: 4 };
    log.open(&graph, &mut |_| false).expect("the log can be opened");
    log.record(&graph, [b"added".as_slice()], added).expect("the log can be written");
    let (after, _) = BuildLog::load(path, 7, &graph, ThreadLimit::ONE).expect("a written log can be read");
    before.retain(|(output, _)| output != b"added");
    before.push((b"added".to_vec(), added));
    before.sort_by(|a, b| a.0.cmp(&b.0));
    let mut after = entries(&after, &graph);
    after.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(before, after);
}

/// Output, its mtime, its dependencies.
type Record = (Vec<u8>, i64, Vec<Vec<u8>>);

fn records(log: &DepsLog, graph: &Graph<'_>) -> Vec<Record> {
    let path = |node| graph.path(node).to_vec();
    let known = log.nodes().iter().filter_map(|&output| Some((output, log.deps(output)?)));
    let mut records: Vec<_> =
        known.map(|(output, deps)| (path(output), deps.mtime, deps.ins().map(path).collect())).collect();
    records.sort();
    records.dedup();
    records
}

/// Every parsed session can be reported.
fn session(input: &[u8], _: &Path) {
    let session = match Session::parse(input) {
        Ok(session) => session,
        Err(bad) => return assert!(!bad.0.is_empty()),
    };
    assert!(!rebuilds::text(&session).is_empty());
    assert!(trace::json(&session).ends_with(b"]}\n"));
    let timings = Timings::new("it", &session, Some(("itself", &session)));
    assert!(!timings.text().is_empty());
    assert!(html::html(&timings).ends_with(b"</html>\n"));
}

/// Like `log`, for the deps log.
fn deps(input: &[u8], scratch: &Path) {
    fill(scratch, input);
    let path = scratch.as_os_str().as_bytes();
    let arena = Arena::new();
    let mut graph = arena.empty();
    let Ok((mut log, _)) = DepsLog::load(path, &mut graph, ThreadLimit::ONE) else { return };
    let mut before = records(&log, &graph);
    assert_eq!(std::fs::read(scratch).ok().as_deref(), Some(input), "loading wrote");
    let (output, dependency) = (graph.intern(b"added"), graph.intern(b"added.h"));
    log.open(&mut graph, &mut |_| true).expect("the log can be opened");
    log.record(&mut graph, output, 5, &[dependency]).expect("the log can be written");
    let mut graph = arena.empty();
    let (after, _) = DepsLog::load(path, &mut graph, ThreadLimit::ONE).expect("a written log can be read");
    before.retain(|(output, ..)| output != b"added");
    before.push((b"added".to_vec(), 5, vec![b"added.h".to_vec()]));
    before.sort();
    assert_eq!(before, records(&after, &graph));
}
