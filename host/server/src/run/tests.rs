//! How a run ends, and a delivery for other rooms' tests.

use super::*;
use crate::drain::phases;
use crate::event::{Delivered, Fate};
use crate::wire::SummaryBody;
use windlass_core::{Group, Message, MessageId, Sequence, Timestamp, Topic};

/// A delivery that went well.
pub(crate) fn delivered() -> Delivered {
    let id = MessageId { millis: Timestamp(1_700_000_000_000), sequence: Sequence(1) };
    let message = Message {
        id,
        topic: Topic::new("t").unwrap(),
        data: "x".into(),
        content_type: None,
        metadata: Vec::new(),
        key: None,
        published_at: 0,
        hops: 0,
    };
    Delivered {
        consumer: "c".into(),
        group: Group::work_queue(),
        message: Arc::new(message),
        attempt: 1,
        revision: "0a1b2c3d".into(),
        attempts_max: 5,
        outcome: "ok",
        text: String::new(),
        fate: Fate::Acked { sent: 0 },
        output: windlass_runtime::Output::default(),
        elapsed: Duration::from_micros(1_240),
        cpu: Duration::from_micros(900),
        memory_peak: 1 << 20,
    }
}

#[tokio::test]
async fn who_does_not_read_holds_up_no_run_that_was_told_to_end_at_once() {
    let (stopper, phases) = phases();
    stopper.advance(Phase::Stop);
    let (reader, reads) = std::sync::mpsc::channel::<()>();
    let stands_still = move |_: &Ui| {
        let _ended = reads.recv();
    };
    print(&Arc::new(Ui::new(true)), &phases, stands_still).await;
    assert_eq!(reader.send(()), Ok(()), "it stands there still");
}

#[tokio::test]
async fn figures_hold_though_nobody_reads() {
    let (stopper, phases) = phases();
    let (events, _reader) = Events::channel();
    for _ in 0..3 {
        events.tell(Event::Delivered(Box::new(delivered()))).await;
    }
    stopper.advance(Phase::Stop);
    let (_answer, shown) = oneshot::channel();
    last_lines(&events, shown, &phases).await;
    assert_eq!(SummaryBody::from(events.figures()).handled, 3);
}
