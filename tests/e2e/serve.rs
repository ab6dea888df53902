//! `windlass serve` and what is deployed: while it runs and while it does not.

use crate::kit::{Dev, Ended, Project, consumer, guest, until, windlass};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

/// A server on a project's log.
pub(crate) struct Server {
    pub(crate) run: Dev,
    pub(crate) address: String,
}

impl Server {
    pub(crate) fn start(project: &Project) -> Self {
        let log = project.log();
        let args = ["serve", "--json", "--listen", "127.0.0.1:0", "--log", log.to_str().unwrap()];
        let mut run = Dev::spawn(windlass(&args));
        let listening = run.until(|event| event["event"] == "listening");
        run.until(|event| event["event"] == "ready");
        let address = listening["address"].as_str().unwrap().trim_start_matches("http://");
        Self { run, address: address.to_owned() }
    }

    /// Status and body of a request.
    fn ask(&self, head: &str, body: &[u8]) -> (u16, Value) {
        ask(&self.address, head, body)
    }

    pub(crate) fn publish(&self, topic: &str, text: &str) -> Value {
        let (status, body) = self.ask(&post(topic, &[]), text.as_bytes());
        assert_eq!(status, 201, "{body}");
        body
    }

    pub(crate) fn end(self) -> Ended {
        self.run.signal("INT");
        self.run.end()
    }
}

pub(crate) fn post(topic: &str, headers: &[&str]) -> String {
    let head = format!("POST /v1/topics/{topic}/messages HTTP/1.1\r\nHost: localhost");
    [&[head.as_str()], headers].concat().join("\r\n")
}

pub(crate) fn ask(address: &str, head: &str, body: &[u8]) -> (u16, Value) {
    let (status, text) = ask_text(address, head, body);
    (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}")))
}

