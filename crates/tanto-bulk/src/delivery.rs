//! A package's file goes from where it was made to where all look for it: copied, told by a digest, shown to who may keep it
//! away, and put in its place, whole or not at all. Does not know how it was made.

use std::fs;
use std::io;
use std::path::PathBuf;

use tanto_sys::file;

use crate::publish::list;
use crate::shell::{code, options, run, values};

/// The way of one file.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// Makes `new`, perhaps in a sandbox.
    pub copy: String,
    /// The file, before it has its place.
    pub new: PathBuf,
    /// Its place.
    pub place: PathBuf,
    /// What it is told by goes into this file: SHA512, in hex.
    pub digest: PathBuf,
    /// Run then, with `new`, the package's name and its categories; if it fails, the file does not get its place. Empty:
    /// nothing.
    pub hook: String,
    /// PKGNAME.
    pub name: String,
    /// CATEGORIES.
    pub categories: String,
}

impl Delivery {
    /// The words of a command line that say all of this.
    pub fn words(&self) -> String {
        let path = |path: &PathBuf| path.to_string_lossy().into_owned();
        options(&[
            ("copy", &self.copy),
            ("new", &path(&self.new)),
            ("place", &path(&self.place)),
            ("digest", &path(&self.digest)),
            ("hook", &self.hook),
            ("name", &self.name),
            ("categories", &self.categories),
        ])
    }

    /// What such words say.
    pub fn read(words: &[Vec<u8>]) -> Option<Delivery> {
        let [copy, new, place, digest, hook, name, categories] =
            values(words, ["copy", "new", "place", "digest", "hook", "name", "categories"])?;
        let paths = [new, place, digest].map(PathBuf::from);
        let is_whole = paths.iter().all(|path| path.is_absolute()) && !copy.is_empty();
        let [new, place, digest] = paths;
        is_whole.then_some(Delivery { copy, new, place, digest, hook, name, categories })
    }

    /// Brings it there. Says what the line exited with that failed, or 0.
    pub fn run(&self) -> io::Result<i32> {
        let copied = run(&self.copy, "", &[])?;
        if copied.success() {
            return self.hand_over().inspect_err(|_| self.forget());
        }
        self.forget();
        Ok(code(copied))
    }

    fn hand_over(&self) -> io::Result<i32> {
        let digest = list::digest(&mut file::open_itself(&self.new)?)?;
        fs::write(&self.digest, digest)?;
        if !self.hook.is_empty() {
            let new = self.new.to_string_lossy();
            let status = run(&self.hook, "sync_package", &[&new, &self.name, &self.categories])?;
            if !status.success() {
                println!("tanto: sync_package does not take {}: {status}", self.name);
                self.forget();
                return Ok(code(status));
            }
        }
        fs::rename(&self.new, &self.place).map(|()| 0)
    }

    /// What is left is of no use; if it stays, the next file takes its place.
    fn forget(&self) {
        let _ = fs::remove_file(&self.new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::tests::words;
    use tanto_testing::Scratch;

    fn delivery(place: &Scratch, copy: &str, hook: &str) -> Delivery {
        Delivery {
            copy: format!("cd {}; {copy}", place.text()),
            new: place.at("new"),
            place: place.at("place"),
            digest: place.at("digest"),
            hook: hook.into(),
            name: "p-1".into(),
            categories: "a b".into(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let place = Scratch::new("delivery-words");
        let it = delivery(&place, "it's \"new\"", "");
        assert_eq!(Delivery::read(&words(&it.words())), Some(it.clone()));
        assert_eq!(Delivery::read(&words(&Delivery { place: "place".into(), ..it }.words())), None);
    }

    #[test]
    fn a_file_gets_its_place_and_is_told_by_its_digest() {
        let place = Scratch::new("delivery");
        let hook = format!("echo \"$2 ($3)\" $(cat \"$1\") $(test -e {0}/place; echo $?) >{0}/seen", place.text());
        assert_eq!(delivery(&place, "echo whole >new", &hook).run().unwrap(), 0);
        let text = |name: &str| fs::read_to_string(place.at(name)).unwrap();
        assert_eq!((&*text("place"), &*text("seen")), ("whole\n", "p-1 (a b) whole 1\n"));
        assert_eq!(text("digest"), list::digest(&mut &b"whole\n"[..]).unwrap());
        assert!(!place.at("new").exists());
    }

    #[test]
    fn what_fails_leaves_what_was_there() {
        let place = Scratch::new("delivery-failure");
        place.write("place", "older");
        for (copy, hook, ended) in [("echo half >new; exit 3", "", 3), ("echo whole >new", "exit 4", 4)] {
            assert_eq!(delivery(&place, copy, hook).run().unwrap(), ended);
            assert!(!place.at("new").exists());
        }
        assert!(delivery(&place, "ln -s place new", "").run().is_err(), "it could be any file");
        assert!(delivery(&place, "rm -f new", "").run().is_err(), "there is none");
        assert_eq!(fs::read_to_string(place.at("place")).unwrap(), "older");
    }
}
