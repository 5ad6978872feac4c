//! Asks once for make variables that makefiles would otherwise determine in each make by running commands.

use crate::attempt::sandbox::Sandbox;
use crate::config::Config;
use crate::shell::{output, quoted, shell};

/// Variables that pkgsrc (`mk/bsd.prefs.mk`) passes to nested makes. Packages cannot change them.
const VARIABLES: [&str; 5] = ["OPSYS", "OS_VERSION", "LOWER_OPSYS", "HOST_MACHINE_ARCH", "_PKGSRCDIR"];

/// Returns the variables as arguments of make; none if the tree lacks the target.
pub fn ask(config: &Config, sandbox: Option<&Sandbox>) -> Vec<String> {
    let line = print_line(config);
    let flags = sandbox.map_or_else(|| output(shell(&line)), |sandbox| sandbox.output_of(&line));
    parse(&flags.unwrap_or_default())
}

/// Returns the shell line that prints the variables.
pub fn print_line(config: &Config) -> String {
    format!("cd {} && {} show-subdir-var VARNAME=MAKEFLAGS", quoted(&config.pkgsrc), quoted(&config.make))
}

/// Parses the output. Omits values that make would read differently.
pub fn parse(flags: &str) -> Vec<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    let is_asked = |word: &&str| {
        word.split_once('=').is_some_and(|(name, value)| VARIABLES.contains(&name) && value.bytes().all(is_plain))
    };
    flags.split_ascii_whitespace().filter(is_asked).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn only_plain_platform_variables_are_parsed() {
        let flags =
            "_MAKE=/pkg/bmake OPSYS=Linux OS_VERSION=6.1-x _PKGSRCDIR=/src PKGTOOLS_VERSION=2017 LOWER_OPSYS=a\\ b";
        assert_eq!(parse(flags), ["OPSYS=Linux", "OS_VERSION=6.1-x", "_PKGSRCDIR=/src"]);
    }

    #[test]
    fn failing_make_yields_no_variables() {
        let place = Scratch::new("bulk-facts");
        let config = |line: &str| {
            place.program("make", format!("#!/bin/sh\n{line}\n"));
            let make = format!("{}/make", place.text());
            Config { pkgsrc: place.text().to_owned(), make, ..Config::default() }
        };
        assert_eq!(ask(&config("test $1 = show-subdir-var && echo OPSYS=Linux"), None), ["OPSYS=Linux"]);
        assert!(ask(&config("echo OPSYS=Linux; exit 1"), None).is_empty());
        assert!(ask(&config(":"), None).is_empty());
    }
}
