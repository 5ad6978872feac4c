//! Writes changes.

use rusqlite::{Transaction, params};

use super::{
    AttemptRow, Change, CostRow, Database, DigestRow, EstimateRow, FileRow, LeaseRow, PackageRow, ProvenanceRow,
    Result, ScanRow, StageRow, Stamp, VerificationRow,
};

const PACKAGE: &str = "INSERT OR REPLACE INTO package (run, package, job, name, location, state, detail, reason)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
const EDGE: &str = "INSERT OR IGNORE INTO edge (run, package, dependency) VALUES (?, ?, ?)";
const EDGELESS: &str = "DELETE FROM edge WHERE run = ? AND package = ?";
const STATE: &str = "UPDATE package SET state = ?, detail = ?, reason = ? WHERE run = ? AND package = ?";
const DUE: &str = "INSERT OR REPLACE INTO build_reason (run, package, reason) VALUES (?, ?, ?)";
const CONTENT: &str = "INSERT OR REPLACE INTO content (name, written_ns, since_ns) VALUES (?, ?, ?)";
const OPTIONS: &str = "INSERT OR REPLACE INTO options (name, options) VALUES (?, ?)";
const FIRST_OPTIONS: &str = "INSERT OR IGNORE INTO options (name, options) VALUES (?, ?)";
const ATTEMPT: &str = "INSERT OR REPLACE INTO attempt (run, job, attempt, client, began_ms, ended_ms, outcome, reason)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
const LEASE: &str =
    "INSERT INTO lease (run, lease, job, attempt, client, token, began_ms, state, cause, tree, environment)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (run, lease) DO UPDATE SET state = excluded.state, cause = excluded.cause";
const BUILT: &str = "INSERT OR REPLACE INTO provenance
    (run, job, attempt, name, client, token, tree, environment, digest, dependencies, built_with, began_ms, ended_ms)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
const DISTRUSTED: &str = "INSERT OR IGNORE INTO distrusted (token, client, at_ms) SELECT DISTINCT token, client, ? FROM lease WHERE client = ?";
const VERIFICATION: &str = "INSERT OR REPLACE INTO verification
    (run, job, attempt, name, digest, first, second, third, result, suspect, detail, at_ms)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
const STAGE: &str = "INSERT OR REPLACE INTO stage (run, job, attempt, stage, began_ms, wall_ms, cpu_ms, peak_kib,
    read_bytes, written_bytes, io_wait_us, cpu_wait_us, exit, log) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
const FILE: &str = "INSERT OR REPLACE INTO file (name, path, bytes, digest) VALUES (?, ?, ?, ?)";
const COST: &str = "INSERT OR REPLACE INTO cost (name, location, at_ms, wall_ms, cpu_ms, peak_kib, disk_kib)
    VALUES (?, ?, ?, ?, ?, ?, ?)";
const EXPECTED: &str = "INSERT OR REPLACE INTO estimate (run, package, wall_ms, basis) VALUES (?, ?, ?, ?)";
const SCANNED: &str = "INSERT OR REPLACE INTO scan (location, key, records, failed, wall_ms) VALUES (?, ?, ?, ?, ?)";
const DIGESTED: &str =
    "INSERT OR REPLACE INTO digest (path, device, inode, bytes, mtime_ns, ctime_ns, digest, queries_options)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
const ENDED: &str = "UPDATE run SET ended_ms = ? WHERE run = ?";

impl Database {
    /// Begins a run and returns its number.
    pub fn begin_run(&mut self, began_ms: i64) -> Result<i64> {
        self.db.execute("INSERT INTO run (began_ms) VALUES (?)", [began_ms])?;
        Ok(self.db.last_insert_rowid())
    }

    /// Invalidates the results of scans, but keeps their durations.
    pub fn forget_scans(&mut self) -> Result<()> {
        self.db.execute("UPDATE scan SET key = x''", [])?;
        Ok(())
    }

    /// Writes changes of a run in one transaction.
    pub fn apply(&mut self, run: i64, changes: &[Change]) -> Result<()> {
        let writing = self.db.transaction()?;
        changes.iter().try_for_each(|change| write(&writing, run, change))?;
        Ok(writing.commit()?)
    }
}

