//! The subcommands of `tanto bulk`, with their options and operands.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueHint};
use tanto_bulk::config::Config;
use tanto_bulk::config::file::read_config;
use tanto_bulk::error::BulkError;

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
    #[command(hide = true, about = "Run a command in a sandbox (internal)")]
    Enter(InternalArgs),
    #[command(hide = true, about = "Fetch the distfiles of a package (internal)")]
    Fetch(InternalArgs),
    #[command(hide = true, about = "Move a finished package into place (internal)")]
    Deliver(InternalArgs),
    #[command(hide = true, about = "Sign packages (internal)")]
    Signer(InternalArgs),
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
    fn percentages_are_parsed() {
        assert_eq!(["5%", "0.5%", "100%", "0%"].map(percent), [Ok(5.0), Ok(0.5), Ok(100.0), Ok(0.0)]);
        assert!(["5", "-1%", "101%", "%", "x%", "NaN%"].iter().all(|it| percent(it).is_err()));
    }
}
