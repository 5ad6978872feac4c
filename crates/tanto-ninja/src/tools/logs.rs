//! `-t recompact` and `-t restat`: rewrite the logs. In a dry run they are read, and nothing is written.

use super::flags::{Flags, both, name};
use super::{Context, Outcome, Stop, stat_failed};
use tanto_sys::error::text as text_of;

use crate::error::Error;
use crate::log::{BuildLog, DepsLog};

/// The version of a new build log. These tools make none.
const NEW_VERSION: u32 = 7;

const RESTAT_FLAGS: Flags = Flags {
    known: &[name("builddir").with_value(), both(b'h', "help")],
    usage: "usage: ninja -t restat [--builddir=DIR] [outputs]\n",
};

pub(super) fn run_recompact(context: &mut Context<'_, '_>, _args: &[Vec<u8>]) -> Outcome {
    let builddir = context.builddir();
    make_builddir(context, builddir)?;
    recompact_build_log(context, builddir)?;
    recompact_deps_log(context, builddir)?;
    Ok(0)
}

fn recompact_build_log(context: &mut Context<'_, '_>, builddir: &[u8]) -> Result<(), Stop> {
    let (mut log, warning) = BuildLog::load(&log_path(builddir, b".ninja_log"), NEW_VERSION)?;
    let writes = log.has_file() && !context.options.dry_run;
    if writes {
        context.about_to_write(builddir)?;
    }
    context.warn_if(warning)?;
    if !writes {
        return Ok(());
    }
    let mut failed = Vec::new();
    let Context { graph, disk, .. } = context;
    log.recompact(&mut |path| {
        let made = graph.lookup(path).is_some_and(|node| graph.node(node).in_edge.is_some());
        !made && disk.mtime(path).map_err(|error| failed.push(stat_failed(path, &error))) == Ok(0)
    })?;
    for text in failed {
        context.error(&text)?;
    }
    Ok(())
}

fn recompact_deps_log(context: &mut Context<'_, '_>, builddir: &[u8]) -> Result<(), Stop> {
    let (mut log, warning) = DepsLog::load(&log_path(builddir, b".ninja_deps"), context.graph)?;
    let writes = log.has_file() && !context.options.dry_run;
    if writes {
        context.about_to_write(builddir)?;
    }
    context.warn_if(warning)?;
    if writes {
        log.recompact(context.graph)?;
    }
    Ok(())
}

pub(super) fn run_restat(context: &mut Context<'_, '_>, args: &[Vec<u8>]) -> Outcome {
    let parsed = RESTAT_FLAGS.parse(context, args)?;
    let builddir = parsed.value("builddir").unwrap_or_default();
    let (mut log, warning) = BuildLog::load(&log_path(builddir, b".ninja_log"), NEW_VERSION)?;
    let writes = log.has_file() && !context.options.dry_run;
    if writes {
        context.about_to_write(builddir)?;
    }
    if log.was_found() {
        context.warn_if(warning)?;
    }
    if writes {
        let outputs: Vec<&[u8]> = parsed.operands.iter().map(Vec::as_slice).collect();
        log.restat(context.disk, &outputs)?;
    }
    Ok(0)
}

fn make_builddir(context: &mut Context<'_, '_>, builddir: &[u8]) -> Result<(), Stop> {
    if builddir.is_empty() || context.options.dry_run {
        return Ok(());
    }
    let Err(error) = context.disk.make_parents(&log_path(builddir, b".")) else { return Ok(()) };
    // As in ninja one line says which directory of the path could not be made, and one which path was meant.
    let text = text_of(&error);
    context.error(&text)?;
    let why = memchr::memmem::rfind(&text, b": ").map_or(0, |colon| colon + 2);
    Err(Error::of(&[b"creating build directory ", builddir, b": ", &text[why..]]).into())
}

fn log_path(builddir: &[u8], name: &[u8]) -> Vec<u8> {
    if builddir.is_empty() { name.to_vec() } else { [builddir, b"/", name].concat() }
}
