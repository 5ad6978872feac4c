//! The subcommands of `tanto bulk`, with their options and operands.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueHint};
use tanto_bulk::config::Config;
use tanto_bulk::config::file::read_config;
use tanto_bulk::error::BulkError;
use tanto_exec::text::number;
use tanto_protocol::{Role, is_client_name};

use crate::simulate::{SlotCounts, parse_slots};

#[derive(Subcommand, Debug)]
pub enum BulkCommand {
    /// Write bulk.toml with every key, its meaning and its default
    Init(InitArgs),
    /// List the packages that each directory of the tree makes
    ///
    /// Scans the whole tree, or the directories of `limited_list` and their dependencies, and keeps the results in the
    /// state directory. A directory is scanned again only if something that its result depends on has changed.
    /// The exit code is 1 if a directory could not be scanned, or if `--verify-scan` finds a difference.
    Scan(ScanArgs),
    /// Add the dependencies of each package to the records of a scan
    ///
    /// Reads records as `make pbulk-index` prints them, with PKG_LOCATION, and writes them with a DEPENDS line for each
    /// package, chosen as pbulk-resolve does. If nothing matches a dependency, prints it with the nearest
    /// candidates and writes nothing.
    Resolve(ResolveArgs),
    /// Show which packages would be built, and why
    Check(CheckArgs),
    /// Scan, resolve and build the packages
    ///
    /// The critical path is started first; each package is built from an empty prefix. An interrupted build is resumed.
    /// Up-to-date packages are not built again. The exit code is 1 if a package failed.
    Build(BulkBuildArgs),
    /// Count the packages in each state; list running and failed ones
    Status(StatusArgs),
    /// Explain the state of a package
    Why(PackageArgs),
    /// Print the log of a failed or running package
    Log(LogArgs),
    /// Open a shell in a sandbox like that of a failed package
    ///
    /// The dependencies are installed, and the work directory is there if `keep_wrkdir` has kept it. `make` has the
    /// arguments and the user of the stages. Changes are lost when the shell ends.
    Shell(ShellArgs),
    /// Build packages and their dependents again, after a new scan of their directories
    Retry(PackagesArgs),
    /// Leave packages and their dependents out of this run, until a retry
    Skip(PackagesArgs),
    /// Kill the builds of packages; they count as failed
    Kill(PackagesArgs),
    /// Report the last build: failures, their dependents, changes, resources
    Report(BulkReportArgs),
    /// Write pkg_summary and digests, sign, and upload packages, report and logs
    ///
    /// Covers the packages that may be redistributed. Signs them if `sign_command` is set, and uploads to the places
    /// that bulk.toml names.
    Publish(PublishArgs),
    /// Import pbulk.conf, or the state files of pbulk
    ///
    /// From a `pbulk.conf`, writes bulk.toml. From a directory such as pbulk's `meta`, imports the scan in `pscan` for
    /// directories that have not changed since, and turns `presolve`, `success` and `error` into a bulk build
    /// that can be resumed.
    Import(ImportArgs),
    /// Write pscan, presolve, success and error as pbulk does
    Export(ExportArgs),
    /// Estimate how long a bulk build takes with N packages at a time
    ///
    /// Each line of a file with times is a PKGNAME, a tab, and seconds. Missing times are estimated from similar
    /// packages.
    Simulate(BulkSimulateArgs),
    /// Serve other machines that take part in a build
    ///
    /// Listens at the address that `listen` in bulk.toml sets, until SIGTERM. `tanto bulk build` starts a server in the
    /// background if none is running.
    Serve(ServeArgs),
    /// Manage the tokens of other machines
    #[command(subcommand)]
    Token(TokenCommand),
    /// Take part in a build on another machine
    ///
    /// Joins with the file that `tanto bulk token add` wrote, fetches the package tree and the bootstrap kit, and builds
    /// packages until the build drains the client or a signal ends it. The file works once; after that, the client uses
    /// its own token in its directory.
    Client(ClientArgs),
    /// Upload a package tree for a build on another machine
    ///
    /// For builds with `pushed_tree` in bulk.toml, whose machine has no package tree of its own. Uploads only files that the
    /// server lacks. The build uses the tree when it starts, and after `tanto bulk retry`. Directories named CVS, .git,
    /// .hg and .svn are left out.
    PushTree(PushTreeArgs),
    /// List the machines that take part in the running build
    Clients(ClientsArgs),
    /// Let a machine finish its packages and leave the running build
    Drain(NamedClientArgs),
    /// Build everything again that a machine has built
    ///
    /// Revokes the token of the machine, ends what it is building, and has all packages built again that it has built in
    /// this build and in earlier ones, with all packages that were built with these. Without a running build, the next one
    /// builds them.
    Distrust(NamedClientArgs),
    #[command(hide = true, about = "Run a command in a sandbox (internal)")]
    Enter(InternalArgs),
    #[command(hide = true, about = "Fetch the distfiles of a package (internal)")]
    Fetch(InternalArgs),
    #[command(hide = true, about = "Move a finished package into place (internal)")]
    Deliver(InternalArgs),
    #[command(hide = true, about = "Start clients of a build (internal)")]
    Starter(InternalArgs),
    #[command(hide = true, about = "Accept the results of clients (internal)")]
    Accept(InternalArgs),
    #[command(hide = true, about = "Open the packages of clients (internal)")]
    Inspect(InternalArgs),
    #[command(hide = true, about = "Sign packages (internal)")]
    Signer(InternalArgs),
    #[command(hide = true, about = "Replace an old certificate of the server (internal)")]
    Renew(InternalArgs),
}

