//! Recreates the sandbox of a failed package for a shell, with a `make` that works like that of the stages.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

use tanto_protocol::AttemptSpec;

use super::StageCommands;
use super::lines::Writer;
use crate::attempt::build_settings::BuildSettings;
use crate::attempt::directory::AttemptDir;
use crate::attempt::sandbox::{Sandbox, StageAccess};
use crate::config::Stage;
use crate::shell::quoted;

/// The only client.
const CLIENT: usize = 0;
/// The directory with our `make`, in that of the attempt.
const PROGRAMS: &str = "bin";
/// Targets that stages run as root although there is an unprivileged user.
const AS_ROOT: &str = "package | stage-package-create | create-usergroup | clean | pbulk-save-wrkdir";
const INSTALLS: &str = " | install | stage-install";

/// A package's sandbox for a shell.
pub struct Visit<'a> {
    settings: &'a BuildSettings,
    sandbox: &'a Sandbox,
    spec: AttemptSpec,
}

impl<'a> Visit<'a> {
    /// Returns `None` if packages are built without sandboxes.
    pub fn new(settings: &'a BuildSettings, spec: AttemptSpec) -> Option<Visit<'a>> {
        Some(Visit { settings, sandbox: settings.sandbox.as_ref()?, spec })
    }

    fn writer(&self) -> Writer<'_> {
        Writer { settings: self.settings, spec: &self.spec }
    }

    /// Returns the shell lines that mount the sandbox and install the dependencies in it, with the stage of each.
    pub fn begin(&self) -> io::Result<Vec<(&'static str, String)>> {
        self.sandbox.begin(CLIENT, AttemptDir::of(self.settings, &self.spec).path(), None, None)?;
        let programs = self.sandbox.out(CLIENT).join(PROGRAMS);
        DirBuilder::new().mode(0o755).create(&programs)?;
        let mut options = OpenOptions::new();
        let mut make = options.write(true).create_new(true).mode(0o755).open(programs.join("make"))?;
        make.write_all(make_script(&self.writer()).as_bytes())?;
        let stages =
            [Stage::ClientClean, Stage::Depends].into_iter().filter(|stage| stage.is_for(&self.spec, self.settings));
        let commands = StageCommands { settings: self.settings, spec: &self.spec, client: CLIENT };
        Ok(stages.map(|stage| (stage.name(), commands.of(stage, false))).collect())
    }

    /// Returns the line that unpacks an archive of the work directory, from standard input.
    pub fn unpack_wrkdir(&self) -> String {
        let ask = self.writer().make(&["show-var", "VARNAME=WRKDIR"], false);
        self.inside(&format!("dir=$({ask}) && mkdir -p \"$dir\" && tar -xzpf - -C \"$dir\""))
    }

    /// Returns the line that unpacks an archive of the prefix, from standard input.
    pub fn unpack_prefix(&self) -> String {
        self.inside("tar -xzpf - -C /")
    }

    /// Returns the line that runs a shell, or a command in its place, in the package's directory.
    pub fn shell(&self, command: Option<&str>) -> String {
        let (attempt_dir, package) = (self.writer().dir(), &self.spec);
        let programs = quoted(format!("{attempt_dir}/{PROGRAMS}"));
        let shell = match command {
            Some(command) => format!("exec /bin/sh -c {}", quoted(command)),
            None => "[ -x \"$SHELL\" ] || SHELL=/bin/sh; exec \"$SHELL\" -i".to_owned(),
        };
        let dir = quoted(format!("{}/{}", self.settings.pkgsrc, package.location));
        let prompt = quoted(format!("{} $ ", package.name));
        self.inside(&format!("cd {dir} || exit 126; PATH={programs}:$PATH PS1={prompt}; export PATH PS1; {shell}"))
    }

    /// Returns the line that removes the sandbox.
    pub fn end(&self) -> String {
        self.sandbox.leave(CLIENT)
    }

    fn inside(&self, line: &str) -> String {
        format!("exec {}", self.sandbox.inside(CLIENT, line, StageAccess::default()))
    }
}

/// Returns a `make` script that adds the arguments of the stages and runs as the user of the stages.
fn make_script(writer: &Writer<'_>) -> String {
    let Writer { settings, spec: package } = writer;
    let installs = if package.user_destdir { "" } else { INSTALLS };
    let dir = quoted(format!("{}/{}", settings.pkgsrc, package.location));
    let user = quoted(settings.user.as_deref().unwrap_or_default());
    let (make, arguments) = (quoted(&settings.make), quoted(writer.arguments()));
    format!(
        "#!/bin/sh\n# Runs make as the stages of {} do.\nuser={user}\nline={}\nfor word; do\n\
             \tcase $word in {AS_ROOT}{installs}) user= ;; esac\n\
             \tline=\"$line '$(printf '%s\\n' \"$word\" | sed \"s/'/'\\\\\\\\''/g\")'\"\ndone\n\
             line=\"$line \"{arguments}\ncd {dir} || exit\n\
             [ -z \"$user\" ] || exec su \"$user\" -c \"$line\"\neval \"exec $line\"\n",
        package.name,
        quoted(&*make),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::build_settings::tests::nowhere;
    use std::process::Command;

    /// Output of the script where `make` and `su` print their arguments.
    fn prints(user: Option<&str>, words: &[&str]) -> String {
        let place = tanto_testing::Scratch::new("visit");
        place.write("src/a/lib/x", "");
        place.write("su", "#!/bin/sh\nshift 2; exec sh -c \"as_user=yes $1\"\n");
        place.write("make", "#!/bin/sh\nprintf '<%s>' $as_user \"$@\"; pwd\n");
        let program = |name: &str| Command::new("chmod").arg("755").arg(place.at(name)).status().unwrap();
        assert!(program("su").success() && program("make").success());
        let settings = BuildSettings {
            pkgsrc: format!("{}/src", place.text()),
            make: format!("{}/make", place.text()),
            user: user.map(str::to_owned),
            platform_vars: vec!["CC=a 'b' $c".into()],
            ..nowhere()
        };
        let spec = AttemptSpec { attempt: 3, name: "lib-1".into(), location: "a/lib".into(), ..AttemptSpec::default() };
        let script = make_script(&Writer { settings: &settings, spec: &spec });
        let path = format!("{}:{}", place.text(), std::env::var("PATH").unwrap());
        let said =
            Command::new("/bin/sh").args(["-c", &script, "make"]).args(words).env("PATH", path).output().unwrap();
        assert!(said.status.success(), "{script}\n{}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8(said.stdout).unwrap().replace(place.text(), "")
    }

    #[test]
    fn make_has_the_arguments_and_the_user_of_the_stages() {
        let always = "<BATCH=1><DEPENDS_TARGET=/nonexistent><MAKE_JOBS=1><CC=a 'b' $c><DISTDIR=/distfiles>\
            <WRKLOG=/logs/lib-1/3/work.log>/src/a/lib\n";
        let odd = ["build", "A=it's \"$x\" \\", "-n"];
        assert_eq!(prints(None, &odd), format!("<build><A=it's \"$x\" \\><-n>{always}"));
        assert_eq!(prints(Some("pbulk"), &odd), format!("<yes><build><A=it's \"$x\" \\><-n>{always}"));
        assert_eq!(prints(Some("pbulk"), &["stage-install"]), format!("<stage-install>{always}"));
        assert_eq!(prints(Some("pbulk"), &[]), format!("<yes>{always}"));
    }
}
