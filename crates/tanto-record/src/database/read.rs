//! Queries.

use rusqlite::{OptionalExtension, Row, params};
use tanto_sys::cgroup::StallTimes;

use super::{
    AttemptRow, ClientWorkRow, CostRow, Database, DigestRow, EstimateRow, FileRow, LeaseRow, PackageRow, ProvenanceRow,
    Result, RunRow, ScanRow, Sha256, StageRow, Stamp, VerificationRow,
};

const PACKAGES: &str =
    "SELECT package, job, name, location, state, detail, reason FROM package WHERE run = ? ORDER BY package";
const EDGES: &str = "SELECT package, dependency FROM edge WHERE run = ? ORDER BY package, dependency";
const ATTEMPTS: &str = "SELECT job, attempt, client, began_ms, ended_ms, outcome, reason FROM attempt WHERE run = ?
    ORDER BY job, attempt";
const LEASES: &str = "SELECT lease, job, attempt, client, token, began_ms, state, cause, tree, environment FROM lease
    WHERE run = ? ORDER BY began_ms, lease";
/// Runs from the second number on; packages of the first are counted.
const CLIENT_WORK: &str = "SELECT attempt.client, sum(attempt.run = ?1), sum(coalesce(estimate.wall_ms, 0)),
    sum(CASE WHEN estimate.wall_ms > 0 THEN max(attempt.ended_ms - attempt.began_ms, 0) ELSE 0 END)
    FROM lease JOIN attempt USING (run, job, attempt)
    LEFT JOIN estimate ON estimate.run = attempt.run AND estimate.package = attempt.job
    WHERE attempt.run BETWEEN ?2 AND ?1 AND attempt.outcome = 'done' GROUP BY attempt.client ORDER BY attempt.client";
const BUILT: &str = "SELECT job, attempt, name, client, token, tree, environment, digest, dependencies, built_with,
    began_ms, ended_ms FROM provenance ORDER BY id";
const LAST_BUILT: &str =
    "SELECT job, attempt, name, client, token, tree, environment, digest, dependencies, built_with,
    began_ms, ended_ms FROM provenance WHERE name = ? ORDER BY id DESC LIMIT 1";
const VERIFICATIONS: &str = "SELECT job, attempt, name, digest, first, second, third, result, suspect, detail, at_ms
    FROM verification WHERE run = ? ORDER BY job, attempt";
const LAST_VERIFICATION: &str =
    "SELECT job, attempt, name, digest, first, second, third, result, suspect, detail, at_ms
    FROM verification WHERE name = ? ORDER BY run DESC, attempt DESC LIMIT 1";
const STAGES: &str = "SELECT job, attempt, stage, began_ms, wall_ms, cpu_ms, peak_kib, read_bytes, written_bytes,
    io_wait_us, cpu_wait_us, exit, log FROM stage WHERE run = ? ORDER BY job, attempt, began_ms";
const COSTS: &str = "SELECT name, location, at_ms, wall_ms, cpu_ms, peak_kib, disk_kib FROM cost ORDER BY name";
const ESTIMATES: &str = "SELECT package, wall_ms, basis FROM estimate WHERE run = ? ORDER BY package";
const FILES: &str = "SELECT name, path, bytes, digest FROM file ORDER BY name, path";
const RUNS: &str = "SELECT run, began_ms, ended_ms FROM run ORDER BY run";
const SCANNED: &str = "SELECT location, key, records, failed, wall_ms FROM scan ORDER BY location";
const DIGESTS: &str = "SELECT path, device, inode, bytes, mtime_ns, ctime_ns, digest, queries_options FROM digest";