fn write(db: &Transaction<'_>, run: i64, change: &Change) -> Result<()> {
    match change {
        Change::Package(PackageRow { package, job, name, location, state, detail, why }) => {
            db.prepare_cached(PACKAGE)?.execute(params![run, package, job, name, location, state, detail, why])?
        }
        Change::Edge { package, needs } => db.prepare_cached(EDGE)?.execute(params![run, package, needs])?,
        Change::Edgeless { package } => db.prepare_cached(EDGELESS)?.execute(params![run, package])?,
        Change::State { package, state, detail, why } => {
            db.prepare_cached(STATE)?.execute(params![state, detail, why, run, package])?
        }
        Change::Due { package, why } => db.prepare_cached(DUE)?.execute(params![run, package, why])?,
        Change::Content { name, written_ns, since_ns } => {
            db.prepare_cached(CONTENT)?.execute(params![name, written_ns, since_ns])?
        }
        Change::Options { name, options, is_new } => {
            db.prepare_cached(if *is_new { OPTIONS } else { FIRST_OPTIONS })?.execute(params![name, options])?
        }
        Change::Attempt(it) => write_attempt(db, run, it)?,
        Change::Lease(it) => write_lease(db, run, it)?,
        Change::Built(it) => write_provenance(db, run, it)?,
        Change::Distrusted { client, at_ms } => db.prepare_cached(DISTRUSTED)?.execute(params![at_ms, client])?,
        Change::Verification(it) => write_verification(db, run, it)?,
        Change::Stage(it) => write_stage(db, run, it)?,
        Change::File(FileRow { name, path, bytes, digest }) => {
            db.prepare_cached(FILE)?.execute(params![name, path, *bytes as i64, digest])?
        }
        Change::Cost(it) => write_cost(db, it)?,
        Change::Expected(EstimateRow { package, wall_ms, basis }) => {
            db.prepare_cached(EXPECTED)?.execute(params![run, package, *wall_ms as i64, basis])?
        }
        Change::Scanned(ScanRow { location, key, records, failed, wall_ms }) => {
            db.prepare_cached(SCANNED)?.execute(params![location, key, records, failed, *wall_ms as i64])?
        }
        Change::Digested(it) => write_digest(db, it)?,
        Change::Ended { at_ms } => db.prepare_cached(ENDED)?.execute(params![at_ms, run])?,
    };
    Ok(())
}

fn write_attempt(db: &Transaction<'_>, run: i64, it: &AttemptRow) -> Result<usize> {
    let mut statement = db.prepare_cached(ATTEMPT)?;
    let AttemptRow { job, attempt, client, began_ms, ended_ms, outcome, why } = it;
    Ok(statement.execute(params![run, job, attempt, client, began_ms, ended_ms, outcome, why])?)
}

/// The tree and the environment of a known lease never change.
fn write_lease(db: &Transaction<'_>, run: i64, it: &LeaseRow) -> Result<usize> {
    let mut statement = db.prepare_cached(LEASE)?;
    let LeaseRow { lease, job, attempt, client, token, began_ms, state, cause, tree, environment } = it;
    let row = params![run, lease, job, attempt, client, token, began_ms, state, cause, tree, environment];
    Ok(statement.execute(row)?)
}

fn write_provenance(db: &Transaction<'_>, run: i64, it: &ProvenanceRow) -> Result<usize> {
    let mut statement = db.prepare_cached(BUILT)?;
    let ProvenanceRow { job, attempt, name, client, token, tree, environment, dependencies, .. } = it;
    let (digest, built_with) = (it.digest.as_ref().map(<[u8; 32]>::as_slice), it.built_with.as_flattened());
    let (began, ended) = (it.began_ms, it.ended_ms);
    Ok(statement.execute(params![
        run,
        job,
        attempt,
        name,
        client,
        token,
        tree,
        environment,
        digest,
        dependencies,
        built_with,
        began,
        ended
    ])?)
}

fn write_verification(db: &Transaction<'_>, run: i64, it: &VerificationRow) -> Result<usize> {
    let mut statement = db.prepare_cached(VERIFICATION)?;
    let VerificationRow { job, attempt, name, digest, first, second, third, result, suspect, detail, at_ms } = it;
    let row = params![run, job, attempt, name, digest, first, second, third, result, suspect, detail, at_ms];
    Ok(statement.execute(row)?)
}

fn write_stage(db: &Transaction<'_>, run: i64, it: &StageRow) -> Result<usize> {
    let mut statement = db.prepare_cached(STAGE)?;
    let [wall_ms, cpu_ms, peak_kib] = [it.wall_ms, it.cpu_ms, it.peak_kib].map(|number| number as i64);
    let (read, written) = (it.read_bytes as i64, it.written_bytes as i64);
    let [io, cpu] = [it.waits.map(|waits| waits.io_us as i64), it.waits.map(|waits| waits.cpu_us as i64)];
    let StageRow { job, attempt, stage, began_ms, exit, log, .. } = it;
    let row = params![run, job, attempt, stage, began_ms, wall_ms, cpu_ms, peak_kib, read, written, io, cpu, exit, log];
    Ok(statement.execute(row)?)
}

fn write_cost(db: &Transaction<'_>, it: &CostRow) -> Result<usize> {
    let mut statement = db.prepare_cached(COST)?;
    let [wall_ms, cpu_ms, peak_kib, disk_kib] = [it.wall_ms, it.cpu_ms, it.peak_kib, it.disk_kib].map(|it| it as i64);
    Ok(statement.execute(params![it.name, it.location, it.at_ms, wall_ms, cpu_ms, peak_kib, disk_kib])?)
}

fn write_digest(db: &Transaction<'_>, it: &DigestRow) -> Result<usize> {
    let Stamp { device, inode, bytes, mtime_ns, ctime_ns } = it.stamp;
    let [device, inode, bytes] = [device, inode, bytes].map(u64::cast_signed);
    let mut statement = db.prepare_cached(DIGESTED)?;
    Ok(statement.execute(params![it.path, device, inode, bytes, mtime_ns, ctime_ns, it.digest, it.asks])?)
}
