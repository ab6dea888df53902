//! Settling claims: the fence, and each disposition.

use super::group::{GroupLog, bare_record};
use super::state::{Moment, State, Wakes};
use crate::api::{Settled, Settlement};
use crate::error::LogError;
use windlass_core::lease::{Lease, Standing};
use windlass_core::policy::DELAY_MAX;
use windlass_core::{AttemptRecord, Disposition, NewMessage, Timestamp};

impl State {
    /// One settlement. An error, like a token that is not current, has changed nothing.
    pub(super) fn settle(
        &mut self,
        settlement: Settlement,
        at: Moment,
        wakes: &mut Wakes,
    ) -> Result<Settled, LogError> {
        let Settlement { token, disposition, record } = settlement;
        let Some(place) = self.place_of(&token) else { return Ok(Settled::LeaseLost) };
        let group = &self.groups[place];
        match group.leases.standing(&token) {
            Standing::Current => {}
            Standing::NotLeased if group.is_settled(token.sequence) => {
                return Ok(Settled::AlreadySettled);
            }
            Standing::Lost | Standing::NotLeased => return Ok(Settled::LeaseLost),
        }
        let Some(lease) = group.leases.get(token.sequence).cloned() else {
            return Ok(Settled::LeaseLost);
        };
        // A freed place and a released message are there at once; a retry when the alarm says so.
        // So is what was parked behind it.
        let tell =
            group.room() == 0 || disposition == Disposition::Release || lease.key_hash.is_some();
        let settled = match disposition {
            Disposition::Ack { sends } => self.ack(place, &lease, sends, at, wakes)?,
            Disposition::Retry { delay, counted } => {
                let group = &mut self.groups[place];
                let record = record.unwrap_or_else(|| bare_record("retry"));
                if counted && group.is_last(lease.attempt) {
                    bury(group, &lease, record, at.now);
                    Settled::DeadLettered
                } else {
                    group.remember(&lease, record, at.now);
                    let due = at.now.after(delay.min(DELAY_MAX));
                    group.put_back(&lease, lease.attempt - u32::from(!counted), due);
                    self.look_by(due, wakes);
                    Settled::Applied
                }
            }
            Disposition::DeadLetter => {
                let record = record.unwrap_or_else(|| bare_record("dead-letter"));
                bury(&mut self.groups[place], &lease, record, at.now);
                Settled::Applied
            }
            Disposition::Release => {
                self.groups[place].put_back(&lease, lease.attempt - 1, at.now);
                Settled::Applied
            }
        };
        self.note_buried(place);
        if tell {
            let (topic, group) = self.names(place);
            wakes.group(&topic, &group);
        }
        Ok(settled)
    }

    fn ack(
        &mut self,
        place: usize,
        lease: &Lease,
        sends: Vec<NewMessage>,
        at: Moment,
        wakes: &mut Wakes,
    ) -> Result<Settled, LogError> {
        self.check(&sends, Some((place, lease)), at.now)?;
        self.groups[place].finish(lease, at.now);
        self.store_all(sends, at, wakes);
        self.settled += 1;
        self.let_go(self.groups[place].topic, lease.sequence);
        Ok(Settled::Applied)
    }
}

fn bury(group: &mut GroupLog, lease: &Lease, record: AttemptRecord, now: Timestamp) {
    let reason = record.outcome.clone();
    group.remember(lease, record, now);
    group.give_up(lease, &reason, now);
}
