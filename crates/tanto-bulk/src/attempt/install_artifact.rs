//! A package's file goes from where it was made to where all look for it: taken over, told by a digest, shown to who may keep it
//! away, and put in its place, whole or not at all. Does not know how it was made.

use std::fs;
use std::io::{self, Seek};
use std::path::PathBuf;

use super::distfiles::bring;
use crate::package::digest::sha512;
use crate::shell::{code, options, run, values};

/// The way of one file.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// The file, where others could write to it.
    pub from: PathBuf,
    /// The same, before it has its place.
    pub new: PathBuf,
    /// Its place.
    pub place: PathBuf,
    /// What it is told by goes into this file: SHA512, in hex.
    pub digest: PathBuf,
    /// Run then, with `new`, the package's name, its categories and the suffix; if it fails, the file does not get its place. Empty:
    /// nothing.
    pub hook: String,
    /// PKGNAME.
    pub name: String,
    /// CATEGORIES.
    pub categories: String,
    /// PKG_SUFX.
    pub suffix: String,
}

impl Delivery {
    /// The words of a command line that say all of this.
    pub fn words(&self) -> String {
        let path = |path: &PathBuf| path.to_string_lossy().into_owned();
        options(&[
            ("from", &path(&self.from)),
            ("new", &path(&self.new)),
            ("place", &path(&self.place)),
            ("digest", &path(&self.digest)),
            ("hook", &self.hook),
            ("name", &self.name),
            ("categories", &self.categories),
            ("suffix", &self.suffix),
        ])
    }

    /// What such words say.
    pub fn read(words: &[Vec<u8>]) -> Option<Delivery> {
        let [from, new, place, digest, hook, name, categories, suffix] =
            values(words, ["from", "new", "place", "digest", "hook", "name", "categories", "suffix"])?;
        let paths = [from, new, place, digest].map(PathBuf::from);
        let is_whole = paths.iter().all(|path| path.is_absolute());
        let [from, new, place, digest] = paths;
        is_whole.then_some(Delivery { from, new, place, digest, hook, name, categories, suffix })
    }

    /// Brings it there. Says what the line exited with that failed, or 0.
    pub fn run(&self) -> io::Result<i32> {
        self.place.parent().map_or(Ok(()), fs::create_dir_all)?;
        self.hand_over().inspect_err(|_| self.forget())
    }

    fn hand_over(&self) -> io::Result<i32> {
        // It stays open until it has its place.
        let mut content = bring::bring(&self.from, &self.new, false)?;
        content.rewind()?;
        let digest = sha512(&mut content)?;
        fs::write(&self.digest, digest)?;
        if !self.hook.is_empty() {
            let new = self.new.to_string_lossy();
            let status = run(&self.hook, "sync_package", &[&new, &self.name, &self.categories, &self.suffix])?;
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

    /// Of a file that says this.
    fn delivery(place: &Scratch, text: &str, hook: &str) -> Delivery {
        place.write("made/file", text);
        Delivery {
            from: place.at("made/file"),
            new: place.at("all/new"),
            place: place.at("all/place"),
            digest: place.at("digest"),
            hook: hook.into(),
            name: "p-1".into(),
            categories: "a b".into(),
            suffix: ".tgz".into(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let place = Scratch::new("delivery-words");
        let it = delivery(&place, "", "it's \"new\"");
        assert_eq!(Delivery::read(&words(&it.words())), Some(it.clone()));
        assert_eq!(Delivery::read(&words(&Delivery { place: "place".into(), ..it }.words())), None);
    }

    #[test]
    fn a_file_gets_its_place_and_is_told_by_its_digest() {
        let place = Scratch::new("delivery");
        let hook =
            format!("echo \"$2$4 ($3)\" $(cat \"$1\") $(test -e {0}/all/place; echo $?) >{0}/seen", place.text());
        // What a killed build has left is no hindrance.
        place.write("all/new", "older");
        assert_eq!(delivery(&place, "whole\n", &hook).run().unwrap(), 0);
        let text = |name: &str| fs::read_to_string(place.at(name)).unwrap();
        assert_eq!((&*text("all/place"), &*text("seen")), ("whole\n", "p-1.tgz (a b) whole 1\n"));
        assert_eq!(text("digest"), sha512(&mut &b"whole\n"[..]).unwrap());
        assert!(!place.at("all/new").exists() && !place.at("made/file").exists());
    }

    #[test]
    fn what_fails_leaves_what_was_there() {
        let place = Scratch::new("delivery-failure");
        place.write("all/place", "older");
        assert_eq!(delivery(&place, "whole", "exit 4").run().unwrap(), 4);
        let it = delivery(&place, "whole", "");
        fs::remove_file(&it.from).unwrap();
        assert!(it.run().is_err(), "there is none");
        std::os::unix::fs::symlink(place.at("all/place"), &it.from).unwrap();
        assert!(it.run().is_err(), "it could be any file");
        assert!(!it.new.exists());
        assert_eq!(fs::read_to_string(&it.place).unwrap(), "older");
    }

    #[test]
    fn who_knows_it_by_another_name_cannot_change_it() {
        let place = Scratch::new("delivery-other");
        let it = delivery(&place, "whole", "");
        fs::hard_link(&it.from, place.at("made/other")).unwrap();
        assert_eq!(it.run().unwrap(), 0);
        place.write("made/other", "changed");
        assert_eq!(fs::read_to_string(&it.place).unwrap(), "whole");
    }
}
