//! The stages that a package goes through, and their commands; those of pbulk's `pkg-build`. Does not know when they
//! run, nor what becomes of their output.

pub(crate) mod files;
mod lines;
pub mod visit;

use std::path::Path;

use self::lines::Writer;
use super::build_settings::Site;
use super::layers::Needs;
use super::sandbox::Leave;
use crate::config::Stage;
use crate::coordinator::plan::{Plan, Planned};
use crate::resolve::Package;
use crate::shell::quoted;

impl Stage {
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
            Stage::Keep | Stage::SyncBuildlog => false,
            _ => true,
        }
    }

    /// The stage that comes when one has failed, and after this one then.
    pub fn after_failure(stage: Stage, site: &Site) -> Option<Stage> {
        match stage {
            Stage::Keep => Some(Stage::Clean),
            Stage::Clean => Some(Stage::SyncBuildlog).filter(|_| !site.sync_buildlog.is_empty()),
            Stage::SyncBuildlog => None,
            _ if site.keep_wrkdir || site.keep_prefix => Some(Stage::Keep),
            _ => Some(Stage::Clean),
        }
    }

    /// The line for `/bin/sh`, for a client.
    pub fn command(self, site: &Site, plan: &Plan, package: Package, client: usize) -> String {
        let line = || self.line(site, plan, package, client);
        let Some(sandbox) = &site.sandbox else { return line() };
        match self {
            Stage::Clean => return sandbox.leave(client),
            // What it does in the sandbox and what outside it knows itself.
            Stage::Checksum | Stage::SyncPackage | Stage::SyncBuildlog => return line(),
            Stage::Depends => return sandbox.provide(client, needs(site, plan, package), &line()),
            _ => {}
        }
        let (first, measures) = (self == Stage::ClientClean, self == Stage::Package);
        sandbox.inside(client, &line(), Leave { first, measures, ..Leave::default() })
    }

    fn line(self, site: &Site, plan: &Plan, package: Package, client: usize) -> String {
        let it = plan.package(package);
        let writer = Writer { site, package: it };
        match self {
            // All else is there.
            Stage::ClientClean if site.sandbox.is_some() => site.prepare_action.clone(),
            Stage::ClientClean => writer.client_clean(),
            Stage::PreClean => site.works.noting(&it.name, &writer.clean(&["show-var", "VARNAME=WRKDIR"])),
            Stage::Clean => site.works.forgetting(&it.name, &writer.clean(&[])),
            Stage::Depends => writer.depends(plan),
            Stage::Checksum => writer.fetch(client),
            Stage::Configure => writer.with_users("configure", "configure"),
            Stage::Build => writer.with_users("build", "all"),
            Stage::Install => writer.with_users("install", "stage-install"),
            Stage::Package if site.sandbox.is_some() => writer.package(),
            Stage::Package => measuring(&writer.package(), &site.works.word(&it.name), &files::size(site, &it.name)),
            Stage::Deinstall => format!("{} -K {} {}", site.pkg_delete, quoted(&site.pkgdb), quoted(&it.name)),
            Stage::SyncPackage => writer.sync(client),
            Stage::SyncBuildlog => writer.sync_log(),
            Stage::Keep => writer.keep(),
        }
    }
}

