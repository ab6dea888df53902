//! What a soak has seen.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Shares of the run: what was there early on, when everything is warm, and at its end.
const EARLY: std::ops::Range<f64> = 0.2..0.4;
const LATE: std::ops::Range<f64> = 0.8..1.0;
/// How often sizes are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Looks at sizes by a thread of its own, whatever else the process waits for.
#[derive(Debug)]
pub(super) struct Watch {
    end: Sender<()>,
    thread: JoinHandle<Sizes>,
}

impl Watch {
    pub(super) fn begin(file: &Path, span: Duration) -> Self {
        let (end, ended) = mpsc::channel();
        let (file, since) = (file.to_owned(), Instant::now());
        let thread = std::thread::spawn(move || {
            let mut sizes = Sizes::default();
            loop {
                sizes.look(&file, since.elapsed().as_secs_f64() / span.as_secs_f64());
                if ended.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
                    return sizes;
                }
            }
        });
        Self { end, thread }
    }

    pub(super) fn end(self) -> Sizes {
        drop(self.end);
        self.thread.join().unwrap()
    }
}

#[derive(Debug, Default)]
pub(super) struct Sizes {
    /// Share of the run and resident bytes.
    memory: Vec<(f64, u64)>,
    wal_most: u64,
    file_most: u64,
    file_last: u64,
}

#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) sizes: Sizes,
    pub(super) recounts: u64,
    pub(super) disturbed: u64,
    pub(super) longest_read: Duration,
    pub(super) published: u64,
    pub(super) settled: u64,
}

impl Sizes {
    /// Looks at the files and at this process, `share` of the run being over.
    fn look(&mut self, file: &Path, share: f64) {
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
        let mut wal = file.as_os_str().to_owned();
        wal.push("-wal");
        self.wal_most = self.wal_most.max(size(&PathBuf::from(wal)));
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

    /// Where the thread was not let run within these shares, what it saw next.
    fn median_of(&self, shares: &std::ops::Range<f64>) -> u64 {
        let from = self.memory.partition_point(|(share, _)| *share < shares.start);
        let until = self.memory.partition_point(|(share, _)| *share < shares.end);
        let from = from.min(self.memory.len() - 1);
        let within = &self.memory[from..until.max(from + 1)];
        let mut sizes: Vec<u64> = within.iter().map(|(_, size)| *size).collect();
        sizes.sort_unstable();
        sizes[sizes.len() / 2]
    }
}

impl Figures {
    /// As one process tells another: memory early and late, the write-ahead log, recounts, published
    /// and settled messages.
    pub(super) fn told(&self) -> String {
        let Self { sizes, recounts, published, settled, .. } = self;
        let (early, late) = (sizes.memory_early(), sizes.memory_late());
        format!("{early} {late} {} {recounts} {published} {settled}", sizes.wal_most)
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
            mib(self.sizes.memory_early()),
            mib(self.sizes.memory_late()),
            mib(self.sizes.wal_most),
            mib(self.sizes.file_most),
            mib(self.sizes.file_last),
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
