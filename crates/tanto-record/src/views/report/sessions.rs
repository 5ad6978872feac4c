//! The list of sessions.

use super::build_result;
use crate::session::{Session, date};
use tanto_exec::text::table::Table;
use tanto_exec::text::units::duration;

/// Lists sessions, the newest last, with the numbers that `Sessions::find` accepts.
pub fn list<'s>(sessions: impl ExactSizeIterator<Item = (&'s str, Option<&'s Session>)>) -> Vec<u8> {
    let mut table = Table::new(&[0, 3, 4]);
    table.row([b"", b"SESSION", b"BEGAN (UTC)", b"TIME", b"COMMANDS", b"RESULT", b"OF"]);
    let count = sessions.len();
    for (at, (name, session)) in sessions.enumerate() {
        let number = (count - at).to_string();
        let Some(session) = session else {
            table.row([number.as_bytes(), name.as_bytes(), b"cannot be read"]);
            continue;
        };
        table.row([
            number.as_bytes(),
            name.as_bytes(),
            began(session).as_bytes(),
            duration(session.end_ms() - session.started_ms).as_bytes(),
            session.commands().count().to_string().as_bytes(),
            build_result(session).describe().as_bytes(),
            &targets_text(session),
        ]);
    }
    table.text()
}

/// Returns the targets.
pub fn targets_text(session: &Session) -> Vec<u8> {
    match session.head.targets.as_slice() {
        [] => b"the default targets".to_vec(),
        targets => targets.join(&b' '),
    }
}

/// Returns the start time: `2026-11-20 16:22:19`, in UTC.
pub fn began(session: &Session) -> String {
    let seconds = (session.head.began_unix_ms.saturating_add(session.started_ms)).max(0) as u64 / 1000;
    let (year, month, day) = date(seconds / 86_400);
    format!("{year}-{month:02}-{day:02} {:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}
