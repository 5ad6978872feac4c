//! What a terminal shows of a command that printed more than anybody scrolls through.

use std::borrow::Cow;

use tanto_exec::job::JobInfo;

/// Longer output is cut, in bytes.
const LONG: usize = 16 << 20;
/// Of longer output, so much is shown of its beginning and of its end, in bytes.
const ENDS: usize = 256 << 10;

/// Where the middle of long output can be read.
#[derive(Clone, Debug)]
pub enum FullOutputHint {
    /// In the record of builds in this directory; none: the current one.
    Recorded(Option<Vec<u8>>),
    /// Nowhere: builds are not recorded.
    Lost,
}

/// Returns `output`, or both ends of it with a line between that says how to read the rest.
pub(crate) fn truncate<'o>(output: &'o [u8], info: &JobInfo, rest: &FullOutputHint) -> Cow<'o, [u8]> {
    if output.len() <= LONG {
        return Cow::Borrowed(output);
    }
    let (head, tail) = (&output[..ENDS], &output[output.len() - ENDS..]);
    let left_out = output.len() - 2 * ENDS;
    let name = info.outputs.first().map_or(&b""[..], Vec::as_slice);
    let place = match rest {
        FullOutputHint::Recorded(None) => [b"'tanto report output ", name, b"' shows them"].concat(),
        FullOutputHint::Recorded(Some(dir)) => {
            [b"'tanto report output -C ", &dir[..], b" ", name, b"' shows them"].concat()
        }
        FullOutputHint::Lost => b"with --record=on they are kept for 'tanto report output'".to_vec(),
    };
    let between = [format!("\n[... {left_out} bytes are not shown; ").as_bytes(), &place, b" ...]\n"].concat();
    Cow::Owned([head, &between, tail].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_names_the_command_that_shows_the_rest() {
        let info = JobInfo { outputs: vec![b"a.o".to_vec()], ..JobInfo::default() };
        let text = vec![b'x'; LONG + 1];
        let between = |rest: &FullOutputHint| {
            let shown = truncate(&text, &info, rest).into_owned();
            assert!(shown.starts_with(&text[..ENDS]) && shown.ends_with(&text[..ENDS]));
            String::from_utf8(shown[ENDS..shown.len() - ENDS].to_vec()).unwrap()
        };
        let head = format!("\n[... {} bytes are not shown; ", LONG + 1 - 2 * ENDS);
        let recorded = |dir| between(&FullOutputHint::Recorded(dir));
        assert_eq!(recorded(None), format!("{head}'tanto report output a.o' shows them ...]\n"));
        assert_eq!(recorded(Some(b"d".to_vec())), format!("{head}'tanto report output -C d a.o' shows them ...]\n"));
        assert!(between(&FullOutputHint::Lost).contains("--record=on"));
        assert!(
            matches!(truncate(&text[1..], &info, &FullOutputHint::Lost), Cow::Borrowed(whole) if whole.len() == LONG)
        );
    }
}
