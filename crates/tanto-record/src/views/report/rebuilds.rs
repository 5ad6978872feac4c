//! Explains why each command of a build ran.

use super::{began, build_result, problems, reasons, targets_text};
use crate::session::{Session, SessionJob};
use tanto_exec::event::Level;
use tanto_exec::text::table::printable;
use tanto_exec::text::units::duration;

/// Limit of reasons shown per command.
const MOST: usize = 4;

/// Lists the commands in order of their start with reasons and problems, then throttling.
pub fn text(session: &Session) -> Vec<u8> {
    let mut text = heading(session);
    for (_, notice) in session.notices.iter().filter(|(level, _)| *level == Level::Info) {
        text.extend_from_slice(&[&printable(notice)[..], b"\n"].concat());
    }
    for job in session.commands() {
        text.push(b'\n');
        text.extend_from_slice(&printable(job.title()));
        text.push(b'\n');
        for line in reasons(job).into_iter().chain(problems::of_job(job)) {
            text.extend_from_slice(&[b"    ", &printable(&line)[..], b"\n"].concat());
        }
    }
    let held = problems::held(session);
    if !held.is_empty() {
        text.push(b'\n');
    }
    for it in held {
        text.extend_from_slice(
            format!("nothing more was started for {}: {}\n", duration(it.wall_ms), it.why).as_bytes(),
        );
    }
    text
}

fn heading(session: &Session) -> Vec<u8> {
    let count = session.commands().count();
    let commands = if count == 1 { "1 command ran".into() } else { format!("{count} commands ran") };
    let (began, result) = (began(session), build_result(session).describe());
    let line = format!("{began} (UTC), {result}: {commands} to build ");
    [line.as_bytes(), &printable(&targets_text(session)), b"\n"].concat()
}

fn reasons(job: &SessionJob) -> Vec<Vec<u8>> {
    // A rebuilt input is seldom the root cause, so it comes last.
    let mut reasons: Vec<Vec<u8>> = job.info.why.iter().map(|sentence| reasons::plain(sentence)).collect();
    reasons.sort_by_key(|reason| reason.ends_with(b" is rebuilt"));
    let more = reasons.len().saturating_sub(MOST);
    reasons.truncate(MOST);
    if more > 0 {
        reasons.push(format!("and {more} more").into_bytes());
    }
    if reasons.is_empty() {
        reasons.push(b"no reason recorded".to_vec());
    }
    reasons
}