impl Database {
    /// Returns the last run with its end, which is missing if the run was killed or continues.
    pub fn last_run(&self) -> Result<Option<(i64, Option<i64>)>> {
        let asked = "SELECT run, ended_ms FROM run ORDER BY run DESC LIMIT 1";
        Ok(self.db.query_row(asked, [], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
    }

    /// Returns all runs, the oldest first.
    pub fn runs(&self) -> Result<Vec<RunRow>> {
        self.all(RUNS, [], |row| Ok(RunRow { run: row.get(0)?, began_ms: row.get(1)?, ended_ms: row.get(2)? }))
    }

    /// Returns the packages of a run, by number.
    pub fn packages(&self, run: i64) -> Result<Vec<PackageRow>> {
        self.all(PACKAGES, params![run], |row| {
            Ok(PackageRow {
                package: row.get(0)?,
                job: row.get(1)?,
                name: row.get(2)?,
                location: row.get(3)?,
                state: row.get(4)?,
                detail: row.get(5)?,
                why: row.get(6)?,
            })
        })
    }

    /// Returns the dependencies between packages of a run.
    pub fn edges(&self, run: i64) -> Result<Vec<(u32, u32)>> {
        self.all(EDGES, params![run], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Returns the reasons for building packages of a run.
    pub fn due(&self, run: i64) -> Result<Vec<(u32, String)>> {
        self.all("SELECT package, reason FROM build_reason WHERE run = ? ORDER BY package", params![run], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
    }

    /// Returns the attempts of a run, by job.
    pub fn attempts(&self, run: i64) -> Result<Vec<AttemptRow>> {
        self.all(ATTEMPTS, params![run], |row| {
            Ok(AttemptRow {
                job: row.get(0)?,
                attempt: row.get(1)?,
                client: row.get(2)?,
                began_ms: row.get(3)?,
                ended_ms: row.get(4)?,
                outcome: row.get(5)?,
                why: row.get(6)?,
            })
        })
    }

    /// Returns the leases of a run, by time.
    pub fn leases(&self, run: i64) -> Result<Vec<LeaseRow>> {
        self.all(LEASES, params![run], |row| {
            Ok(LeaseRow {
                lease: row.get(0)?,
                job: row.get(1)?,
                attempt: row.get(2)?,
                client: row.get(3)?,
                token: row.get(4)?,
                began_ms: row.get(5)?,
                state: row.get(6)?,
                cause: row.get(7)?,
                tree: row.get(8)?,
                environment: row.get(9)?,
            })
        })
    }

    /// Passes how packages were built in all runs, in the order of the builds.
    pub fn each_provenance(&self, mut each: impl FnMut(ProvenanceRow)) -> Result<()> {
        self.all(BUILT, [], |row| provenance(row).map(&mut each)).map(drop)
    }

    /// Returns whether the provenance of any package is recorded.
    pub fn has_provenance(&self) -> Result<bool> {
        Ok(self.db.query_row("SELECT EXISTS (SELECT 1 FROM provenance)", [], |row| row.get(0))?)
    }

    /// Returns how a package was built last.
    pub fn provenance_of(&self, name: &str) -> Result<Option<ProvenanceRow>> {
        Ok(self.db.query_row(LAST_BUILT, [name], provenance).optional()?)
    }

    /// Returns the verifications of a run, by job.
    pub fn verifications(&self, run: i64) -> Result<Vec<VerificationRow>> {
        self.all(VERIFICATIONS, params![run], verification)
    }

    /// Returns the last verification of a package.
    pub fn verification_of(&self, name: &str) -> Result<Option<VerificationRow>> {
        Ok(self.db.query_row(LAST_VERIFICATION, [name], verification).optional()?)
    }

    /// Returns the tokens that are distrusted.
    pub fn distrusted_tokens(&self) -> Result<Vec<String>> {
        self.all("SELECT token FROM distrusted ORDER BY token", [], |row| row.get(0))
    }

    /// Returns whether a client has had leases in any run.
    pub fn has_had_leases(&self, client: &str) -> Result<bool> {
        Ok(self.db.query_row("SELECT EXISTS (SELECT 1 FROM lease WHERE client = ?)", [client], |row| row.get(0))?)
    }

    /// Returns the work of clients on other machines in a run and those before it, `runs` in all, by name.
    pub fn client_work(&self, run: i64, runs: i64) -> Result<Vec<ClientWorkRow>> {
        self.all(CLIENT_WORK, params![run, run - runs + 1], |row| {
            Ok(ClientWorkRow {
                client: row.get(0)?,
                built: count(row, 1)?,
                expected_ms: count(row, 2)?,
                took_ms: count(row, 3)?,
            })
        })
    }

    /// Returns the stages of a run, by job and time.
    pub fn stages(&self, run: i64) -> Result<Vec<StageRow>> {
        self.all(STAGES, params![run], |row| {
            Ok(StageRow {
                job: row.get(0)?,
                attempt: row.get(1)?,
                stage: row.get(2)?,
                began_ms: row.get(3)?,
                wall_ms: count(row, 4)?,
                cpu_ms: count(row, 5)?,
                peak_kib: count(row, 6)?,
                read_bytes: count(row, 7)?,
                written_bytes: count(row, 8)?,
                waits: waits(row, 9)?,
                exit: row.get(11)?,
                log: row.get(12)?,
            })
        })
    }

    /// Returns the costs of the last build of each package, by name.
    pub fn costs(&self) -> Result<Vec<CostRow>> {
        self.all(COSTS, [], |row| {
            Ok(CostRow {
                name: row.get(0)?,
                location: row.get(1)?,
                at_ms: row.get(2)?,
                wall_ms: count(row, 3)?,
                cpu_ms: count(row, 4)?,
                peak_kib: count(row, 5)?,
                disk_kib: count(row, 6)?,
            })
        })
    }

    /// Returns the files of each package at its last build, by name.
    pub fn files(&self) -> Result<Vec<FileRow>> {
        self.all(FILES, [], |row| {
            Ok(FileRow { name: row.get(0)?, path: row.get(1)?, bytes: count(row, 2)?, digest: row.get(3)? })
        })
    }

    /// Returns the estimates for packages of a run, by number.
    pub fn expected(&self, run: i64) -> Result<Vec<EstimateRow>> {
        self.all(ESTIMATES, params![run], |row| {
            Ok(EstimateRow { package: row.get(0)?, wall_ms: count(row, 1)?, basis: row.get(2)? })
        })
    }

    /// Returns packages that were rebuilt without a change: name, time of the rebuild, and time of the last change, in
    /// nanoseconds since 1970.
    pub fn contents(&self) -> Result<Vec<(String, i64, i64)>> {
        let asked = "SELECT name, written_ns, since_ns FROM content ORDER BY name";
        self.all(asked, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
    }

    /// Returns the options of the last build of each package, by name.
    pub fn options(&self) -> Result<Vec<(String, String)>> {
        self.all("SELECT name, options FROM options ORDER BY name", [], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Returns the results of scans, by directory.
    pub fn scanned(&self) -> Result<Vec<ScanRow>> {
        self.all(SCANNED, [], |row| {
            Ok(ScanRow {
                location: row.get(0)?,
                key: row.get(1)?,
                records: row.get(2)?,
                failed: row.get(3)?,
                wall_ms: count(row, 4)?,
            })
        })
    }

    /// Returns the digests of files.
    pub fn digests(&self) -> Result<Vec<DigestRow>> {
        self.all(DIGESTS, [], |row| {
            let number = |at| row.get(at).map(i64::cast_unsigned);
            let (device, inode, bytes) = (number(1)?, number(2)?, number(3)?);
            let stamp = Stamp { device, inode, bytes, mtime_ns: row.get(4)?, ctime_ns: row.get(5)? };
            Ok(DigestRow { path: row.get(0)?, stamp, digest: row.get(6)?, asks: row.get(7)? })
        })
    }

    fn all<T>(
        &self,
        question: &str,
        info: impl rusqlite::Params,
        row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let mut statement = self.db.prepare_cached(question)?;
        let rows = statement.query_map(info, row)?;
        Ok(rows.collect::<rusqlite::Result<Vec<T>>>()?)
    }
}

/// Reads two columns, both NULL if unknown.
fn waits(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<StallTimes>> {
    let is_known = row.get::<_, Option<i64>>(at)?.is_some();
    is_known.then(|| Ok(StallTimes { io_us: count(row, at)?, cpu_us: count(row, at + 1)? })).transpose()
}

fn provenance(row: &Row<'_>) -> rusqlite::Result<ProvenanceRow> {
    let digests: Vec<u8> = row.get(9)?;
    Ok(ProvenanceRow {
        job: row.get(0)?,
        attempt: row.get(1)?,
        name: row.get(2)?,
        client: row.get(3)?,
        token: row.get(4)?,
        tree: row.get(5)?,
        environment: row.get(6)?,
        digest: row.get(7)?,
        dependencies: row.get(8)?,
        built_with: digests.as_chunks::<{ size_of::<Sha256>() }>().0.to_vec(),
        began_ms: row.get(10)?,
        ended_ms: row.get(11)?,
    })
}

fn verification(row: &Row<'_>) -> rusqlite::Result<VerificationRow> {
    Ok(VerificationRow {
        job: row.get(0)?,
        attempt: row.get(1)?,
        name: row.get(2)?,
        digest: row.get(3)?,
        first: row.get(4)?,
        second: row.get(5)?,
        third: row.get(6)?,
        result: row.get(7)?,
        suspect: row.get(8)?,
        detail: row.get(9)?,
        at_ms: row.get(10)?,
    })
}

/// SQLite's integers are signed.
fn count(row: &Row<'_>, at: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(at)?).unwrap_or(0))
}
