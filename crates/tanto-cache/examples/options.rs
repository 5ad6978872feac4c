//! For tests/cache/options.py: `options` prints words that use each listed option. `options parse` reads commands from standard
//! input and prints how each is understood: a root, a working directory and the words, with tabs between them.

use std::io::BufRead;

use tanto_cache::compile::{parse, samples};

fn main() {
    if std::env::args().any(|argument| argument == "parse") {
        std::io::stdin().lock().lines().map_while(Result::ok).for_each(|line| understand(&line));
    } else {
        samples().iter().for_each(|sample| println!("{sample}"));
    }
}

fn understand(line: &str) {
    let words: Vec<&[u8]> = line.split('\t').map(str::as_bytes).collect();
    let [root, cwd, words @ ..] = &words[..] else { return };
    match parse(words) {
        Ok(compile) => {
            let depfile = String::from_utf8_lossy(compile.depfile.as_deref().unwrap_or_default()).into_owned();
            println!("ok\t{depfile}\t{:?}\t{}", compile.path_dependence(root, cwd), compile.emits_debug_info);
        }
        Err(refusal) => println!("refused\t{refusal}"),
    }
}
