//! `-t urtle`: the tool that no list names.

use super::{Context, Outcome};

const TURTLE: &str = r"
                    __
         .,-;-;-,. /'_\
       _/_/_/_|_\_\) /
     '-<_<_<_>_>_>=/\
       `/_/====/_/-'\_\
        ''     ''    ''
";

pub(super) fn run(context: &mut Context<'_, '_>, _args: &[Vec<u8>]) -> Outcome {
    context.out.write_all(TURTLE.as_bytes())?;
    Ok(0)
}
