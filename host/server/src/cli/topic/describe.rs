//! A topic as a person reads it.

use super::super::sheet::Sheet;
use super::super::ui::{span, table};
use super::{group_name, row};
use crate::typed::human;
use bytesize::ByteSize;
use windlass_core::Timestamp;
use windlass_log::{TopicLimits, TopicState};

/// All of it.
pub(super) fn topic(topic: &TopicState, now: Timestamp) -> String {
    let mut oldest = topic.oldest.map_or("-".to_owned(), |oldest| span(now.since(oldest)));
    if let Some(group) = topic.pinned_by() {
        oldest = format!("{oldest}, for {}", group_name(&group.group));
    }
    let counts = &topic.counts;
    let mut sheet = Sheet::new(topic.topic.as_str());
    let (lag, bytes) = (counts.lag(), ByteSize(topic.bytes));
    sheet.line("to settle", &format!("{lag}, {bytes} in all; the oldest waits for {oldest}"));
    sheet.line("dead", &counts.dead.to_string());
    sheet.line("kept behind", &topic.retained.to_string());
    let mut name = "limits";
    for line in limits(&topic.limits) {
        sheet.line(std::mem::take(&mut name), &line);
    }
    let mut text = sheet.into_text();
    if topic.groups.is_empty() {
        text.push_str("\n\nno group reads it");
        return text;
    }
    let head = ["GROUP", "READY", "DELAYED", "RETRYING", "LEASED", "DEAD", "LAG", "PARKED"];
    let rows = topic.groups.iter().map(|group| {
        let counts = &group.counts;
        let mut row = row(group_name(&group.group), counts, counts.lag().to_string());
        row.push(counts.parked.to_string());
        row
    });
    text.push_str("\n\n");
    text.push_str(&table(&head, rows.collect(), 1));
    text
}

/// What a topic may hold, a line a limit.
pub(super) fn limits(limits: &TopicLimits) -> Vec<String> {
    let TopicLimits { max_messages, max_bytes, dedup_window, retain, max_age } = limits;
    let retain = retain.map_or("as the log says".to_owned(), |(span, messages)| {
        format!("{}, at most {messages} messages", human(span))
    });
    vec![
        format!("at most {max_messages} messages and {} to settle", ByteSize(*max_bytes)),
        format!("settled ones are kept {retain}"),
        max_age.map_or("nothing grows too old".to_owned(), |age| {
            format!("unread for {} is too old", human(age))
        }),
        format!("dedup ids are known for {}", human(*dedup_window)),
    ]
}
