//! Completions for shells, from the tables of flags and commands. They ask Tanto itself for a build's targets.

pub mod bash;
pub mod fish;
pub mod zsh;

use tanto_ninja::tools::TOOLS;

use crate::bench::MEASUREMENTS;
use crate::bulk::TASKS;
use crate::flags::table::{FLAGS, Flag};

/// The names of the tools that `-t list` lists.
fn tool_names() -> Vec<&'static str> {
    TOOLS.iter().filter(|tool| tool.description.is_some()).map(|tool| tool.name).collect()
}

/// The names of what `tanto bench` measures.
fn measurement_names() -> Vec<&'static str> {
    MEASUREMENTS.iter().map(|it| it.name).collect()
}

/// The names of the commands of `tanto bulk`.
fn task_names() -> Vec<&'static str> {
    TASKS.iter().map(|it| it.name).collect()
}

/// Each way to write each flag: `-v`, `--verbose`.
fn spellings(flag: &Flag) -> Vec<String> {
    let short = flag.short.map(|letter| format!("-{}", letter as char));
    let long = flag.long.map(|name| format!("--{name}"));
    short.into_iter().chain(long).collect()
}

/// Every spelling of every flag.
fn all_spellings() -> Vec<String> {
    FLAGS.iter().flat_map(spellings).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::io::ErrorKind;
    use std::process::{Command, Stdio};
    use tanto_testing::Scratch;

    /// Asks `program` what it thinks of `text`; says so and passes if there is no such program here.
    pub fn check(program: &str, args: &[&str], text: &str) {
        let dir = Scratch::new(program);
        dir.write("text", text);
        let asked = Command::new(program).args(args).arg(dir.at("text")).stdin(Stdio::null()).output();
        match asked {
            Err(error) if error.kind() == ErrorKind::NotFound => println!("skipped: no {program} here"),
            Err(error) => panic!("{program}: {error}"),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                // A manual page is printed there.
                let printed = String::from_utf8_lossy(&output.stdout);
                assert!(output.status.success() && said.is_empty(), "{program}: {said}{printed}");
            }
        }
    }

    #[test]
    fn shells_can_read_their_scripts() {
        check("bash", &["-n"], &bash::script());
        check("zsh", &["-n"], &zsh::script());
        check("fish", &["-n"], &fish::script());
    }

    #[test]
    fn every_flag_is_completed() {
        let (bash, zsh, fish) = (bash::script(), zsh::script(), fish::script());
        for flag in FLAGS {
            for spelling in spellings(flag) {
                assert!(bash.contains(&format!("{spelling} ")), "{spelling}");
                assert!(zsh.contains(&spelling), "{spelling}");
            }
            let fishy = flag.short.map(|letter| format!(" -s {}", letter as char)).unwrap_or_default();
            assert!(fish.contains(&fishy), "{flag:?}");
            assert!(flag.long.is_none_or(|long| fish.contains(&format!(" -l {long}"))), "{flag:?}");
        }
    }

    /// Bash's script, run: what it offers for a command line, asking a Tanto that knows three targets.
    fn offered(words: &[&str]) -> Vec<String> {
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let last = words.len() - 1;
        let script = [
            bash::script(),
            "tanto() { printf '%s\\n' 'lib: phony' 'lib$(echo ran): cc' 'other: cc'; }".to_owned(),
            format!(
                "COMP_WORDS=({}); COMP_CWORD={last}; _tanto; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
                quoted.join(" ")
            ),
        ];
        let output = Command::new("bash").args(["--norc", "-c", &script.join("\n")]).output().expect("bash");
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).filter(|line| !line.is_empty()).collect()
    }

    #[test]
    fn bash_offers_what_fits() {
        assert_eq!(offered(&["tanto", "bu"]), ["build", "bulk"]);
        assert_eq!(offered(&["tanto", "help", "do"]), ["doctor"]);
        let names: Vec<&str> = crate::bench::MEASUREMENTS.iter().map(|it| it.name).collect();
        assert_eq!(offered(&["tanto", "bench", ""]), names);
        assert_eq!(offered(&["tanto", "bulk", "re"]), ["resolve", "retry", "report"]);
        assert_eq!(offered(&["tanto", "bench", "jobs", "--jo"]), ["--jobs"]);
        assert_eq!(offered(&["tanto", "report", "t"]), ["timings", "trace"]);
        assert_eq!(offered(&["tanto", "clang", ""]), crate::clang::QUESTIONS);
        assert_eq!(offered(&["tanto", "build", "--verb"]), ["--verbose"]);
        assert_eq!(offered(&["tanto", "build", "-d", "keep"]), ["keepdepfile", "keeprsp"]);
        assert_eq!(offered(&["tanto", "build", "-t", "compdb"]), ["compdb", "compdb-targets"]);
        assert_eq!(offered(&["tanto", "build", "-j", ""]), Vec::<String>::new());
        assert_eq!(offered(&["tanto", "help", "build", "x"]), Vec::<String>::new());
    }

    #[test]
    fn bash_runs_nothing_that_hides_in_a_target() {
        assert_eq!(offered(&["tanto", "build", "-C", "x", "li"]), ["lib", r"lib\$\(echo\ ran\)"]);
    }
}
