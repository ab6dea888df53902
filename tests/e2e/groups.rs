//! Several consumers in one manifest: who gets what, and that the counts add up.

use crate::kit::{Project, consumer, guest, samples};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

fn by_consumer(deliveries: &[Value]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut ids: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for delivery in deliveries.iter().filter(|d| d["disposition"] == "ack") {
        let name = delivery["consumer"].as_str().unwrap();
        let fresh = ids.entry(name).or_default().insert(delivery["id"].as_str().unwrap());
        assert!(fresh, "handled twice: {delivery}");
    }
    ids
}

#[test]
fn two_consumers_in_one_group_share_the_messages_and_in_two_groups_both_get_all() {
    let one = |name: &str, group: &str| {
        let more = format!("group = \"{group}\"\nconcurrency = 2\n");
        consumer("poison", &more).replace("\"c\"", &format!("\"{name}\""))
    };
    let texts = vec!["sleep:20"; 40];
    let manifest = [one("a", "shared"), one("b", "shared"), one("c", "own")].concat();
    let project = Project::new(&format!("{manifest}{}", samples("poison", &texts)));
    let ended = project.until_idle(&[]);
    ended.must(0, &[]);
    assert_eq!(ended.last()["handled"], json!(80));
    let deliveries = ended.deliveries();
    let ids = by_consumer(&deliveries);
    assert_eq!(ids["c"].len(), 40, "all of them");
    assert!(!ids["a"].is_empty() && !ids["b"].is_empty(), "each gets some");
    assert!(ids["a"].is_disjoint(&ids["b"]));
    assert_eq!(ids["a"].len() + ids["b"].len(), 40);
}

/// Law 17. What one gives up, another is told of, with what it was and whose.
#[test]
fn a_consumer_reads_the_copies_of_anothers_dead_letters() {
    let copies = guest("bench").display().to_string();
    let manifest = format!(
        "{}{}[[consumer]]\nname = \"undertaker\"\ncomponent = \"{copies}\"\ntopics = [\"poison/dead\"]\n",
        consumer(
            "poison",
            "group = \"g\"\nmax-attempts = 2\ndead-letter-topic = \"poison/dead\"\n\
             backoff = { initial = \"20ms\" }\n",
        ),
        samples("poison", &["reject:1ms", "err-other", "ok", "ok-on:2", "panic"]),
    );
    let project = Project::new(&manifest);
    let ended = project.until_idle(&[]);
    ended.must(3, &[]);
    let topic = project.topic("poison");
    assert_eq!((&topic["dead"], &topic["lag"]), (&json!(3), &json!(0)));
    let told: Vec<_> = ended
        .deliveries()
        .into_iter()
        .filter(|delivery| delivery["consumer"] == "undertaker" && delivery["attempt"] == 1)
        .collect();
    assert_eq!(told.len(), 3, "{told:#?}");
    let group = project.json(&["group", "show", "poison", "g"]).remove(0);
    assert_eq!(group["copies_missed"], json!(0), "{group}");
    // Redriven ones die again, and are told of again.
    project.json(&["dlq", "redrive", "poison", "--reason", "rejected"]);
    let again = project.until_idle(&["--no-samples"]);
    assert_eq!(again.last()["dead"], json!(1), "{again:?}");
    assert_eq!(project.topic("poison/dead")["retained"], json!(4));
}
