//! How fast the disk keeps a promise: overwriting 4 KiB in place and syncing it.
//!
//! The call is the one SQLite makes in this build (fdatasync).

use super::figures::millis;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Instant;

const PAGE: usize = 4096;
const PAGES: u64 = 64;

/// Times of overwriting a page of the file `path`, which is made and removed, and syncing it, so
/// many times; in milliseconds.
pub(crate) fn sync_times(path: &Path, samples: u64) -> io::Result<Vec<f64>> {
    let mut file = File::create(path)?;
    let page = [7_u8; PAGE];
    for _ in 0..PAGES {
        file.write_all(&page)?;
    }
    file.sync_all()?;
    let mut times = Vec::new();
    for sample in 0..samples {
        file.seek(SeekFrom::Start(sample % PAGES * PAGE as u64))?;
        let since = Instant::now();
        file.write_all(&page)?;
        file.sync_data()?;
        times.push(millis(since.elapsed()));
    }
    std::fs::remove_file(path)?;
    Ok(times)
}
