//! The bulk builder's database: an SQLite file written only by the coordinator.

pub mod journal;
mod read;
mod rows;
mod schema;
#[cfg(test)]
mod tests;
mod write;

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

pub use rows::{
    AttemptRow, Change, ClientWorkRow, CostRow, DigestRow, EstimateRow, FileRow, LeaseRow, PackageRow, ProvenanceRow,
    RunRow, ScanRow, Sha256, StageRow, Stamp, VerificationRow,
};

#[derive(Debug)]
pub struct Database {
    db: Connection,
}

#[derive(Debug)]
pub enum DatabaseError {
    /// Written by another version of Tanto, in this version of the format.
    Version(i64),
    /// The disk is full; nothing was changed.
    Full,
    /// Corrupt, according to SQLite.
    Damaged(String),
    Other(rusqlite::Error),
}

impl From<rusqlite::Error> for DatabaseError {
    fn from(error: rusqlite::Error) -> DatabaseError {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => DatabaseError::Full,
            Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase) => {
                DatabaseError::Damaged(error.to_string())
            }
            _ if is_foreign(&error) => DatabaseError::Damaged(error.to_string()),
            _ => DatabaseError::Other(error),
        }
    }
}

/// Returns whether a column contains a value that its table does not allow.
fn is_foreign(error: &rusqlite::Error) -> bool {
    use rusqlite::Error;
    matches!(
        error,
        Error::InvalidColumnType(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::FromSqlConversionFailure(..)
            | Error::Utf8Error(..)
    )
}

impl std::error::Error for DatabaseError {}

impl std::fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DatabaseError::Version(version) => write!(f, "written by another version of Tanto (format {version})"),
            DatabaseError::Full => f.write_str("the disk is full"),
            DatabaseError::Damaged(what) => write!(
                f,
                "damaged ({what}): delete the files 'db', 'db-wal' and 'db-shm' in the directory 'state': 'tanto bulk \
                 build' then creates a new one, scans again and keeps up-to-date packages, but has no record of earlier \
                 builds"
            ),
            DatabaseError::Other(error) => error.fmt(f),
        }
    }
}

pub type Result<T> = std::result::Result<T, DatabaseError>;

/// Commits survive a crash of the process and a power failure.
const SETTINGS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;";

/// Returns the path of a file next to the database.
fn sibling(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

impl Database {
    /// Opens the database for reading, while another process may write.
    pub fn open_read_only(path: &Path) -> Result<Database> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let db = Connection::open_with_flags(path, flags)?;
        schema::check(&db)?;
        Ok(Database { db })
    }

    /// Opens the database for writing; creates or migrates it if necessary. The caller holds the lock that makes it the
    /// only writer. Checks the integrity if the last writer did not close it.
    pub fn open(path: &Path) -> Result<Database> {
        if let Err(error) = tanto_sys::fs::private_files::create(path)
            && error.kind() != std::io::ErrorKind::AlreadyExists
        {
            return Err(DatabaseError::Other(rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN),
                Some(format!("{}: {error}", path.display())),
            )));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        // Closing the database removes this file.
        let was_left = fs::metadata(sibling(path, "-wal")).is_ok_and(|data| data.len() > 0);
        let mut db = Connection::open_with_flags(path, flags)?;
        if was_left {
            schema::quick_check(&db)?;
        }
        db.set_prepared_statement_cache_capacity(64);
        db.execute_batch(SETTINGS)?;
        schema::bring_up_to_date(&mut db)?;
        Ok(Database { db })
    }
}
