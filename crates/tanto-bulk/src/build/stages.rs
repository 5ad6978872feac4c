//! The stages that a package goes through, and their commands; those of pbulk's `pkg-build`. Does not know when they
//! run, nor what becomes of their output.

use std::fmt::Write;

use super::makes::Makes;
use super::plan::{Plan, Planned};
use crate::layers::Needs;
use crate::resolve::Package;
use crate::sandbox::{Leave, Sandbox};
use crate::shell::quoted;

/// Where packages are built, and with what.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Site {
    /// The tree.
    pub pkgsrc: String,
    /// The program that reads its makefiles.
    pub make: String,
    /// Where packages are installed.
    pub prefix: String,
    /// The database of what is installed.
    pub pkgdb: String,
    /// Binary packages are in `All` below it.
    pub packages: String,
    /// Logs are in directories with the names of packages below it.
    pub logs: String,
    /// What an empty prefix is made from: an archive, or a directory.
    pub bootstrapkit: String,
    /// Installs packages.
    pub pkg_add: String,
    /// Removes them.
    pub pkg_delete: String,
    /// MAKE_JOBS: how many jobs a package's own build may run.
    pub make_jobs: usize,
    /// What packages' own builds are run with, if they share job tokens.
    pub makes: Option<Makes>,
    /// Ends the names of binary packages.
    pub suffix: String,
    /// Who configures and builds, where we may become somebody else.
    pub user: Option<String>,
    /// Files are fetched and checked as that user too.
    pub unprivileged_checksum: bool,
    /// What shuts packages in; none: they are built in the machine itself.
    pub sandbox: Option<Sandbox>,
    /// How many packages are built at a time; 0: as many as the runner can.
    pub clients: usize,
    /// Where work directories are in a sandbox.
    pub wrkobjdir: String,
    /// Where fetched files are in a sandbox.
    pub distdir: String,
    /// Whether the work directory of a failed package is kept.
    pub keep_wrkdir: bool,
    /// Whether what was in the prefix then is kept.
    pub keep_prefix: bool,
    /// A line for the shell, run in the sandbox before all else.
    pub prepare_action: String,
}

/// A stage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// An empty prefix, with the bootstrap kit in it.
    ClientClean,
    /// What an earlier build left in the work directory goes.
    PreClean,
    /// What the package needs is installed.
    Depends,
    /// Files are fetched and checked.
    Checksum,
    /// It is configured.
    Configure,
    /// It is built.
    Build,
    /// It is installed below its work directory.
    Install,
    /// It becomes a binary package, which is installed as a test.
    Package,
    /// That is removed again.
    Deinstall,
    /// The binary package gets its place.
    SyncPackage,
    /// What is left of a package that failed is kept.
    Keep,
    /// The work directory goes.
    Clean,
}

impl Stage {
    /// All of them, in their order.
    pub const ALL: [Stage; 12] = [
        Stage::ClientClean,
        Stage::PreClean,
        Stage::Depends,
        Stage::Checksum,
        Stage::Configure,
        Stage::Build,
        Stage::Install,
        Stage::Package,
        Stage::Deinstall,
        Stage::SyncPackage,
        Stage::Keep,
        Stage::Clean,
    ];