/// A line after which it stands in a file how much lies in a directory. That cannot fail.
fn measuring(line: &str, dir: &str, file: &Path) -> String {
    format!("{line} && {{ du -skx {dir} >{} 2>/dev/null || :; }}", quoted(&file.to_string_lossy()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::build_settings::Fetching;
    use crate::attempt::build_settings::tests::nowhere;
    use crate::attempt::make_wrappers::Makes;
    use crate::package::records;

    const PACKAGES: &str = "PKGNAME=lib-1\nPKG_LOCATION=a/lib\nBOOTSTRAP_PKG=yes\n\
        PKGNAME=py311-x-1\nPKG_LOCATION=a/py-x\nMULTI_VERSION= PYTHON_VERSION_REQD=311 A=b\nUSERGROUP_PHASE=configure\n";

    fn lines(site: &Site, package: Package) -> Vec<(&'static str, String)> {
        let records = records::read(PACKAGES.as_bytes()).unwrap();
        let plan = Plan::new(&records, &[vec![], vec![0]]).unwrap();
        let next = |stage: &Option<Stage>| Stage::after(*stage, plan.package(package), site).map(Some);
        let stages = std::iter::successors(Some(None), next).flatten();
        stages.map(|stage| (stage.name(), stage.line(site, &plan, package, 0))).collect()
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
        let arguments = "BATCH=1 DEPENDS_TARGET=/nonexistent MAKE_JOBS=1 DISTDIR=/distfiles \
            PYTHON_VERSION_REQD=311 A=b WRKLOG=/logs/py311-x-1/work.log";
        assert_eq!(line("build"), &format!("cd /src/a/py-x && bmake all {arguments}"));
        let users = format!("cd /src/a/py-x && bmake create-usergroup clean {arguments}");
        assert_eq!(line("configure"), &format!("{users} && cd /src/a/py-x && bmake configure {arguments}"));
        assert_eq!(line("depends"), "PKG_PATH=/packages/All pkg_add -K /pkg/db lib-1");
        assert_eq!(line("deinstall"), "pkg_delete -K /pkg/db py311-x-1");
    }

    #[test]
    fn files_are_fetched_as_is_wanted() {
        let fetching = Fetching {
            lock: "/state/fetching".into(),
            master_site_override: "http://a/ http://b/".into(),
            ignore_interactive_fetch: true,
            post_fetch_hook: "look \"$1\"".into(),
        };
        let site = Site { user: Some("pbulk".into()), unprivileged_checksum: true, fetching, ..nowhere() };
        let (_, line) = lines(&site, 0).into_iter().find(|(name, _)| *name == "checksum").unwrap();
        let words =
            std::process::Command::new("/bin/sh").args(["-c", &format!("printf '%s\\n' {line}")]).output().unwrap();
        let own = "/logs/lib-1/distfiles";
        let arguments =
            |own| format!("BATCH=1 DEPENDS_TARGET=/nonexistent MAKE_JOBS=1 DISTDIR={own} WRKLOG=/logs/lib-1/work.log");
        let sites = "'\\''MASTER_SITE_OVERRIDE=http://a/ http://b/'\\'' IGNORE_INTERACTIVE_FETCH=yes";
        assert_eq!(
            String::from_utf8(words.stdout).unwrap().lines().collect::<Vec<_>>(),
            [
                "tanto",
                "bulk",
                "fetch",
                &format!("--own={own}"),
                "--distdir=/distfiles",
                "--lock=/state/fetching",
                "--have=",
                &format!("--names=cd /src/a/lib && bmake show-var VARNAME=_ALLFILES {}", arguments("/distfiles")),
                &format!(
                    "--get=chown -hR pbulk {own} && cd /src/a/lib && su pbulk -c 'bmake checksum \
                     POST_FETCH_HOOK={own}/.tanto-fetched {sites} {}'",
                    arguments(own)
                ),
                "--hook=look \"$1\"",
            ]
        );
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
        let arguments = "BATCH=1 DEPENDS_TARGET=/nonexistent MAKE_JOBS=8 DISTDIR=/distfiles GMAKE=/jobs/gmake \
            WRKLOG=/logs/lib-1/work.log";
        assert_eq!(line, format!("cd /src/a/lib && MAKE_PROGRAM=/jobs/bmake bmake all {arguments}"));
    }

    #[test]
    fn makes_have_the_environment_of_the_configuration() {
        let environment = [("A".to_owned(), "b c".to_owned())].into();
        let site = Site { environment, user: Some("pbulk".into()), ..nowhere() };
        let (_, line) = lines(&site, 0).into_iter().find(|(name, _)| *name == "package").unwrap();
        assert!(line.contains(" && A='b c' bmake stage-package-create "), "{line}");
        let (_, line) = lines(&site, 0).into_iter().find(|(name, _)| *name == "build").unwrap();
        assert!(line.contains(r"su pbulk -c 'A='\''b c'\'' bmake all "), "{line}");
    }

    #[test]
    fn make_is_told_what_it_would_ask_the_system() {
        let site = Site { facts: vec!["OPSYS=Linux".into()], ..nowhere() };
        let all = lines(&site, 0);
        let makes: Vec<&String> = all.iter().map(|(_, line)| line).filter(|line| line.contains("bmake ")).collect();
        assert_eq!(makes.len(), 7);
        assert!(makes.iter().all(|line| line.contains(" MAKE_JOBS=1 OPSYS=Linux DISTDIR=")), "{makes:?}");
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
