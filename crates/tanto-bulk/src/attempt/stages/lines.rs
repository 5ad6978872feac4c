//! Shell lines of stages, without the sandbox.

use std::fmt::Write;

use tanto_protocol::AttemptSpec;

use crate::attempt::build_settings::BuildSettings;
use crate::attempt::directory::{AttemptDir, PREFIX_ARCHIVE, WRKDIR_ARCHIVE};
use crate::shell::quoted;

pub(super) struct Writer<'a> {
    pub settings: &'a BuildSettings,
    pub spec: &'a AttemptSpec,
}

impl Writer<'_> {
    /// Runs make in the package's directory; `unprivileged`: as the unprivileged user, if there is one.
    pub fn make(&self, targets: &[&str], unprivileged: bool) -> String {
        self.make_with(&self.settings.distdir, targets, unprivileged)
    }

    /// The same with another `DISTDIR`.
    pub fn make_with(&self, distdir: &str, targets: &[&str], unprivileged: bool) -> String {
        let BuildSettings { pkgsrc, make, make_wrappers, .. } = self.settings;
        let mut line = String::new();
        for (name, value) in &self.settings.environment {
            let _ = write!(line, "{name}={} ", quoted(value));
        }
        // A default: packages that need GNU make set it themselves.
        if let Some(make_wrappers) = make_wrappers {
            let _ = write!(line, "MAKE_PROGRAM={} ", quoted(&make_wrappers.bmake));
        }
        for word in [make.as_str()].iter().chain(targets) {
            line += &quoted(*word);
            line.push(' ');
        }
        self.add_arguments(distdir, &mut line);
        let line = match &self.settings.user {
            Some(user) if unprivileged => format!("su {} -c {}", quoted(user), quoted(&line)),
            _ => line,
        };
        format!("cd {} && {line}", quoted(format!("{pkgsrc}/{}", self.spec.location)))
    }

    /// The arguments of make in all stages, besides the targets.
    pub fn arguments(&self) -> String {
        let mut line = String::new();
        self.add_arguments(&self.settings.distdir, &mut line);
        line
    }

    fn add_arguments(&self, distdir: &str, line: &mut String) {
        let jobs = format!("MAKE_JOBS={}", self.settings.make_jobs);
        let always = ["BATCH=1", "DEPENDS_TARGET=/nonexistent", &jobs];
        for word in always.into_iter().chain(self.settings.platform_vars.iter().map(String::as_str)) {
            *line += &quoted(word);
            line.push(' ');
        }
        if self.settings.sandbox.is_some() {
            let _ = write!(line, "WRKOBJDIR={} ", quoted(&self.settings.wrkobjdir));
        }
        let _ = write!(line, "DISTDIR={} ", quoted(distdir));
        for argument in &self.spec.arguments {
            *line += &quoted(argument);
            line.push(' ');
        }
        if let Some(make_wrappers) = &self.settings.make_wrappers {
            let _ = write!(line, "GMAKE={} ", quoted(&make_wrappers.gmake));
        }
        let _ = write!(line, "WRKLOG={}", quoted(format!("{}/work.log", self.dir())));
    }

    /// Runs a target; in the phase that USERGROUP_PHASE names, creates the package's users and groups before.
    pub fn with_users(&self, phase: &str, target: &str) -> String {
        let wanted = &self.spec.usergroup_phase;
        let users: &[&str] = match phase {
            "configure" if wanted.ends_with("configure") => &["create-usergroup", "clean"],
            "build" if wanted.ends_with("build") => &["create-usergroup"],
            "install" if wanted == "pre-install" => &["create-usergroup"],
            _ => &[],
        };
        let unprivileged = phase != "install" || self.spec.user_destdir;
        let line = self.make(&[target], unprivileged);
        if users.is_empty() { line } else { format!("{} && {line}", self.make(users, false)) }
    }

    pub fn client_clean(&self) -> String {
        let BuildSettings { prefix, pkgdb, bootstrapkit, .. } = self.settings;
        let (prefix, pkgdb, kit) = (quoted(prefix), quoted(pkgdb), quoted(bootstrapkit));
        let dir = quoted(self.dir());
        // The directories themselves stay: locks are held on them, and they may be mount points. The unprivileged user
        // writes to the work log too.
        format!(
            "{{ find -H {prefix} {pkgdb} -mindepth 1 -delete 2>/dev/null || :; }}; mkdir -p {prefix} {pkgdb} {dir} && : >{dir}/work.log && \
             chmod 666 {dir}/work.log && \
             if [ -d {kit} ]; then cp -R {kit}/. {prefix}; else tar -xzf {kit} -C /; fi"
        )
    }

    pub fn depends(&self) -> String {
        let BuildSettings { packages, pkgdb, pkg_add, .. } = self.settings;
        let mut line = format!("PKG_PATH={} {pkg_add} -K {}", quoted(format!("{packages}/All")), quoted(pkgdb));
        for name in &self.spec.depends {
            line.push(' ');
            line += &quoted(name);
        }
        line
    }

    /// Makes the package file in a known place, so that make need not be asked for it, and installs it as a test.
    pub fn package(&self) -> String {
        let BuildSettings { packages, pkgdb, pkg_add, .. } = self.settings;
        let file = self.file();
        let create = self.make(&["stage-package-create", &format!("STAGE_PKGFILE={file}")], false);
        let file = quoted(&file);
        let line = format!("{{ {create}; }} && test -s {file}");
        if self.spec.bootstrap {
            return line;
        }
        let (path, db) = (quoted(format!("{packages}/All")), quoted(pkgdb));
        format!("{line} && PKG_PATH={path} {pkg_add} -K {db} {file}")
    }

    /// Archives as much as possible.
    pub fn keep(&self) -> String {
        let (dir, BuildSettings { prefix, keep_wrkdir, keep_prefix, .. }) = (self.dir(), self.settings);
        let wrkdir = format!("INTO={dir}/{WRKDIR_ARCHIVE}");
        let save = self.make(&["pbulk-save-wrkdir", &wrkdir], false);
        let pack = format!("tar -czf {} -C / .{}", quoted(format!("{dir}/{PREFIX_ARCHIVE}")), quoted(prefix));
        [(keep_wrkdir, save), (keep_prefix, pack)]
            .into_iter()
            .filter_map(|(wanted, line)| wanted.then(|| format!("{{ {line}; }};")))
            .collect()
    }

    /// The attempt's directory. In a sandbox, its client's output directory is visible there.
    pub fn dir(&self) -> String {
        AttemptDir::of(self.settings, self.spec).path().to_string_lossy().into_owned()
    }

    /// The package file. A sandbox shares its directory with the host.
    pub fn file(&self) -> String {
        format!("{}/{}", self.dir(), self.settings.package_file(&self.spec.name))
    }

    /// Cleans the work directory. Make may be asked for more.
    pub fn clean(&self, more: &[&str], keeps_package: bool) -> String {
        let clean = self.make(&[&["clean"], more].concat(), false);
        if keeps_package { clean } else { format!("rm -f {}; {clean}", quoted(self.file())) }
    }
}
