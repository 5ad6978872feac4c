//! The commands of stages that are partly in the sandbox and partly outside: by which a package comes to its distfiles, and gets
//! its place. Does not know what becomes of files then.

use std::path::{Path, PathBuf};

use super::lines::Writer;
use crate::attempt::build_settings::Site;
use crate::attempt::distfiles::Fetch;
use crate::attempt::distfiles::bring::new_name;
use crate::attempt::distfiles::urls;
use crate::attempt::install_artifact::Delivery;
use crate::attempt::sandbox::Leave;
use crate::shell::quoted;

/// Files are fetched into this directory in that of the package's logs.
const OWN: &str = "distfiles";

impl Writer<'_> {
    /// A line as it is run in a client's sandbox, if there are sandboxes.
    fn shut_in(&self, client: usize, line: &str, leave: Leave) -> String {
        match &self.site.sandbox {
            Some(sandbox) => format!("exec {}", sandbox.inside(client, line, leave)),
            None => line.to_owned(),
        }
    }

    /// For a client. Fetching is not in the sandbox, but each line is that it calls.
    pub fn fetch(&self, client: usize) -> String {
        let site = self.site;
        let inside = format!("{}/{OWN}", self.logs());
        let shut_in = |line: &str, fetches| self.shut_in(client, line, Leave { fetches, ..Leave::default() });
        let fetch = Fetch {
            own: site.sandbox.as_ref().map_or((&inside).into(), |it| it.out(client).join(OWN)),
            distdir: (&site.distdir).into(),
            lock: (&site.fetching.lock).into(),
            // Nothing keeps it from writing there without a sandbox.
            have: site.sandbox.as_ref().map_or_else(String::new, |_| shut_in(&self.check(&site.distdir, &[]), false)),
            names: shut_in(&self.make(&["show-var", "VARNAME=_ALLFILES"], false), false),
            get: shut_in(&self.get(&inside), true),
            hook: site.fetching.post_fetch_hook.clone(),
        };
        format!("{} bulk fetch{}", quoted(&site.door), fetch.words())
    }

    /// Returns the line that checks all files, and fetches missing ones into `distdir`. `more` are arguments for make.
    fn check(&self, distdir: &str, more: &[&str]) -> String {
        let fetching = &self.site.fetching;
        let elsewhere = format!("MASTER_SITE_OVERRIDE={}", fetching.master_site_override);
        let mut words = [&["checksum"], more].concat();
        words.extend(Some(&*elsewhere).filter(|_| !fetching.master_site_override.is_empty()));
        words.extend(fetching.ignore_interactive_fetch.then_some("IGNORE_INTERACTIVE_FETCH=yes"));
        self.make_with(distdir, &words, self.site.unprivileged_checksum)
    }

    /// All of that is done outside.
    pub fn sync(&self, client: usize) -> String {
        let (site, name) = (self.site, &self.package.name);
        let (all, file) = (format!("{}/All", site.packages), format!("{name}{}", site.suffix));
        let delivery = Delivery {
            from: site.sandbox.as_ref().map_or_else(|| self.file().into(), |it| it.out(client).join(&file)),
            new: Path::new(&all).join(new_name(name)),
            place: format!("{all}/{file}").into(),
            digest: digest(site, name, client),
            hook: site.sync_package.clone(),
            name: name.clone(),
            categories: self.package.categories.clone(),
            suffix: site.suffix.clone(),
        };
        format!("{} bulk deliver{}", quoted(&site.door), delivery.words())
    }

    /// What failed is told, outside.
    pub fn sync_log(&self) -> String {
        let words = [&self.site.sync_buildlog, "sync_buildlog", &self.site.logs, &self.package.name].map(quoted);
        format!("/bin/sh -c {}", words.join(" "))
    }

    fn get(&self, own: &str) -> String {
        let hook = urls::argument(own);
        let told = if self.site.fetching.post_fetch_hook.is_empty() { &[][..] } else { &[&*hook] };
        let check = self.check(own, told);
        match self.site.user.as_ref().filter(|_| self.site.unprivileged_checksum) {
            Some(user) => format!("chown -hR {} {} && {check}", quoted(user), quoted(own)),
            None => check,
        }
    }
}

/// Where it stands what a package's file is told by that has just got its place. No package can write there, if it is in a
/// sandbox.
pub(crate) fn digest(site: &Site, package: &str, client: usize) -> PathBuf {
    let dir = site.sandbox.as_ref().map(|it| it.place(client).dir().to_owned());
    dir.unwrap_or_else(|| Path::new(&site.logs).join(package)).join("digest")
}

/// Where it stands, as `du` says it, how much a package has written when it is made, if there is no sandbox.
pub(crate) fn size(site: &Site, package: &str) -> PathBuf {
    Path::new(&site.logs).join(package).join("size")
}
