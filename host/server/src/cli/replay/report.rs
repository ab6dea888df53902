//! A replay as a person reads it.

use super::super::sheet::Sheet;
use super::super::ui::span;
use crate::manifest::ConsumerSpec;
use crate::replay::Trial;
use bytesize::ByteSize;
use windlass_core::settle::Pause;
use windlass_core::{Disposition, Message};

/// What came of it, what it used, and what it sent.
pub(super) fn describe(
    spec: &ConsumerSpec,
    message: &Message,
    attempt: u32,
    trial: &Trial,
) -> String {
    let Trial { invocation, sends, revision, .. } = trial;
    let mut sheet = Sheet::new(&format!("{} {}", message.topic, message.id));
    sheet.line("component", &format!("{} ({revision})", spec.component.display()));
    sheet.line("attempt", &format!("{attempt} of {}", spec.policy.max_attempts));
    sheet.line("outcome", invocation.outcome.name());
    sheet.lines("", &invocation.outcome.text());
    sheet.line("disposition", &disposition(trial));
    let (elapsed, cpu) = (span(invocation.elapsed), span(invocation.cpu));
    sheet.line("time", &format!("{elapsed}, computing {cpu}"));
    sheet.line("memory", &format!("at most {}", ByteSize(invocation.memory_peak)));
    sheet.lines("output", &invocation.output.text);
    if invocation.output.dropped_bytes > 0 {
        let dropped = invocation.output.dropped_bytes;
        sheet.line("", &format!("({dropped} bytes over limits.output are not kept)"));
    }
    let fate = if trial.appear { "would be published" } else { "would not appear, as it failed" };
    for (at, send) in sends.iter().enumerate() {
        let (at, count) = (at + 1, sends.len());
        sheet.part(&format!("send {at} of {count}, to {}: {fate}", send.topic));
        sheet.line("size", &ByteSize(send.size()).to_string());
        sheet.content(send.content_type.as_deref(), &send.metadata, &send.data);
    }
    sheet.into_text()
}

/// What would be done with the message, and with its consumer.
fn disposition(trial: &Trial) -> String {
    let what = match &trial.decision.disposition {
        None => "none: the lease is lost".to_owned(),
        Some(Disposition::Ack { .. }) => "ack".to_owned(),
        Some(Disposition::Retry { delay, counted: true }) => {
            format!("retry after {}", span(*delay))
        }
        Some(Disposition::Retry { delay, counted: false }) => {
            format!("retry after {}, not counted", span(*delay))
        }
        Some(Disposition::DeadLetter) => "dead letter".to_owned(),
        Some(Disposition::Release) => "release, not counted".to_owned(),
    };
    match trial.decision.pause {
        Pause::No => what,
        Pause::Start(_) | Pause::Room(_) => format!("{what}; the consumer pauses"),
        Pause::Grant(_) => format!("{what}; the consumer may pause"),
    }
}
