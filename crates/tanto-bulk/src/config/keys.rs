//! The table of keys: their types, defaults and descriptions.

use std::collections::BTreeMap;

use super::{Limits, Scratch};

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
    /// An IP address with a port; may be empty.
    Address(fn(&mut Config) -> &mut String),
    /// A URL of an HTTP server; may be empty.
    Url(fn(&mut Config) -> &mut String),
    /// A name of a build.
    Name(fn(&mut Config) -> &mut String),
    Flag(fn(&mut Config) -> &mut bool),
    Count(fn(&mut Config) -> &mut usize),
    /// A part of something, in hundredths of a percent.
    Share(fn(&mut Config) -> &mut u32),
    /// Labels of a machine, or names of clients.
    Labels(fn(&mut Config) -> &mut Vec<String>),
    Time(fn(&mut Config) -> &mut Option<i64>),
    Size(fn(&mut Config) -> &mut Option<u64>),
    Scratch(fn(&mut Config) -> &mut Scratch),
}

/// The Rust type of a kind of value.
macro_rules! rust_type {
    (Flag) => { bool };
    (Count) => { usize };
    (Share) => { u32 };
    (Labels) => { Vec<String> };
    (Size) => { Option<u64> };
    (Time) => { Option<i64> };
    (Scratch) => { Scratch };
    ($text:ident) => { String };
}

/// Declares `Config`, its defaults, and `KEYS` in the order of the file.
macro_rules! settings {
    (
        values { $($key:ident: $kind:ident = $default:expr, $doc:literal;)* }
        limits { $($name:literal: $type:ident $limit:ident, $about:literal;)* }
    ) => {
        /// All settings. Paths are absolute after `Config::read`.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct Config {
            $(
                #[doc = $doc]
                pub $key: rust_type!($kind),
            )*
            /// The directory that sandboxes show at `pkgsrc`, if it is another one. Not a key.
            pub tree_source: Option<String>,
            /// Limits of stages without their own.
            pub limits: Limits,
            /// Limits of single stages.
            pub stages: BTreeMap<String, Limits>,
            /// The label that packages need whose PKGPATH, or PKGBASE, a pattern matches.
            pub place: BTreeMap<String, String>,
            /// Additional environment variables of scans and builds.
            pub environment: BTreeMap<String, String>,
        }

        impl Default for Config {
            fn default() -> Config {
                Config {
                    $($key: $default,)*
                    tree_source: None,
                    limits: Limits { hang_ms: Some(30 * 60_000), log: Some(1 << 30), ..Limits::default() },
                    stages: BTreeMap::new(),
                    place: BTreeMap::new(),
                    environment: BTreeMap::new(),
                }
            }
        }

        pub static KEYS: &[Key] = &[
            $(Key { name: stringify!($key), doc: $doc, field: Field::$kind(|it| &mut it.$key) },)*
            $(Key { name: $name, doc: $about, field: Field::$type(|it| &mut it.limits.$limit) },)*
        ];
    };
}

