//! Where a log lies: what kind of file system, how much room, who may write, how fast it syncs.

use crate::bench::disk::sync_times;
use std::path::Path;
use windlass_log::sqlite::FILE_NAME;

/// Overwrites of one look.
const SYNCS: u64 = 40;

/// What kind of place it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A disk of this machine.
    Local,
    /// Another machine's.
    Remote,
    /// No disk at all.
    Memory,
    /// The system does not tell, or tells what we do not know.
    Unknown,
}

/// A folder's surroundings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Disk {
    /// The file system's name.
    pub(crate) filesystem: String,
    pub(crate) place: Place,
    /// What this user may still write.
    pub(crate) free_bytes: Option<u64>,
    pub(crate) folder_writable: bool,
    pub(crate) file_writable: bool,
    /// Times of overwriting 4 KiB in place and syncing, in milliseconds; none where nothing can be
    /// written.
    pub(crate) syncs: Vec<f64>,
}

impl Disk {
    /// Looks at a log's folder. Writes a small file there and removes it.
    pub(crate) fn look(folder: &Path) -> Self {
        let (filesystem, place) = kind(folder);
        let may_write = |path: &Path| {
            let access = rustix::fs::Access::WRITE_OK;
            rustix::fs::access(path, access).is_ok()
        };
        let room = rustix::fs::statvfs(folder).ok();
        let syncs = tempfile::Builder::new()
            .prefix("doctor-")
            .tempfile_in(folder)
            .and_then(|file| sync_times(file.path(), SYNCS));
        Self {
            filesystem,
            place,
            free_bytes: room.map(|room| room.f_bavail.saturating_mul(room.f_frsize)),
            folder_writable: may_write(folder),
            file_writable: may_write(&folder.join(FILE_NAME)),
            syncs: syncs.unwrap_or_default(),
        }
    }
}

/// The numbers that Linux has for file systems.
#[cfg(target_os = "linux")]
const KINDS: [(u64, &str, Place); 20] = [
    (0xef53, "ext4", Place::Local),
    (0x5846_5342, "xfs", Place::Local),
    (0x9123_683e, "btrfs", Place::Local),
    (0xf2f5_2010, "f2fs", Place::Local),
    (0x2fc1_2fc1, "zfs", Place::Local),
    (0xca45_1a4e, "bcachefs", Place::Local),
    (0x794c_7630, "overlayfs", Place::Local),
    (0x0102_1994, "tmpfs", Place::Memory),
    (0x8584_58f6, "ramfs", Place::Memory),
    (0x6969, "NFS", Place::Remote),
    (0x517b, "SMB", Place::Remote),
    (0xff53_4d42, "CIFS", Place::Remote),
    (0xfe53_4d42, "SMB", Place::Remote),
    (0x00c3_6400, "Ceph", Place::Remote),
    (0x0102_1997, "9p", Place::Remote),
    (0x5346_414f, "AFS", Place::Remote),
    (0x0bd0_0bd0, "Lustre", Place::Remote),
    (0x4750_4653, "GPFS", Place::Remote),
    (0x786f_4256, "vboxsf", Place::Remote),
    // What lies behind may be a disk, a share, or a machine's host.
    (0x6573_5546, "FUSE", Place::Unknown),
];

#[cfg(target_os = "linux")]
fn kind(folder: &Path) -> (String, Place) {
    let found = rustix::fs::statfs(folder).ok();
    let Some(number) = found.and_then(|found| u64::try_from(found.f_type).ok()) else {
        return ("unknown".to_owned(), Place::Unknown);
    };
    let known = KINDS.iter().find(|(known, _, _)| *known == number);
    known.map_or_else(
        || (format!("unknown ({number:#x})"), Place::Unknown),
        |(_, name, place)| ((*name).to_owned(), *place),
    )
}

#[cfg(not(target_os = "linux"))]
fn kind(_folder: &Path) -> (String, Place) {
    ("unknown".to_owned(), Place::Unknown)
}
