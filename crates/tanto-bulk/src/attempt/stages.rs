//! The stages of an attempt and their commands: those of pbulk's `pkg-build`.

mod fetch;
mod lines;
pub mod visit;

use std::path::Path;

use tanto_protocol::AttemptSpec;

use self::lines::Writer;
use super::build_settings::BuildSettings;
use super::directory::AttemptDir;
use super::layers::Dependencies;
use super::sandbox::StageAccess;
use crate::config::Stage;
use crate::shell::quoted;

impl Stage {
    /// Returns the stage of an attempt that follows this one while none fails; the first one after `None`.
    pub fn after(stage: Option<Stage>, spec: &AttemptSpec, settings: &BuildSettings) -> Option<Stage> {
        Stage::ALL.into_iter().find(|&next| stage.is_none_or(|stage| next > stage) && next.is_for(spec, settings))
    }

    fn is_for(self, spec: &AttemptSpec, settings: &BuildSettings) -> bool {
        match self {
            // A sandbox begins with no work directory.
            Stage::PreClean => settings.sandbox.is_none(),
            Stage::Depends => !spec.depends.is_empty(),
            Stage::Deinstall => !spec.bootstrap,
            Stage::Keep => false,
            // These are the coordinator's.
            Stage::SyncPackage | Stage::SyncBuildlog => false,
            _ => true,
        }
    }
}

/// Writes the commands of an attempt's stages, for `/bin/sh`.
pub struct StageCommands<'a> {
    pub settings: &'a BuildSettings,
    pub spec: &'a AttemptSpec,
    /// The number of the client that runs them.
    pub client: usize,
}

impl StageCommands<'_> {
    /// Returns the command of a stage. `keeps_package`: `Clean` leaves the binary package where it was made.
    pub fn of(&self, stage: Stage, keeps_package: bool) -> String {
        let line = || self.line(stage, keeps_package);
        let Some(sandbox) = &self.settings.sandbox else { return line() };
        match stage {
            Stage::Clean => return sandbox.leave(self.client),
            // Its command enters the sandbox itself where necessary.
            Stage::Checksum => return line(),
            Stage::Depends => return sandbox.provide(self.client, self.needs(), &line()),
            _ => {}
        }
        let (first, measure) = (stage == Stage::ClientClean, stage == Stage::Package);
        sandbox.inside(self.client, &line(), StageAccess { first, measure, ..StageAccess::default() })
    }

    fn line(&self, stage: Stage, keeps_package: bool) -> String {
        let StageCommands { settings, spec, client } = self;
        let writer = Writer { settings, spec };
        let dir = AttemptDir::of(settings, spec);
        match stage {
            // Entering the sandbox does the rest.
            Stage::ClientClean if settings.sandbox.is_some() => settings.prepare_action.clone(),
            Stage::ClientClean => writer.client_clean(),
            Stage::PreClean => dir.workdir_note().record_line(&writer.clean(&["show-var", "VARNAME=WRKDIR"], false)),
            Stage::Clean => dir.workdir_note().forget_line(&writer.clean(&[], keeps_package)),
            Stage::Depends => writer.depends(),
            Stage::Checksum => writer.fetch(*client),
            Stage::Configure => writer.with_users("configure", "configure"),
            Stage::Build => writer.with_users("build", "all"),
            Stage::Install => writer.with_users("install", "stage-install"),
            Stage::Package if settings.sandbox.is_some() => writer.package(),
            Stage::Package => measuring(&writer.package(), &dir.workdir_note().word(), &dir.size_file()),
            Stage::Deinstall => {
                format!("{} -K {} {}", settings.pkg_delete, quoted(&settings.pkgdb), quoted(&spec.name))
            }
            Stage::Keep => writer.keep(),
            Stage::SyncPackage | Stage::SyncBuildlog => unreachable!("a step of the coordinator"),
        }
    }

    /// The packages that it needs.
    fn needs(&self) -> Dependencies {
        let BuildSettings { packages, suffix, pkg_add, .. } = self.settings;
        Dependencies {
            direct: self.spec.depends.clone(),
            indirect: self.spec.indirect.clone(),
            packages: format!("{packages}/All").into(),
            suffix: suffix.clone(),
            pkg_add: pkg_add.clone(),
        }
    }
}

