//! What a soak has seen.

use std::fmt;
use std::path::Path;
use std::time::Duration;

/// Shares of the run: what was there early on, when everything is warm, and at its end.
const EARLY: std::ops::Range<f64> = 0.2..0.4;
const LATE: std::ops::Range<f64> = 0.8..1.0;

#[derive(Debug, Default)]
pub(super) struct Figures {
    /// Share of the run and resident bytes.
    memory: Vec<(f64, u64)>,
    pub(super) wal_most: u64,
    file_most: u64,
    file_last: u64,
    pub(super) recounts: u64,
    pub(super) disturbed: u64,
    pub(super) longest_read: Duration,
    pub(super) published: u64,
    pub(super) settled: u64,
}

impl Figures {
    /// Looks at the files and at this process, `share` of the run being over.
    pub(super) fn look(&mut self, file: &Path, share: f64) {
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
        let mut wal = file.as_os_str().to_owned();
        wal.push("-wal");
        self.wal_most = self.wal_most.max(size(Path::new(&wal)));
        self.file_last = size(file);
        self.file_most = self.file_most.max(self.file_last);
        self.memory.push((share, resident()));
    }

    fn memory_early(&self) -> u64 {
        self.median_of(&EARLY)
    }

    fn memory_late(&self) -> u64 {
        self.median_of(&LATE)
    }

    /// As one process tells another: memory early and late, the write-ahead log, recounts, published
    /// and settled messages.
    pub(super) fn told(&self) -> String {
        let (early, late) = (self.memory_early(), self.memory_late());
        let Self { wal_most, recounts, published, settled, .. } = self;
        format!("{early} {late} {wal_most} {recounts} {published} {settled}")
    }

    fn median_of(&self, shares: &std::ops::Range<f64>) -> u64 {
        let within = self.memory.iter().filter(|(share, _)| shares.contains(share));
        let mut sizes: Vec<u64> = within.map(|(_, size)| *size).collect();
        sizes.sort_unstable();
        sizes[sizes.len() / 2]
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes >> 20;
        write!(
            f,
            "published {}, settled {}; memory {} MiB early, {} late; write-ahead log at most {} MiB; \
             file at most {} MiB, {} at the end; {} recounts without drift ({} times something \
             changed too fast to compare), longest read {:.1?}",
            self.published,
            self.settled,
            mib(self.memory_early()),
            mib(self.memory_late()),
            mib(self.wal_most),
            mib(self.file_most),
            mib(self.file_last),
            self.recounts,
            self.disturbed,
            self.longest_read,
        )
    }
}

/// Bytes of memory this process has.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}
