//! Many messages, and many consumers.

use crate::kit::{Project, guest, until};
use crate::serve::{Server, deploy, ps};
use serde_json::json;

/// What a process has in memory, in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Goal: what a message takes of the host it gives back. Method: 50,000 messages go through one
/// component in fresh instances; after the first 10,000 the server is as large as it gets, but for
/// 12 MiB (what was seen is 5, once).
#[test]
fn fifty_thousand_messages_leave_the_host_as_large_as_it_was() {
    let project = Project::of("poison", "");
    let server = Server::start(&project);
    deploy(&project, &[]).must(0, &[]);
    let messages = "{\"data\":\"ok\"}\n".repeat(10_000);
    let round = || {
        let args = ["publish", "poison", "--ndjson", "-", "--json"];
        project.run_with(&args, messages.as_bytes()).must(0, &[]);
        until("all are handled", || (ps(&project, "c")["lag"] == json!(0)).then_some(()));
        resident(server.run.pid())
    };
    let first = round();
    let sizes = [(); 4].map(|()| round());
    assert!(sizes.iter().all(|size| *size < first + (12 << 10)), "{first} KiB, then {sizes:?}");
    let ended = server.end();
    ended.must(0, &[]);
    let handled = |event: &&serde_json::Value| event["event"] == "delivery";
    assert_eq!(ended.objects().iter().filter(handled).count(), 50_000);
}

/// Goal: a server with very many consumers starts, and each is served.
#[test]
fn a_thousand_consumers_are_deployed_and_started_again() {
    const CONSUMERS: usize = 1_000;
    let path = guest("poison").display().to_string();
    let one = |n: usize| {
        format!("[[consumer]]\nname = \"c{n}\"\ncomponent = \"{path}\"\ntopics = [\"t/{n}\"]\n")
    };
    let project = Project::new(&(0..CONSUMERS).map(one).collect::<String>());
    let server = Server::start(&project);
    deploy(&project, &[]).must(0, &[]);
    server.end().must(0, &[]);
    let mut server = Server::start(&project);
    for n in [0, CONSUMERS / 2, CONSUMERS - 1] {
        server.publish(&format!("t%2F{n}"), "ok");
        assert_eq!(server.run.until_disposition("ack")["consumer"], json!(format!("c{n}")));
    }
    let ended = server.end();
    ended.must(0, &[]);
    let is_served = |event: &&serde_json::Value| event["event"] == "serving";
    assert_eq!(ended.objects().iter().filter(is_served).count(), CONSUMERS);
}
