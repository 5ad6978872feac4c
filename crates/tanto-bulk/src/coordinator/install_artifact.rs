//! Installs a package file: copies or moves it, computes its digest, runs the hook `sync_package` and renames it
//! atomically and durably.

use std::fs;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tanto_cas::BlobInfo;

use crate::attempt::distfiles::atomic_move;
use crate::package::digest::sha512;
use crate::shell::{code, options, run, values};

/// An installation of one package file.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PackageInstall {
    /// The file, still writable by others.
    pub from: PathBuf,
    /// The temporary name in the directory of `place`.
    pub new: PathBuf,
    /// The final path.
    pub place: PathBuf,
    /// The file for its SHA512 digest, in hex.
    pub digest: PathBuf,
    /// Its SHA256 digest, in a second line there.
    pub blob: BlobDigest,
    /// A shell line that runs before the rename, with `new`, PKGNAME, CATEGORIES and the suffix. If it fails, the file is
    /// removed. Empty: no hook.
    pub hook: String,
    /// PKGNAME.
    pub name: String,
    /// CATEGORIES.
    pub categories: String,
    /// PKG_SUFX.
    pub suffix: String,
}

/// Whether a package file gets a SHA256 digest, as blobs have.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum BlobDigest {
    #[default]
    Unneeded,
    Computed,
    /// In hex. A file with another digest is not installed.
    Expected(String),
}

impl BlobDigest {
    const COMPUTED: &str = "computed";

    fn word(&self) -> &str {
        match self {
            BlobDigest::Unneeded => "",
            BlobDigest::Computed => BlobDigest::COMPUTED,
            BlobDigest::Expected(digest) => digest,
        }
    }

    fn of(word: String) -> BlobDigest {
        match &*word {
            "" => BlobDigest::Unneeded,
            BlobDigest::COMPUTED => BlobDigest::Computed,
            _ => BlobDigest::Expected(word),
        }
    }

    /// Returns the line for the digests of a file.
    fn line(&self, path: &Path) -> io::Result<String> {
        match self {
            BlobDigest::Unneeded => return Ok(String::new()),
            BlobDigest::Computed | BlobDigest::Expected(_) => {}
        }
        let digest = BlobInfo::of_file(path)?.digest.to_string();
        match self {
            BlobDigest::Expected(expected) if *expected != digest => {
                Err(io::Error::other(format!("its digest is {digest}, not {expected}")))
            }
            _ => Ok(format!("\n{digest}\n")),
        }
    }
}

impl PackageInstall {
    /// Encodes the fields as options of a command line.
    pub fn words(&self) -> String {
        let path = |path: &PathBuf| path.to_string_lossy().into_owned();
        options(&[
            ("from", &path(&self.from)),
            ("new", &path(&self.new)),
            ("place", &path(&self.place)),
            ("digest", &path(&self.digest)),
            ("blob", self.blob.word()),
            ("hook", &self.hook),
            ("name", &self.name),
            ("categories", &self.categories),
            ("suffix", &self.suffix),
        ])
    }

    /// Decodes such options.
    pub fn read(words: &[Vec<u8>]) -> Option<PackageInstall> {
        let [from, new, place, digest, blob, hook, name, categories, suffix] =
            values(words, ["from", "new", "place", "digest", "blob", "hook", "name", "categories", "suffix"])?;
        let paths = [from, new, place, digest].map(PathBuf::from);
        let is_whole = paths.iter().all(|path| path.is_absolute());
        let [from, new, place, digest] = paths;
        is_whole.then_some(PackageInstall {
            from,
            new,
            place,
            digest,
            blob: BlobDigest::of(blob),
            hook,
            name,
            categories,
            suffix,
        })
    }

    /// Installs the file. Returns the exit code of the hook if that failed, or 0.
    pub fn run(&self) -> io::Result<i32> {
        self.place.parent().map_or(Ok(()), fs::create_dir_all)?;
        self.install().inspect_err(|_| self.remove_new())
    }