settings! {
values {
    pkgsrc: Path = "/usr/pkgsrc".into(),
        "The package tree.";
    make: Program = "bmake".into(),
        "The program that reads its makefiles.";
    prefix: Path = "/usr/pkg".into(),
        "The directory in which packages are installed. It is emptied before each package.";
    pkgdb: Path = "/var/db/pkg".into(),
        "The database of installed packages. It is emptied before each package.";
    packages: Path = "packages".into(),
        "Binary packages are in All below it.";
    bulklog: Path = "bulklog".into(),
        "Logs of failed packages, one directory per package and attempt.";
    state: Path = "state".into(),
        "Tanto's own state, including the database.";
    bootstrapkit: Path = String::new(),
        "An archive or directory with the initial contents of prefix. A build requires it.";
    pkg_add: Program = "pkg_add".into(),
        "The program that installs packages: of the system, or of the bootstrap kit in prefix.";
    pkg_delete: Program = "pkg_delete".into(),
        "The program that removes packages: of the system, or of the bootstrap kit in prefix.";
    pkg_sufx: Text = ".tgz".into(),
        "The suffix of binary packages (PKG_SUFX).";
    limited_list: Path = String::new(),
        "A file with one CATEGORY/DIRECTORY per line: build only these and their dependencies. Empty: the whole tree.";
    reuse_scan_results: Flag = true,
        "Scan a directory again only if an input of its last scan has changed.";
    unprivileged_user: Text = "pbulk".into(),
        "The user for configure and build stages if Tanto runs as root. Empty: root.";
    use_unprivileged_checksum: Flag = false,
        "That user also fetches and checks files.";
    scan_clients: Count = 0,
        "The number of directories scanned at a time. 0: one per processor.";
    jobs: Count = 0,
        "The number of jobs of all packages together, at least one each. 0: one per processor.";
    make_jobs: Count = 0,
        "The maximum number of jobs of one package (MAKE_JOBS). 0: all free ones.";
    ignore_missing_dependencies: Flag = false,
        "Build the other packages if a dependency does not exist.";
    skip_age_check: Flag = false,
        "Treat a package as up to date even if a package that it was built with is newer.";
    rebuild_on_options: Flag = false,
        "Rebuild a package if its options, or other settings of mk.conf that it uses, have changed.";
    script_phase_pre_build: Text = String::new(),
        "A shell command, run at the beginning of a bulk build, but not of one that resumes.";
    script_phase_scan: Text = String::new(),
        "A shell command, run before the scan.";
    script_phase_build: Text = String::new(),
        "A shell command, run before packages are built.";
    script_phase_report: Text = String::new(),
        "A shell command, run at the end of the build.";
    script_phase_upload: Text = String::new(),
        "A shell command, run after script_phase_report.";
    base_url: Text = String::new(),
        "The URL of published reports.";
    rsync: Program = "rsync".into(),
        "The program that copies packages and reports to a server.";
    pkg_rsync_args: Text = "-av --delete-excluded --delay-updates -e ssh".into(),
        "Its arguments for packages, separated by blanks.";
    pkg_rsync_target: Text = String::new(),
        "The destination of packages. Empty: not sent.";
    report_rsync_args: Text = "-avz --delete-excluded -e ssh".into(),
        "Its arguments for reports and logs, separated by blanks.";
    report_rsync_target: Text = String::new(),
        "The destination of reports and logs. Empty: not sent.";
    mail: Program = "mail".into(),
        "The program that sends mail: mail -s SUBJECT RECIPIENT... with the text as its input.";
    report_subject_prefix: Text = "pkgsrc".into(),
        "The prefix of mail subjects.";
    report_recipients: Text = String::new(),
        "Mail addresses for the report, separated by blanks. Empty: no mail.";
    sign_command: Text = String::new(),
        "A shell command that writes a signature of its input. Empty: packages are not signed.";
    sign_user: Text = String::new(),
        "The user for sign_command if Tanto is root. No other user needs access to the key.";
    sign_keys: Path = String::new(),
        "The directory with the key: GNUPGHOME of sign_command. Builds cannot see it.";
    sign_public_key: Path = String::new(),
        "A file with the public keys (gpg --export) or certificates (PEM) that verify each signature. Empty: the PGP keys in sign_keys, or any certificate.";
    signed: Path = "signed".into(),
        "Signed packages are in All below it.";
    build_clients: Count = 0,
        "The number of packages built at a time, each in its own sandbox. 0: one per processor. Without a sandbox: one.";
    sandbox: Sandbox = "bind".into(),
        "The kind of sandbox: \"bind\", \"overlay\", \"tmpfs\", or \"none\" to build on the machine itself.";
    sandbox_root: Path = "/".into(),
        "The system that packages see. It is not modified. \"/\": that of the machine.";
    scratch_size: Scratch = Scratch::Auto,
        "Memory that a package may use for its files. \"auto\": half of the free memory for all packages together. \"0\": all files on disk, below state. A package that needs more is built on disk.";
    layers: Flag = true,
        "Unpack dependencies once and share them, if possible, instead of installing them for each package.";
    layers_size: Size = Some(20 << 30),
        "The maximum size of unpacked packages in state. \"0\": unlimited.";
    wrkobjdir: Path = "/scratch".into(),
        "The place of work directories in a sandbox (WRKOBJDIR).";
    distdir: Path = "distfiles".into(),
        "Fetched files (DISTDIR).";
    master_site_override: Text = String::new(),
        "Sites that are tried before all others (MASTER_SITE_OVERRIDE), separated by blanks.";
    ignore_interactive_fetch: Flag = false,
        "Also fetch files that a user would have to fetch (IGNORE_INTERACTIVE_FETCH).";
    post_fetch_hook: Text = String::new(),
        "A shell command, run outside of sandboxes for each fetched and verified file, with the file, its URL and its path below distdir as $1 to $3.";
    keep_wrkdir: Flag = false,
        "Keep the work directory of a failed package, as an archive in bulklog.";
    keep_prefix: Flag = false,
        "Keep the prefix of a failed package, as an archive in bulklog.";
    client_prepare_chroot: Text = String::new(),
        "A shell command, run outside after a sandbox was mounted, with its root as $1.";
    client_prepare_action: Text = String::new(),
        "A shell command, run inside each new sandbox of a package.";
    sync_package: Text = String::new(),
        "A shell command, run outside of sandboxes for each built package, with its file, name, categories and PKG_SUFX as $1 to $4.";
    sync_buildlog: Text = String::new(),
        "A shell command, run outside of sandboxes for each failed package, with bulklog, its name and its last attempt as $1 to $3.";
    listen: Address = String::new(),
        "The address on which other machines can take part, such as \"0.0.0.0:8443\". Empty: none can.";
    build_name: Name = "build".into(),
        "The name of this build for them.";
    server_dir: Path = String::new(),
        "The files of the server for them, which several builds may share. Empty: 'serve' in state.";
    server_url: Text = String::new(),
        "The URL at which they reach the server. Empty: made from 'listen' and the name of this machine.";
    blob_space: Size = None,
        "The maximum size of the files that the server keeps. \"0\": all of the disk but 1 GiB.";
    blob_keep: Time = Some(3_600_000),
        "The server keeps files that no build needs for this time after their last use.";
    blobs: Url = String::new(),
        "The URL of an HTTP cache from which clients read packages and other files, such as \"http://cache.example.org/cas\". Empty: from the server.";
    client_start: Text = String::new(),
        "A shell command that starts clients when packages wait for some. Empty: none.";
    client_start_join: Path = String::new(),
        "The join file for them, which 'tanto bulk token add NAME --pool' wrote.";
    client_start_interval: Time = Some(300_000),
        "The least time between two runs of the command.";
    client_start_max: Count = 16,
        "The command does not run while so many clients are connected.";
    client_heartbeat: Time = Some(10_000),
        "How often clients tell that they are alive: 1s to 10m.";
    client_lost_after: Time = Some(60_000),
        "A client that was not heard for this time is lost: at least three heartbeats.";
    client_restart_min: Time = Some(300_000),
        "The packages of a lost client wait for it for a quarter of the time that was spent on them, but at least for this time.";
    client_restart_max: Time = Some(1_800_000),
        "And at most for this time.";
    pushed_tree: Flag = false,
        "Make pkgsrc equal to the tree that 'tanto bulk push-tree' has uploaded last.";
    tree_digest: Text = String::new(),
        "The only digest that the package tree may have, with 'listen'. Empty: any.";
    labels: Labels = Vec::new(),
        "The labels of this machine, such as [\"big\"]: packages that need another one are built elsewhere.";
    trusted: Labels = Vec::new(),
        "The names of trusted clients, such as [\"builder-1\"].";
    trust_reach: Count = 0,
        "Packages that at least so many others need are built only by trusted clients and this machine. 0: no package is.";
    verify: Share = 0,
        "The share of the packages built by clients that another client builds again, to compare both: such as \"2%\". \"0%\": none.";
}
limits {
    "hang_timeout": Time hang_ms,
        "Kill a command after this long without CPU use, output or new processes. \"0\": no limit.";
    "timeout": Time total_ms,
        "Kill a command after this time. \"0\": no limit.";
    "cpu_limit": Time cpu_ms,
        "Kill a command whose processes together have used this much processor time. \"0\": no limit.";
    "memory_limit": Size memory,
        "Kill a command whose processes together use more memory than this. \"0\": no limit.";
    "log_limit": Size log,
        "Kill a command that prints more than this. The log keeps the beginning and the end. \"0\": no limit.";
    "disk_limit": Size disk,
        "Kill a command if the files that its package has written, in its work directory or sandbox, are larger than this. \"0\": no limit.";
}
}

/// Keys that may also be in a table `[stage.NAME]`.
pub(super) const OF_STAGES: [&str; 6] =
    ["hang_timeout", "timeout", "cpu_limit", "memory_limit", "log_limit", DISK_LIMIT];
/// Not for the scan and for stages that write nothing.
pub(super) const DISK_LIMIT: &str = "disk_limit";

/// Keys that packages can see. Clients of the build get them from the coordinator.
pub(super) const SHARED: [&str; 22] = [
    "pkgsrc",
    "make",
    "prefix",
    "pkgdb",
    "pkg_add",
    "pkg_delete",
    "pkg_sufx",
    "bootstrapkit",
    "unprivileged_user",
    "use_unprivileged_checksum",
    "make_jobs",
    "wrkobjdir",
    "master_site_override",
    "ignore_interactive_fetch",
    "keep_wrkdir",
    "keep_prefix",
    "hang_timeout",
    "timeout",
    "cpu_limit",
    "memory_limit",
    "log_limit",
    DISK_LIMIT,
];
