//! Tables and migrations.

use rusqlite::Connection;

use super::{DatabaseError, Result};

/// Each entry migrates a database from the version of its index to the next; 0 is an empty file. Released entries never
/// change.
pub(super) const MIGRATIONS: [&str; 12] = [
    "
    -- A bulk build, from its beginning to its end. Times are milliseconds since 1970.
    CREATE TABLE run (
        run INTEGER PRIMARY KEY, began_ms INTEGER NOT NULL, ended_ms INTEGER
    ) STRICT;
    -- A package of a run. `job` makes it, perhaps with others.
    CREATE TABLE package (
        run INTEGER NOT NULL REFERENCES run, package INTEGER NOT NULL, job INTEGER NOT NULL,
        name TEXT NOT NULL, location TEXT NOT NULL, state TEXT NOT NULL, why TEXT NOT NULL,
        PRIMARY KEY (run, package)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX package_by_name ON package (name, run);
    CREATE TABLE edge (
        run INTEGER NOT NULL, package INTEGER NOT NULL, needs INTEGER NOT NULL,
        PRIMARY KEY (run, package, needs)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE attempt (
        run INTEGER NOT NULL REFERENCES run, job INTEGER NOT NULL, attempt INTEGER NOT NULL, client TEXT NOT NULL,
        began_ms INTEGER NOT NULL, ended_ms INTEGER, outcome TEXT NOT NULL, why TEXT NOT NULL,
        PRIMARY KEY (run, job, attempt)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE stage (
        run INTEGER NOT NULL, job INTEGER NOT NULL, attempt INTEGER NOT NULL, stage TEXT NOT NULL,
        began_ms INTEGER NOT NULL, wall_ms INTEGER NOT NULL, cpu_ms INTEGER NOT NULL, peak_kib INTEGER NOT NULL,
        read_bytes INTEGER NOT NULL, written_bytes INTEGER NOT NULL, exit INTEGER NOT NULL, log TEXT NOT NULL,
        PRIMARY KEY (run, job, attempt, stage)
    ) STRICT, WITHOUT ROWID;
    -- What a package consists of: its file, and what stands for its content.
    CREATE TABLE file (
        name TEXT NOT NULL, path TEXT NOT NULL, bytes INTEGER NOT NULL, digest BLOB NOT NULL,
        PRIMARY KEY (name, path)
    ) STRICT, WITHOUT ROWID;
    -- What a package took when it was last built.
    CREATE TABLE cost (
        name TEXT PRIMARY KEY, location TEXT NOT NULL, at_ms INTEGER NOT NULL,
        wall_ms INTEGER NOT NULL, cpu_ms INTEGER NOT NULL, peak_kib INTEGER NOT NULL, disk_kib INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    -- What a directory's scan said, and of what that depends. `failed` is its log if it failed.
    CREATE TABLE scan (
        location TEXT PRIMARY KEY, key BLOB NOT NULL, records BLOB NOT NULL, failed TEXT
    ) STRICT, WITHOUT ROWID;
",
    "
    ALTER TABLE scan ADD COLUMN wall_ms INTEGER NOT NULL DEFAULT 0;
    -- What a file held when it was as the other columns say; while it is so, it need not be read. Times are nanoseconds
    -- since 1970.
    CREATE TABLE digest (
        path BLOB PRIMARY KEY, device INTEGER NOT NULL, inode INTEGER NOT NULL, bytes INTEGER NOT NULL,
        mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL, digest BLOB NOT NULL, asks INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
",
    "
    -- What a package was expected to take before it was built, and on what that rests.
    CREATE TABLE expected (
        run INTEGER NOT NULL REFERENCES run, package INTEGER NOT NULL, wall_ms INTEGER NOT NULL, basis TEXT NOT NULL,
        PRIMARY KEY (run, package)
    ) STRICT, WITHOUT ROWID;
",
    "
    -- Why a package had to be built.
    CREATE TABLE due (
        run INTEGER NOT NULL REFERENCES run, package INTEGER NOT NULL, why TEXT NOT NULL,
        PRIMARY KEY (run, package)
    ) STRICT, WITHOUT ROWID;
",
    "
    -- A package that was built again and is what it was before: when its file was written, and since when it has been what
    -- it is. Nanoseconds since 1970.
    CREATE TABLE content (
        name TEXT PRIMARY KEY, written_ns INTEGER NOT NULL, since_ns INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
",
    "
    -- The settings that a package was last built with.
    CREATE TABLE options (
        name TEXT PRIMARY KEY, options TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
",
    "
    -- How long a stage's processes waited for disks and for processors, in microseconds. NULL: the kernel did not tell.
    ALTER TABLE stage ADD COLUMN io_wait_us INTEGER;
    ALTER TABLE stage ADD COLUMN cpu_wait_us INTEGER;
",
    "
    -- Standard names.
    ALTER TABLE package RENAME COLUMN why TO reason;
    ALTER TABLE attempt RENAME COLUMN why TO reason;
    ALTER TABLE edge RENAME COLUMN needs TO dependency;
    ALTER TABLE due RENAME TO build_reason;
    ALTER TABLE build_reason RENAME COLUMN why TO reason;
    ALTER TABLE expected RENAME TO estimate;
    ALTER TABLE digest RENAME COLUMN asks TO queries_options;
    -- A resumed build recognizes these reasons.
    UPDATE package SET reason = 'the user requested a rebuild' WHERE reason = 'the user wants it to be built again';
    UPDATE package SET reason = 'it was interrupted during the installation of its package file'
        WHERE reason = 'it was interrupted on the way to its place';
",
    "
    -- A code for the reasons that a resumed build recognizes: 'requested' (by `tanto bulk retry`), 'interrupted' (during
    -- the installation), 'up-to-date' or 'skipped' (by `tanto bulk skip`). The reasons themselves are for people only.
    ALTER TABLE package ADD COLUMN detail TEXT NOT NULL DEFAULT '';
    UPDATE package SET detail = 'requested' WHERE state = 'open' AND reason = 'the user requested a rebuild';
    UPDATE package SET detail = 'interrupted'
        WHERE state = 'open' AND reason = 'it was interrupted during the installation of its package file';
    UPDATE package SET detail = 'up-to-date' WHERE state = 'done' AND reason = 'it was up to date';
    UPDATE package SET detail = 'skipped' WHERE state = 'prefailed' AND reason = 'skipped by the user';
",
    "
    -- A lease gives one client on another machine one attempt. `token`: the public identifier of the client's token.
    -- `tree`: the digest of the manifest of the package tree. `environment`: a digest of the environment of the build.
    CREATE TABLE lease (
        run INTEGER NOT NULL REFERENCES run, lease TEXT NOT NULL, job INTEGER NOT NULL, attempt INTEGER NOT NULL,
        client TEXT NOT NULL, token TEXT NOT NULL, began_ms INTEGER NOT NULL, state TEXT NOT NULL, cause TEXT NOT NULL,
        tree TEXT NOT NULL, environment TEXT NOT NULL,
        PRIMARY KEY (run, lease)
    ) STRICT, WITHOUT ROWID;
",
    "
    -- How a package was built, in the order of the builds. `token` is empty for this machine. `digest` is the SHA256 digest
    -- of its file. It was built with `dependencies` packages; `built_with` are the digests of those that have one, of 32
    -- bytes each.
    CREATE TABLE provenance (
        id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES run, job INTEGER NOT NULL, attempt INTEGER NOT NULL,
        name TEXT NOT NULL, client TEXT NOT NULL, token TEXT NOT NULL, tree TEXT NOT NULL, environment TEXT NOT NULL,
        digest BLOB, dependencies INTEGER NOT NULL, built_with BLOB NOT NULL, began_ms INTEGER NOT NULL,
        ended_ms INTEGER NOT NULL, UNIQUE (run, job, attempt)
    ) STRICT;
    CREATE INDEX provenance_by_name ON provenance (name, id);
    -- Tokens of clients that are distrusted.
    CREATE TABLE distrusted (
        token TEXT PRIMARY KEY, client TEXT NOT NULL, at_ms INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
",
    "
    -- The package of an attempt was or will be built again by other clients, to compare it. `digest` is the SHA256 digest of
    -- its file. `second` and `third` have built it again; empty if not. `result` is 'open', 'equal', 'differs' (the package
    -- of the client `suspect`), 'not-reproducible', 'undecided' or 'unverified'. `detail`: the members that differ, or the
    -- reason, for people.
    CREATE TABLE verification (
        run INTEGER NOT NULL REFERENCES run, job INTEGER NOT NULL, attempt INTEGER NOT NULL, name TEXT NOT NULL,
        digest BLOB NOT NULL, first TEXT NOT NULL, second TEXT NOT NULL, third TEXT NOT NULL, result TEXT NOT NULL,
        suspect TEXT NOT NULL, detail TEXT NOT NULL, at_ms INTEGER NOT NULL,
        PRIMARY KEY (run, job, attempt)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX verification_by_name ON verification (name, run);
",
];

/// Fails unless the database has the current version. The next writer migrates older ones.
pub(super) fn check(db: &Connection) -> Result<()> {
    let version: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version == MIGRATIONS.len() as i64 { Ok(()) } else { Err(DatabaseError::Version(version)) }
}

/// Checks the integrity, except that indices match their tables.
pub(super) fn quick_check(db: &Connection) -> Result<()> {
    let found: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found == "ok" { Ok(()) } else { Err(DatabaseError::Damaged(found)) }
}

/// Runs the missing migrations in one transaction.
pub(super) fn bring_up_to_date(db: &mut Connection) -> Result<()> {
    let version: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let missing = usize::try_from(version).ok().and_then(|version| MIGRATIONS.get(version..));
    let Some(missing) = missing else { return Err(DatabaseError::Version(version)) };
    if missing.is_empty() {
        return Ok(());
    }
    let steps = db.transaction()?;
    missing.iter().try_for_each(|step| steps.execute_batch(step))?;
    steps.pragma_update(None, "user_version", MIGRATIONS.len() as i64)?;
    Ok(steps.commit()?)
}