#[derive(Subcommand, Debug)]
pub enum TokenCommand {
    /// Write a join file with which a machine can take part once
    Add(TokenAddArgs),
    /// List tokens and unused join files
    List(ClientsArgs),
    /// Revoke the tokens and join files of a client
    Revoke(TokenRevokeArgs),
}

/// A time such as 90d or 12h.
fn lifetime(value: &str) -> Result<Duration, &'static str> {
    const WRONG: &str = "expected a time such as 90d or 12h";
    let (number, unit) = value.split_at_checked(value.len().saturating_sub(1)).ok_or(WRONG)?;
    let seconds = match unit {
        "d" => 86_400,
        "h" => 3_600,
        "m" => 60,
        "s" => 1,
        _ => return Err(WRONG),
    };
    let number: u64 = number.parse().map_err(|_| WRONG)?;
    let seconds = number.checked_mul(seconds).filter(|&seconds| seconds > 0 && seconds <= MAX_LIFETIME);
    seconds.map(Duration::from_secs).ok_or(WRONG)
}

fn size_kib(value: &str) -> Result<u64, &'static str> {
    number::size_kib(value.as_bytes()).ok_or("expected a size such as 512M or 20G")
}

/// A hundred years, in seconds.
const MAX_LIFETIME: u64 = 100 * 365 * 86_400;

fn role(value: &str) -> Result<Role, String> {
    let names: Vec<&str> = Role::ALL.into_iter().map(Role::name).collect();
    Role::named(value).ok_or_else(|| format!("expected one of {}", names.join(", ")))
}

fn client_name(value: &str) -> Result<String, &'static str> {
    match is_client_name(value) {
        true => Ok(value.to_owned()),
        false => Err("expected 1 to 63 of a-z, 0-9, '.', '_' and '-'"),
    }
}

/// A percentage from 0% to 100%.
fn percent(value: &str) -> Result<f64, &'static str> {
    let number: Option<f64> = value.strip_suffix('%').and_then(|number| number.parse().ok());
    number.filter(|number| (0.0..=100.0).contains(number)).ok_or("expected a number such as 5%")
}

#[derive(Args, Debug)]
pub struct ConfigArg {
    /// Configuration of the bulk build
    #[arg(long, value_name = "FILE", default_value = "bulk.toml", value_hint = ValueHint::FilePath)]
    pub config: PathBuf,
}

impl ConfigArg {
    pub fn read(&self) -> Result<Config, BulkError> {
        read_config(&self.config)
    }
}

#[derive(Args, Debug)]
pub struct InitArgs {
    /// Directory for bulk.toml
    #[arg(default_value = ".", hide_default_value = true, value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
}

#[derive(Args, Debug)]
pub struct ScanArgs {
    /// Write all records to FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Scan N% of the unchanged directories again and compare the results
    #[arg(long, value_name = "N%", default_value = "0%", hide_default_value = true, value_parser = percent)]
    pub verify_scan: f64,
    #[command(flatten)]
    pub config: ConfigArg,
}

