//! Copies of dead letters, published in the transaction that makes them (law 17).

use super::command::Fail;
use super::writer::Writer;
use sqlx::query;
use windlass_core::copy::dead_letter_copy;
use windlass_core::{NewMessage, Sequence};

/// Messages are read so many at a time, so that large ones do not pile up in memory.
const AT_ONCE: usize = 16;

/// A dead letter of a group that wants copies.
#[derive(Debug)]
pub(super) struct Buried {
    pub(super) group: u64,
    pub(super) sequence: Sequence,
    pub(super) reason: String,
}

impl Writer {
    /// Publishes the copies that are wanted of what this transaction gave up. Where one is refused
    /// the dead letter stands without it, and the miss is counted.
    pub(super) async fn publish_copies(&mut self) -> Result<(), sqlx::Error> {
        let buried = std::mem::take(&mut self.pending.buried);
        for some in buried.chunks(AT_ONCE) {
            for one in some {
                match self.publish_copy(one).await {
                    Ok(()) => {}
                    Err(Fail::Refused(_)) => self.miss_copy(one.group).await?,
                    Err(Fail::Storage(error)) => return Err(error),
                }
            }
            // Their data goes into the file, and out of memory.
            let Some(conn) = &mut self.conn else { return Err(sqlx::Error::PoolClosed) };
            self.pending.flush_rows(conn, &mut self.cache).await?;
        }
        Ok(())
    }

    async fn publish_copy(&mut self, one: &Buried) -> Result<(), Fail> {
        let Some(copy) = self.copy(one).await? else { return Ok(self.miss_copy(one.group).await?) };
        let known = self.check_messages(std::slice::from_ref(&copy), None).await?;
        self.store_messages(vec![copy], known).await?;
        Ok(())
    }

    /// The copy; none where the message cannot be read or has come too far.
    async fn copy(&mut self, one: &Buried) -> Result<Option<NewMessage>, Fail> {
        let (conn, cache) = self.parts()?;
        cache.group_by_id(conn, one.group).await?;
        let Some(group) = cache.group_row(one.group) else { return Ok(None) };
        let (topic, topic_name, name) = (group.topic, group.topic_name.clone(), group.name.clone());
        let Some(to) = group.policy.dead_letter_topic.clone() else { return Ok(None) };
        cache.topic(conn, &topic_name).await?;
        let mut read = self.read_messages(topic, &[one.sequence]).await?;
        let message = read.remove(&one.sequence);
        Ok(message.and_then(|message| dead_letter_copy(&message, &name, &one.reason, &to)))
    }

    async fn miss_copy(&mut self, group: u64) -> Result<(), sqlx::Error> {
        let Some(conn) = &mut self.conn else { return Err(sqlx::Error::PoolClosed) };
        query("update grp set copies_missed = copies_missed + 1 where id = ?")
            .bind(group.cast_signed())
            .execute(conn)
            .await?;
        Ok(())
    }
}
