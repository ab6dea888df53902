//! That nothing is missing from the database behind a sync that failed.

use super::*;
use sqlx::{Connection, Row, query};
use std::collections::BTreeMap;

const PAGE: u64 = 4_096;

async fn connect(place: &Location) -> SqliteConnection {
    place.connect_checkpointer().await.unwrap()
}

async fn run(conn: &mut SqliteConnection, text: &'static str) {
    raw_sql(text).execute(conn).await.unwrap();
}

/// Pages in the log file, and how many of them count as copied.
async fn checkpoint(conn: &mut SqliteConnection, how: &'static str) -> (i64, i64) {
    let row = query(how).fetch_one(conn).await.unwrap();
    assert_eq!(row.get::<i64, _>(0), 0, "nobody is in the way");
    (row.get(1), row.get(2))
}

/// Goal: what a checkpoint counted as copied, and a failed sync then lost, is copied again.
/// Method: a reader keeps a checkpoint from its end, so that it counts without a sync; the pages it
/// copied are put back to what they were, as on a disk that lost them.
#[tokio::test]
async fn what_a_failed_sync_took_from_the_database_is_copied_again() {
    for again in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let place = Location::new(folder.path());
        // Never closed: that would drop SQLite's locks.
        let file = std::mem::ManuallyDrop::new({
            std::fs::write(&place.file, "").unwrap();
            open(&place.file).unwrap().unwrap()
        });
        let (mut writer, mut reader) = (connect(&place).await, connect(&place).await);
        run(&mut writer, "pragma journal_mode = wal; create table kept (name text, data)").await;
        checkpoint(&mut writer, "pragma wal_checkpoint(truncate)").await;
        let size = file.metadata().unwrap().len();
        let before: BTreeMap<u64, Vec<u8>> = (0..size / PAGE)
            .map(|page| {
                let mut bytes = vec![0; usize::try_from(PAGE).unwrap()];
                file.read_exact_at(&mut bytes, page * PAGE).unwrap();
                (page, bytes)
            })
            .collect();
        run(&mut writer, "insert into kept values ('first', randomblob(20000))").await;
        run(&mut reader, "begin; select count(*) from kept").await;
        run(&mut writer, "create table other (x)").await;
        let (pages, copied) = checkpoint(&mut writer, "pragma wal_checkpoint(passive)").await;
        assert!(0 < copied && copied < pages, "{copied} of {pages} are copied and not synced");
        for (page, bytes) in before {
            file.write_all_at(&bytes, page * PAGE).unwrap();
        }
        file.set_len(size).unwrap();
        if again {
            write_again(&mut writer, &place).await.unwrap();
        }
        // Who reads meanwhile still reads what he did.
        let row = query("select count(*), name from kept").fetch_one(&mut reader).await;
        assert!(!again || row.is_ok(), "{row:?}");
        run(&mut reader, "rollback").await;
        reader.close().await.unwrap();
        let (pages, copied) = checkpoint(&mut writer, "pragma wal_checkpoint(truncate)").await;
        assert_eq!((pages, copied), (0, 0), "the log file begins anew");
        drop(writer);
        let mut reader = connect(&place).await;
        let found = query("select name from kept").fetch_all(&mut reader).await;
        let found = found.map_or(0, |rows| rows.len());
        assert_eq!(found, usize::from(again), "written again: {again}");
        let sound = query("pragma integrity_check").fetch_one(&mut reader).await;
        let sound = sound.is_ok_and(|row| row.get::<String, _>(0) == "ok");
        assert_eq!(sound, again);
    }
}
