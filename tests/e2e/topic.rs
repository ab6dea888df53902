//! `windlass topic ls|show`.

use crate::kit::{Project, samples};
use serde_json::json;

#[test]
fn a_topic_tells_its_counts_and_its_groups() {
    let manifest = "group = \"g\"\nlease = \"7s\"\nmax-attempts = 3\nin-flight = 9";
    let project = Project::of("echo", manifest);
    project.make_log();
    for topic in ["echo", "echo", "other/below"] {
        project.run(&["publish", topic, "--data", "12345"]).must(0, &[]);
    }
    let topics = project.json(&["topic", "ls"]);
    let names: Vec<_> = topics.iter().map(|topic| topic["topic"].as_str().unwrap()).collect();
    assert_eq!(names, ["echo", "other/below"]);
    let [echo, other] = &topics[..] else { panic!("{topics:?}") };
    for key in ["ready", "delayed", "retrying", "parked", "leased", "dead", "lag", "bytes"] {
        assert!(echo[key].is_u64() && other[key].is_u64(), "{key}: {echo}");
    }
    let of = |topic: &serde_json::Value| [topic["ready"].clone(), topic["lag"].clone()];
    assert_eq!((of(echo), of(other)), ([json!(2), json!(2)], [json!(1), json!(1)]));
    let type_bytes = "text/plain; charset=utf-8".len();
    assert_eq!(echo["bytes"], json!(2 * (5 + type_bytes)), "data and content type");
    assert!(echo["oldest_ms"].is_u64());
    let group = &echo["groups"][0];
    assert_eq!(group["group"], json!("g"));
    assert_eq!((&group["ready"], &group["lease_ms"]), (&json!(2), &json!(7_000)));
    assert_eq!((&group["max_attempts"], &group["in_flight"]), (&json!(3), &json!(9)));
    assert_eq!(project.topic("echo")["groups"], echo["groups"]);
    assert_eq!(other["groups"], json!([]));
}

#[test]
fn a_topic_that_is_not_there_is_an_error_and_tables_are_for_people() {
    let more = "[consumer.allow]\npublish = [\"echo/out\"]\n";
    let project = Project::of("echo", &format!("{more}{}", samples("echo", &["hello"])));
    project.make_log();
    let ended = project.run(&["topic", "ls"]);
    ended.must(0, &[]);
    assert!(ended.out.starts_with("TOPIC"), "{ended:?}");
    project.run(&["topic", "show", "gone"]).must(1, &["there is no topic `gone`", "next: "]);
    let run = project.until_idle(&[]);
    run.must(0, &[]);
    let ended = project.run(&["topic", "show", "echo"]);
    ended.must(0, &[]);
    assert!(ended.out.contains("(work queue)"), "{ended:?}");
    assert_eq!(project.topic("echo/out")["ready"], json!(1));
}