#[derive(Args, Debug)]
pub struct ResolveArgs {
    /// Records of a scan; files after the first provide only what the first needs
    #[arg(long = "scan", value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub scans: Vec<PathBuf>,
    /// Write to FILE in place of standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Write the directories that would have to be scanned to FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub missing: Option<PathBuf>,
    /// Write packages with unresolved dependencies without DEPENDS
    #[arg(long)]
    pub partial: bool,
}

#[derive(Args, Debug)]
pub struct CheckArgs {
    /// Check the packages of a resolved scan
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub resolved: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Assume that a rebuilt package may be unchanged, so that its dependents stay up to date
    #[arg(long)]
    pub cutoff: bool,
    #[command(flatten)]
    pub config: ConfigArg,
}

#[derive(Args, Debug)]
pub struct BulkBuildArgs {
    /// Build the packages of a resolved scan
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub resolved: Option<PathBuf>,
    /// Build up-to-date packages too
    #[arg(long)]
    pub again: bool,
    /// Do not rebuild the dependents of a rebuilt package that is unchanged
    #[arg(long)]
    pub cutoff: bool,
    #[command(flatten)]
    pub config: ConfigArg,
}

#[derive(Args, Debug)]
pub struct StatusArgs {
    /// Print the status again each second
    #[arg(long)]
    pub watch: bool,
    #[command(flatten)]
    pub config: ConfigArg,
}

#[derive(Args, Debug)]
pub struct PackageArgs {
    /// PKGNAME, its base without the version, or PKGPATH
    pub package: OsString,
    #[command(flatten)]
    pub config: ConfigArg,
}

#[derive(Args, Debug)]
pub struct LogArgs {
    /// PKGNAME, its base without the version, or PKGPATH
    pub package: OsString,
    /// Stage, such as configure or build [default: the last one]
    pub stage: Option<String>,
    /// Print the output of a running package, and more as it comes, until its build ends
    #[arg(long, conflicts_with = "stage")]
    pub follow: bool,
    #[command(flatten)]
    pub config: ConfigArg,
}

#[derive(Args, Debug)]
pub struct ShellArgs {
    /// PKGNAME, its base without the version, or PKGPATH
    pub package: OsString,
    /// Command line for the shell [default: an interactive shell]
    pub command: Option<String>,
    #[command(flatten)]
    pub config: ConfigArg,
}

#[derive(Args, Debug)]
pub struct PackagesArgs {
    /// PKGNAME, its base without the version, or PKGPATH
    #[arg(required = true, value_name = "PACKAGE")]
    pub packages: Vec<OsString>,
    #[command(flatten)]
    pub config: ConfigArg,
}

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("form").args(["html", "json", "pbulk"]))]
pub struct BulkReportArgs {
    /// Write an HTML page to FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print the records that pbulk's reports have
    #[arg(long)]
    pub pbulk: bool,
    #[command(flatten)]
    pub config: ConfigArg,
}

#[derive(Args, Debug)]
pub struct PublishArgs {
    /// Publish before the build has ended
    #[arg(long)]
    pub unfinished: bool,
    #[command(flatten)]
    pub config: ConfigArg,
}

#[derive(Args, Debug)]
pub struct ImportArgs {
    /// A pbulk.conf, or a directory with pscan, presolve, success and error
    #[arg(value_name = "DIR|PBULK.CONF", value_hint = ValueHint::AnyPath)]
    pub from: PathBuf,
    #[command(flatten)]
    pub config: ConfigArg,
}

#[derive(Args, Debug)]
pub struct ExportArgs {
    /// Directory for the files
    #[arg(value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    #[command(flatten)]
    pub config: ConfigArg,
}

#[derive(Args, Debug)]
pub struct BulkSimulateArgs {
    /// Simulate the packages of a resolved scan
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub resolved: PathBuf,
    /// Seconds that each package takes
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub times: PathBuf,
    /// Times that the order is based on [default: those of --times]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub known: Option<PathBuf>,
    /// Estimate missing times from the sizes of the distfiles of this tree too
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub pkgsrc: Option<PathBuf>,
    /// Numbers of packages at a time, such as 4,8,16
    #[arg(short, value_name = "N,N...", value_parser = parse_slots)]
    pub jobs: Option<SlotCounts>,
}

