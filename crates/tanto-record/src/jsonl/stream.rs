//! Writes events as JSON lines while a build runs (`--format jsonl`).

use std::io::Write;

use tanto_exec::event::{Event, View};

use super::{Encoder, Head};

/// Writes events to `out`. Ignores errors: a closed reader must not end a build.
pub struct Stream {
    out: Box<dyn Write>,
    /// Written by the next `flush`.
    lines: Vec<u8>,
    /// Events before the first line of the build.
    plan: Vec<u8>,
    is_building: bool,
}

impl Stream {
    /// `out` should be unbuffered.
    pub fn new(out: Box<dyn Write>) -> Stream {
        Stream { out, lines: Vec::new(), plan: Vec::new(), is_building: false }
    }

    /// Begins the stream of a build.
    pub fn begin(&mut self, head: &Head) {
        Encoder::WHOLE.head(&mut self.lines, head);
        self.lines.append(&mut self.plan);
        self.is_building = true;
    }
}

impl View for Stream {
    fn event(&mut self, event: Event<'_>) {
        let is_planning = !self.is_building && !matches!(event, Event::Notice { .. });
        let to = if is_planning { &mut self.plan } else { &mut self.lines };
        Encoder::WHOLE.event(to, &event);
        if matches!(event, Event::BuildFinished { .. }) {
            self.is_building = false;
        }
        if !self.is_building && !is_planning {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let _ = self.out.write_all(&self.lines);
        let _ = self.out.flush();
        self.lines.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io;
    use std::rc::Rc;

    use tanto_exec::event::Level;
    use tanto_exec::job::JobId;

    use super::*;

    #[derive(Clone, Default)]
    struct Reader(Rc<RefCell<Vec<u8>>>);

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_build_comes_after_its_first_line() {
        let reader = Reader::default();
        let mut stream = Stream::new(Box::new(reader.clone()));
        let kinds = || {
            let text = String::from_utf8(reader.0.take()).expect("text");
            let kind = |line: &str| line.split('"').nth(3).unwrap_or_default().to_owned();
            text.lines().map(kind).collect::<Vec<_>>().join(" ")
        };
        stream.event(Event::Planned { job: JobId(0), expected_ms: None });
        stream.event(Event::Notice { level: Level::Info, text: b"waiting" });
        assert_eq!(kinds(), "notice");
        stream.begin(&Head::default());
        stream.event(Event::BuildStarted { at_ms: 1, downstream_ms: &[] });
        assert_eq!(kinds(), "", "it waits for the flush");
        stream.flush();
        assert_eq!(kinds(), "tanto planned build_started");
        stream.event(Event::BuildFinished { at_ms: 2 });
        assert_eq!(kinds(), "build_finished");
    }
}
