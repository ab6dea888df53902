//! The rules of pausing, on values and a paused clock.

use super::*;
use windlass_core::{Sequence, Timestamp};

fn failure(number: u64) -> Lesson {
    let id = MessageId { millis: Timestamp(1), sequence: Sequence(number) };
    Lesson::Failure(id, "failed")
}
fn paused(news: Option<News>) -> Option<Paused> {
    match news {
        Some(News::Paused(paused)) => Some(paused),
        Some(News::Resumed) | None => None,
    }
}
fn start() -> Lesson {
    Lesson::Pause(Pause::Start("s".into()), Remedy::Time)
}
fn grant() -> Lesson {
    Lesson::Pause(Pause::Grant("g".into()), Remedy::Time)
}
fn room(remedy: Remedy) -> Lesson {
    Lesson::Pause(Pause::Room("r".into()), remedy)
}

#[tokio::test(start_paused = true)]
async fn a_failing_start_waits_longer_each_time_and_success_forgets_it() {
    let mut rules = Rules::new(20);
    let now = Instant::now();
    for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
        let paused = paused(rules.learn(start(), now)).unwrap();
        assert_eq!(paused.retry, Some(Duration::from_secs(seconds)));
        assert!(paused.mends);
        assert_eq!(rules.learn(start(), now), None, "it is paused already");
        assert!(!rules.look_again(true, now));
        assert!(rules.look_again(true, now + Duration::from_mins(1)));
        assert_eq!(rules.state, State::Trial);
        rules.state = State::Trying;
    }
    rules.learn(Lesson::Success, now);
    assert_eq!(rules.state, State::Open);
    assert_eq!(paused(rules.learn(start(), now)).unwrap().retry, Some(Duration::from_secs(1)));
}

#[tokio::test(start_paused = true)]
async fn a_missing_grant_pauses_at_once_without_a_success_and_after_twenty_with_one() {
    let now = Instant::now();
    let mut rules = Rules::new(20);
    let paused = paused(rules.learn(grant(), now)).unwrap();
    assert_eq!((paused.retry, paused.mends, paused.text.as_str()), (None, false, "g"));
    let mut rules = Rules::new(20);
    rules.learn(Lesson::Success, now);
    for _ in 0..19 {
        assert_eq!(rules.learn(grant(), now), None);
    }
    rules.learn(failure(1), now);
    for _ in 0..19 {
        assert_eq!(rules.learn(grant(), now), None, "another failure came between");
    }
    assert!(rules.learn(grant(), now).is_some());
    assert!(!rules.look_again(true, now + Duration::from_hours(1)));
}

#[tokio::test(start_paused = true)]
async fn a_pause_for_a_topic_goes_on_until_the_topic_is_there() {
    let now = Instant::now();
    let mut rules = Rules::new(20);
    let paused = paused(rules.learn(room(Remedy::Topic(Topic::new("t").unwrap())), now)).unwrap();
    assert!(!paused.mends);
    let later = now + Duration::from_mins(1);
    assert!(!rules.look_again(false, later));
    assert!(!rules.look_again(true, later), "not before its next time");
    assert!(rules.look_again(true, later + Duration::from_mins(1)));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_for_good_does_not_mend_but_is_tried_again() {
    let now = Instant::now();
    for (remedy, mends) in [(Remedy::Time, true), (Remedy::Somebody, false)] {
        let mut rules = Rules::new(20);
        let paused = paused(rules.learn(room(remedy), now)).unwrap();
        assert_eq!((paused.mends, paused.needs), (mends, None));
        assert!(rules.look_again(true, now + Duration::from_mins(1)));
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_pause_one_goes_ahead_and_the_others_wait_for_it() {
    let health = Health::new();
    assert_eq!(health.turn().await, Turn::Enter(Entry::Open));
    assert!(health.learn(start()).is_some());
    assert!(!health.still(Entry::Open));
    assert_eq!(health.turn().await, Turn::Look(None));
    health.look_again(true);
    assert_eq!(health.turn().await, Turn::Enter(Entry::Trial));
    let waits = tokio::time::timeout(Duration::from_hours(1), health.turn());
    assert!(waits.await.is_err());
    health.learn(Lesson::Nothing);
    assert_eq!(health.turn().await, Turn::Enter(Entry::Trial), "given back");
    health.learn(failure(1));
    assert_eq!(health.turn().await, Turn::Enter(Entry::Open));
}

/// Law 26: the last twenty different messages; one success in between, and it counts anew.
#[tokio::test(start_paused = true)]
async fn twenty_different_messages_that_fail_pause_it_and_one_success_resumes() {
    let now = Instant::now();
    let mut rules = Rules::new(20);
    for number in 0..19 {
        assert_eq!(rules.learn(failure(number), now), None);
        assert_eq!(rules.learn(failure(number), now), None, "the same one again");
    }
    assert_eq!(rules.learn(Lesson::Rejected, now), None, "a verdict is no outage");
    rules.learn(Lesson::Success, now);
    for number in 0..19 {
        assert_eq!(rules.learn(failure(number), now), None);
    }
    let mut now = now;
    for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
        let paused = paused(rules.learn(failure(19), now)).unwrap();
        assert_eq!((paused.reason, paused.mends), ("failing", true));
        assert_eq!(paused.retry, Some(Duration::from_secs(seconds)));
        assert_eq!(rules.learn(failure(20), now), None, "it was under way");
        now += Duration::from_secs(seconds);
        assert!(rules.look_again(true, now));
        rules.state = State::Trying;
    }
    assert_eq!(rules.learn(Lesson::Success, now), Some(News::Resumed));
    assert_eq!(rules.learn(failure(1), now), None, "counted anew");
}
