//! `tanto clang`: what is kept of compiles in the background, and its end. Does not know how it is kept.

use tanto_exec::runner::clang::{self, Held, Without};
use tanto_ninja::getopt::Bad;
use tanto_ninja::getopt::given::{Given, Plain, both, letter};

use crate::flags::door::Door;
use crate::flags::modes;
use crate::flags::stop::Stop;
use crate::ninja::clang_worker::{self, KEPT};
use crate::settings::Surroundings;
use crate::{commands, help};

/// What may be asked.
pub const QUESTIONS: [&str; 2] = ["status", "stop"];

static FLAGS: [Plain; 2] = [both(b'h', "help"), letter(b'C').with_value()];

/// What `tanto clang` prints for these arguments.
pub fn run(args: &[Vec<u8>]) -> Stop {
    match Given::read(&FLAGS, args).map_err(Bad::with_hint) {
        Ok(given) if given.has("h") => Stop::printed(commands::find(b"clang").map(help::topic).unwrap_or_default(), 0),
        given => match given.and_then(|given| answer(&given)) {
            Ok(text) => Stop::printed(text, 0),
            Err(why) => Stop::failed(Door::Tanto, "error", &why),
        },
    }
}

fn answer(given: &Given) -> Result<Vec<u8>, Vec<u8>> {
    let state = Surroundings::of_process().state(given.value("C"));
    let stop = || state.verified_dirs().filter(|top| clang::stop(&top.join(KEPT))).count() > 0;
    match given.operands.iter().map(Vec::as_slice).collect::<Vec<_>>()[..] {
        [b"status"] => Ok(clang_worker::held(&state).map_or_else(|| b"no checkpoints are kept here\n".into(), status)),
        [b"stop"] if stop() => Ok(Vec::new()),
        [b"stop"] => Ok(b"no checkpoints are kept here\n".into()),
        [] => Err(b"clang what? 'tanto help clang' tells more".into()),
        [other] => Err(modes::unknown("question", other, QUESTIONS)),
        _ => Err(b"one question at a time".into()),
    }
}

fn status(held: Held) -> Vec<u8> {
    let mut text = [&brief(&held)[..], b"\n"].concat();
    for file in &held.files {
        text.extend_from_slice(&[b"  ", &file[..], b"\n"].concat());
    }
    if !held.without.is_empty() {
        text.extend_from_slice(b"without one:\n");
    }
    for Without { file, why } in &held.without {
        text.extend_from_slice(&[b"  ", &file[..], b": ", why, b"\n"].concat());
    }
    text
}

/// In one line.
pub fn brief(held: &Held) -> Vec<u8> {
    let Held { pid, most, wanted, memory_kib, files, .. } = held;
    let more = if *wanted > 0 { format!(", {wanted} yet to be made") } else { String::new() };
    let (count, mib) = (files.len(), memory_kib >> 10);
    format!("{count} checkpoints of at most {most}, {mib} MiB, in process {pid}{more}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(args: &[&str]) -> Stop {
        run(&args.iter().map(|arg| arg.as_bytes().to_vec()).collect::<Vec<_>>())
    }

    #[test]
    fn where_nothing_is_kept_that_is_said() {
        for question in QUESTIONS {
            let stop = said(&[question, "-C", "/nowhere"]);
            assert_eq!((stop.out, stop.code), (b"no checkpoints are kept here\n".to_vec(), 0));
        }
    }

    #[test]
    fn other_questions_have_no_answer() {
        for args in [&["stat"][..], &[], &["status", "stop"]] {
            assert_eq!(said(args).code, 1);
        }
    }

    #[test]
    fn what_is_kept_is_told() {
        let without = vec![Without { file: b"b.c".to_vec(), why: b"its includes print warnings".to_vec() }];
        let held = Held { pid: 7, most: 8, wanted: 1, memory_kib: 123_456, files: vec![b"a.c".to_vec()], without };
        let text = String::from_utf8(status(held)).unwrap();
        let first = "1 checkpoints of at most 8, 120 MiB, in process 7, 1 yet to be made\n  a.c\n";
        assert_eq!(text, format!("{first}without one:\n  b.c: its includes print warnings\n"));
    }
}
