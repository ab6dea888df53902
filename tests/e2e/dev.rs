//! `windlass dev`: its exit codes, its last line, what it runs.

use crate::kit::{Dev, Project, consumer, run, samples, windlass};
use crate::log;
use serde_json::json;

const OUT: &str = "[consumer.allow]\npublish = [\"echo/out\"]\n";

#[test]
fn until_idle_ends_with_a_line_of_figures() {
    let project = Project::of("echo", &format!("{OUT}{}", samples("echo", &["a", "b"])));
    let ended = project.until_idle(&[]);
    ended.must(0, &[]);
    let last = ended.last();
    assert_eq!(last["event"], json!("summary"));
    // Two samples, and what the two sent.
    assert_eq!((&last["published"], &last["handled"]), (&json!(4), &json!(2)), "{last}");
    assert_eq!((&last["retried"], &last["dead"], &last["exit"]), (&json!(0), &json!(0), &json!(0)));
    for delivery in ended.deliveries() {
        for key in ["consumer", "topic", "group", "id", "attempt", "outcome", "disposition"] {
            assert!(!delivery[key].is_null(), "{key}: {delivery}");
        }
        assert!(delivery["elapsed_ms"].as_f64().unwrap() > 0.0);
    }
    let again = project.until_idle(&[]).last();
    assert_eq!(again["handled"], json!(2), "samples are published at every start");
    let none = project.until_idle(&["--no-samples"]).last();
    assert_eq!((&none["published"], &none["handled"]), (&json!(0), &json!(0)));
}

#[test]
fn a_run_that_made_dead_letters_exits_with_3_and_the_next_one_does_not() {
    let more = format!(
        "max-attempts = 2\n[consumer.backoff]\ninitial = \"20ms\"\n{}",
        samples("poison", &["err-timeout", "ok", "ok-on:2", "reject:no"],)
    );
    let project = Project::of("poison", &more);
    let ended = project.until_idle(&[]);
    ended.must(3, &[]);
    let last = ended.last();
    assert_eq!(
        (&last["handled"], &last["retried"], &last["dead"]),
        (&json!(2), &json!(2), &json!(2))
    );
    project.until_idle(&["--no-samples"]).must(0, &[]);
}

#[test]
fn a_timeout_exits_with_4_and_gives_the_message_back_with_its_attempt() {
    let project = Project::of("poison", &samples("poison", &["sleep:60000"]));
    // Longer than it takes to claim; the drain ends what still runs.
    let ended = Dev::start(&project, &["--until-idle", "--timeout", "2s"]).end();
    ended.must(4, &["--timeout"]);
    assert_eq!(ended.last()["exit"], json!(4));
    let released = &ended.deliveries()[0];
    assert_eq!(
        (&released["outcome"], &released["disposition"]),
        (&json!("interrupted"), &json!("release"))
    );
    assert_eq!(project.topic("poison")["ready"], json!(1));
}

#[test]
fn a_missing_grant_is_worse_than_a_timeout_and_dead_letters() {
    let texts = ["reject:no", "send:elsewhere"];
    let project = Project::of("poison", &samples("poison", &texts));
    let ended = Dev::start(&project, &["--timeout", "3s"]).end();
    ended.must(1, &[]);
}

#[test]
fn a_wrong_usage_exits_with_2() {
    for args in [&["dev", "--no-such"][..], &["dev", "--timeout", "soon"], &["nothing"], &[]] {
        run(windlass(args), b"").must(2, &["--help"]);
    }
}

/// What the handler learns of its delivery, in the standard's metadata and by the own interface.
#[test]
fn a_delivery_tells_its_id_attempt_topic_time_and_hops() {
    let more = "[consumer.allow]\npublish = [\"poison/out\"]\n";
    let sample = "[[dev.samples]]\ntopic = \"poison\"\ndata = \"describe\"\n\
                  metadata = [[\"traceparent\", \"00-1-2-01\"], [\"tag\", \"a\"], [\"tag\", \"b\"]]\n";
    let project = Project::of("poison", &format!("{more}{sample}"));
    let ended = project.until_idle(&[]);
    ended.must(0, &[]);
    let id = ended.deliveries()[0]["id"].as_str().unwrap().to_owned();
    let sent = log::read_all(&project.log(), ["poison/out"]);
    assert_eq!(sent.len(), 1);
    let text = std::str::from_utf8(&sent[0].data).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for line in [
        format!("id: {id}"),
        "attempt: 1".into(),
        "topic: poison".into(),
        "content-type: text/plain; charset=utf-8".into(),
        format!("metadata windlass-id: {id}"),
        "metadata windlass-attempt: 1".into(),
        "metadata windlass-topic: poison".into(),
        "metadata windlass-hops: 0".into(),
        "metadata traceparent: 00-1-2-01".into(),
        "metadata tag: a".into(),
        "metadata tag: b".into(),
    ] {
        assert!(lines.contains(&line.as_str()), "{line} is missing in\n{text}");
    }
    let published = lines.iter().find_map(|l| l.strip_prefix("metadata windlass-published-at: "));
    let published = published.unwrap();
    assert!(published.len() == 24 && published.ends_with('Z'), "{published}");
    assert_eq!(sent[0].hops, 1);
    assert_eq!(log::metadata(&sent[0], "source-id"), Some(id.as_str()));
}

/// Output is the user's, by consumer and message, and is never in the database.
#[test]
fn what_a_guest_prints_goes_to_a_file_with_consumer_and_id() {
    let more = format!("[consumer.limits]\noutput = \"4 KiB\"\n{}", samples("poison", &["output"]));
    let project = Project::of("poison", &more);
    let ended = project.until_idle(&[]);
    ended.must(0, &[]);
    let delivery = &ended.deliveries()[0];
    assert!(delivery["output"].as_str().unwrap().starts_with("...."));
    assert!(delivery["output_dropped"].as_u64().unwrap() > 8_000_000, "{delivery}");
    let file = std::fs::read_to_string(project.log().join("output/c.log")).unwrap();
    let id = delivery["id"].as_str().unwrap();
    assert!(file.lines().next().unwrap().contains(&format!(" c {id} ....")), "{file}");
    assert!(file.len() < 64 << 10);
}

#[test]
fn two_groups_each_get_everything() {
    let two = format!(
        "{}{}{}",
        consumer("echo", &format!("group = \"one\"\n{OUT}")),
        consumer("echo", &format!("group = \"two\"\n{OUT}")).replace("\"c\"", "\"d\""),
        samples("echo", &["x", "y", "z"])
    );
    let project = Project::new(&two);
    let ended = project.until_idle(&[]);
    ended.must(0, &[]);
    assert_eq!(ended.last()["handled"], json!(6));
    assert_eq!(project.topic("echo/out")["ready"], json!(6));
}

#[test]
fn a_loop_of_sends_is_a_dead_letter_after_32_hops() {
    let more = format!("[consumer.allow]\npublish = [\"poison\"]\n{}", samples("poison", &["hop"]));
    let project = Project::of("poison", &more);
    let ended = project.until_idle(&[]);
    ended.must(3, &[]);
    let last = ended.last();
    assert_eq!((&last["handled"], &last["dead"]), (&json!(32), &json!(1)), "{last}");
    let dead = project.json(&["dlq", "ls", "poison"]);
    assert_eq!((&dead[0]["reason"], &dead[0]["attempts"]), (&json!("hops-exceeded"), &json!(1)));
}
