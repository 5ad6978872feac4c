//! The commands of `tanto bulk`: their names, and what their help says. Does not know what they do.

/// A command.
pub struct Task {
    /// Its name.
    pub name: &'static str,
    /// What follows the name; all of them take `--config FILE` too.
    pub args: &'static str,
    /// What it is for.
    pub doc: &'static str,
}

/// All that a user may type.
pub static TASKS: &[Task] = &[
    Task {
        name: "init",
        args: "[DIR]",
        doc: "Writes bulk.toml, in which stands where the tree is and how it is built: all keys, what they \
               mean and their defaults.",
    },
    Task {
        name: "scan",
        args: "[--output FILE] [--verify-scan N%]",
        doc: "Asks each directory of the tree which packages it makes, or the directories of `limited_list` \
               and what these need, and keeps the answers in the state directory. It asks again only where \
               something has changed that an answer depends on. `--output FILE` gets all records; \
               `--verify-scan N%` asks again in so many of the directories for which that is not needed, and \
               compares. The exit code is 1 if a directory gave no answer, or another than before.",
    },
    Task {
        name: "resolve",
        args: "--scan FILE... --output FILE [--partial] [--missing FILE]",
        doc: "Reads what a scan of the tree says of its packages (the text of `make pbulk-index`, with \
               PKG_LOCATION), and writes it again with a line DEPENDS for each package: the packages that it \
               needs, chosen as pbulk-resolve does. More `--scan FILE` say what else there is: of them only \
               what is needed is written. If nothing matches a dependency, that is told, with what comes \
               near, and nothing is written; `--partial` writes such packages without DEPENDS, and \
               `--missing FILE` also makes a list of the directories that would have to be scanned.",
    },
    Task {
        name: "check",
        args: "[--resolved FILE] [--json] [--cutoff]",
        doc: "Builds nothing, and tells what would have to be built and why.",
    },
    Task {
        name: "build",
        args: "[--resolved FILE] [--again] [--cutoff]",
        doc: "Goes through all phases: scans the tree, finds what each package needs, and builds them, the \
               most urgent first, each from an empty prefix. It goes on where an earlier build was \
               interrupted; what is up to date is not built again, unless `--again` is said. With \
               `--resolved FILE` the packages are those of a resolved scan. With `--cutoff` nothing is built \
               for a package that was built again and is what it was before.",
    },
    Task {
        name: "status",
        args: "[--watch]",
        doc: "Tells how many packages are in which state, what is being built, and what has failed; \
               `--watch` again each second.",
    },
    Task { name: "why", args: "PACKAGE", doc: "Tells where a package stands, and why." },
    Task { name: "log", args: "PACKAGE [STAGE]", doc: "Shows what it printed when it failed, or prints now." },
    Task {
        name: "shell",
        args: "PACKAGE [COMMAND]",
        doc: "Opens a shell in a sandbox like the one in which the package failed: what it needs is installed, and \
               the work directory is there if `keep_wrkdir` has kept it. `make` has the arguments and the user of \
               the stages. With COMMAND the shell runs that line. What is changed there is lost when it ends.",
    },
    Task {
        name: "retry",
        args: "PACKAGE...",
        doc: "Builds packages again, when they were fixed or though they are there: their directories are \
               scanned again, and what needs them is built too.",
    },
    Task {
        name: "skip",
        args: "PACKAGE...",
        doc: "Leaves them out of this run, and what needs them, until a `retry`.",
    },
    Task { name: "kill", args: "PACKAGE...", doc: "Ends packages that are being built; they have failed then." },
    Task {
        name: "report",
        args: "[--html FILE | --json | --pbulk]",
        doc: "Tells what the last build has brought: what failed and first why, what that blocks, what has \
               changed since the build before, and what it all took. `--html FILE` makes a page of it, \
               `--json` an object for programs, `--pbulk` the records that pbulk's reports have.",
    },
    Task {
        name: "publish",
        args: "[--unfinished]",
        doc: "Tells of all packages that were built and may be given away (pkg_summary.gz, SHA512.gz), \
               signs them if `sign_command` is set, and sends them, the report and the logs where bulk.toml \
               says; `--unfinished` does so before the build has ended.",
    },
    Task {
        name: "import",
        args: "DIR|PBULK.CONF",
        doc: "Writes bulk.toml from a `pbulk.conf`, if that file is named. Of a directory it takes over pbulk's files, such as those of its `meta`: the scan of `pscan` stands where \
               nothing has changed since, and `presolve` with `success` and `error` becomes a bulk build \
               that goes on.",
    },
    Task { name: "export", args: "DIR", doc: "Writes these four files." },
    Task {
        name: "simulate",
        args: "--resolved FILE (--times FILE [--known FILE] | --pool FILE [--make-jobs N]) [--pkgsrc DIR] -j N,N...",
        doc: "Tells how long it would take to build the packages of a resolved scan, for each number N of \
               packages at a time. A line of the times is the name of a package, a tab, and seconds; what is \
               not in it is guessed from packages like it, and with `--pkgsrc DIR` from what has to be fetched for them. `--known FILE` says what the order may rest on, \
               if that is something else than what the packages take. With `--pool FILE` N is the number of \
               jobs that all packages share: a line is the name, and the seconds for which it keeps one \
               processor busy and those that any number may share; `--make-jobs N` gives each package N of \
               them.",
    },
];
