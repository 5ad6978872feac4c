//! A random test of collections: several builds share a store, links and processes end, and nothing that a build needs is
//! ever removed.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, SystemTime};

use tanto_cas::store::{Durability, Epoch, StoreLimits};
use tanto_cas::{Digest, Store};
use tanto_protocol::ToServer;
use tanto_testing::{Random, Scratch, seeds};

use super::Blobs;

/// Unneeded blobs are removed at once, so that nothing is kept by luck.
fn limits() -> StoreLimits {
    StoreLimits { keep_used: Duration::ZERO, ..StoreLimits::default() }
}

#[derive(Default)]
struct Build {
    is_linked: bool,
    /// Blobs of its description.
    published: BTreeSet<Digest>,
    /// Blobs of results that are being accepted.
    reported: BTreeSet<Digest>,
    /// Its last answer.
    named: BTreeSet<Digest>,
}

impl Build {
    fn needs(&self) -> BTreeSet<Digest> {
        self.published.union(&self.reported).copied().collect()
    }

    /// A new coordinator knows no results of the earlier one.
    fn unlink(&mut self) {
        self.is_linked = false;
        self.reported.clear();
    }
}

/// A collection that waits for answers.
struct Collection {
    epoch: Epoch,
    number: u64,
    waiting: Vec<usize>,
}

struct World {
    place: Scratch,
    blobs: Blobs,
    /// Of the coordinators.
    store: Store,
    builds: [Build; 3],
    collection: Option<Collection>,
    last: u64,
    random: Random,
}

impl World {
    fn new(seed: u64) -> World {
        let place = Scratch::new("serve-collection");
        let blobs = Blobs::open(place.path(), limits(), 0).unwrap();
        let store = Store::open(&place.at("blobs"), limits()).unwrap();
        World { place, blobs, store, builds: Default::default(), collection: None, last: 0, random: Random::new(seed) }
    }

    fn content(&mut self) -> Vec<u8> {
        vec![self.random.below(12) as u8; 9]
    }

    fn step(&mut self) {
        let build = self.random.below(3);
        match self.random.below(20) {
            0..2 => self.publish(build),
            2..7 => self.report(build),
            7..9 => {
                let accepted = self.builds[build].reported.pop_first();
                assert!(accepted.is_none_or(|digest| self.is_there(&digest)));
            }
            9 => {
                self.builds[build].published.pop_first();
            }
            10 => self.unlink(build),
            11..13 => self.builds[build].is_linked = true,
            13 => self.restart_server(),
            14 => self.expire_pins(),
            _ => self.collect(),
        }
        self.check();
    }

    /// A coordinator adds a blob, whether it is linked or not.
    fn publish(&mut self, build: usize) {
        let content = self.content();
        let blob = self.store.add(&mut &content[..], 9, Durability::Process).unwrap();
        let until = SystemTime::now() + Duration::from_secs(10_000);
        if self.store.pin(&[blob.digest], until).unwrap().is_empty() {
            self.builds[build].published.insert(blob.digest);
        }
    }

    /// A client uploads a blob unless it is there, and the coordinator gets the result.
    fn report(&mut self, build: usize) {
        let content = self.content();
        let digest = Digest::of(&content);
        if !self.blobs.missing("main", &[digest]).unwrap().is_empty() {
            let blob = tanto_cas::BlobInfo { digest, size: 9 };
            let half = self.blobs.uploaded(&[build as u8; 16], &blob).unwrap();
            let sent = if self.random.chance(50) { 9 } else { 5.max(half) };
            let bytes = &content[half as usize..sent as usize];
            self.blobs.append(&[build as u8; 16], &blob, half, bytes).unwrap();
        }
        if self.builds[build].is_linked && self.store.contains(&digest).unwrap() {
            self.builds[build].reported.insert(digest);
        }
    }

    fn unlink(&mut self, build: usize) {
        self.builds[build].unlink();
        // It is not awaited.
        self.collection.take_if(|collection| collection.waiting.contains(&build));
    }

    fn restart_server(&mut self) {
        (0..3).for_each(|build| self.builds[build].unlink());
        (self.collection, self.last) = (None, 0);
        self.blobs = Blobs::open(self.place.path(), limits(), 0).unwrap();
    }

    /// Pins last longer than it takes until a coordinator is asked.
    fn expire_pins(&mut self) {
        if self.builds.iter().all(|build| build.published.is_subset(&build.named)) {
            std::fs::remove_dir_all(self.place.at("blobs/pins")).unwrap();
            self.store = Store::open(&self.place.at("blobs"), limits()).unwrap();
            self.blobs = Blobs::open(self.place.path(), limits(), 0).unwrap();
            self.collection = None;
        }
    }

    /// One step of a collection: begins it, gets an answer, or removes blobs.
    fn collect(&mut self) {
        let Some(mut collection) = self.collection.take() else {
            self.last += 1;
            let waiting = (0..3).filter(|build| self.builds[*build].is_linked).collect();
            self.collection = Some(Collection { epoch: self.blobs.begin_epoch().unwrap(), number: self.last, waiting });
            return;
        };
        match collection.waiting.pop() {
            Some(build) => {
                let needs = self.builds[build].needs();
                let digests = needs.iter().map(|digest| tanto_protocol::Digest(digest.0)).collect();
                let epoch = collection.number;
                self.blobs.provide(&build.to_string(), ToServer::Roots { epoch, digests }).unwrap();
                assert!(self.blobs.has_roots(&build.to_string(), epoch));
                self.builds[build].named = needs;
                self.collection = Some(collection);
            }
            None => {
                let all: HashSet<String> = (0..3).map(|build: usize| build.to_string()).collect();
                self.blobs.collect(collection.epoch, &all).unwrap();
            }
        }
    }

    fn is_there(&self, digest: &Digest) -> bool {
        self.store.blob_path(digest).exists()
    }

    fn check(&self) {
        for (number, build) in self.builds.iter().enumerate() {
            let lost = build.needs().into_iter().find(|digest| !self.is_there(digest));
            assert_eq!(lost, None, "build {number}");
        }
    }

    /// When nothing is needed, nothing stays.
    fn end(mut self) {
        self.builds = Default::default();
        self.builds.iter_mut().for_each(|build| build.is_linked = true);
        self.expire_pins();
        self.collection = None;
        for _ in 0..5 {
            self.collect();
        }
        assert!(self.collection.is_none());
        for byte in 0..12 {
            assert!(!self.is_there(&Digest::of(&[byte; 9])));
        }
    }
}

#[test]
fn nothing_that_a_build_needs_is_removed() {
    for seed in seeds(20) {
        println!("seed {seed}");
        let mut world = World::new(seed);
        for _ in 0..150 {
            world.step();
        }
        world.end();
    }
}
