//! A disk that loses power: what may be left of a folder at any moment. Pure.
//!
//! What was written to a file is sure once that file was synced; that a name was made, moved or
//! removed is sure once the folder was. Everything else may be there or not, in any part, whatever
//! came before or after it.

use super::recording::Operation;
use rand::RngExt;
use rand::rngs::StdRng;
use std::collections::BTreeMap;

/// A folder's files by name.
pub(super) type Image = BTreeMap<String, Vec<u8>>;

/// The disk after some operations of a recording.
#[derive(Debug, Default)]
pub(super) struct Disk<'r> {
    files: BTreeMap<u32, File<'r>>,
    /// The names as they are surely on the disk.
    names: BTreeMap<String, u32>,
    /// What was done to names since, and when.
    unsure: Vec<(usize, &'r Operation)>,
}

#[derive(Debug, Default)]
struct File<'r> {
    sure: Vec<u8>,
    /// What was done since the last sync, and when.
    unsure: Vec<(usize, Change<'r>)>,
}

#[derive(Debug, Clone, Copy)]
enum Change<'r> {
    Write(u64, &'r [u8]),
    Truncate(u64),
}

/// What is left of what is not sure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Left {
    Nothing,
    Everything,
    /// What was done before this moment.
    Before(usize),
    /// Only what was done since.
    Since(usize),
    /// Of each write each sector of so many bytes by chance; some that are lost hold noise.
    Sectors {
        size: u64,
        share: f64,
    },
}

impl Left {
    /// One way to lose power at `now`, where `oldest` is the first operation that is not sure.
    pub(super) fn draw(dice: &mut StdRng, oldest: usize, now: usize) -> Self {
        match dice.random_range(0..10) {
            0..2 => Self::Nothing,
            2 => Self::Everything,
            3..6 => Self::Before(dice.random_range(oldest..=now)),
            6 => Self::Since(dice.random_range(oldest..=now)),
            _ => Self::Sectors {
                size: [512, 4_096][dice.random_range(0..2)],
                share: [0.1, 0.5, 0.9][dice.random_range(0..3)],
            },
        }
    }

    /// Whether what was done at `when` is left; of what is left in parts, by chance.
    fn is_left(self, when: usize, dice: &mut StdRng) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Before(end) => when < end,
            Self::Since(start) => when >= start,
            Self::Sectors { share, .. } => dice.random_bool(share),
        }
    }
}

impl<'r> Disk<'r> {
    /// One more operation, the `when`th.
    pub(super) fn apply(&mut self, when: usize, operation: &'r Operation) {
        match operation {
            Operation::Create { file, .. } => {
                self.files.insert(*file, File::default());
                self.unsure.push((when, operation));
            }
            Operation::Unlink { .. } | Operation::Rename { .. } => {
                self.unsure.push((when, operation));
            }
            Operation::Write { file, at, data } => {
                self.file(*file).unsure.push((when, Change::Write(*at, data)));
            }
            Operation::Truncate { file, size } => {
                self.file(*file).unsure.push((when, Change::Truncate(*size)));
            }
            Operation::Sync { file } => {
                let file = self.file(*file);
                for (_, change) in std::mem::take(&mut file.unsure) {
                    change.apply(&mut file.sure);
                }
            }
            Operation::SyncFolder => {
                for (_, operation) in std::mem::take(&mut self.unsure) {
                    rename(&mut self.names, operation);
                }
            }
            Operation::Failed { file, how, .. } => {
                // After a failed sync the system takes what it could not write for written: the
                // next sync answers well and leaves it out.
                if how == "sync" && *file != 0 {
                    self.file(*file).unsure.clear();
                }
            }
            Operation::Mark(_) => {}
        }
    }

    fn file(&mut self, file: u32) -> &mut File<'r> {
        self.files.get_mut(&file).expect("a file is made before it is written")
    }

    /// The first operation that is not sure; `now` where all is.
    pub(super) fn oldest_unsure(&self, now: usize) -> usize {
        let of_files = self.files.values().filter_map(|file| file.unsure.first());
        let of_names = self.unsure.first().map(|(when, _)| *when);
        of_files.map(|(when, _)| *when).chain(of_names).min().unwrap_or(now)
    }

    /// What is found after the power came back.
    pub(super) fn after_power_loss(&self, left: Left, dice: &mut StdRng) -> Image {
        let mut names = self.names.clone();
        // Names are kept in order by every journal there is, or by none.
        let in_order = matches!(left, Left::Sectors { .. }) && dice.random_bool(0.5);
        let until = dice.random_range(0..=self.unsure.len());
        for (place, (when, operation)) in self.unsure.iter().enumerate() {
            if if in_order { place < until } else { left.is_left(*when, dice) } {
                rename(&mut names, operation);
            }
        }
        let mut image = Image::new();
        for (name, file) in names {
            image.insert(name, self.files[&file].after_power_loss(left, dice));
        }
        image
    }
}

