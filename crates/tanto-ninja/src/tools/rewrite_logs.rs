//! `-t recompact` and `-t restat`: rewrite the logs. A dry run only reads them.

use super::{Context, Flags, ToolError, ToolResult, both, name};
use crate::builddir;
use crate::logs::{BuildLog, DepsLog};

/// The version for a new log; unused, as these tools do not create one.
const NEW_VERSION: u32 = 7;

const RESTAT_FLAGS: Flags = Flags {
    known: &[name("builddir").with_value(), both(b'h', "help")],
    usage: "usage: ninja -t restat [--builddir=DIR] [outputs]\n",
};

pub(super) fn run_recompact(context: &mut Context<'_, '_>, _args: &[Vec<u8>]) -> ToolResult {
    let builddir = builddir::path(context.graph);
    if !context.options.dry_run
        && let Err([first, second]) = builddir::create(context.disk, builddir)
    {
        context.error(&first.text())?;
        return Err(second.into());
    }
    recompact_build_log(context, builddir)?;
    recompact_deps_log(context, builddir)?;
    Ok(0)
}

fn recompact_build_log(context: &mut Context<'_, '_>, builddir: &[u8]) -> Result<(), ToolError> {
    let (mut log, warning) = load_build_log(context, builddir)?;
    let writes = log.has_file() && !context.options.dry_run;
    if writes {
        context.before_writing(builddir)?;
    }
    context.warn_if(warning)?;
    if !writes {
        return Ok(());
    }
    let mut errors = Vec::new();
    let Context { graph, disk, .. } = context;
    log.recompact(graph, &mut |output| builddir::is_obsolete(graph, *disk, output, &mut errors))?;
    for error in errors {
        context.error(&error.text())?;
    }
    Ok(())
}

fn recompact_deps_log(context: &mut Context<'_, '_>, builddir: &[u8]) -> Result<(), ToolError> {
    let (mut log, warning) =
        DepsLog::load(&builddir::join(builddir, ".ninja_deps"), context.graph, context.options.threads)?;
    let writes = log.has_file() && !context.options.dry_run;
    if writes {
        context.before_writing(builddir)?;
    }
    context.warn_if(warning)?;
    if writes {
        let Context { graph, disk, .. } = context;
        log.recompact(graph, &mut |path| disk.mtime(path).ok() != Some(0))?;
    }
    Ok(())
}

pub(super) fn run_restat(context: &mut Context<'_, '_>, args: &[Vec<u8>]) -> ToolResult {
    let parsed = RESTAT_FLAGS.parse(context, args)?;
    let builddir = parsed.value("builddir").unwrap_or_default();
    let (mut log, warning) = load_build_log(context, builddir)?;
    let writes = log.has_file() && !context.options.dry_run;
    if writes {
        context.before_writing(builddir)?;
    }
    if log.was_found() {
        context.warn_if(warning)?;
    }
    if writes {
        let outputs: Vec<&[u8]> = parsed.operands.iter().map(Vec::as_slice).collect();
        log.restat(context.graph, context.disk, &outputs)?;
    }
    Ok(0)
}

fn load_build_log(context: &Context<'_, '_>, builddir: &[u8]) -> Result<(BuildLog, Option<Vec<u8>>), ToolError> {
    let path = builddir::join(builddir, ".ninja_log");
    Ok(BuildLog::load(&path, NEW_VERSION, context.graph, context.options.threads)?)
}
