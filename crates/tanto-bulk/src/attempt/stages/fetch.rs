//! The command of the stage `checksum`, which runs outside the sandbox and enters it where it runs make.

use super::lines::Writer;
use crate::attempt::distfiles::Fetch;
use crate::attempt::distfiles::urls;
use crate::attempt::sandbox::StageAccess;
use crate::shell::quoted;

/// The directory for fetched files, in that of the attempt.
const OWN: &str = "distfiles";

impl Writer<'_> {
    /// Wraps a line so that it runs in the sandbox, if there is one.
    fn inside(&self, client: usize, line: &str, access: StageAccess) -> String {
        match &self.settings.sandbox {
            Some(sandbox) => format!("exec {}", sandbox.inside(client, line, access)),
            None => line.to_owned(),
        }
    }

    pub fn fetch(&self, client: usize) -> String {
        let settings = self.settings;
        let own = format!("{}/{OWN}", self.dir());
        let enter = |line: &str, network| self.inside(client, line, StageAccess { network, ..StageAccess::default() });
        let fetch = Fetch {
            own: settings.sandbox.as_ref().map_or((&own).into(), |it| it.out(client).join(OWN)),
            distdir: (&settings.distdir).into(),
            lock: (&settings.fetching.lock).into(),
            // Without a sandbox, this check could write there.
            have: settings
                .sandbox
                .as_ref()
                .map_or_else(String::new, |_| enter(&self.check(&settings.distdir, &[]), false)),
            names: enter(&self.make(&["show-var", "VARNAME=_ALLFILES"], false), false),
            get: enter(&self.get(&own), true),
            hook: settings.fetching.post_fetch_hook.clone(),
        };
        format!("{} bulk fetch{}", quoted(&settings.program), fetch.words())
    }

    /// Returns the line that checks all files, and fetches missing ones into `distdir`. `more` are arguments for make.
    fn check(&self, distdir: &str, more: &[&str]) -> String {
        let fetching = &self.settings.fetching;
        let elsewhere = format!("MASTER_SITE_OVERRIDE={}", fetching.master_site_override);
        let mut words = [&["checksum"], more].concat();
        words.extend(Some(&*elsewhere).filter(|_| !fetching.master_site_override.is_empty()));
        words.extend(fetching.ignore_interactive_fetch.then_some("IGNORE_INTERACTIVE_FETCH=yes"));
        self.make_with(distdir, &words, self.settings.unprivileged_checksum)
    }

    fn get(&self, own: &str) -> String {
        let hook = urls::argument(own);
        let more = if self.settings.fetching.post_fetch_hook.is_empty() { &[][..] } else { &[&*hook] };
        let check = self.check(own, more);
        match self.settings.user.as_ref().filter(|_| self.settings.unprivileged_checksum) {
            Some(user) => format!("chown -hR {} {} && {check}", quoted(user), quoted(own)),
            None => check,
        }
    }
}
