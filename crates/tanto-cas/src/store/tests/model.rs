//! A random test of the store against a map.

use std::collections::{HashMap, HashSet};
use std::time::SystemTime;

use tanto_testing::{Random, seeds};

use super::*;

/// The blobs that must be, or may be, in the store.
#[derive(Default)]
struct Model {
    contents: HashMap<Digest, Vec<u8>>,
    pinned: HashSet<Digest>,
    uploads: HashMap<Digest, (Vec<u8>, usize)>,
}

struct Run {
    place: Scratch,
    store: Store,
    model: Model,
    random: Random,
}

impl Run {
    fn content(&mut self) -> Vec<u8> {
        let length = *self.random.pick(&[0, 1, 10, 70_000]);
        let byte = self.random.below(6) as u8;
        vec![byte; length]
    }

    fn step(&mut self) {
        match self.random.below(12) {
            0..4 => {
                let content = self.content();
                let digest = put(&self.store, &content);
                self.model.contents.insert(digest, content);
            }
            4 => {
                let content = self.content();
                let digest = Digest::of(b"another");
                assert!(self.store.put(&mut &content[..], &digest, u64::MAX, Durability::Process).is_err());
            }
            5 => self.abandon(),
            6 => self.collect(),
            7 => {
                let content = self.content();
                let digest = Digest::of(&content);
                self.store.pin(&[digest], SystemTime::now() + Duration::from_secs(10_000)).unwrap();
                self.model.pinned.insert(digest);
            }
            8 => self.store = open(&self.place),
            9..11 => self.upload(),
            _ => {
                let content = self.content();
                let digest = Digest::of(&content);
                let is_present = self.store.contains(&digest).unwrap();
                assert_eq!(is_present, self.model.contents.contains_key(&digest));
            }
        }
    }

    /// A process that receives a blob is killed: the temporary file stays, without its lock.
    fn abandon(&mut self) {
        let name = format!("temp/1-{}", self.random.number());
        self.place.write(&format!("store/{name}"), "half a blob");
    }

    fn collect(&mut self) {
        let digests: Vec<Digest> = self.model.contents.keys().copied().collect();
        let roots: HashSet<Digest> = digests.into_iter().filter(|it| it.0[0].is_multiple_of(2)).collect();
        let epoch = self.store.begin_epoch().unwrap();
        let during = self.content();
        let during_digest = put(&self.store, &during);
        self.store.collect(epoch, roots.iter().copied(), 0).unwrap();
        self.model.contents.insert(during_digest, during);
        let pinned = &self.model.pinned;
        let is_kept = |it: &Digest| roots.contains(it) || pinned.contains(it) || *it == during_digest;
        self.model.contents.retain(|digest, _| is_kept(digest));
    }

    /// Sends a part of an upload, and finishes it when it is complete.
    fn upload(&mut self) {
        let content = self.content();
        let digest = Digest::of(&content);
        let sent = self.model.uploads.get(&digest).map_or(0, |(_, sent)| *sent);
        let mut upload = self.store.upload(&[1; 16], &digest, content.len() as u64).unwrap();
        assert_eq!(upload.length(), sent as u64);
        let until = sent + self.random.below(content.len() - sent + 1);
        upload.append(sent as u64, &mut &content[sent..until]).unwrap();
        if until < content.len() {
            self.model.uploads.insert(digest, (content, until));
            return;
        }
        upload.finish(Durability::Process).unwrap();
        self.model.uploads.remove(&digest);
        self.model.contents.insert(digest, content);
    }

    fn check(&self) {
        let stored: HashSet<Digest> = self.store.list().unwrap().iter().map(|blob| blob.info.digest).collect();
        assert_eq!(stored, self.model.contents.keys().copied().collect());
        for (digest, content) in &self.model.contents {
            assert!(get(&self.store, digest).unwrap() == *content);
        }
    }
}

#[test]
fn the_store_equals_a_map() {
    for seed in seeds(20) {
        println!("seed {seed}");
        let place = Scratch::new("cas-model");
        let store = open(&place);
        let mut run = Run { place, store, model: Model::default(), random: Random::new(seed) };
        for _ in 0..60 {
            run.step();
        }
        run.check();
        run.store = open(&run.place);
        check_clean(&run.store);
        run.check();
    }
}