impl File<'_> {
    fn after_power_loss(&self, left: Left, dice: &mut StdRng) -> Vec<u8> {
        let mut found = self.sure.clone();
        for (when, change) in &self.unsure {
            match (left, *change) {
                (Left::Sectors { size, share }, Change::Write(at, data)) => {
                    for (at, piece) in sectors(at, data, size) {
                        if dice.random_bool(share) {
                            Change::Write(at, piece).apply(&mut found);
                        } else if !holds(&found, at, piece) && dice.random_bool(0.02) {
                            let mut noise = vec![0; piece.len()];
                            dice.fill(&mut noise[..]);
                            Change::Write(at, &noise).apply(&mut found);
                        }
                    }
                }
                (_, change) if left.is_left(*when, dice) => change.apply(&mut found),
                _ => {}
            }
        }
        found
    }
}

impl Change<'_> {
    fn apply(self, bytes: &mut Vec<u8>) {
        let place = |at: u64| usize::try_from(at).unwrap();
        match self {
            Self::Write(at, data) => {
                let (start, end) = (place(at), place(at) + data.len());
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[start..end].copy_from_slice(data);
            }
            Self::Truncate(size) => bytes.resize(place(size), 0),
        }
    }
}

/// Whether a write of these bytes would change nothing: a sector that is written from one end to
/// the other, as SQLite takes it, then keeps them wherever that stops.
fn holds(bytes: &[u8], at: u64, piece: &[u8]) -> bool {
    let start = usize::try_from(at).unwrap();
    bytes.get(start..start + piece.len()) == Some(piece)
}

/// A write in the pieces that lie in one sector each.
fn sectors(at: u64, data: &[u8], size: u64) -> impl Iterator<Item = (u64, &[u8])> {
    let mut rest = (at, data);
    std::iter::from_fn(move || {
        let (at, data) = rest;
        let room = usize::try_from(size - at % size).unwrap();
        let (piece, behind) = data.split_at(room.min(data.len()));
        rest = (at + piece.len() as u64, behind);
        (!piece.is_empty()).then_some((at, piece))
    })
}

fn rename(names: &mut BTreeMap<String, u32>, operation: &Operation) {
    match operation {
        Operation::Create { file, name } => drop(names.insert(name.clone(), *file)),
        Operation::Unlink { name } => drop(names.remove(name)),
        Operation::Rename { from, to } => {
            if let Some(file) = names.remove(from) {
                names.insert(to.clone(), file);
            }
        }
        Operation::Write { .. }
        | Operation::Truncate { .. }
        | Operation::Sync { .. }
        | Operation::SyncFolder
        | Operation::Mark(_)
        | Operation::Failed { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn create(file: u32, name: &str) -> Operation {
        Operation::Create { file, name: name.into() }
    }

    fn write(file: u32, at: u64, data: &[u8]) -> Operation {
        Operation::Write { file, at, data: data.to_vec() }
    }

    fn found(operations: &[Operation], left: Left) -> Image {
        let mut disk = Disk::default();
        for (when, operation) in operations.iter().enumerate() {
            disk.apply(when, operation);
        }
        disk.after_power_loss(left, &mut StdRng::seed_from_u64(1))
    }

    fn image(files: &[(&str, &[u8])]) -> Image {
        files.iter().map(|(name, data)| ((*name).to_owned(), data.to_vec())).collect()
    }

    #[test]
    fn only_what_was_synced_is_sure() {
        let all = [
            create(1, "a"),
            write(1, 0, b"sure"),
            Operation::Sync { file: 1 },
            Operation::SyncFolder,
            write(1, 2, b"maybe"),
            Operation::Truncate { file: 1, size: 3 },
            create(2, "b"),
            write(2, 0, b"x"),
            Operation::Sync { file: 2 },
        ];
        assert_eq!(found(&all, Left::Nothing), image(&[("a", b"sure")]));
        assert_eq!(found(&all, Left::Everything), image(&[("a", b"sum"), ("b", b"x")]));
        assert_eq!(found(&all, Left::Before(5)), image(&[("a", b"sumaybe")]));
        assert_eq!(found(&all, Left::Since(5)), image(&[("a", b"sur"), ("b", b"x")]));
    }

    #[test]
    fn a_file_whose_removal_is_not_sure_may_come_back() {
        let all = [
            create(1, "a"),
            write(1, 0, b"old"),
            Operation::Sync { file: 1 },
            Operation::SyncFolder,
            Operation::Unlink { name: "a".into() },
            create(2, "a"),
            write(2, 0, b"new"),
            Operation::Sync { file: 2 },
        ];
        assert_eq!(found(&all, Left::Nothing), image(&[("a", b"old")]));
        assert_eq!(found(&all, Left::Before(5)), image(&[]));
        assert_eq!(found(&all, Left::Everything), image(&[("a", b"new")]));
    }

    #[test]
    fn what_a_failed_sync_did_not_write_stays_unwritten() {
        let failed = Operation::Failed { file: 1, ordinal: 1, how: "sync".into() };
        let all = [
            create(1, "a"),
            Operation::SyncFolder,
            write(1, 0, b"aa"),
            failed,
            write(1, 2, b"bb"),
            Operation::Sync { file: 1 },
        ];
        assert_eq!(found(&all, Left::Everything), image(&[("a", b"\0\0bb")]));
    }

    #[test]
    fn a_write_is_torn_at_sectors() {
        let data = [7_u8; 1_500];
        let pieces: Vec<_> =
            sectors(500, &data, 512).map(|(at, piece)| (at, piece.len())).collect();
        assert_eq!(pieces, [(500, 12), (512, 512), (1_024, 512), (1_536, 464)]);
    }
}
