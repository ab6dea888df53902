//! Revisions change while messages come in.

use crate::kit::{Project, consumer, guest, until};
use crate::serve::{Server, ask, deploy, post, ps};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{TryRecvError, channel};

/// Goal: a rollout loses nothing and handles nothing twice. Method: 1,000 messages and more come in while code
/// and configuration change five times, one of them to a broken revision, with a restart in between;
/// what the servers tell is counted by message.
#[test]
fn rollouts_under_load_handle_each_message_once_on_one_revision() {
    let text = |name: &str, more: &str| {
        let more = format!(
            "rollback-after = 3\nmax-attempts = 100\n\
             backoff = {{ initial = \"50ms\", max = \"200ms\" }}\n{more}"
        );
        consumer("poison", &more)
            .replace(guest("poison").to_str().unwrap(), guest(name).to_str().unwrap())
    };
    let project = Project::new(&text("poison", "concurrency = 1"));
    let mut server = Server::start(&project);
    deploy(&project, &[]).must(0, &[]);
    // Goes on until it is told that the rollouts are done, and so many at least.
    let keep_publishing = |address: String, least: usize| {
        let (done, ended) = channel::<()>();
        let publishing = std::thread::spawn(move || {
            let mut published = 0;
            while published < least || ended.try_recv() == Err(TryRecvError::Empty) {
                let (status, body) = ask(&address, &post("poison", &[]), b"ok");
                assert_eq!(status, 201, "{body}");
                published += 1;
            }
            published
        });
        move || {
            drop(done);
            publishing.join().unwrap()
        }
    };
    let first = keep_publishing(server.address.clone(), 600);
    for (name, more) in [
        ("poison", "concurrency = 3"),
        ("bench", "concurrency = 3"),
        ("webhooks", "concurrency = 3"),
    ] {
        project.rewrite(&text(name, more));
        deploy(&project, &["--no-wait"]).must(0, &[]);
        if name == "webhooks" {
            server.run.until(|event| event["event"] == "rolled-back");
        } else {
            let revision = ps(&project, "c")["revision"].as_u64().unwrap();
            server.run.until(|event| {
                let by = event["revision"].as_str().unwrap_or_default();
                event["event"] == "delivery" && by.starts_with(&format!("{revision}-"))
            });
        }
    }
    let mut sum = first();
    let mut told = server.end().must(0, &[]).deliveries();
    let server = Server::start(&project);
    let second = keep_publishing(server.address.clone(), 400);
    for (name, more) in [("poison", "concurrency = 2"), ("poison", "instances = \"warm\"")] {
        project.rewrite(&text(name, more));
        deploy(&project, &[]).must(0, &[]);
    }
    sum += second();
    until("all is handled", || (ps(&project, "c")["lag"] == json!(0)).then_some(()));
    server.run.signal("INT");
    told.extend(server.run.end().must(0, &[]).deliveries());

    let mut acked: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for delivery in told.iter().filter(|delivery| delivery["disposition"] == "ack") {
        let [id, revision] =
            ["id", "revision"].map(|key| delivery[key].as_str().unwrap().to_owned());
        acked.entry(id).or_default().push(revision);
    }
    assert!(sum >= 1_000);
    assert_eq!(acked.len(), sum);
    let twice: Vec<_> = acked.iter().filter(|(_, by)| by.len() != 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    let by: BTreeSet<&str> = acked.values().map(|by| by[0].split('-').next().unwrap()).collect();
    assert!(!by.contains("4"), "the broken one: {by:?}");
    assert!(by.len() >= 4, "{by:?}");
    assert_eq!(project.topic("poison")["dead"], json!(0));
}
