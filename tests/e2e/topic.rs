//! `windlass topic ls|show|add|set|purge|rm`.

use crate::kit::{Dev, Project, consumer, samples, until};
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

/// Messages of a topic that nobody reads.
fn with_messages(texts: &[&str]) -> Project {
    let project = Project::of("echo", "topics = [\"elsewhere\"]");
    project.make_log();
    for text in texts {
        project.run(&["publish", "t", "--data", text]).must(0, &[]);
    }
    project
}

#[test]
fn a_topic_is_made_and_limited_as_people_type_it() {
    let project = with_messages(&["1", "2", "3"]);
    let typed = ["--max-messages", "7", "--max-bytes", "64 KiB", "--retain", "1h"];
    let more = ["--retain-messages", "9", "--max-age", "2 days", "--dedup-window", "10m"];
    let added = project.json(&[&["topic", "add", "new"], &typed[..], &more].concat()).remove(0);
    let expected = json!({
        "max_messages": 7, "max_bytes": 65_536, "retain_ms": 3_600_000, "retain_messages": 9,
        "max_age_ms": 172_800_000, "dedup_window_ms": 600_000,
    });
    assert_eq!((&added["topic"], &added["limits"]), (&json!("new"), &expected));
    assert_eq!(project.topic("new"), added);
    let unsaid = json!({
        "max_messages": 1_000_000, "max_bytes": 2_147_483_648_u64, "retain_ms": null,
        "retain_messages": null, "max_age_ms": null, "dedup_window_ms": 300_000,
    });
    assert_eq!(project.topic("t")["limits"], unsaid);
    let text = project.run(&["topic", "show", "new"]);
    assert!(text.out.contains("at most 7 messages and 64.0 KiB to settle"), "{text:?}");
    assert!(text.out.contains("unread for 2 days is too old"), "{text:?}");
    let set = ["topic", "set", "new", "--max-age", "off", "--retain", "default"];
    let set = project.json(&set).remove(0);
    assert_eq!(
        (&set["limits"]["max_age_ms"], &set["limits"]["retain_ms"]),
        (&json!(null), &json!(null))
    );
    assert_eq!(set["limits"]["max_messages"], json!(7), "what is not given stays");
    let refused = |args: &[&str], code, parts: &[&str]| {
        project.run(&[&["topic"], args].concat()).must(code, parts);
    };
    refused(&["add", "t"], 1, &["there is a topic `t` already", "windlass topic show t"]);
    refused(&["set", "gone", "--max-messages", "1"], 1, &["there is no topic `gone`"]);
    refused(&["set", "t"], 2, &["nothing is given", "--max-messages N"]);
    refused(&["set", "t", "--max-bytes", "lots"], 2, &["64 MiB"]);
    refused(&["set", "t", "--max-age", "1ms"], 2, &["between 1s and 365 days"]);
    let below = ["set", "t", "--max-messages", "2"];
    refused(&below, 1, &["has 3 messages of", "more than the 2 messages", "stay", "--force"]);
    assert_eq!(project.topic("t")["limits"], unsaid);
    refused(&[&below[..], &["--force"]].concat(), 0, &[]);
    assert_eq!(project.topic("t")["ready"], json!(3), "nothing is dropped");
    project.run(&["publish", "t", "--data", "4"]).must(1, &["is full", "topic show t"]);
}

#[test]
fn a_topic_is_emptied_and_says_what_went() {
    let more = format!("max-attempts = 1\n{}", samples("poison", &["reject:no"]));
    let project = Project::of("poison", &more);
    project.until_idle(&[]).must(3, &[]);
    for text in ["a", "b"] {
        project.run(&["publish", "poison", "--data", text]).must(0, &[]);
    }
    let purge = ["topic", "purge", "poison"];
    project.run(&purge).must(2, &["go for good", "--yes"]);
    project.run(&["topic", "purge", "gone", "--yes"]).must(1, &["there is no topic `gone`"]);
    assert_eq!(project.topic("poison")["ready"], json!(2));
    let told = project.run(&[&purge[..], &["--yes"]].concat());
    told.must(0, &["dead letters stay: 1", "--dead"]);
    assert!(told.out.starts_with("removed 2 messages ("), "{told:?}");
    assert!(told.out.trim_end().ends_with("and 0 dead letters from poison"), "{told:?}");
    let found = project.topic("poison");
    assert_eq!((&found["lag"], &found["bytes"], &found["dead"]), (&json!(0), &json!(0), &json!(1)));
    let purged = project.json(&[&purge[..], &["--dead", "--yes"]].concat()).remove(0);
    assert_eq!((&purged["topic"], &purged["messages"]), (&json!("poison"), &json!(1)));
    assert_eq!(purged["dead"], json!(1));
    assert!(purged["bytes"].as_u64().unwrap() > 9);
    assert_eq!(project.topic("poison")["dead"], json!(0));
}