    fn install(&self) -> io::Result<i32> {
        // It stays open, and so locked, until the rename.
        let mut content = atomic_move::move_file(&self.from, &self.new, true)?;
        content.rewind()?;
        let mut digests = sha512(&mut content)?;
        digests += &self.blob.line(&self.new)?;
        fs::write(&self.digest, digests)?;
        if !self.hook.is_empty() {
            let new = self.new.to_string_lossy();
            let status = run(&self.hook, "sync_package", &[&new, &self.name, &self.categories, &self.suffix])?;
            if !status.success() {
                println!("tanto: sync_package refused {}: {status}", self.name);
                self.remove_new();
                return Ok(code(status));
            }
        }
        fs::rename(&self.new, &self.place)?;
        sync_directory_of(&self.place).map(|()| 0)
    }

    /// If this fails, the next file replaces it.
    fn remove_new(&self) {
        let _ = fs::remove_file(&self.new);
    }
}

/// Makes the new name of a package file durable. The database records the package after this.
pub fn sync_directory_of(place: &Path) -> io::Result<()> {
    place.parent().map_or(Ok(()), |dir| fs::File::open(dir)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::tests::words;
    use tanto_testing::Scratch;

    fn install(place: &Scratch, text: &str, hook: &str) -> PackageInstall {
        place.write("made/file", text);
        PackageInstall {
            from: place.at("made/file"),
            new: place.at("all/new"),
            place: place.at("all/place"),
            digest: place.at("digest"),
            blob: BlobDigest::Unneeded,
            hook: hook.into(),
            name: "p-1".into(),
            categories: "a b".into(),
            suffix: ".tgz".into(),
        }
    }

    #[test]
    fn options_are_decoded_as_they_were_encoded() {
        let place = Scratch::new("install-artifact-words");
        let it = install(&place, "", "it's \"new\"");
        assert_eq!(PackageInstall::read(&words(&it.words())), Some(it.clone()));
        assert_eq!(PackageInstall::read(&words(&PackageInstall { place: "place".into(), ..it }.words())), None);
    }

    #[test]
    fn file_gets_its_place_and_digest() {
        let place = Scratch::new("install-artifact");
        let hook =
            format!("echo \"$2$4 ($3)\" $(cat \"$1\") $(test -e {0}/all/place; echo $?) >{0}/seen", place.text());
        // Left by a killed build.
        place.write("all/new", "older");
        assert_eq!(install(&place, "whole\n", &hook).run().unwrap(), 0);
        let text = |name: &str| fs::read_to_string(place.at(name)).unwrap();
        assert_eq!((&*text("all/place"), &*text("seen")), ("whole\n", "p-1.tgz (a b) whole 1\n"));
        assert_eq!(text("digest"), sha512(&mut &b"whole\n"[..]).unwrap());
        assert!(!place.at("all/new").exists() && !place.at("made/file").exists());
    }

    #[test]
    fn failure_keeps_the_old_file() {
        let place = Scratch::new("install-artifact-failure");
        place.write("all/place", "older");
        assert_eq!(install(&place, "whole", "exit 4").run().unwrap(), 4);
        let it = install(&place, "whole", "");
        fs::remove_file(&it.from).unwrap();
        assert!(it.run().is_err(), "there is none");
        std::os::unix::fs::symlink(place.at("all/place"), &it.from).unwrap();
        assert!(it.run().is_err(), "it could be any file");
        assert!(!it.new.exists());
        assert_eq!(fs::read_to_string(&it.place).unwrap(), "older");
    }

    #[test]
    fn other_hard_links_cannot_change_it() {
        let place = Scratch::new("install-artifact-other");
        let it = install(&place, "whole", "");
        fs::hard_link(&it.from, place.at("made/other")).unwrap();
        assert_eq!(it.run().unwrap(), 0);
        place.write("made/other", "changed");
        assert_eq!(fs::read_to_string(&it.place).unwrap(), "whole");
    }
}
