//! Random manifests: sound ones, odd ones and broken ones. Does not know what they mean, nor what is made of them.

mod statements;
mod words;

use crate::Random;

/// Manifests by name, made by chance. The first is to be loaded; it may include the others, or what is not there.
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

/// What the manifests of one seed are like. Chances are in percent, but for one.
struct Taste {
    /// Something wrong is said, each time that it could be: so many times in a thousand.
    wrong: usize,
    /// Lines end with a carriage return too.
    returns: usize,
    /// Words are parted by more than a space: also by the end of a line.
    blanks: usize,
    /// A line is followed by a comment.
    comments: usize,
    /// A path or a value has a variable in it.
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
        // Otherwise hardly any long one would be sound.
        let wrong = if is_long { wrong / 8 } else { wrong };
        Taste { wrong, returns, blanks, comments, variables, is_long, is_damaged }
    }
}

/// Writes one file after the other.
struct Author<'r> {
    random: &'r mut Random,
    taste: Taste,
    /// How many files there will be.
    count: usize,
    text: String,
    /// The number of the last output.
    last: usize,
    /// Outputs of the file, as far as it has been written.
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
