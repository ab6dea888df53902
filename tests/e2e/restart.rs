//! Law 26 over restarts: the process is killed between attempts, and attempts are not reset.

use crate::kit::{Dev, Project, samples, until};
use crate::log;
use serde_json::json;

const MANIFEST: &str = r#"
max-attempts = 3
lease = "1s"
backoff = { initial = "200ms", jitter = 0 }
limits = { cpu = "300ms", wall = "2m" }
allow = { publish = ["poison/*"] }
"#;

/// One attempt a process: `dev` is killed after each.
fn dies_after_every_attempt(text: &str, outcome: &str) {
    let project = Project::of("poison", &format!("{MANIFEST}{}", samples("poison", &[text])));
    for attempt in 1..=3 {
        let more: &[&str] = if attempt == 1 { &[] } else { &["--no-samples"] };
        let mut dev = Dev::start(&project, more);
        let delivery = dev.until(|event| event["event"] == "delivery");
        assert_eq!(delivery["attempt"], json!(attempt), "{text}: {delivery}");
        assert_eq!(delivery["outcome"], json!(outcome), "{text}: {delivery}");
        let disposition = if attempt < 3 { "retry" } else { "dead-letter" };
        assert_eq!(delivery["disposition"], json!(disposition), "{text}");
        dev.kill();
    }
    let letter = project.json(&["dlq", "show", "poison"]).remove(0);
    assert_eq!((&letter["attempts"], &letter["reason"]), (&json!(3), &json!(outcome)));
    let history = letter["history"].as_array().unwrap();
    let attempts: Vec<_> = history.iter().map(|entry| entry["attempt"].clone()).collect();
    assert_eq!(attempts, [1, 2, 3], "{text}");
    let mut workers: Vec<_> = history.iter().map(|entry| entry["worker"].to_string()).collect();
    workers.dedup();
    assert_eq!(workers.len(), 3, "three processes: {workers:?}");
    assert_eq!(log::read_all(&project.log(), ["poison/out"]).len(), 0);
}

#[test]
fn an_error_is_counted_over_restarts() {
    dies_after_every_attempt("err-timeout", "error-timeout");
}

#[test]
fn a_panic_is_counted_over_restarts() {
    dies_after_every_attempt("send-then-panic", "trapped");
}

#[test]
fn a_loop_is_counted_over_restarts() {
    dies_after_every_attempt("loop", "out-of-cpu");
}

#[test]
fn a_retry_that_was_asked_for_is_counted_over_restarts() {
    dies_after_every_attempt("retry-after-ok:200", "retry-asked");
}

#[test]
fn a_guest_is_told_its_attempt_over_restarts() {
    let project = Project::of("poison", &format!("{MANIFEST}{}", samples("poison", &["ok-on:2"])));
    let mut dev = Dev::start(&project, &[]);
    dev.until_disposition("retry");
    dev.kill();
    let ended = project.until_idle(&["--no-samples"]);
    ended.must(0, &[]);
    assert_eq!(ended.deliveries()[0]["attempt"], json!(2));
}

/// Goal: a message that kills its process every time becomes a dead letter all the same. Method:
/// the process is killed while the handler runs, as often as there are attempts.
#[test]
fn dying_while_the_handler_runs_uses_up_attempts() {
    let project =
        Project::of("poison", &format!("{MANIFEST}{}", samples("poison", &["sleep:60000"])));
    let mut earlier = None;
    for attempt in 1..=3 {
        let more: &[&str] = if attempt == 1 { &[] } else { &["--no-samples"] };
        let dev = Dev::ready(&project, more);
        let claim = until("a claim by this process", || {
            log::newest_lease(&project.log()).filter(|lease| Some(*lease) != earlier)
        });
        earlier = Some(claim);
        dev.kill();
    }
    let ended = project.until_idle(&["--no-samples"]);
    assert_eq!(ended.deliveries().len(), 0, "no fourth attempt: {ended:?}");
    ended.must(3, &[]);
    let letter = project.json(&["dlq", "show", "poison"]).remove(0);
    assert_eq!(letter["attempts"], json!(3), "{letter}");
}
