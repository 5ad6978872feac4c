//! A shell in a package's sandbox, after the package failed: how its sandbox is made again, and the `make` that the shell
//! finds there.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

use super::Stage;
use super::lines::Writer;
use crate::attempt::build_settings::Site;
use crate::attempt::sandbox::{Leave, Sandbox};
use crate::coordinator::plan::Plan;
use crate::resolve::Package;
use crate::shell::quoted;

/// The only client.
const CLIENT: usize = 0;
/// The directory with our `make`, in that of the package's logs.
const PROGRAMS: &str = "bin";
/// Targets that stages run as root although there is an unprivileged user.
const AS_ROOT: &str = "package | stage-package-create | create-usergroup | clean | pbulk-save-wrkdir";
const INSTALLS: &str = " | install | stage-install";

/// A visit to a package in its sandbox.
pub struct Visit<'a> {
    site: &'a Site,
    sandbox: &'a Sandbox,
    plan: &'a Plan,
    package: Package,
}

impl<'a> Visit<'a> {
    /// Of a package of this plan; `None` without sandboxes.
    pub fn new(site: &'a Site, plan: &'a Plan, package: Package) -> Option<Visit<'a>> {
        Some(Visit { site, sandbox: site.sandbox.as_ref()?, plan, package })
    }

    fn writer(&self) -> Writer<'a> {
        Writer { site: self.site, package: self.plan.package(self.package) }
    }

    /// The lines for `/bin/sh` that mount the sandbox and install in it what the package needs, with the stage of each.
    pub fn begin(&self) -> io::Result<Vec<(&'static str, String)>> {
        let package = self.plan.package(self.package);
        self.sandbox.begin(CLIENT, &package.name, None)?;
        let programs = self.sandbox.out(CLIENT).join(PROGRAMS);
        DirBuilder::new().mode(0o755).create(&programs)?;
        let mut options = OpenOptions::new();
        let mut make = options.write(true).create_new(true).mode(0o755).open(programs.join("make"))?;
        make.write_all(make_script(&self.writer()).as_bytes())?;
        let stages = [Stage::ClientClean, Stage::Depends].into_iter().filter(|stage| stage.is_for(package, self.site));
        Ok(stages.map(|stage| (stage.name(), stage.command(self.site, self.plan, self.package, CLIENT))).collect())
    }

    /// The line that unpacks an archive of the work directory, from standard input.
    pub fn unpack_wrkdir(&self) -> String {
        let ask = self.writer().make(&["show-var", "VARNAME=WRKDIR"], false);
        self.inside(&format!("dir=$({ask}) && mkdir -p \"$dir\" && tar -xzpf - -C \"$dir\""))
    }

    /// The line that unpacks an archive of the prefix, from standard input.
    pub fn unpack_prefix(&self) -> String {
        self.inside("tar -xzpf - -C /")
    }

    /// The line of the shell, or of a command in its place, in the package's directory.
    pub fn shell(&self, command: Option<&str>) -> String {
        let (logs, package) = (self.writer().logs(), self.plan.package(self.package));
        let programs = quoted(&format!("{logs}/{PROGRAMS}"));
        let shell = match command {
            Some(command) => format!("exec /bin/sh -c {}", quoted(command)),
            None => "[ -x \"$SHELL\" ] || SHELL=/bin/sh; exec \"$SHELL\" -i".to_owned(),
        };
        let dir = quoted(&format!("{}/{}", self.site.pkgsrc, package.location));
        let prompt = quoted(&format!("{} $ ", package.name));
        self.inside(&format!("cd {dir} || exit 126; PATH={programs}:$PATH PS1={prompt}; export PATH PS1; {shell}"))
    }

    /// The line after which nothing is left of the sandbox.
    pub fn end(&self) -> String {
        self.sandbox.leave(CLIENT)
    }

    fn inside(&self, line: &str) -> String {
        format!("exec {}", self.sandbox.inside(CLIENT, line, Leave::default()))
    }
}

/// A `make` that adds the arguments of the stages to its own, and is the unprivileged user where they are.
fn make_script(writer: &Writer<'_>) -> String {
    let Writer { site, package } = writer;
    let installs = if package.user_destdir { "" } else { INSTALLS };
    let dir = quoted(&format!("{}/{}", site.pkgsrc, package.location));
    let user = quoted(site.user.as_deref().unwrap_or_default());
    let (make, arguments) = (quoted(&site.make), quoted(&writer.arguments(&site.distdir)));
    format!(
        "#!/bin/sh\n# Runs make as the stages of {} do.\nuser={user}\nline={}\nfor word; do\n\
             \tcase $word in {AS_ROOT}{installs}) user= ;; esac\n\
             \tline=\"$line '$(printf '%s\\n' \"$word\" | sed \"s/'/'\\\\\\\\''/g\")'\"\ndone\n\
             line=\"$line \"{arguments}\ncd {dir} || exit\n\
             [ -z \"$user\" ] || exec su \"$user\" -c \"$line\"\neval \"exec $line\"\n",
        package.name,
        quoted(&make),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::build_settings::tests::nowhere;
    use crate::package::records;
    use std::process::Command;

    /// What the script prints where `make` and `su` print their arguments.
    fn prints(user: Option<&str>, words: &[&str]) -> String {
        let place = tanto_testing::Scratch::new("visit");
        place.write("src/a/lib/x", "");
        place.write("su", "#!/bin/sh\nshift 2; exec sh -c \"as_user=yes $1\"\n");
        place.write("make", "#!/bin/sh\nprintf '<%s>' $as_user \"$@\"; pwd\n");
        let program = |name: &str| Command::new("chmod").arg("755").arg(place.at(name)).status().unwrap();
        assert!(program("su").success() && program("make").success());
        let site = Site {
            pkgsrc: format!("{}/src", place.text()),
            make: format!("{}/make", place.text()),
            user: user.map(str::to_owned),
            facts: vec!["CC=a 'b' $c".into()],
            ..nowhere()
        };
        let text = b"PKGNAME=lib-1\nPKG_LOCATION=a/lib\nUSE_DESTDIR=destdir\n";
        let plan = Plan::new(&records::read(text).unwrap(), &[vec![]]).unwrap();
        let script = make_script(&Writer { site: &site, package: plan.package(0) });
        let path = format!("{}:{}", place.text(), std::env::var("PATH").unwrap());
        let said =
            Command::new("/bin/sh").args(["-c", &script, "make"]).args(words).env("PATH", path).output().unwrap();
        assert!(said.status.success(), "{script}\n{}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8(said.stdout).unwrap().replace(place.text(), "")
    }

    #[test]
    fn make_has_the_arguments_and_the_user_of_the_stages() {
        let always = "<BATCH=1><DEPENDS_TARGET=/nonexistent><MAKE_JOBS=1><CC=a 'b' $c><DISTDIR=/distfiles>\
            <WRKLOG=/logs/lib-1/work.log>/src/a/lib\n";
        let odd = ["build", "A=it's \"$x\" \\", "-n"];
        assert_eq!(prints(None, &odd), format!("<build><A=it's \"$x\" \\><-n>{always}"));
        assert_eq!(prints(Some("pbulk"), &odd), format!("<yes><build><A=it's \"$x\" \\><-n>{always}"));
        assert_eq!(prints(Some("pbulk"), &["stage-install"]), format!("<stage-install>{always}"));
        assert_eq!(prints(Some("pbulk"), &[]), format!("<yes>{always}"));
    }
}
