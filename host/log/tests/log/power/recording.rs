//! A recording: what was done to the log's files, in order. Pure; `recorder.c` writes it.

/// One operation. Files are numbered as they were made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Operation {
    Create {
        file: u32,
        name: String,
    },
    Write {
        file: u32,
        at: u64,
        data: Vec<u8>,
    },
    Truncate {
        file: u32,
        size: u64,
    },
    Sync {
        file: u32,
    },
    Unlink {
        name: String,
    },
    Rename {
        from: String,
        to: String,
    },
    SyncFolder,
    /// What the process said, between what it wrote.
    Mark(String),
    /// The recorder made this write or sync fail; file 0 is the folder.
    Failed {
        file: u32,
        ordinal: u64,
        how: String,
    },
}

const HEAD: usize = 24;

/// Reads a recording. One that was cut off, or is none, is an error of the test.
pub(super) fn read(mut bytes: &[u8]) -> Vec<Operation> {
    let mut operations = Vec::new();
    while !bytes.is_empty() {
        let (operation, rest) = read_one(bytes).expect("a whole recording");
        operations.push(operation);
        bytes = rest;
    }
    operations
}

fn read_one(bytes: &[u8]) -> Option<(Operation, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let short = |at: usize| Some(u32::from_ne_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_ne_bytes(head.get(at..at + 8)?.try_into().ok()?));
    let (kind, file, at) = (short(0)?, short(4)?, long(8)?);
    let (data, rest) = rest.split_at_checked(usize::try_from(long(16)?).ok()?)?;
    let text = || String::from_utf8(data.to_vec()).ok();
    let operation = match kind {
        1 => Operation::Create { file, name: text()? },
        2 => Operation::Write { file, at, data: data.to_vec() },
        3 => Operation::Truncate { file, size: at },
        4 => Operation::Sync { file },
        5 => Operation::Unlink { name: text()? },
        6 => {
            let both = text()?;
            let (from, to) = both.split_once('\0')?;
            Operation::Rename { from: from.into(), to: to.into() }
        }
        7 => Operation::SyncFolder,
        8 => Operation::Mark(text()?),
        9 => Operation::Failed { file, ordinal: at, how: text()? },
        _ => return None,
    };
    Some((operation, rest))
}

/// How many writes, syncs and marks there are.
pub(super) fn count(operations: &[Operation]) -> String {
    let mut counts = [0_u32; 4];
    for operation in operations {
        counts[match operation {
            Operation::Write { .. } => 0,
            Operation::Sync { .. } | Operation::SyncFolder => 1,
            Operation::Mark(_) => 2,
            Operation::Create { .. }
            | Operation::Truncate { .. }
            | Operation::Unlink { .. }
            | Operation::Rename { .. }
            | Operation::Failed { .. } => 3,
        }] += 1;
    }
    let [writes, syncs, marks, others] = counts;
    format!("{writes} writes, {syncs} syncs, {others} other operations, {marks} marks")
}
