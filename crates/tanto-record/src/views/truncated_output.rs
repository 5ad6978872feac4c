//! Truncates long output on terminals.

use std::borrow::Cow;

use tanto_exec::job::JobInfo;

/// Longer output is truncated, in bytes.
const LONG: usize = 16 << 20;
/// Length of the beginning and the end that are shown, in bytes.
const ENDS: usize = 256 << 10;

/// The place of the full output.
#[derive(Clone, Debug)]
pub enum FullOutputHint {
    /// In the sessions of this directory; `None`: the current one.
    Recorded(Option<Vec<u8>>),
    /// Not recorded.
    Lost,
}

/// Returns `output`, or both ends with a line between that tells how to get the rest.
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
