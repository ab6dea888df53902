//! `windlass group pending`: deliveries that are leased or wait.

use super::super::failure::Failure;
use super::super::open;
use super::super::pages::Pages;
use super::super::ui::{Ui, clean, span, table};
use super::{Which, called};
use crate::wire::PendingBody;
use std::num::NonZeroUsize;
use windlass_core::{MessageId, Timestamp};
use windlass_log::{DynLog, Pending, PendingQuery};

/// Deliveries read at a time.
const PAGE: usize = 500;
/// How many a table shows unless told otherwise.
const SHOWN: usize = 100;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only behind this message, in the order of publishing.
    #[arg(long, value_name = "ID")]
    after: Option<MessageId>,
    /// At most so many [default: 100 in a table, all with --json].
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroUsize>,
    /// Print one JSON object a delivery.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    which: Which,
}

pub(super) async fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let which = &args.which;
    let (topic, group) = (which.topic.as_str(), which.group.as_str());
    let log = open::existing(&which.log).await?;
    which.find(&log).await?;
    let shown = if ui.json { usize::MAX } else { SHOWN };
    let limit = args.limit.map_or(shown, NonZeroUsize::get);
    let now = log.now();
    let (mut rows, mut last) = (Vec::new(), None);
    let more = pages(&log, args, limit, |pending| {
        last = Some(pending.id);
        if ui.json {
            ui.object(&PendingBody::new(topic, group, pending));
        } else {
            rows.push(row(pending, now));
        }
    })
    .await?;
    log.close().await;
    if !ui.json && rows.is_empty() {
        let (topic, group) = (clean(topic), clean(&called(&which.group)));
        ui.note(&format!("nothing is leased or waits in {group} of {topic}"));
    } else if !ui.json {
        let head = ["ID", "PLACE", "WORKER", "IDLE", "ATTEMPTS", "FIRST", "LAST", "DUE"];
        ui.data(&table(&head, rows, 3));
    }
    if let (true, Some(last)) = (more, last) {
        let (words, flag) = (which.words(), which.log.flag());
        ui.note(&format!(
            "there are more than {limit}; next: windlass group pending {words} --after {last}{flag}"
        ));
    }
    Ok(())
}

/// Reads deliveries until `limit`. Answers whether more remain.
async fn pages(
    log: &DynLog,
    args: &Args,
    limit: usize,
    each: impl FnMut(&Pending),
) -> Result<bool, Failure> {
    let which = &args.which;
    let read = async |last: Option<&Pending>, limit| {
        let query = PendingQuery {
            topic: which.topic.clone(),
            group: which.group.clone(),
            after: last.map_or(args.after, |last| Some(last.id)),
            limit,
        };
        log.pending(query).await.map_err(|error| which.log.failure(error))
    };
    Pages { limit, page: PAGE }.each(read, each).await
}

fn row(pending: &Pending, now: Timestamp) -> Vec<String> {
    let none = || "-".to_owned();
    let ago =
        |at: Option<Timestamp>| at.map_or_else(none, |at| format!("{} ago", span(now.since(at))));
    vec![
        pending.id.to_string(),
        pending.place.name().to_owned(),
        pending.worker.clone().unwrap_or_else(none),
        pending.idle.map_or_else(none, span),
        pending.attempts.to_string(),
        ago(pending.first_at),
        ago(pending.last_at),
        pending.until.map_or_else(none, |until| due(until, now)),
    ]
}

/// When something is due, for a person.
fn due(at: Timestamp, now: Timestamp) -> String {
    if at > now {
        format!("in {}", span(at.since(now)))
    } else {
        format!("{} ago", span(now.since(at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use windlass_core::Sequence;
    use windlass_log::Place;

    #[test]
    fn a_row_tells_ages_and_what_is_to_come() {
        let leased = Pending {
            id: MessageId { millis: Timestamp(1_000), sequence: Sequence(7) },
            place: Place::Leased,
            worker: Some("w".to_owned()),
            idle: Some(Duration::from_secs(2)),
            attempts: 3,
            first_at: Some(Timestamp(1_000)),
            last_at: Some(Timestamp(9_000)),
            until: Some(Timestamp(10_500)),
        };
        let at = |now| row(&leased, Timestamp(now)).join(" ");
        let id = "0000000001000-0000000000000007";
        assert_eq!(at(10_000), format!("{id} leased w 2.0 s 3 9.0 s ago 1.0 s ago in 500 ms"));
        assert!(at(11_500).ends_with("1.0 s ago"), "{}", at(11_500));
        let parked = Pending {
            place: Place::Parked,
            worker: None,
            idle: None,
            attempts: 0,
            first_at: None,
            last_at: None,
            until: None,
            ..leased
        };
        assert_eq!(row(&parked, Timestamp(1)).join(" "), format!("{id} parked - - 0 - - -"));
    }
}
