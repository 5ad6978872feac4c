//! The lines for the shell that stages are made of. Does not know in which order they run, nor in what sandbox.

use std::fmt::Write;

use crate::attempt::build_settings::Site;
use crate::coordinator::plan::{Plan, Planned};
use crate::shell::quoted;

/// Writes lines for one package.
pub(super) struct Writer<'a> {
    pub site: &'a Site,
    pub package: &'a Planned,
}

impl Writer<'_> {
    /// Runs make in the package's directory, as the unprivileged user if that is asked for and can be.
    pub fn make(&self, targets: &[&str], unprivileged: bool) -> String {
        self.make_with(&self.site.distdir, targets, unprivileged)
    }

    /// The same, where it finds distfiles in this directory.
    pub fn make_with(&self, distdir: &str, targets: &[&str], unprivileged: bool) -> String {
        let Site { pkgsrc, make, makes, .. } = self.site;
        let mut line = String::new();
        for (name, value) in &self.site.environment {
            let _ = write!(line, "{name}={} ", quoted(value));
        }
        // A package that wants GNU make says so on its own; for all others this is a default.
        if let Some(makes) = makes {
            let _ = write!(line, "MAKE_PROGRAM={} ", quoted(&makes.bmake));
        }
        for word in [make.as_str()].iter().chain(targets) {
            line += &quoted(word);
            line.push(' ');
        }
        line += &self.arguments(distdir);
        let line = match &self.site.user {
            Some(user) if unprivileged => format!("su {} -c {}", quoted(user), quoted(&line)),
            _ => line,
        };
        format!("cd {} && {line}", quoted(&format!("{pkgsrc}/{}", self.package.location)))
    }

    /// The arguments that make gets from all stages, besides the targets.
    pub fn arguments(&self, distdir: &str) -> String {
        let mut line = String::new();
        let jobs = format!("MAKE_JOBS={}", self.site.make_jobs);
        let always = ["BATCH=1", "DEPENDS_TARGET=/nonexistent", &jobs];
        for word in always.into_iter().chain(self.site.facts.iter().map(String::as_str)) {
            line += &quoted(word);
            line.push(' ');
        }
        if self.site.sandbox.is_some() {
            let _ = write!(line, "WRKOBJDIR={} ", quoted(&self.site.wrkobjdir));
        }
        let _ = write!(line, "DISTDIR={} ", quoted(distdir));
        for argument in &self.package.arguments {
            line += &quoted(argument);
            line.push(' ');
        }
        if let Some(makes) = &self.site.makes {
            let _ = write!(line, "GMAKE={} ", quoted(&makes.gmake));
        }
        let _ = write!(line, "WRKLOG={}", quoted(&format!("{}/work.log", self.logs())));
        line
    }

    /// Before the phase in which the package wants its users and groups, they are made.
    pub fn with_users(&self, phase: &str, target: &str) -> String {
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

    pub fn client_clean(&self) -> String {
        let Site { prefix, pkgdb, bootstrapkit, .. } = self.site;
        let (prefix, pkgdb, kit) = (quoted(prefix), quoted(pkgdb), quoted(bootstrapkit));
        let logs = quoted(&self.logs());
        // The directories themselves stay: locks are held on them, and they may be mount points. The unprivileged user
        // writes to the work log too.
        format!(
            "{{ find -H {prefix} {pkgdb} -mindepth 1 -delete 2>/dev/null || :; }}; mkdir -p {prefix} {pkgdb} {logs} && : >{logs}/work.log && \
             chmod 666 {logs}/work.log && \
             if [ -d {kit} ]; then cp -R {kit}/. {prefix}; else tar -xzf {kit} -C /; fi"
        )
    }

    pub fn depends(&self, plan: &Plan) -> String {
        let Site { packages, pkgdb, pkg_add, .. } = self.site;
        let mut line = format!("PKG_PATH={} {pkg_add} -K {}", quoted(&format!("{packages}/All")), quoted(pkgdb));
        for &needed in &self.package.depends {
            line.push(' ');
            line += &quoted(&plan.package(needed).name);
        }
        line
    }

    /// The package file gets a place that we know, so that make need not be asked where it is.
    pub fn package(&self) -> String {
        let Site { packages, pkgdb, pkg_add, .. } = self.site;
        let file = self.file();
        let create = self.make(&["stage-package-create", &format!("STAGE_PKGFILE={file}")], false);
        let file = quoted(&file);
        let line = format!("{{ {create}; }} && test -s {file}");
        if self.package.bootstrap {
            return line;
        }
        let (path, db) = (quoted(&format!("{packages}/All")), quoted(pkgdb));
        format!("{line} && PKG_PATH={path} {pkg_add} -K {db} {file}")
    }

    /// Whatever can be kept.
    pub fn keep(&self) -> String {
        let (logs, Site { prefix, keep_wrkdir, keep_prefix, .. }) = (self.logs(), self.site);
        let wrkdir = format!("INTO={logs}/wrkdir.tar.gz");
        let save = self.make(&["pbulk-save-wrkdir", &wrkdir], false);
        let pack = format!("tar -czf {} -C / .{}", quoted(&format!("{logs}/prefix.tar.gz")), quoted(prefix));
        [(keep_wrkdir, save), (keep_prefix, pack)]
            .into_iter()
            .filter_map(|(wanted, line)| wanted.then(|| format!("{{ {line}; }};")))
            .collect()
    }

    pub fn logs(&self) -> String {
        format!("{}/{}", self.site.logs, self.package.name)
    }

    /// There it can be had from outside, if there is a sandbox.
    pub fn file(&self) -> String {
        format!("{}/{}{}", self.logs(), self.package.name, self.site.suffix)
    }

    /// Nothing is left of the package but logs, and what it installed. Make may be asked for more.
    pub fn clean(&self, more: &[&str]) -> String {
        format!("rm -f {}; {}", quoted(&self.file()), self.make(&[&["clean"], more].concat(), false))
    }
}
