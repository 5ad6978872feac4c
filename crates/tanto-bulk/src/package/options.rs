//! User settings that a package is built with: options, compiler flags and the variables of BUILD_DEFS. They show which
//! packages a change of `mk.conf` affects.

use crate::shell::quoted;

/// The variable in a scan record.
pub const VARIABLE: &str = "TANTO_OPTIONS";
/// The separator of settings; it is not in names of variables.
const SEPARATOR: char = '\t';
/// Settings besides BUILD_DEFS.
const ALWAYS: [&str; 9] = [
    "PKG_OPTIONS",
    "PKGSRC_COMPILER",
    "CFLAGS",
    "CPPFLAGS",
    "CXXFLAGS",
    "FFLAGS",
    "LDFLAGS",
    "CONFIGURE_ARGS",
    "CMAKE_ARGS",
];
/// The limit of a shown value, in characters.
const LONGEST: usize = 60;

/// Returns a shell command that prints the records of a package's directory with their settings. `make` and `arguments`
/// are quoted words.
pub(crate) fn asking(make: &str, arguments: &str) -> String {
    let always = ALWAYS.map(|name| format!("{SEPARATOR}{name}=${{{name}}}")).concat();
    let all = format!("{always}${{BUILD_DEFS:O:u:@name@{SEPARATOR}${{name}}=${{${{name}}}}@}}");
    format!(
        "set -f; out=$({make} pbulk-index{arguments}) || {{ code=$?; printf '%s\\n' \"$out\"; exit $code; }}; \
         tell() {{ said=$({make} -V {all}{arguments} $multi) || exit; \
         printf '{VARIABLE}=%s\\n' \"$(printf '%s' \"$said\" | tr '\\n' ' ')\"; }}; \
         printf '%s\\n' \"$out\" | {{ begun= multi=; while IFS= read -r line; do case $line in \
         PKGNAME=*) [ -z \"$begun\" ] || tell; begun=yes multi= ;; MULTI_VERSION=*) multi=${{line#*=}} ;; esac; \
         printf '%s\\n' \"$line\"; done; [ -z \"$begun\" ] || tell; }}",
        all = quoted(&all),
    )
}

/// Whether the records contain settings.
pub(crate) fn are_told(records: &[u8]) -> bool {
    memchr::memmem::find(records, format!("\n{VARIABLE}=").as_bytes()).is_some()
}

/// Describes the first difference.
pub fn difference(before: &str, now: &str) -> Option<String> {
    if before == now {
        return None;
    }
    let (before, now) = (settings(before), settings(now));
    let value = |all: &[(&str, &str)], name: &str| {
        let value = all.iter().find(|(it, _)| *it == name).map_or("", |(_, value)| value);
        let short: String = value.chars().take(LONGEST).collect();
        if short.len() < value.len() { short + "..." } else { short }
    };
    let differs = |(name, was): &&(&str, &str)| !now.contains(&(name, was));
    let lost = before.iter().find(differs).map(|(name, _)| *name);
    let name = lost.or_else(|| now.iter().find(|it| !before.contains(it)).map(|(name, _)| *name))?;
    Some(format!("it was built with {name} \"{}\", which is \"{}\" now", value(&before, name), value(&now, name)))
}

fn settings(text: &str) -> Vec<(&str, &str)> {
    let each = text.split(SEPARATOR).filter_map(|it| it.split_once('='));
    each.map(|(name, value)| (name, value.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::shell;
    use tanto_testing::Scratch;

    #[test]
    fn each_record_gets_its_settings() {
        let place = Scratch::new("options");
        let index = "PKGNAME=a-1\\nSCAN_DEPENDS=x\\nMULTI_VERSION= V=1\\nPKGNAME=b-1\\n";
        let program = |code| {
            let asked = "case $1 in -V) printf '%s' \"$2\" | cut -c1-13; echo \"$3 $4\" ;; *) test $1 = pbulk-index;";
            place.program("make", format!("#!/bin/sh\n{asked} printf '{index}'; exit {code} ;; esac\n"));
            let line = asking(&format!("{}/make", place.text()), " A=b");
            let output = shell(&line).output().unwrap();
            (output.status.code(), String::from_utf8(output.stdout).unwrap())
        };
        let setting = |more: &str| format!("{VARIABLE}=\tPKG_OPTIONS= {more}\n");
        let records = format!(
            "PKGNAME=a-1\nSCAN_DEPENDS=x\nMULTI_VERSION= V=1\n{}PKGNAME=b-1\n{}",
            setting("A=b V=1"),
            setting("A=b ")
        );
        assert_eq!(program(0), (Some(0), records.clone()));
        assert_eq!(program(3), (Some(3), "PKGNAME=a-1\nSCAN_DEPENDS=x\nMULTI_VERSION= V=1\nPKGNAME=b-1\n".into()));
        assert!(are_told(records.as_bytes()) && !are_told(b"PKGNAME=a-1\n"));
    }

    #[test]
    fn difference_names_the_setting() {
        let before = "\tPKG_OPTIONS=a b\tCFLAGS=-O2 \tX=";
        let differs = |now: &str| difference(before, now);
        assert_eq!(differs(before), None);
        assert_eq!(differs("\tPKG_OPTIONS=a b\tCFLAGS=-O2\tX="), None, "blanks do not count");
        let why = "it was built with PKG_OPTIONS \"a b\", which is \"a c\" now";
        assert_eq!(differs("\tPKG_OPTIONS=a c\tCFLAGS=-O2 \tX=").as_deref(), Some(why));
        let why = "it was built with Y \"\", which is \"1\" now";
        assert_eq!(differs("\tPKG_OPTIONS=a b\tCFLAGS=-O2 \tX=\tY=1").as_deref(), Some(why));
        let long = differs(&format!("\tPKG_OPTIONS={}\tCFLAGS=-O2 \tX=", "é".repeat(99))).unwrap();
        assert!(long.ends_with(&format!("is \"{}...\" now", "é".repeat(LONGEST))), "{long}");
    }
}
