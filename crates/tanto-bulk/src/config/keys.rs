//! The table of keys.

use super::Config;

#[derive(Clone, Copy)]
pub struct Key {
    pub name: &'static str,
    /// A description for `bulk.toml`.
    pub doc: &'static str,
    pub(super) field: Field,
}

/// The type of a value and its place in `Config`.
#[derive(Clone, Copy)]
pub(super) enum Field {
    /// A path; empty only if that is the default.
    Path(fn(&mut Config) -> &mut String),
    /// A program: a path, or a name in PATH.
    Program(fn(&mut Config) -> &mut String),
    Text(fn(&mut Config) -> &mut String),
    Sandbox(fn(&mut Config) -> &mut String),
    Flag(fn(&mut Config) -> &mut bool),
    Count(fn(&mut Config) -> &mut usize),
    Time(fn(&mut Config) -> &mut Option<i64>),
    Size(fn(&mut Config) -> &mut Option<u64>),
    Scratch(fn(&mut Config) -> &mut super::Scratch),
}

use Field::{Count, Flag, Path, Program, Sandbox, Scratch, Size, Text, Time};

const fn key(name: &'static str, field: Field, doc: &'static str) -> Key {
    Key { name, doc, field }
}

/// In the order of the file.
pub static KEYS: &[Key] = &[
    key("pkgsrc", Path(|it| &mut it.pkgsrc), "The package tree."),
    key("make", Program(|it| &mut it.make), "The program that reads its makefiles."),
    key(
        "prefix",
        Path(|it| &mut it.prefix),
        "The directory in which packages are installed. It is emptied before each package.",
    ),
    key("pkgdb", Path(|it| &mut it.pkgdb), "The database of installed packages. It is emptied before each package."),
    key("packages", Path(|it| &mut it.packages), "Binary packages are in All below it."),
    key("bulklog", Path(|it| &mut it.bulklog), "Logs of failed packages, one directory per package."),
    key("state", Path(|it| &mut it.state), "Tanto's own state, including the database."),
    key(
        "bootstrapkit",
        Path(|it| &mut it.bootstrapkit),
        "An archive or directory with the initial contents of prefix. A build requires it.",
    ),
    key(
        "pkg_add",
        Program(|it| &mut it.pkg_add),
        "The program that installs packages: of the system, or of the bootstrap kit in prefix.",
    ),
    key(
        "pkg_delete",
        Program(|it| &mut it.pkg_delete),
        "The program that removes packages: of the system, or of the bootstrap kit in prefix.",
    ),
    key("pkg_sufx", Text(|it| &mut it.pkg_sufx), "The suffix of binary packages (PKG_SUFX)."),
    key(
        "limited_list",
        Path(|it| &mut it.limited_list),
        "A file with one CATEGORY/DIRECTORY per line: build only these and their dependencies. Empty: the whole tree.",
    ),
    key(
        "reuse_scan_results",
        Flag(|it| &mut it.reuse_scan_results),
        "Scan a directory again only if an input of its last scan has changed.",
    ),
    key(
        "unprivileged_user",
        Text(|it| &mut it.unprivileged_user),
        "The user for configure and build stages if Tanto runs as root. Empty: root.",
    ),
    key(
        "use_unprivileged_checksum",
        Flag(|it| &mut it.use_unprivileged_checksum),
        "That user also fetches and checks files.",
    ),
    key(
        "scan_clients",
        Count(|it| &mut it.scan_clients),
        "The number of directories scanned at a time. 0: one per processor.",
    ),
    key(
        "jobs",
        Count(|it| &mut it.jobs),
        "The number of jobs of all packages together, at least one each. 0: one per processor.",
    ),
    key(
        "make_jobs",
        Count(|it| &mut it.make_jobs),
        "The maximum number of jobs of one package (MAKE_JOBS). 0: all free ones.",
    ),
    key(
        "ignore_missing_dependencies",
        Flag(|it| &mut it.ignore_missing_dependencies),
        "Build the other packages if a dependency does not exist.",
    ),
    key(
        "skip_age_check",
        Flag(|it| &mut it.skip_age_check),
        "Treat a package as up to date even if a package that it was built with is newer.",
    ),
    key(
        "rebuild_on_options",
        Flag(|it| &mut it.rebuild_on_options),
        "Rebuild a package if its options, or other settings of mk.conf that it uses, have changed.",
    ),
    key(
        "script_phase_pre_build",
        Text(|it| &mut it.script_phase_pre_build),
        "A shell command, run at the beginning of a bulk build, but not of one that resumes.",
    ),
    key("script_phase_scan", Text(|it| &mut it.script_phase_scan), "A shell command, run before the scan."),
    key("script_phase_build", Text(|it| &mut it.script_phase_build), "A shell command, run before packages are built."),
    key("script_phase_report", Text(|it| &mut it.script_phase_report), "A shell command, run at the end of the build."),
    key(
        "script_phase_upload",
        Text(|it| &mut it.script_phase_upload),
        "A shell command, run after script_phase_report.",
    ),
    key("base_url", Text(|it| &mut it.base_url), "The URL of published reports."),
    key("rsync", Program(|it| &mut it.rsync), "The program that copies packages and reports to a server."),
    key("pkg_rsync_args", Text(|it| &mut it.pkg_rsync_args), "Its arguments for packages, separated by blanks."),
    key("pkg_rsync_target", Text(|it| &mut it.pkg_rsync_target), "The destination of packages. Empty: not sent."),
    key(
        "report_rsync_args",
        Text(|it| &mut it.report_rsync_args),
        "Its arguments for reports and logs, separated by blanks.",
    ),
    key(
        "report_rsync_target",
        Text(|it| &mut it.report_rsync_target),
        "The destination of reports and logs. Empty: not sent.",
    ),
    key(
        "mail",
        Program(|it| &mut it.mail),
        "The program that sends mail: mail -s SUBJECT RECIPIENT... with the text as its input.",
    ),
    key("report_subject_prefix", Text(|it| &mut it.report_subject_prefix), "The prefix of mail subjects."),
    key(
        "report_recipients",
        Text(|it| &mut it.report_recipients),
        "Mail addresses for the report, separated by blanks. Empty: no mail.",
    ),
    key(
        "sign_command",
        Text(|it| &mut it.sign_command),
        "A shell command that writes a signature of its input. Empty: packages are not signed.",
    ),
    key(
        "sign_user",
        Text(|it| &mut it.sign_user),
        "The user for sign_command if Tanto is root. No other user needs access to the key.",
    ),
    key(
        "sign_keys",
        Path(|it| &mut it.sign_keys),
        "The directory with the key: GNUPGHOME of sign_command. Builds cannot see it.",
    ),
    key(
        "sign_public_key",
        Path(|it| &mut it.sign_public_key),
        "A file with the public keys (gpg --export) or certificates (PEM) that verify each signature. Empty: the PGP keys in sign_keys, or any certificate.",
    ),
    key("signed", Path(|it| &mut it.signed), "Signed packages are in All below it."),
    key(
        "build_clients",
        Count(|it| &mut it.build_clients),
        "The number of packages built at a time, each in its own sandbox. 0: one per processor. Without a sandbox: one.",
    ),
    key(
        "sandbox",
        Sandbox(|it| &mut it.sandbox),
        "The kind of sandbox: \"bind\", \"overlay\", \"tmpfs\", or \"none\" to build on the machine itself.",
    ),
    key(
        "sandbox_root",
        Path(|it| &mut it.sandbox_root),
        "The system that packages see. It is not modified. \"/\": that of the machine.",
    ),
    key(
        "scratch_size",
        Scratch(|it| &mut it.scratch_size),
        "Memory that a package may use for its files. \"auto\": half of the free memory for all packages together. \"0\": all files on disk, below state. A package that needs more is built on disk.",
    ),
    key(
        "layers",
        Flag(|it| &mut it.layers),
        "Unpack dependencies once and share them, if possible, instead of installing them for each package.",
    ),
    key(
        "layers_size",
        Size(|it| &mut it.layers_size),
        "The maximum size of unpacked packages in state. \"0\": unlimited.",
    ),
    key("wrkobjdir", Path(|it| &mut it.wrkobjdir), "The place of work directories in a sandbox (WRKOBJDIR)."),
    key("distdir", Path(|it| &mut it.distdir), "Fetched files (DISTDIR)."),
    key(
        "master_site_override",
        Text(|it| &mut it.master_site_override),
        "Sites that are tried before all others (MASTER_SITE_OVERRIDE), separated by blanks.",
    ),
    key(
        "ignore_interactive_fetch",
        Flag(|it| &mut it.ignore_interactive_fetch),
        "Also fetch files that a user would have to fetch (IGNORE_INTERACTIVE_FETCH).",
    ),
    key(
        "post_fetch_hook",
        Text(|it| &mut it.post_fetch_hook),
        "A shell command, run outside of sandboxes for each fetched and verified file, with the file, its URL and its path below distdir as $1 to $3.",
    ),
    key(
        "keep_wrkdir",
        Flag(|it| &mut it.keep_wrkdir),
        "Keep the work directory of a failed package, as an archive in bulklog.",
    ),
    key(
        "keep_prefix",
        Flag(|it| &mut it.keep_prefix),
        "Keep the prefix of a failed package, as an archive in bulklog.",
    ),
    key(
        "client_prepare_chroot",
        Text(|it| &mut it.client_prepare_chroot),
        "A shell command, run outside after a sandbox was mounted, with its root as $1.",
    ),
    key(
        "client_prepare_action",
        Text(|it| &mut it.client_prepare_action),
        "A shell command, run inside each new sandbox of a package.",
    ),
    key(
        "sync_package",
        Text(|it| &mut it.sync_package),
        "A shell command, run outside of sandboxes for each built package, with its file, name, categories and PKG_SUFX as $1 to $4.",
    ),
    key(
        "sync_buildlog",
        Text(|it| &mut it.sync_buildlog),
        "A shell command, run outside of sandboxes for each failed package, with bulklog and its name as $1 and $2.",
    ),
    key(
        "hang_timeout",
        Time(|it| &mut it.limits.hang_ms),
        "Kill a command after this long without CPU use, output or new processes. \"0\": no limit.",
    ),
    key("timeout", Time(|it| &mut it.limits.total_ms), "Kill a command after this time. \"0\": no limit."),
    key(
        "cpu_limit",
        Time(|it| &mut it.limits.cpu_ms),
        "Kill a command whose processes together have used this much processor time. \"0\": no limit.",
    ),
    key(
        "memory_limit",
        Size(|it| &mut it.limits.memory),
        "Kill a command whose processes together use more memory than this. \"0\": no limit.",
    ),
    key(
        "log_limit",
        Size(|it| &mut it.limits.log),
        "Kill a command that prints more than this. The log keeps the beginning and the end. \"0\": no limit.",
    ),
    key(
        DISK_LIMIT,
        Size(|it| &mut it.limits.disk),
        "Kill a command if the files that its package has written, in its work directory or sandbox, are larger than this. \"0\": no limit.",
    ),
];

/// Keys that may also be in a table `[stage.NAME]`.
pub(super) const OF_STAGES: [&str; 6] =
    ["hang_timeout", "timeout", "cpu_limit", "memory_limit", "log_limit", DISK_LIMIT];
/// Not for the scan and for stages that write nothing.
pub(super) const DISK_LIMIT: &str = "disk_limit";
