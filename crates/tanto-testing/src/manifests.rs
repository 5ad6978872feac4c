//! Random manifests: valid, unusual and broken ones.

mod statements;
mod words;

use crate::Random;

/// Generates manifests by name. The first one is to be loaded; it may include others, or missing ones.
pub fn manifests(random: &mut Random) -> Vec<(String, Vec<u8>)> {
    let taste = Taste::of(random);
    let count = 1 + random.below(if taste.is_long { 2 } else { 6 });
    let mut author = Author { random, taste, count, text: String::new(), last: 0, targets: Vec::new() };
    let mut files: Vec<_> = (0..count).map(|file| (name_of(file), author.file(file))).collect();
    if author.taste.is_damaged {
        for _ in 0..1 + author.random.below(3) {
            damage(author.random, &mut files);
        }
    }
    files
}

fn name_of(file: usize) -> String {
    if file == 0 { "build.ninja".to_owned() } else { format!("f{file}.ninja") }
}

/// Properties of the manifests of a seed. Chances are in percent, unless noted.
struct Taste {
    /// Chance of an error at each opportunity, in thousandths.
    wrong: usize,
    /// Lines also end with a carriage return.
    returns: usize,
    /// Words are separated by more than a space, or by continued lines.
    blanks: usize,
    /// A line is followed by a comment.
    comments: usize,
    /// A path or a value contains a variable.
    variables: usize,
    /// Many statements of few kinds.
    is_long: bool,
    /// Bytes are changed afterwards.
    is_damaged: bool,
}

impl Taste {
    fn of(random: &mut Random) -> Taste {
        let mut some = |most: usize| if random.chance(40) { 0 } else { random.below(most) };
        let (wrong, returns, blanks, comments) = (some(16), some(100), some(30), some(40));
        let variables = random.below(60);
        let (is_long, is_damaged) = (random.chance(3), random.chance(25));
        // Otherwise hardly any long manifest would be valid.
        let wrong = if is_long { wrong / 8 } else { wrong };
        Taste { wrong, returns, blanks, comments, variables, is_long, is_damaged }
    }
}

/// Writes the files one after the other.
struct Author<'r> {
    random: &'r mut Random,
    taste: Taste,
    /// Number of files.
    count: usize,
    text: String,
    /// The number of the last output.
    last: usize,
    /// Outputs of the current file so far.
    targets: Vec<String>,
}

/// Changes some bytes of a file.
fn damage(random: &mut Random, files: &mut [(String, Vec<u8>)]) {
    const PIECES: [&[u8]; 18] = [
        b"\0", b"$", b"\n", b"\r", b"\r\n", b"\t", b":", b"|", b" ", b"=", b"#", b"\xff", b"$\n", b"  ", b"build ",
        b"/", b".", b"\n\n",
    ];
    let at = random.below(files.len());
    let text = &mut files[at].1;
    let from = random.below(text.len() + 1);
    let to = from + random.below((text.len() - from).min(12) + 1);
    match random.below(8) {
        0 => text.truncate(from),
        1..3 => drop(text.drain(from..to)),
        3 => {
            let piece = text[from..to].to_vec();
            let place = random.below(text.len() + 1);
            text.splice(place..place, piece);
        }
        _ => drop(text.splice(from..from, random.pick(&PIECES).iter().copied())),
    }
}
