//! The build directory, which holds the logs: its path, its creation, and outputs in its log that are obsolete.

use crate::disk::Disk;
use crate::error::Error;
use crate::graph::Graph;
use crate::ids::ScopeId;

/// Returns the value of `builddir`; empty (the current directory) if the manifest does not set it.
pub fn path<'t>(graph: &Graph<'t>) -> &'t [u8] {
    graph.variable(ScopeId::TOP, b"builddir").unwrap_or_default()
}

/// Returns the path of a file in the build directory.
pub fn join(builddir: &[u8], name: &str) -> Vec<u8> {
    match builddir {
        b"" => name.into(),
        dir => [dir, b"/", name.as_bytes()].concat(),
    }
}

/// Creates the build directory if it is missing. Like ninja it reports two errors: the directory that could not be
/// created and the path that was requested.
pub fn create(disk: &mut dyn Disk, builddir: &[u8]) -> Result<(), [Error; 2]> {
    if builddir.is_empty() {
        return Ok(());
    }
    disk.make_parents(&join(builddir, ".")).map_err(|error| {
        let first = Error::from(error);
        let why = memchr::memmem::rfind(&first.text(), b": ").map_or(0, |colon| colon + 2);
        let second = Error::new(&[b"creating build directory ", builddir, b": ", &first.text()[why..]]);
        [first, second]
    })
}

/// Returns true for an output that no edge builds and that does not exist. (An existing one may belong to a
/// generator.) If `stat` fails, the output is kept and the error is appended to `errors`.
pub fn is_obsolete(graph: &Graph<'_>, disk: &mut dyn Disk, output: &[u8], errors: &mut Vec<Error>) -> bool {
    let made = graph.lookup(output).is_some_and(|node| graph.in_edge(node).is_some());
    !made && disk.mtime(output).map_err(|error| errors.push(Error::stat(output, &error))) == Ok(0)
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::disk::VirtualDisk;
    use crate::graph::Arena;

    #[test]
    fn joins_file_names() {
        assert_eq!(join(b"", ".ninja_log"), b".ninja_log");
        assert_eq!(join(b"out/x", ".ninja_log"), b"out/x/.ninja_log");
    }

    #[test]
    fn missing_output_without_edge_is_obsolete() {
        let mut disk = VirtualDisk::new();
        disk.put("build.ninja", "rule r\n  command = x\nbuild made: r used\n");
        disk.put("there", "");
        let arena = Arena::new();
        let loaded = crate::load::load(&arena, &disk, b"build.ninja", Default::default(), &mut |_| {});
        let graph = loaded.unwrap();
        let mut errors = Vec::new();
        let mut dead = |output: &[u8]| is_obsolete(&graph, &mut disk, output, &mut errors);
        assert!(!dead(b"made") && !dead(b"there"));
        assert!(dead(b"used") && dead(b"gone"));
        assert!(errors.is_empty());
    }
}