/// Returns a line that runs `line` and then writes the size of a directory into a file. Measuring cannot fail.
fn measuring(line: &str, dir: &str, file: &Path) -> String {
    format!("{line} && {{ du -skx {dir} >{} 2>/dev/null || :; }}", quoted(file.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::build_settings::Fetching;
    use crate::attempt::build_settings::tests::nowhere;
    use crate::attempt::make_wrappers::MakeWrappers;

    /// A bootstrap package, and one that depends on it.
    fn specs() -> [AttemptSpec; 2] {
        let (name, location) = ("lib-1".to_owned(), "a/lib".to_owned());
        let lib = AttemptSpec { attempt: 2, name, location, bootstrap: true, ..AttemptSpec::default() };
        let app = AttemptSpec {
            attempt: 2,
            name: "py311-x-1".into(),
            location: "a/py-x".into(),
            arguments: ["PYTHON_VERSION_REQD=311", "A=b"].map(str::to_owned).into(),
            usergroup_phase: "configure".into(),
            depends: vec!["lib-1".into()],
            ..AttemptSpec::default()
        };
        [lib, app]
    }

    fn lines(settings: &BuildSettings, package: usize) -> Vec<(&'static str, String)> {
        let spec = &specs()[package];
        let next = |stage: &Option<Stage>| Stage::after(*stage, spec, settings).map(Some);
        let stages = std::iter::successors(Some(None), next).flatten();
        let commands = StageCommands { settings, spec, client: 0 };
        stages.map(|stage| (stage.name(), commands.line(stage, true))).collect()
    }

    #[test]
    fn a_package_has_the_stages_that_it_needs() {
        let names =
            |package| lines(&nowhere(), package).into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ");
        let all = "checksum configure build install package";
        assert_eq!(names(0), format!("client-clean pre-clean {all} clean"));
        assert_eq!(names(1), format!("client-clean pre-clean depends {all} deinstall clean"));
    }

    #[test]
    fn make_gets_what_pbulk_gives_it() {
        let lines = lines(&nowhere(), 1);
        let line = |stage| &lines.iter().find(|(name, _)| *name == stage).unwrap().1;
        let arguments = "BATCH=1 DEPENDS_TARGET=/nonexistent MAKE_JOBS=1 DISTDIR=/distfiles \
            PYTHON_VERSION_REQD=311 A=b WRKLOG=/logs/py311-x-1/2/work.log";
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
        let settings = BuildSettings { user: Some("pbulk".into()), unprivileged_checksum: true, fetching, ..nowhere() };
        let (_, line) = lines(&settings, 0).into_iter().find(|(name, _)| *name == "checksum").unwrap();
        let words =
            std::process::Command::new("/bin/sh").args(["-c", &format!("printf '%s\\n' {line}")]).output().unwrap();
        let own = "/logs/lib-1/2/distfiles";
        let arguments = |own| {
            format!("BATCH=1 DEPENDS_TARGET=/nonexistent MAKE_JOBS=1 DISTDIR={own} WRKLOG=/logs/lib-1/2/work.log")
        };
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
        let settings = BuildSettings {
            prefix: at("prefix"),
            pkgdb: at("prefix/db"),
            logs: at("logs"),
            bootstrapkit: at("kit"),
            ..nowhere()
        };
        let line = &lines(&settings, 0)[0].1;
        assert!(std::process::Command::new("/bin/sh").args(["-c", line]).status().unwrap().success(), "{line}");
        assert!(place.at("prefix/bin/tool").exists() && !place.at("prefix/old").exists());
        let log = std::fs::metadata(place.at("logs/lib-1/2/work.log")).unwrap();
        assert_eq!(log.permissions().mode() & 0o777, 0o666, "another user writes there too");
    }

    #[test]
    fn builds_that_share_have_other_makes() {
        let makes = MakeWrappers { gmake: "/jobs/gmake".into(), bmake: "/jobs/bmake".into() };
        let settings = BuildSettings { make_jobs: 8, make_wrappers: Some(makes), ..nowhere() };
        let (_, line) = lines(&settings, 0).into_iter().find(|(name, _)| *name == "build").unwrap();
        let arguments = "BATCH=1 DEPENDS_TARGET=/nonexistent MAKE_JOBS=8 DISTDIR=/distfiles GMAKE=/jobs/gmake \
            WRKLOG=/logs/lib-1/2/work.log";
        assert_eq!(line, format!("cd /src/a/lib && MAKE_PROGRAM=/jobs/bmake bmake all {arguments}"));
    }

    #[test]
    fn makes_have_the_environment_of_the_configuration() {
        let environment = [("A".to_owned(), "b c".to_owned())].into();
        let settings = BuildSettings { environment, user: Some("pbulk".into()), ..nowhere() };
        let (_, line) = lines(&settings, 0).into_iter().find(|(name, _)| *name == "package").unwrap();
        assert!(line.contains(" && A='b c' bmake stage-package-create "), "{line}");
        let (_, line) = lines(&settings, 0).into_iter().find(|(name, _)| *name == "build").unwrap();
        assert!(line.contains(r"su pbulk -c 'A='\''b c'\'' bmake all "), "{line}");
    }

    #[test]
    fn make_is_told_what_it_would_ask_the_system() {
        let settings = BuildSettings { platform_vars: vec!["OPSYS=Linux".into()], ..nowhere() };
        let all = lines(&settings, 0);
        let makes: Vec<&String> = all.iter().map(|(_, line)| line).filter(|line| line.contains("bmake ")).collect();
        assert_eq!(makes.len(), 7);
        assert!(makes.iter().all(|line| line.contains(" MAKE_JOBS=1 OPSYS=Linux DISTDIR=")), "{makes:?}");
    }

    #[test]
    fn another_user_builds_if_there_is_one() {
        let settings = BuildSettings { user: Some("pbulk".into()), ..nowhere() };
        let lines = lines(&settings, 0);
        let by_user = |stage| lines.iter().find(|(name, _)| *name == stage).unwrap().1.contains("su pbulk -c 'bmake ");
        let stages = ["checksum", "configure", "build", "install", "package"];
        assert_eq!(stages.map(by_user), [false, true, true, false, false]);
    }
}