    /// Its name, in the database and in those of logs.
    pub fn name(self) -> &'static str {
        match self {
            Stage::ClientClean => "client-clean",
            Stage::PreClean => "pre-clean",
            Stage::Depends => "depends",
            Stage::Checksum => "checksum",
            Stage::Configure => "configure",
            Stage::Build => "build",
            Stage::Install => "install",
            Stage::Package => "package",
            Stage::Deinstall => "deinstall",
            Stage::SyncPackage => "sync-package",
            Stage::Keep => "keep",
            Stage::Clean => "clean",
        }
    }

    /// The stage that comes after this one for a package.
    pub fn after(stage: Option<Stage>, package: &Planned, site: &Site) -> Option<Stage> {
        Stage::ALL.into_iter().find(|&next| stage.is_none_or(|stage| next > stage) && next.is_for(package, site))
    }

    fn is_for(self, package: &Planned, site: &Site) -> bool {
        match self {
            // A sandbox begins with no work directory.
            Stage::PreClean => site.sandbox.is_none(),
            Stage::Depends => !package.depends.is_empty(),
            Stage::Deinstall => !package.bootstrap,
            Stage::Keep => false,
            _ => true,
        }
    }

    /// The stage that comes when one has failed.
    pub fn after_failure(site: &Site) -> Stage {
        if site.keep_wrkdir || site.keep_prefix { Stage::Keep } else { Stage::Clean }
    }

    /// The line for `/bin/sh`, for a client.
    pub fn command(self, site: &Site, plan: &Plan, package: Package, client: usize) -> String {
        let Some(sandbox) = &site.sandbox else { return self.line(site, plan, package) };
        let line = || self.line(site, plan, package);
        match self {
            Stage::Clean => return sandbox.leave(client),
            Stage::Depends => return sandbox.provide(client, needs(site, plan, package), &line()),
            _ => {}
        }
        let leave = Leave {
            first: self == Stage::ClientClean,
            fetches: self == Stage::Checksum,
            publishes: self == Stage::SyncPackage,
        };
        sandbox.inside(client, &line(), leave)
    }

    fn line(self, site: &Site, plan: &Plan, package: Package) -> String {
        let it = plan.package(package);
        let writer = Writer { site, package: it };
        match self {
            Stage::ClientClean if site.sandbox.is_some() => writer.begin(),
            Stage::ClientClean => writer.client_clean(),
            Stage::PreClean | Stage::Clean => writer.make(&["clean"], false),
            Stage::Depends => writer.depends(plan),
            Stage::Checksum => writer.make(&["checksum"], site.unprivileged_checksum),
            Stage::Configure => writer.with_users("configure", "configure"),
            Stage::Build => writer.with_users("build", "all"),
            Stage::Install => writer.with_users("install", "stage-install"),
            Stage::Package => writer.package(),
            Stage::Deinstall => format!("{} -K {} {}", site.pkg_delete, quoted(&site.pkgdb), quoted(&it.name)),
            Stage::SyncPackage => writer.sync(),
            Stage::Keep => writer.keep(),
        }
    }
}

/// What a package needs, by names.
fn needs(site: &Site, plan: &Plan, package: Package) -> Needs {
    let named = &plan.package(package).depends;
    let name = |package: &Package| plan.package(*package).name.clone();
    Needs {
        named: named.iter().map(name).collect(),
        deeper: plan.needed(package).iter().filter(|it| !named.contains(it)).map(name).collect(),
        packages: format!("{}/All", site.packages).into(),
        suffix: site.suffix.clone(),
        pkg_add: site.pkg_add.clone(),
    }
}

/// Writes lines for one package.
struct Writer<'a> {
    site: &'a Site,
    package: &'a Planned,
}

