//! Records how packages were built: by which client, from which tree, and with which packages.

use tanto_protocol::Digest;
use tanto_record::database::{Change, ProvenanceRow, Sha256};

use super::dispatch::ClientIndex;
use super::frontend::Coordinator;
use crate::resolve::PackageId;

/// What an attempt is made with: all direct and indirect dependencies, and the package tree.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct BuiltWith {
    count: u32,
    /// The digests that are known.
    digests: Vec<Sha256>,
    /// The manifest of the package tree, if it is known.
    tree: Option<Digest>,
}

/// Digits of a digest that are shown.
const SHOWN: usize = 12;

impl Coordinator<'_> {
    /// Returns the packages and the tree that an attempt that begins now is made with.
    pub(super) fn built_with(&self, package: PackageId) -> BuiltWith {
        if !self.keeps_provenance {
            return BuiltWith::default();
        }
        let all = self.plan.all_dependencies(package);
        let digest = |needed: &PackageId| {
            let name = &self.plan.package(*needed).name;
            Some(self.farm.as_ref()?.packages.get(name)?.digest.0)
        };
        let tree = self.farm.as_ref().and_then(|farm| farm.tree_of(package));
        BuiltWith { count: all.len() as u32, digests: all.iter().filter_map(digest).collect(), tree }
    }

    /// Records how a package was built. Its file was recorded.
    pub(super) fn record_provenance(&mut self, package: PackageId) {
        if !self.keeps_provenance {
            return;
        }
        let (name, current, running) =
            (&self.plan.package(package).name, self.current(package), &self.running[&package]);
        let token = match current.client {
            ClientIndex::Local(_) => String::new(),
            ClientIndex::Remote(client) => self.dispatch.clients()[client].token.clone(),
        };
        let farm = self.farm.as_ref();
        let began_with = running.built_with.tree;
        let tree = match current.client {
            ClientIndex::Remote(_) => began_with,
            // The files of this machine may have changed since it began.
            ClientIndex::Local(_) => began_with.filter(|it| farm.and_then(|farm| farm.tree_of(package)) == Some(*it)),
        };
        let row = ProvenanceRow {
            job: package,
            attempt: current.attempt,
            name: name.clone(),
            client: self.dispatch.name(current.client),
            token,
            tree: tree.map(|it| it.to_string()).unwrap_or_default(),
            environment: farm.map(|farm| farm.environment().to_owned()).unwrap_or_default(),
            digest: farm.and_then(|farm| farm.packages.get(name)).map(|blob| blob.digest.0),
            dependencies: running.built_with.count,
            built_with: running.built_with.digests.clone(),
            began_ms: self.date(running.began_ms),
            ended_ms: self.date(self.clock.now_ms()),
        };
        if let ClientIndex::Remote(_) = current.client {
            self.choose_for_verification(package, &row);
        }
        self.journal.record(Change::Built(row));
    }
}

/// Describes how a package was built, for the user.
pub fn describe(row: &ProvenanceRow) -> String {
    let tree = match &row.tree {
        tree if tree.is_empty() => String::new(),
        tree => format!(" from tree {}", tree.get(..SHOWN).unwrap_or(tree)),
    };
    let others = match row.dependencies {
        0 => String::new(),
        1 => ", with 1 package".to_owned(),
        count => format!(", with {count} packages"),
    };
    format!("built by {}{tree}{others}", row.client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provenance_is_described_as_far_as_it_is_known() {
        let row = ProvenanceRow {
            job: 0,
            attempt: 1,
            name: "a-1".into(),
            client: "builder-2".into(),
            token: "t".into(),
            tree: "0123456789abcdef".into(),
            environment: String::new(),
            digest: None,
            dependencies: 12,
            built_with: Vec::new(),
            began_ms: 0,
            ended_ms: 1,
        };
        assert_eq!(describe(&row), "built by builder-2 from tree 0123456789ab, with 12 packages");
        let here = ProvenanceRow { client: "local-1".into(), tree: String::new(), dependencies: 1, ..row };
        assert_eq!(describe(&here), "built by local-1, with 1 package");
        assert_eq!(describe(&ProvenanceRow { dependencies: 0, ..here }), "built by local-1");
    }
}
