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

/// A row of the table: `NAME: TYPE PLACE, DESCRIPTION;`.
macro_rules! keys {
    ($($name:literal: $kind:ident $($place:ident).+, $doc:literal;)*) => {
        &[$(Key { name: $name, doc: $doc, field: Field::$kind(|it| &mut it.$($place).+) }),*]
    };
}

/// In the order of the file.
pub static KEYS: &[Key] = keys! {
    "pkgsrc": Path pkgsrc,
        "The package tree.";
    "make": Program make,
        "The program that reads its makefiles.";
    "prefix": Path prefix,
        "The directory in which packages are installed. It is emptied before each package.";
    "pkgdb": Path pkgdb,
        "The database of installed packages. It is emptied before each package.";
    "packages": Path packages,
        "Binary packages are in All below it.";
    "bulklog": Path bulklog,
        "Logs of failed packages, one directory per package.";
    "state": Path state,
        "Tanto's own state, including the database.";
    "bootstrapkit": Path bootstrapkit,
        "An archive or directory with the initial contents of prefix. A build requires it.";
    "pkg_add": Program pkg_add,
        "The program that installs packages: of the system, or of the bootstrap kit in prefix.";
    "pkg_delete": Program pkg_delete,
        "The program that removes packages: of the system, or of the bootstrap kit in prefix.";
    "pkg_sufx": Text pkg_sufx,
        "The suffix of binary packages (PKG_SUFX).";
    "limited_list": Path limited_list,
        "A file with one CATEGORY/DIRECTORY per line: build only these and their dependencies. Empty: the whole tree.";
    "reuse_scan_results": Flag reuse_scan_results,
        "Scan a directory again only if an input of its last scan has changed.";
    "unprivileged_user": Text unprivileged_user,
        "The user for configure and build stages if Tanto runs as root. Empty: root.";
    "use_unprivileged_checksum": Flag use_unprivileged_checksum,
        "That user also fetches and checks files.";
    "scan_clients": Count scan_clients,
        "The number of directories scanned at a time. 0: one per processor.";
    "jobs": Count jobs,
        "The number of jobs of all packages together, at least one each. 0: one per processor.";
    "make_jobs": Count make_jobs,
        "The maximum number of jobs of one package (MAKE_JOBS). 0: all free ones.";
    "ignore_missing_dependencies": Flag ignore_missing_dependencies,
        "Build the other packages if a dependency does not exist.";
    "skip_age_check": Flag skip_age_check,
        "Treat a package as up to date even if a package that it was built with is newer.";
    "rebuild_on_options": Flag rebuild_on_options,
        "Rebuild a package if its options, or other settings of mk.conf that it uses, have changed.";
    "script_phase_pre_build": Text script_phase_pre_build,
        "A shell command, run at the beginning of a bulk build, but not of one that resumes.";
    "script_phase_scan": Text script_phase_scan,
        "A shell command, run before the scan.";
    "script_phase_build": Text script_phase_build,
        "A shell command, run before packages are built.";
    "script_phase_report": Text script_phase_report,
        "A shell command, run at the end of the build.";
    "script_phase_upload": Text script_phase_upload,
        "A shell command, run after script_phase_report.";
    "base_url": Text base_url,
        "The URL of published reports.";
    "rsync": Program rsync,
        "The program that copies packages and reports to a server.";
    "pkg_rsync_args": Text pkg_rsync_args,
        "Its arguments for packages, separated by blanks.";
    "pkg_rsync_target": Text pkg_rsync_target,
        "The destination of packages. Empty: not sent.";
    "report_rsync_args": Text report_rsync_args,
        "Its arguments for reports and logs, separated by blanks.";
    "report_rsync_target": Text report_rsync_target,
        "The destination of reports and logs. Empty: not sent.";
    "mail": Program mail,
        "The program that sends mail: mail -s SUBJECT RECIPIENT... with the text as its input.";
    "report_subject_prefix": Text report_subject_prefix,
        "The prefix of mail subjects.";
    "report_recipients": Text report_recipients,
        "Mail addresses for the report, separated by blanks. Empty: no mail.";
    "sign_command": Text sign_command,
        "A shell command that writes a signature of its input. Empty: packages are not signed.";
    "sign_user": Text sign_user,
        "The user for sign_command if Tanto is root. No other user needs access to the key.";
    "sign_keys": Path sign_keys,
        "The directory with the key: GNUPGHOME of sign_command. Builds cannot see it.";
    "sign_public_key": Path sign_public_key,
        "A file with the public keys (gpg --export) or certificates (PEM) that verify each signature. Empty: the PGP keys in sign_keys, or any certificate.";
    "signed": Path signed,
        "Signed packages are in All below it.";
    "build_clients": Count build_clients,
        "The number of packages built at a time, each in its own sandbox. 0: one per processor. Without a sandbox: one.";
    "sandbox": Sandbox sandbox,
        "The kind of sandbox: \"bind\", \"overlay\", \"tmpfs\", or \"none\" to build on the machine itself.";
    "sandbox_root": Path sandbox_root,
        "The system that packages see. It is not modified. \"/\": that of the machine.";
    "scratch_size": Scratch scratch_size,
        "Memory that a package may use for its files. \"auto\": half of the free memory for all packages together. \"0\": all files on disk, below state. A package that needs more is built on disk.";
    "layers": Flag layers,
        "Unpack dependencies once and share them, if possible, instead of installing them for each package.";
    "layers_size": Size layers_size,
        "The maximum size of unpacked packages in state. \"0\": unlimited.";
    "wrkobjdir": Path wrkobjdir,
        "The place of work directories in a sandbox (WRKOBJDIR).";
    "distdir": Path distdir,
        "Fetched files (DISTDIR).";
    "master_site_override": Text master_site_override,
        "Sites that are tried before all others (MASTER_SITE_OVERRIDE), separated by blanks.";
    "ignore_interactive_fetch": Flag ignore_interactive_fetch,
        "Also fetch files that a user would have to fetch (IGNORE_INTERACTIVE_FETCH).";
    "post_fetch_hook": Text post_fetch_hook,
        "A shell command, run outside of sandboxes for each fetched and verified file, with the file, its URL and its path below distdir as $1 to $3.";
    "keep_wrkdir": Flag keep_wrkdir,
        "Keep the work directory of a failed package, as an archive in bulklog.";
    "keep_prefix": Flag keep_prefix,
        "Keep the prefix of a failed package, as an archive in bulklog.";
    "client_prepare_chroot": Text client_prepare_chroot,
        "A shell command, run outside after a sandbox was mounted, with its root as $1.";
    "client_prepare_action": Text client_prepare_action,
        "A shell command, run inside each new sandbox of a package.";
    "sync_package": Text sync_package,
        "A shell command, run outside of sandboxes for each built package, with its file, name, categories and PKG_SUFX as $1 to $4.";
    "sync_buildlog": Text sync_buildlog,
        "A shell command, run outside of sandboxes for each failed package, with bulklog and its name as $1 and $2.";
    "hang_timeout": Time limits.hang_ms,
        "Kill a command after this long without CPU use, output or new processes. \"0\": no limit.";
    "timeout": Time limits.total_ms,
        "Kill a command after this time. \"0\": no limit.";
    "cpu_limit": Time limits.cpu_ms,
        "Kill a command whose processes together have used this much processor time. \"0\": no limit.";
    "memory_limit": Size limits.memory,
        "Kill a command whose processes together use more memory than this. \"0\": no limit.";
    "log_limit": Size limits.log,
        "Kill a command that prints more than this. The log keeps the beginning and the end. \"0\": no limit.";
    "disk_limit": Size limits.disk,
        "Kill a command if the files that its package has written, in its work directory or sandbox, are larger than this. \"0\": no limit.";
};

/// Keys that may also be in a table `[stage.NAME]`.
pub(super) const OF_STAGES: [&str; 6] =
    ["hang_timeout", "timeout", "cpu_limit", "memory_limit", "log_limit", DISK_LIMIT];
/// Not for the scan and for stages that write nothing.
pub(super) const DISK_LIMIT: &str = "disk_limit";
