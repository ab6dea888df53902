//! What is not the message's fault: nothing is dead-lettered, the consumer pauses and says why.

use crate::kit::{Dev, Project, consumer, samples};
use crate::log;
use serde_json::json;

const FAST: &str = "max-attempts = 2\nbackoff = { initial = \"20ms\", max = \"50ms\" }\n";

fn poison(more: &str) -> String {
    consumer("poison", &format!("{FAST}{more}"))
}

#[test]
fn a_missing_grant_pauses_the_consumer_and_costs_no_attempt() {
    for text in ["send-denied", "send-denied-panic"] {
        let project = Project::new(&format!("{}{}", poison(""), samples("poison", &[text])));
        let ended = project.until_idle(&[]);
        ended.must(1, &["a consumer is paused for what does not mend itself"]);
        let deliveries = ended.deliveries();
        assert_eq!(deliveries.len(), 1, "{text}: {deliveries:#?}");
        assert_eq!(deliveries[0]["outcome"], json!("grant-missing"));
        let objects = ended.objects();
        let paused = objects.iter().find(|object| object["event"] == "paused").unwrap();
        assert_eq!((&paused["consumer"], &paused["mends_itself"]), (&json!("c"), &json!(false)));
        assert!(paused["text"].as_str().unwrap().contains("denied"), "{paused}");
        let topic = project.topic("poison");
        assert_eq!((&topic["dead"], &topic["lag"]), (&json!(0), &json!(1)), "{text}");

        // Granted, the same message goes through, at its first counted attempt.
        let granted = poison("allow = { publish = [\"denied\"] }");
        project.rewrite(&granted);
        let ended = project.until_idle(&["--no-samples"]);
        if text == "send-denied" {
            ended.must(0, &[]);
            assert_eq!(ended.deliveries()[0]["attempt"], json!(1));
            assert_eq!(log::read_all(&project.log(), ["denied"]).len(), 1);
        } else {
            assert_eq!(ended.deliveries()[0]["outcome"], json!("trapped"), "now its own fault");
        }
    }
}

#[test]
fn after_a_success_one_missing_grant_does_not_pause_others() {
    let texts = ["ok", "send-denied", "ok", "ok"];
    let manifest = format!("{}{}", poison("concurrency = 1"), samples("poison", &texts));
    let project = Project::new(&manifest);
    let mut dev = Dev::start(&project, &[]);
    for _ in 0..3 {
        dev.until_disposition("ack");
    }
    dev.signal("INT");
    let ended = dev.end();
    ended.must(0, &[]);
    assert!(ended.objects().iter().all(|object| object["event"] != "paused"), "{ended:?}");
    let topic = project.topic("poison");
    assert_eq!((&topic["dead"], &topic["lag"]), (&json!(0), &json!(1)));
}

/// Goal: a settle that the storage refuses commits nothing and buries nothing. Method: a guest
/// sends to a topic that is granted but, in a log of declared topics, not there.
#[test]
fn a_refused_settle_pauses_the_consumer_and_commits_nothing() {
    let more = "allow = { publish = [\"poison/*\"] }";
    let texts = ["sends:3"];
    let closed = format!("topics = \"declared\"\n{}", poison(more));
    let project = Project::new(&format!("{closed}{}", samples("poison", &texts)));
    let ended = project.until_idle(&[]);
    ended.must(1, &["a consumer is paused for what does not mend itself"]);
    let deliveries = ended.deliveries();
    let first = &deliveries[0];
    assert_eq!((&first["outcome"], &first["disposition"]), (&json!("refused"), &json!("release")));
    assert!(first["text"].as_str().unwrap().contains("poison/out"), "{first}");
    let objects = ended.objects();
    let paused = objects.iter().find(|object| object["event"] == "paused").unwrap();
    assert_eq!((&paused["reason"], &paused["consumer"]), (&json!("refused"), &json!("c")));
    assert!(paused["text"].as_str().unwrap().contains("poison/out"), "{paused}");
    let topic = project.topic("poison");
    assert_eq!((&topic["dead"], &topic["ready"]), (&json!(0), &json!(1)));

    // Declared, it goes through at its first attempt, and sends each once.
    project.rewrite(&format!("topics = \"declared\"\n{}[topics.\"poison/out\"]\n", poison(more)));
    let ended = project.until_idle(&["--no-samples"]);
    ended.must(0, &[]);
    assert_eq!(ended.deliveries()[0]["attempt"], json!(1));
    assert_eq!(log::read_all(&project.log(), ["poison/out"]).len(), 3);
    project.run(&["publish", "undeclared", "--data", "x"]).must(1, &["`undeclared`", "next: "]);
}

#[test]
fn a_person_reads_why_a_consumer_is_paused() {
    let manifest = format!("{}{}", poison(""), samples("poison", &["send-denied"]));
    let project = Project::new(&manifest);
    let ended = project.run(&["dev", "--until-idle"]);
    ended.must(1, &["paused"]);
    let all = format!("{}{}", ended.out, ended.err);
    assert!(all.contains("publish \"denied\""), "{ended:#?}");
}
