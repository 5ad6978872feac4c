//! The command by which a package comes to its distfiles. Does not know what that does with them.

use super::lines::Writer;
use crate::distfiles::Fetch;
use crate::sandbox::Leave;
use crate::shell::quoted;

/// Files are fetched into this directory in that of the package's logs.
const OWN: &str = "distfiles";

impl Writer<'_> {
    /// For a client. Fetching is not in the sandbox, but each line is that it calls.
    pub fn fetch(&self, client: usize) -> String {
        let site = self.site;
        let inside = format!("{}/{OWN}", self.logs());
        let shut_in = |line: &str, fetches| match &site.sandbox {
            Some(sandbox) => format!("exec {}", sandbox.inside(client, line, Leave { fetches, ..Leave::default() })),
            None => line.to_owned(),
        };
        let fetch = Fetch {
            own: site.sandbox.as_ref().map_or((&inside).into(), |it| it.out(client).join(OWN)),
            distdir: (&site.distdir).into(),
            lock: (&site.fetching.lock).into(),
            // Nothing keeps it from writing there without a sandbox.
            have: site.sandbox.as_ref().map_or_else(String::new, |_| shut_in(&self.check(&site.distdir), false)),
            names: shut_in(&self.make(&["show-var", "VARNAME=_ALLFILES"], false), false),
            get: shut_in(&self.get(&inside), true),
            hook: site.fetching.post_fetch_hook.clone(),
        };
        format!("{} bulk fetch{}", quoted(&site.door), fetch.words())
    }

    /// All files are checked, and what is not there is fetched into this directory.
    fn check(&self, distdir: &str) -> String {
        let fetching = &self.site.fetching;
        let elsewhere = format!("MASTER_SITE_OVERRIDE={}", fetching.master_site_override);
        let mut words = vec!["checksum"];
        words.extend(Some(&*elsewhere).filter(|_| !fetching.master_site_override.is_empty()));
        words.extend(fetching.ignore_interactive_fetch.then_some("IGNORE_INTERACTIVE_FETCH=yes"));
        self.make_with(distdir, &words, self.site.unprivileged_checksum)
    }

    fn get(&self, own: &str) -> String {
        match self.site.user.as_ref().filter(|_| self.site.unprivileged_checksum) {
            Some(user) => format!("chown -hR {} {} && {}", quoted(user), quoted(own), self.check(own)),
            None => self.check(own),
        }
    }
}