/// While `dev` runs on the log, a message in its hands.
#[test]
fn a_topic_is_emptied_under_a_running_consumer() {
    let more = "concurrency = 1\nlimits = { wall = \"2m\" }\n";
    let project = Project::of("poison", more);
    let mut dev = Dev::ready(&project, &[]);
    for text in ["sleep:2000", "ok", "ok"] {
        project.run(&["publish", "poison", "--data", text]).must(0, &[]);
    }
    until("a lease", || (project.topic("poison")["leased"] == 1).then_some(()));
    let purged = project.json(&["topic", "purge", "poison", "--yes"]).remove(0);
    assert_eq!(purged["messages"], json!(3));
    assert_eq!(project.topic("poison")["lag"], json!(0));
    let after = project.json(&["publish", "poison", "--data", "ok"]).remove(0);
    let handled = dev.until_disposition("ack");
    assert_eq!(handled["id"], after["id"], "nothing of before is handled any more");
    dev.signal("INT");
    dev.end().must(0, &[]);
}

#[test]
fn a_topic_is_deleted_and_what_holds_something_only_by_force() {
    let project = with_messages(&["1", "2"]);
    let rm = ["topic", "rm", "t"];
    let with = |more: &[&str]| project.run(&[&rm, more].concat());
    with(&[]).must(1, &["2 messages to settle and 0 dead letters", "go with it", "--force"]);
    with(&["--force"]).must(2, &["for good", "--yes"]);
    let first = project.json(&["tail", "t", "--no-follow"]).remove(0);
    let removed = project.json(&[&rm[..], &["--force", "--yes"]].concat()).remove(0);
    assert_eq!((&removed["topic"], &removed["messages"]), (&json!("t"), &json!(2)));
    with(&["--force", "--yes"]).must(1, &["there is no topic `t`", "windlass topic ls"]);
    let again = project.json(&["publish", "t", "--data", "3"]).remove(0);
    assert!(again["id"].as_str() > first["id"].as_str(), "{again} {first}");
    project.run(&["topic", "purge", "t", "--yes"]).must(0, &[]);
    let told = with(&[]);
    told.must(0, &[]);
    assert!(told.out.starts_with("removed t with 0 messages"), "{told:?}");
}

/// They come into force as soon as they fit, and nothing waits for that.
#[test]
fn limits_of_the_manifest_below_what_is_there_hold_up_nothing_else() {
    let project = Project::of("echo", "");
    project.make_log();
    for text in ["1", "2", "3"] {
        project.run(&["publish", "t", "--data", text]).must(0, &[]);
    }
    let mut dev = Dev::ready(&project, &["--no-samples"]);
    let limited =
        format!("{}\n[topics.\"t\"]\nmax-messages = 2\n", consumer("echo", "max-attempts = 7"));
    project.rewrite(&limited);
    let problem = dev.until(|event| event["event"] == "problem");
    assert_eq!(problem["about"], json!("limits of t"));
    assert!(problem["what"].as_str().unwrap().contains("3 messages"), "{problem}");
    assert!(problem["next"].as_str().unwrap().contains("windlass topic set t"), "{problem}");
    dev.until(|event| event["event"] == "serving");
    assert_eq!(project.topic("t")["limits"]["max_messages"], json!(1_000_000));
    assert_eq!(project.topic("echo")["groups"][0]["max_attempts"], json!(7));
    project.run(&["topic", "purge", "t", "--yes"]).must(0, &[]);
    dev.until(|event| event["event"] == "mended" && event["about"] == "limits of t");
    assert_eq!(project.topic("t")["limits"]["max_messages"], json!(2));
    dev.signal("INT");
    dev.end().must(0, &[]);
}