#[derive(Args, Debug)]
pub struct ServeArgs {
    #[command(flatten)]
    pub config: ConfigArg,
}

#[derive(Args, Debug)]
pub struct TokenAddArgs {
    /// Name of the client
    #[arg(value_parser = client_name)]
    pub name: String,
    /// Role of the client: build, scan, tree, read, watch or admin [default: build]
    #[arg(long = "role", value_name = "ROLE", value_parser = role)]
    pub roles: Vec<Role>,
    /// How long the client's token is valid, such as 12h
    #[arg(long, value_name = "TIME", default_value = "90d", value_parser = lifetime)]
    pub expires: Duration,
    /// Let several machines join with the same file: they get the names NAME-1, NAME-2 ...
    #[arg(long, requires = "max_clients")]
    pub pool: bool,
    /// How many machines can join with the file
    #[arg(long, value_name = "N", requires = "pool", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_clients: Option<u32>,
    /// Write the token itself in place of a join file, for a program that is no client, such as a web server
    #[arg(long, conflicts_with = "pool")]
    pub plain: bool,
    /// Join file to write, for `tanto bulk client --join`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    #[command(flatten)]
    pub config: ConfigArg,
}

#[derive(Args, Debug)]
pub struct TokenRevokeArgs {
    /// Name of the client, or identifier of the token
    pub name: String,
    #[command(flatten)]
    pub config: ConfigArg,
}

#[derive(Args, Debug)]
pub struct ClientArgs {
    /// Join file that `tanto bulk token add` wrote
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub join: PathBuf,
    /// Packages at a time [default: one for each processor; without a sandbox, one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub slots: Option<u32>,
    /// Directory for the client's files [default: tanto/client-NAME below ~/.local/state or, for root, /var/lib]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
    /// Downloaded packages to keep, such as 20G; those not used for the longest time are removed
    #[arg(long, value_name = "SIZE", default_value = "20G", value_parser = size_kib)]
    pub cache_size: u64,
    /// Label of this machine, such as big
    #[arg(long = "label", value_name = "LABEL", value_parser = client_name)]
    pub labels: Vec<String>,
    /// Leave after this time without a package, such as 10m [default: never]
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    pub max_idle: Option<Duration>,
    /// Kind of sandbox: bind, overlay, tmpfs or none
    #[arg(long, value_name = "KIND", default_value = "bind", value_parser = ["bind", "overlay", "tmpfs", "none"])]
    pub sandbox: String,
    /// The system that packages see
    #[arg(long, value_name = "DIR", default_value = "/", value_hint = ValueHint::DirPath)]
    pub sandbox_root: PathBuf,
    /// Replace another client of the same name that is still connected
    #[arg(long)]
    pub replace: bool,
}

#[derive(Args, Debug)]
pub struct PushTreeArgs {
    /// The package tree
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub tree: PathBuf,
    /// Join file that `tanto bulk token add --role tree` wrote
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub join: PathBuf,
    /// Directory for the client's files [default: tanto/client-NAME below ~/.local/state or, for root, /var/lib]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct ClientsArgs {
    #[command(flatten)]
    pub config: ConfigArg,
}

#[derive(Args, Debug)]
pub struct NamedClientArgs {
    /// Name of the client
    #[arg(value_parser = client_name)]
    pub name: String,
    #[command(flatten)]
    pub config: ConfigArg,
}

/// Arguments of a command that Tanto itself starts, as it passes them.
#[derive(Args, Debug)]
pub struct InternalArgs {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub args: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_parsed() {
        let seconds = |text| lifetime(text).map(|it| it.as_secs()).ok();
        assert_eq!(["90d", "12h", "5m", "7s"].map(seconds), [Some(7_776_000), Some(43_200), Some(300), Some(7)]);
        assert!(["", "d", "0d", "90", "-1d", "1w", "99999999999d", "1\u{e9}"].iter().all(|it| lifetime(it).is_err()));
    }

    #[test]
    fn percentages_are_parsed() {
        assert_eq!(["5%", "0.5%", "100%", "0%"].map(percent), [Ok(5.0), Ok(0.5), Ok(100.0), Ok(0.0)]);
        assert!(["5", "-1%", "101%", "%", "x%", "NaN%"].iter().all(|it| percent(it).is_err()));
    }
}