fn ask_text(address: &str, head: &str, body: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("{head}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).unwrap();
    // A request that is too large is answered before it was read.
    drop(stream.write_all(body));
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(!answer.is_empty(), "{read:?}");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

pub(crate) fn ps(project: &Project, name: &str) -> Value {
    project.json(&["ps", name]).remove(0)
}

pub(crate) fn deploy(project: &Project, more: &[&str]) -> Ended {
    let path = project.path().to_str().unwrap();
    project.run(&[&["deploy", path, "--json"], more].concat())
}

fn steps(ended: &Ended) -> Vec<(String, String)> {
    let steps = ended.objects().into_iter().filter(|object| object["step"].is_string());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    steps.map(|step| (text(&step["step"]), text(&step["consumer"]))).collect()
}

#[test]
fn what_is_deployed_runs_whether_the_server_was_there_before_or_comes_after() {
    let project = Project::of("poison", "");
    let server = Server::start(&project);
    let ended = deploy(&project, &[]);
    ended.must(0, &[]);
    assert_eq!(steps(&ended), [("start".to_owned(), "c".to_owned())]);
    assert_eq!(ended.last()["state"], json!("serving"), "it was waited for");
    server.publish("poison", "ok");
    until("it is handled", || (ps(&project, "c")["lag"] == json!(0)).then_some(()));
    deploy(&project, &[]).must(0, &["nothing to do"]);
    server.end().must(0, &[]);
    assert_eq!(ps(&project, "c")["state"], json!("stopped"));

    project.rewrite(&consumer("poison", "concurrency = 2"));
    let ended = deploy(&project, &[]);
    ended.must(0, &["no server runs", "windlass serve"]);
    let step = &ended.objects()[0];
    assert_eq!((&step["step"], &step["changes"]), (&json!("swap"), &json!(["concurrency"])));
    let mut server = Server::start(&project);
    server.publish("poison", "ok");
    let delivery = server.run.until_disposition("ack");
    assert!(delivery["revision"].as_str().unwrap().starts_with("2-"), "{delivery}");
    server.end().must(0, &[]);
    let revisions = &ps(&project, "c")["revisions"];
    assert_eq!(
        (revisions[0]["revision"].clone(), revisions[1]["revision"].clone()),
        (json!(2), json!(1))
    );
}

#[test]
fn a_plan_is_shown_and_nothing_else_is_done_in_a_dry_run() {
    let two = |more: &str| {
        let other = consumer("echo", "").replace("\"c\"", "\"other\"");
        format!("{}{other}", consumer("poison", more))
    };
    let project = Project::new(&two(""));
    project.make_log();
    deploy(&project, &["--dry-run"]).must(0, &[]);
    assert!(project.json(&["ps"]).is_empty());
    deploy(&project, &[]).must(0, &[]);
    project.rewrite(&consumer("poison", "lease = \"9s\""));
    let [swap, stop] = ["swap c", "stop other"].map(|step| {
        let (sign, name) = step.split_once(' ').unwrap();
        (sign.to_owned(), name.to_owned())
    });
    assert_eq!(steps(&deploy(&project, &["--dry-run"])), [swap.clone(), stop]);
    assert_eq!(steps(&deploy(&project, &["--keep"])), [swap]);
    assert_eq!(project.json(&["ps"]).len(), 2);
    let person = project.run(&["deploy", project.path().to_str().unwrap(), "--dry-run"]);
    assert!(person.out.contains("= c revision 2\n- other (was revision 1)"), "{person:?}");
    project.run(&["undeploy", "other", "unknown"]).must(1, &["`unknown`", "windlass ps"]);
    assert_eq!(project.json(&["ps"]).len(), 2, "all or none");
    project.run(&["undeploy", "other", "c"]).must(0, &[]);
    assert!(project.json(&["ps"]).is_empty());
}

#[test]
fn what_does_not_pass_its_check_is_not_deployed_and_the_old_one_serves() {
    let project = Project::of("poison", "");
    let mut server = Server::start(&project);
    deploy(&project, &[]).must(0, &[]);
    let broken = project.path().join("broken.wasm");
    std::fs::write(&broken, b"\0asm\x01\0\0\0").unwrap();
    let manifest = consumer("poison", "").replace(guest("poison").to_str().unwrap(), "broken.wasm");
    for (text, said) in [
        (manifest.clone(), "core WebAssembly module"),
        (manifest.replace("broken", "missing"), "missing.wasm"),
        (consumer("poison", "limits = { memory = \"64 KiB\" }"), "starts with"),
        (consumer("poison", "instances = \"lukewarm\""), "instances"),
    ] {
        project.rewrite(&text);
        let ended = deploy(&project, &[]);
        ended.must(1, &[said]);
        assert_eq!(ps(&project, "c")["revision"], json!(1), "{text}");
    }
    server.publish("poison", "ok");
    assert!(server.run.until_disposition("ack")["revision"].as_str().unwrap().starts_with("1-"));
    server.end().must(0, &[]);
}

/// Goal: a file that was changed behind our back is not run, and costs nobody else. Method: the kept
/// component of a second revision is overwritten before the server sees it.
#[test]
fn a_component_that_was_changed_is_not_run_and_the_server_says_so() {
    let project = Project::of("poison", "");
    project.make_log();
    deploy(&project, &[]).must(0, &[]);
    let digest = ps(&project, "c")["digest"].as_str().unwrap().to_owned();
    let kept = project.log().join("components").join(format!("{digest}.wasm"));
    let whole = std::fs::read(&kept).unwrap();
    std::fs::copy(guest("bench"), &kept).unwrap();
    let server = Server::start(&project);
    let (status, body) = server.ask("GET /readyz HTTP/1.1\r\nHost: localhost", b"");
    assert_eq!(status, 503, "{body}");
    assert!(body["reasons"][0].as_str().unwrap().contains("not what was deployed"), "{body}");
    until("it is told", || (ps(&project, "c")["state"] == json!("failed")).then_some(()));
    assert_eq!(server.ask("GET /healthz HTTP/1.1\r\nHost: localhost", b"").0, 200);
    server.publish("poison", "ok");
    // Deployed anew, with any difference, it is whole again.
    project.rewrite(&consumer("poison", "concurrency = 3"));
    deploy(&project, &[]).must(0, &[]);
    assert_eq!(std::fs::read(&kept).unwrap(), whole);
    until("it is handled", || (ps(&project, "c")["lag"] == json!(0)).then_some(()));
    assert_eq!(server.ask("GET /readyz HTTP/1.1\r\nHost: localhost", b"").0, 200);
    server.end().must(0, &[]);
}

#[test]
fn a_new_revision_whose_first_messages_fail_is_rolled_back_and_that_is_recorded() {
    let text = |name: &str| {
        consumer(
            "poison",
            "rollback-after = 3\nmax-attempts = 50\nbackoff = { initial = \"100ms\" }",
        )
        .replace(guest("poison").to_str().unwrap(), guest(name).to_str().unwrap())
    };
    let project = Project::new(&text("poison"));
    let mut server = Server::start(&project);
    deploy(&project, &[]).must(0, &[]);
    server.publish("poison", "ok");
    server.run.until_disposition("ack");
    // Without GitHub's header it refuses what it is given.
    project.rewrite(&text("webhooks"));
    deploy(&project, &[]).must(0, &[]);
    for _ in 0..10 {
        server.publish("poison", "ok");
    }
    let back = server.run.until(|event| event["event"] == "rolled-back");
    assert_eq!((&back["from"], &back["to"]), (&json!(2), &json!(1)));
    let handled = || (ps(&project, "c")["lag"] == json!(0)).then_some(());
    until("the one before handles what the new one could not", handled);
    let told = ps(&project, "c");
    assert_eq!((&told["revision"], &told["dead"]), (&json!(1), &json!(0)));
    let failed = told["revisions"][0]["failed"].as_str().unwrap();
    assert!(failed.contains("first messages failed"), "{told}");
    // A proven revision is not on probation any more, after a restart neither.
    server.end().must(0, &[]);
    let mut server = Server::start(&project);
    for _ in 0..4 {
        server.publish("poison", "reject:no");
    }
    for _ in 0..4 {
        server.run.until_disposition("dead-letter");
    }
    assert_eq!(ps(&project, "c")["revision"], json!(1));
    let refused = project.run(&["rollback", "c"]);
    refused.must(1, &["no revision before"]);
    project.run(&["rollback", "c", "--to", "2"]).must(0, &[]);
    assert_eq!(ps(&project, "c")["revision"], json!(2));
    server.end().must(0, &[]);
}

#[test]
fn a_paused_consumer_claims_nothing_until_it_is_resumed() {
    let project = Project::of("poison", "");
    let mut server = Server::start(&project);
    deploy(&project, &[]).must(0, &[]);
    project.run(&["pause", "c"]).must(0, &[]);
    assert_eq!(ps(&project, "c")["state"], json!("paused"));
    server.publish("poison", "ok");
    assert!(server.run.next_within_a_second().is_none_or(|event| event["event"] != "delivery"));
    assert_eq!(ps(&project, "c")["lag"], json!(1));
    project.run(&["resume", "c"]).must(0, &[]);
    server.run.until_disposition("ack");
    project.run(&["undeploy", "c"]).must(0, &[]);
    server.publish("poison", "ok");
    assert_eq!(project.topic("poison")["ready"], json!(1), "nobody is there to take it");
    // By its component alone, with what it reads.
    let file = guest("poison");
    let file = file.to_str().unwrap();
    project.run(&["deploy", file, "--name", "c"]).must(2, &["--topic"]);
    project.run(&["deploy", file, "--name", "c", "--topic", "poison"]).must(0, &[]);
    let delivery = server.run.until_disposition("ack");
    assert!(delivery["revision"].as_str().unwrap().starts_with("2-"), "{delivery}");
    server.end().must(0, &[]);
}

#[test]
fn a_message_comes_in_by_http_with_all_that_belongs_to_it() {
    let project = Project::of("poison", "");
    let server = Server::start(&project);
    let headers = [
        "Content-Type: application/json",
        "windlass-key: k",
        "windlass-dedup-id: d",
        "windlass-meta-colour: red",
        "X-GitHub-Event: push",
    ];
    let (status, first) = server.ask(&post("a%2Fb", &headers), b"{\"x\":1}");
    assert_eq!((status, &first["duplicate"]), (201, &json!(false)));
    let (status, again) = server.ask(&post("a%2Fb", &headers), b"{\"x\":2}");
    assert_eq!((status, &again["duplicate"], &again["id"]), (200, &json!(true), &first["id"]));
    let stored = project.json(&["message", "show", first["id"].as_str().unwrap()]).remove(0);
    assert_eq!((&stored["topic"], &stored["key"]), (&json!("a/b"), &json!("k")), "{stored}");
    assert_eq!(stored["content_type"], json!("application/json"));
    let metadata = stored["metadata"].to_string();
    assert!(metadata.contains("colour") && metadata.contains("x-github-event"), "{stored}");
    server.ask(&post("later", &["windlass-delay-ms: 60000"]), b"x");
    assert_eq!(project.topic("later")["delayed"], json!(1));

    let large = vec![b'x'; (1 << 20) + 1];
    project.run(&["topic", "add", "small", "--max-messages", "1"]).must(0, &[]);
    server.publish("small", "x");
    let foreign = post("a", &[]).replace("localhost", "example.com");
    for (head, body, status, code, retry) in [
        (post("a*", &[]), &b"x"[..], 400, "bad-name", false),
        (post("a", &["windlass-delay-ms: soon"]), b"x", 400, "bad-header", false),
        (post("a", &["windlass-kee: k"]), b"x", 400, "bad-header", false),
        (post("a", &["windlass-meta-windlass-id: k"]), b"x", 400, "bad-header", false),
        (post("a", &[]), &large, 413, "too-large", false),
        (post("small", &[]), b"x", 429, "quota-full", true),
        (foreign, b"x", 403, "foreign", false),
        (post("a", &["Origin: https://example.com"]), b"x", 403, "foreign", false),
        (
            "GET /v1/topics/a/messages HTTP/1.1\r\nHost: localhost".into(),
            b"",
            405,
            "method-not-allowed",
            false,
        ),
        ("GET /nowhere HTTP/1.1\r\nHost: localhost".into(), b"", 404, "no-such-path", false),
    ] {
        let (answered, body) = server.ask(&head, body);
        let error = &body["error"];
        assert_eq!((answered, &error["code"]), (status, &json!(code)), "{head}: {body}");
        assert_eq!(error["retry"], json!(retry), "{head}");
        assert!(!error["message"].as_str().unwrap().is_empty());
    }
    let ended = server.end();
    ended.must(0, &[]);
}

#[test]
fn there_is_one_server_a_log_and_it_is_for_this_machine() {
    let project = Project::of("poison", "");
    let server = Server::start(&project);
    project.run(&["serve", "--listen", "127.0.0.1:0"]).must(1, &["already", &server.address]);
    project.run(&["serve", "--listen", "0.0.0.0:0"]).must(2, &["other machines", "127.0.0.1"]);
    server.end().must(0, &[]);
    project.run(&["logs", "nobody"]).must(1, &["nobody"]);
    project.run(&["logs", "../x"]).must(2, &[]);
}

#[test]
fn a_server_counts_what_became_of_messages() {
    let project = Project::new(&consumer("poison", "max-attempts = 1"));
    let mut server = Server::start(&project);
    deploy(&project, &[]).must(0, &[]);
    for (text, disposition) in [("ok", "ack"), ("ok", "ack"), ("panic", "dead-letter")] {
        server.publish("poison", text);
        server.run.until_disposition(disposition);
    }
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost";
    let (status, text) = ask_text(&server.address, request, b"");
    assert_eq!(status, 200);
    for line in [
        "windlass_deliveries_total{consumer=\"c\",outcome=\"ok\",disposition=\"ack\"} 2",
        "windlass_deliveries_total{consumer=\"c\",outcome=\"trapped\",disposition=\"dead-letter\"} 1",
        "windlass_delivery_seconds_count{consumer=\"c\"} 3",
        "windlass_paused{consumer=\"c\"} 0",
        "windlass_storage_up 1",
        "# EOF",
    ] {
        assert!(text.lines().any(|told| told == line), "{line}\n{text}");
    }
    server.end().must(0, &[]);
}
