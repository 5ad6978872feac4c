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
    key("prefix", Path(|it| &mut it.prefix), "Where packages are installed. It is emptied before each package."),
    key("pkgdb", Path(|it| &mut it.pkgdb), "The database of what is installed. It is emptied before each package."),
    key("packages", Path(|it| &mut it.packages), "Binary packages are in All below it."),
    key("bulklog", Path(|it| &mut it.bulklog), "Logs of packages that failed, a directory for each."),
    key("state", Path(|it| &mut it.state), "Where Tanto keeps its state, a database among it."),
    key(
        "bootstrapkit",
        Path(|it| &mut it.bootstrapkit),
        "What an empty prefix is made from: an archive, or a directory.",
    ),
    key(
        "pkg_add",
        Program(|it| &mut it.pkg_add),
        "Installs packages: a program of the system, or one that the bootstrap kit brings into prefix.",
    ),
    key("pkg_delete", Program(|it| &mut it.pkg_delete), "Removes packages; the same holds for it."),
    key("pkg_sufx", Text(|it| &mut it.pkg_sufx), "Ends the names of binary packages (PKG_SUFX)."),
    key(
        "limited_list",
        Path(|it| &mut it.limited_list),
        "A file with a category/directory in each line: only these, and what they need. Empty: the whole tree.",
    ),
    key(
        "reuse_scan_results",
        Flag(|it| &mut it.reuse_scan_results),
        "Whether a directory is scanned only if something has changed that its last scan depends on.",
    ),
    key(
        "unprivileged_user",
        Text(|it| &mut it.unprivileged_user),
        "Who configures and builds where Tanto runs as root. Empty: root does.",
    ),
    key(
        "use_unprivileged_checksum",
        Flag(|it| &mut it.use_unprivileged_checksum),
        "Whether that user also fetches and checks files.",
    ),
    key(
        "scan_clients",
        Count(|it| &mut it.scan_clients),
        "How many directories are scanned at a time. 0: one for each processor.",
    ),
    key(
        "jobs",
        Count(|it| &mut it.jobs),
        "How many jobs all packages may run together, each at least one. 0: one for each processor.",
    ),
    key(
        "make_jobs",
        Count(|it| &mut it.make_jobs),
        "How many of them a package's own build may run (MAKE_JOBS). 0: all that are free.",
    ),
    key(
        "ignore_missing_dependencies",
        Flag(|it| &mut it.ignore_missing_dependencies),
        "Whether the others are built where packages need what is not there.",
    ),
    key(
        "skip_age_check",
        Flag(|it| &mut it.skip_age_check),
        "Whether a package stands though another that it was built with is newer.",
    ),
    key(
        "rebuild_on_options",
        Flag(|it| &mut it.rebuild_on_options),
        "Whether a package is built again if its options, or other settings of mk.conf that it uses, have changed.",
    ),
    key(
        "script_phase_pre_build",
        Text(|it| &mut it.script_phase_pre_build),
        "A line for the shell, run at the beginning of a bulk build, but not when it goes on.",
    ),
    key("script_phase_scan", Text(|it| &mut it.script_phase_scan), "The same, run before the scan."),
    key("script_phase_build", Text(|it| &mut it.script_phase_build), "The same, run before packages are built."),
    key("script_phase_report", Text(|it| &mut it.script_phase_report), "The same, run when the build is over."),
    key("script_phase_upload", Text(|it| &mut it.script_phase_upload), "The same, run after that."),
    key("base_url", Text(|it| &mut it.base_url), "Where reports can be read, once they are published."),
    key("rsync", Program(|it| &mut it.rsync), "Copies packages and reports to a server."),
    key("pkg_rsync_args", Text(|it| &mut it.pkg_rsync_args), "Its arguments for packages, parted by blanks."),
    key("pkg_rsync_target", Text(|it| &mut it.pkg_rsync_target), "Where packages go. Empty: nowhere."),
    key("report_rsync_args", Text(|it| &mut it.report_rsync_args), "Its arguments for reports and logs."),
    key("report_rsync_target", Text(|it| &mut it.report_rsync_target), "Where reports and logs go. Empty: nowhere."),
    key("mail", Program(|it| &mut it.mail), "Sends a letter: mail -s SUBJECT RECIPIENT... with the text as its input."),
    key("report_subject_prefix", Text(|it| &mut it.report_subject_prefix), "Begins the subjects of these letters."),
    key(
        "report_recipients",
        Text(|it| &mut it.report_recipients),
        "Who gets the report, parted by blanks. Empty: nobody.",
    ),
    key(
        "sign_command",
        Text(|it| &mut it.sign_command),
        "A line for the shell that makes a signature of its input. Empty: packages are published without.",
    ),
    key(
        "sign_user",
        Text(|it| &mut it.sign_user),
        "Who runs that line, if Tanto is root: nobody else need see the key.",
    ),
    key(
        "sign_keys",
        Path(|it| &mut it.sign_keys),
        "The directory with the key: GNUPGHOME of that line, which no build sees.",
    ),
    key(
        "sign_public_key",
        Path(|it| &mut it.sign_public_key),
        "A file with the public keys (gpg --export) or certificates (PEM) that each signature is verified with. Empty: the PGP keys in sign_keys, or any certificate.",
    ),
    key("signed", Path(|it| &mut it.signed), "Signed packages are in All below it."),
    key(
        "build_clients",
        Count(|it| &mut it.build_clients),
        "How many packages are built at a time, each in a sandbox of its own; without, just one. 0: one for each processor.",
    ),
    key(
        "sandbox",
        Sandbox(|it| &mut it.sandbox),
        "In what packages are built: \"bind\", \"overlay\", \"tmpfs\", or \"none\", for one client in the machine itself.",
    ),
    key(
        "sandbox_root",
        Path(|it| &mut it.sandbox_root),
        "The system that packages see, of which nothing is changed. \"/\": that of the machine.",
    ),
    key(
        "scratch_size",
        Scratch(|it| &mut it.scratch_size),
        "How much a package may write in memory. \"auto\": all together half of what is free. Who writes more, and with \"0\" everybody, writes on the disk, below state.",
    ),
    key(
        "layers",
        Flag(|it| &mut it.layers),
        "Whether what a package needs is unpacked once and seen by all, instead of installed each time, where it can be.",
    ),
    key("layers_size", Size(|it| &mut it.layers_size), "So much of what was unpacked is kept, in 'state'. \"0\": all."),
    key("wrkobjdir", Path(|it| &mut it.wrkobjdir), "Where work directories are in a sandbox (WRKOBJDIR)."),
    key("distdir", Path(|it| &mut it.distdir), "Fetched files (DISTDIR)."),
    key(
        "master_site_override",
        Text(|it| &mut it.master_site_override),
        "Where files are fetched from before all other places (MASTER_SITE_OVERRIDE), parted by blanks.",
    ),
    key(
        "ignore_interactive_fetch",
        Flag(|it| &mut it.ignore_interactive_fetch),
        "Whether files are fetched too that a user would have to fetch (IGNORE_INTERACTIVE_FETCH).",
    ),
    key(
        "post_fetch_hook",
        Text(|it| &mut it.post_fetch_hook),
        "A line for the shell, run outside of sandboxes for each file that was fetched and is right, with the file, its URL and its path below distdir as $1 to $3.",
    ),
    key(
        "keep_wrkdir",
        Flag(|it| &mut it.keep_wrkdir),
        "Whether the work directory of a package that failed is kept, as an archive in bulklog.",
    ),
    key("keep_prefix", Flag(|it| &mut it.keep_prefix), "Whether prefix is kept, as it was when a package failed."),
    key(
        "client_prepare_chroot",
        Text(|it| &mut it.client_prepare_chroot),
        "A line for the shell, run outside when a sandbox is mounted, with its root as $1.",
    ),
    key(
        "client_prepare_action",
        Text(|it| &mut it.client_prepare_action),
        "A line for the shell, run in each new sandbox.",
    ),
    key(
        "sync_package",
        Text(|it| &mut it.sync_package),
        "A line for the shell, run outside for each package that was built, with its file, name, categories and PKG_SUFX as $1 to $4.",
    ),
    key(
        "sync_buildlog",
        Text(|it| &mut it.sync_buildlog),
        "A line for the shell, run outside for each package that failed, with 'bulklog' and its name as $1 and $2.",
    ),
    key(
        "hang_timeout",
        Time(|it| &mut it.limits.hang_ms),
        "A command is ended that for so long starts no process, uses no processor and prints nothing. \"0\": never.",
    ),
    key("timeout", Time(|it| &mut it.limits.total_ms), "A command is ended that takes so long. \"0\": never."),
    key(
        "cpu_limit",
        Time(|it| &mut it.limits.cpu_ms),
        "A command is ended that uses so much processor time, with all its processes. \"0\": any.",
    ),
    key(
        "memory_limit",
        Size(|it| &mut it.limits.memory),
        "A command is ended whose processes hold more memory than this together. \"0\": any.",
    ),
    key(
        "log_limit",
        Size(|it| &mut it.limits.log),
        "A command is ended that prints more than this; the log has the beginning and the end then. \"0\": any.",
    ),
    key(
        DISK_LIMIT,
        Size(|it| &mut it.limits.disk),
        "A command is ended when its package has more than this in its work directory or sandbox. \"0\": any.",
    ),
];

/// Keys that may also be in a table `[stage.NAME]`.
pub(super) const OF_STAGES: [&str; 6] =
    ["hang_timeout", "timeout", "cpu_limit", "memory_limit", "log_limit", DISK_LIMIT];
/// Not for the scan and for stages that write nothing.
pub(super) const DISK_LIMIT: &str = "disk_limit";
