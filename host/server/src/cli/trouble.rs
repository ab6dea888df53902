//! What to do about what SQLite says.

/// What to do about a damaged file.
pub(super) const DAMAGED: &str =
    "stop what runs on the log, keep a copy of its folder, and put back a copy from before";

/// What to do, where the error tells.
pub(super) fn next_step(error: &sqlx::Error) -> Option<&'static str> {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code)?;
    // The low byte is what went wrong, the rest says how.
    Some(match code.parse::<u32>().ok()? & 0xff {
        BUSY | LOCKED => {
            "try again when the process that holds the log is done, or end that process"
        }
        PERM | READONLY | CANTOPEN => {
            "see that this user may write the log's folder and file: windlass doctor"
        }
        IOERR => "see what the system says of the disk (`dmesg`), then: windlass doctor",
        CORRUPT | NOTADB => DAMAGED,
        FULL => "make room on the disk, then try again",
        _ => return None,
    })
}

const PERM: u32 = 3;
const BUSY: u32 = 5;
const LOCKED: u32 = 6;
const READONLY: u32 = 8;
const IOERR: u32 = 10;
const CORRUPT: u32 = 11;
const FULL: u32 = 13;
const CANTOPEN: u32 = 14;
const NOTADB: u32 = 26;