impl Writer<'_> {
    /// Runs make in the package's directory, as the unprivileged user if that is asked for and can be.
    fn make(&self, targets: &[&str], unprivileged: bool) -> String {
        let Site { pkgsrc, make, makes, .. } = self.site;
        let mut line = String::new();
        // A package that wants GNU make says so on its own; for all others this is a default.
        if let Some(makes) = makes {
            let _ = write!(line, "MAKE_PROGRAM={} ", quoted(&makes.bmake));
        }
        let jobs = format!("MAKE_JOBS={}", self.site.make_jobs);
        let always = ["BATCH=1", "DEPENDS_TARGET=/nonexistent", &jobs];
        for word in [make.as_str()].iter().chain(targets).chain(&always) {
            line += &quoted(word);
            line.push(' ');
        }
        if self.site.sandbox.is_some() {
            let places = [("WRKOBJDIR", &self.site.wrkobjdir), ("DISTDIR", &self.site.distdir)];
            places.iter().for_each(|(name, dir)| line += &format!("{name}={} ", quoted(dir)));
        }
        for argument in &self.package.arguments {
            line += &quoted(argument);
            line.push(' ');
        }
        if let Some(makes) = makes {
            let _ = write!(line, "GMAKE={} ", quoted(&makes.gmake));
        }
        let _ = write!(line, "WRKLOG={}", quoted(&format!("{}/work.log", self.logs())));
        let line = match &self.site.user {
            Some(user) if unprivileged => format!("su {} -c {}", quoted(user), quoted(&line)),
            _ => line,
        };
        format!("cd {} && {line}", quoted(&format!("{pkgsrc}/{}", self.package.location)))
    }

    /// Before the phase in which the package wants its users and groups, they are made.
    fn with_users(&self, phase: &str, target: &str) -> String {
        let wanted = &self.package.usergroup_phase;
        let users: &[&str] = match phase {
            "configure" if wanted.ends_with("configure") => &["create-usergroup", "clean"],
            "build" if wanted.ends_with("build") => &["create-usergroup"],
            "install" if wanted == "pre-install" => &["create-usergroup"],
            _ => &[],
        };
        let unprivileged = phase != "install" || self.package.user_destdir;
        let line = self.make(&[target], unprivileged);
        if users.is_empty() { line } else { format!("{} && {line}", self.make(users, false)) }
    }

    fn client_clean(&self) -> String {
        let Site { prefix, pkgdb, bootstrapkit, .. } = self.site;
        let (prefix, pkgdb, kit) = (quoted(prefix), quoted(pkgdb), quoted(bootstrapkit));
        let logs = quoted(&self.logs());
        // The prefix itself may be a mount point; and whoever configures and builds writes to the work log too.
        format!(
            "{{ rm -rf {prefix} {pkgdb} 2>/dev/null || :; }}; mkdir -p {prefix} {pkgdb} {logs} && : >{logs}/work.log && \
             chmod 666 {logs}/work.log && \
             if [ -d {kit} ]; then cp -R {kit}/. {prefix}; else tar -xzf {kit} -C /; fi"
        )
    }

    /// In a sandbox all else is there.
    fn begin(&self) -> String {
        let work_log = quoted(&format!("{}/work.log", self.logs()));
        let line = format!(": >{work_log} && chmod 666 {work_log}");
        match self.site.prepare_action.as_str() {
            "" => line,
            action => format!("{line} && {{ {action}\n}}"),
        }
    }

    fn depends(&self, plan: &Plan) -> String {
        let Site { packages, pkgdb, pkg_add, .. } = self.site;
        let mut line = format!("PKG_PATH={} {pkg_add} -K {}", quoted(&format!("{packages}/All")), quoted(pkgdb));
        for &needed in &self.package.depends {
            line.push(' ');
            line += &quoted(&plan.package(needed).name);
        }
        line
    }

    /// The file's name is written down, for the stage that moves it.
    fn package(&self) -> String {
        let Site { packages, pkgdb, pkg_add, .. } = self.site;
        let create = self.make(&["stage-package-create"], false);
        let show = self.make(&["show-var", "VARNAME=STAGE_PKGFILE"], false);
        let note = quoted(&self.file());
        let line = format!("{{ {create}; }} && {{ {show}; }} >{note} && file=$(cat {note}) && test -s \"$file\"");
        if self.package.bootstrap {
            return line;
        }
        let (path, db) = (quoted(&format!("{packages}/All")), quoted(pkgdb));
        format!("{line} && PKG_PATH={path} {pkg_add} -K {db} \"$file\"")
    }

    /// A package is there whole or not at all.
    fn sync(&self) -> String {
        let all = format!("{}/All", self.site.packages);
        let name = &self.package.name;
        let (place, new) =
            (quoted(&format!("{all}/{name}{}", self.site.suffix)), quoted(&format!("{all}/.{name}.new")));
        format!("mkdir -p {} && cp \"$(cat {})\" {new} && mv {new} {place}", quoted(&all), quoted(&self.file()))
    }

    /// Whatever can be kept.
    fn keep(&self) -> String {
        let (logs, Site { prefix, keep_wrkdir, keep_prefix, .. }) = (self.logs(), self.site);
        let wrkdir = format!("INTO={logs}/wrkdir.tar.gz");
        let save = self.make(&["pbulk-save-wrkdir", &wrkdir], false);
        let pack = format!("tar -czf {} -C / .{}", quoted(&format!("{logs}/prefix.tar.gz")), quoted(prefix));
        [(keep_wrkdir, save), (keep_prefix, pack)]
            .into_iter()
            .filter_map(|(wanted, line)| wanted.then(|| format!("{{ {line}; }};")))
            .collect()
    }

    fn logs(&self) -> String {
        format!("{}/{}", self.site.logs, self.package.name)
    }

    fn file(&self) -> String {
        format!("{}/pkgfile", self.logs())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::records;

    /// A place where nothing is.
    pub(in crate::build) fn nowhere() -> Site {
        Site {
            pkgsrc: "/src".into(),
            make: "bmake".into(),
            prefix: "/pkg".into(),
            pkgdb: "/pkg/db".into(),
            packages: "/packages".into(),
            logs: "/logs".into(),
            bootstrapkit: "/kit.tgz".into(),
            pkg_add: "pkg_add".into(),
            pkg_delete: "pkg_delete".into(),
            make_jobs: 1,
            makes: None,
            suffix: ".tgz".into(),
            user: None,
            ..Site::default()
        }
    }

    const PACKAGES: &str = "PKGNAME=lib-1\nPKG_LOCATION=a/lib\nBOOTSTRAP_PKG=yes\n\
        PKGNAME=py311-x-1\nPKG_LOCATION=a/py-x\nMULTI_VERSION= PYTHON_VERSION_REQD=311 A=b\nUSERGROUP_PHASE=configure\n";

    fn lines(site: &Site, package: Package) -> Vec<(&'static str, String)> {
        let records = records::read(PACKAGES.as_bytes()).unwrap();
        let plan = Plan::new(&records, &[vec![], vec![0]]).unwrap();
        let next = |stage: &Option<Stage>| Stage::after(*stage, plan.package(package), site).map(Some);
        let stages = std::iter::successors(Some(None), next).flatten();
        stages.map(|stage| (stage.name(), stage.line(site, &plan, package))).collect()
    }

    #[test]
    fn a_package_has_the_stages_that_it_needs() {
        let names =
            |package| lines(&nowhere(), package).into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ");
        let all = "checksum configure build install package";
        assert_eq!(names(0), format!("client-clean pre-clean {all} sync-package clean"));
        assert_eq!(names(1), format!("client-clean pre-clean depends {all} deinstall sync-package clean"));
    }

    #[test]
    fn make_gets_what_pbulk_gives_it() {
        let lines = lines(&nowhere(), 1);
        let line = |stage| &lines.iter().find(|(name, _)| *name == stage).unwrap().1;
        let arguments = "BATCH=1 DEPENDS_TARGET=/nonexistent MAKE_JOBS=1 PYTHON_VERSION_REQD=311 A=b WRKLOG=/logs/py311-x-1/work.log";
        assert_eq!(line("build"), &format!("cd /src/a/py-x && bmake all {arguments}"));
        let users = format!("cd /src/a/py-x && bmake create-usergroup clean {arguments}");
        assert_eq!(line("configure"), &format!("{users} && cd /src/a/py-x && bmake configure {arguments}"));
        assert_eq!(line("depends"), "PKG_PATH=/packages/All pkg_add -K /pkg/db lib-1");
        assert_eq!(line("deinstall"), "pkg_delete -K /pkg/db py311-x-1");
    }

    #[test]
    fn the_first_stage_makes_what_the_others_need() {
        use std::os::unix::fs::PermissionsExt;
        let place = tanto_testing::Scratch::new("bulk-first");
        place.write("kit/bin/tool", "");
        place.write("prefix/old", "");
        let at = |name| format!("{}/{name}", place.text());
        let site = Site {
            prefix: at("prefix"),
            pkgdb: at("prefix/db"),
            logs: at("logs"),
            bootstrapkit: at("kit"),
            ..nowhere()
        };
        let line = &lines(&site, 0)[0].1;
        assert!(std::process::Command::new("/bin/sh").args(["-c", line]).status().unwrap().success(), "{line}");
        assert!(place.at("prefix/bin/tool").exists() && !place.at("prefix/old").exists());
        let log = std::fs::metadata(place.at("logs/lib-1/work.log")).unwrap();
        assert_eq!(log.permissions().mode() & 0o777, 0o666, "another user writes there too");
    }

    #[test]
    fn builds_that_share_have_other_makes() {
        let makes = Makes { gmake: "/jobs/gmake".into(), bmake: "/jobs/bmake".into() };
        let site = Site { make_jobs: 8, makes: Some(makes), ..nowhere() };
        let (_, line) = lines(&site, 0).into_iter().find(|(name, _)| *name == "build").unwrap();
        let arguments = "BATCH=1 DEPENDS_TARGET=/nonexistent MAKE_JOBS=8 GMAKE=/jobs/gmake WRKLOG=/logs/lib-1/work.log";
        assert_eq!(line, format!("cd /src/a/lib && MAKE_PROGRAM=/jobs/bmake bmake all {arguments}"));
    }

    #[test]
    fn another_user_builds_if_there_is_one() {
        let site = Site { user: Some("pbulk".into()), ..nowhere() };
        let lines = lines(&site, 0);
        let by_user = |stage| lines.iter().find(|(name, _)| *name == stage).unwrap().1.contains("su pbulk -c 'bmake ");
        let stages = ["checksum", "configure", "build", "install", "package"];
        assert_eq!(stages.map(by_user), [false, true, true, false, false]);
    }
}
