//! `windlass tail TOPIC`.

use crate::kit::{Dev, Project, run, samples, signal, until, wait, windlass};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// A project with these messages on `echo`, and their ids.
fn with_messages(texts: &[&str]) -> (Project, Vec<String>) {
    let project = Project::of("echo", "[consumer.allow]\npublish = [\"echo/out\"]\n");
    project.make_log();
    let ids = texts.iter().map(|text| publish(&project, text)).collect();
    (project, ids)
}

fn publish(project: &Project, text: &str) -> String {
    let answers = project.json(&["publish", "echo", "--data", text]);
    answers[0]["id"].as_str().unwrap().to_owned()
}

fn data(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["data"].as_str().unwrap()).collect()
}

/// A tail that follows, as a process of its own.
fn follow(project: &Project, args: &[&str]) -> Dev {
    let log = project.log();
    let tail = ["tail", "echo", "--json", "--log", log.to_str().unwrap()];
    Dev::spawn(windlass(&[&tail, args].concat()))
}

#[test]
fn stored_messages_are_read_from_anywhere_and_resumed_behind_an_id() {
    let (project, ids) = with_messages(&["one", "two", "three"]);
    let tail = |more: &[&str]| project.json(&[&["tail", "echo", "--no-follow"], more].concat());
    let all = tail(&[]);
    assert_eq!(data(&all), ["one", "two", "three"]);
    for (message, id) in all.iter().zip(&ids) {
        assert_eq!((&message["topic"], &message["id"]), (&json!("echo"), &json!(id)));
        assert_eq!(message["content_type"], json!("text/plain; charset=utf-8"));
        assert_eq!((&message["metadata"], &message["key"]), (&json!([]), &Value::Null));
        assert!(message["published_at"].is_string() && message["size"].is_u64(), "{message}");
        assert!(message.get("due").is_none() && message.get("gap").is_none(), "{message}");
    }
    assert_eq!(data(&tail(&["-n", "2"])), ["one", "two"]);
    assert_eq!(data(&tail(&["--after", &ids[0]])), ["two", "three"]);
    assert_eq!(data(&tail(&["--after", &ids[0], "--limit", "1"])), ["two"]);
    assert_eq!(data(&tail(&["--since", "1h"])), ["one", "two", "three"]);
    assert_eq!(tail(&["--since", "9999-12-31T23:59:59Z"]), [] as [Value; 0]);
    assert_eq!(tail(&["--after", &ids[2]]), [] as [Value; 0]);
    project.run_with(&["publish", "echo"], &[0xff]).must(0, &[]);
    let last = tail(&["--after", &ids[2]]).remove(0);
    assert_eq!((&last["data_base64"], last.get("data")), (&json!("/w=="), None));
}

#[test]
fn lines_are_for_people_and_do_nothing_to_a_terminal() {
    let (project, ids) = with_messages(&["one\u{1b}[31m\ntwo"]);
    let ended = project.run(&["tail", "echo", "--no-follow"]);
    ended.must(0, &[]);
    assert!(
        ended.out.starts_with(&ids[0]) && ended.out.ends_with("one\\u{1b}[31m\\ntwo\n"),
        "{ended:?}"
    );
    let ended = project.run(&["tail", "echo", "--no-follow", "--full"]);
    assert!(ended.out.ends_with("\n    one\\u{1b}[31m\n    two\n"), "{ended:?}");
    project.run(&["tail", "gone", "--no-follow"]).must(1, &["there is no topic `gone`", "next: "]);
    project
        .run(&["tail", "echo", "--from-start", "--since", "1h"])
        .must(2, &["cannot be used with"]);
    project.run(&["tail", "echo", "--since", "soon"]).must(2, &["an age such as"]);
}

#[test]
fn a_tail_sees_what_other_processes_publish_and_send_meanwhile() {
    let (project, _) = with_messages(&["before"]);
    let mut tail = follow(&project, &[]);
    let mut out = Dev::spawn({
        let log = project.log();
        windlass(&["tail", "echo/out", "--json", "--log", log.to_str().unwrap()])
    });
    // Only what is published from now on: the first that it shows says that it runs.
    let first = until("the first message", || {
        publish(&project, "probe");
        tail.next_within_a_second()
    });
    assert_eq!(first["data"], json!("probe"), "`before` was published before");
    until("the note", || out.said().contains("no topic `echo/out` yet").then_some(()));
    let dev = Dev::ready(&project, &["--no-samples"]);
    let ids: Vec<_> = (0..50).map(|number| publish(&project, &format!("m{number}"))).collect();
    let mut seen = Vec::new();
    while seen.len() < ids.len() {
        seen.push(tail.until(|message| message["data"] != "probe")["id"].clone());
    }
    assert_eq!(seen, ids.iter().map(|id| json!(id)).collect::<Vec<_>>());
    let sent = out.until(|message| message["data"] == "m49");
    assert_eq!(sent["topic"], json!("echo/out"));
    dev.signal("INT");
    dev.end().must(0, &[]);
    for (tail, signal) in [(tail, "INT"), (out, "TERM")] {
        tail.signal(signal);
        tail.end().must(0, &[]);
    }
}

#[test]
fn a_tail_ends_after_as_many_messages_as_it_was_asked_for() {
    let (project, ids) = with_messages(&["one", "two"]);
    let tail = follow(&project, &["--after", &ids[0], "-n", "2"]);
    publish(&project, "three");
    publish(&project, "four");
    let ended = tail.end();
    ended.must(0, &[]);
    assert_eq!(data(&ended.objects()), ["two", "three"]);
    assert_eq!(ended.err, "");
}

#[test]
fn a_tail_whose_reader_goes_away_ends_quietly_even_where_nothing_comes() {
    let (project, _) = with_messages(&["one"]);
    let mut command = windlass(&["tail", "echo", "--from-start"]);
    command.current_dir(project.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.contains("one"), "{line}");
    drop(out);
    assert_eq!(wait(&mut child), Some(0));
    let mut err = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut err).unwrap();
    assert_eq!(err, "");
}

#[test]
fn a_tail_whose_reader_stands_still_ends_when_it_is_told_to() {
    let (project, _) = with_messages(&[]);
    let large = "x".repeat(500_000);
    for _ in 0..4 {
        project.run_with(&["publish", "echo"], large.as_bytes()).must(0, &[]);
    }
    let mut command = windlass(&["tail", "echo", "--from-start", "--full"]);
    command.current_dir(project.path()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    // It is in the middle of printing, and cannot go on.
    out.read_line(&mut String::new()).unwrap();
    signal("TERM", child.id());
    assert_eq!(wait(&mut child), Some(0));
}

#[test]
fn what_was_removed_is_told_as_a_gap() {
    let (project, ids) = with_messages(&["one", "two", "three"]);
    project.until_idle(&["--no-samples"]).must(0, &[]);
    crate::log::sweep_all(&project.log());
    let id = publish(&project, "four");
    let ended = project.run(&["tail", "echo", "--no-follow", "--after", &ids[0], "--json"]);
    ended.must(0, &["gap: "]);
    let [gap, message] = &ended.objects()[..] else { panic!("{ended:?}") };
    assert_eq!(gap["topic"], json!("echo"));
    let part = |id: &str| id.split_once('-').unwrap().1.to_owned();
    assert_eq!(gap["gap"]["after"], json!(part(&ids[0])));
    assert!(gap["gap"]["through"].as_str().unwrap() >= part(&ids[2]).as_str(), "{gap}");
    assert_eq!(message["id"], json!(id));
    let text = project.run(&["tail", "echo", "--no-follow", "--after", &ids[0]]);
    text.must(0, &["gap: "]);
    assert_eq!(text.out.lines().count(), 1, "{text:?}");
}

#[test]
fn a_tail_never_writes_to_the_log() {
    let (project, _) = with_messages(&["one"]);
    crate::log::checkpoint(&project.log());
    let files = || {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "cd .windlass && find . -type f ! -name '*-shm' | sort | xargs sha256sum",
        ]);
        command.current_dir(project.path());
        run(command, b"").out
    };
    let before = files();
    assert_eq!(project.json(&["tail", "echo", "--no-follow"]).len(), 1);
    assert_eq!(files(), before);
}

#[test]
fn samples_of_a_run_are_seen_like_all_others() {
    let more = format!("[consumer.allow]\npublish = [\"echo/out\"]\n{}", samples("echo", &["hi"]));
    let project = Project::of("echo", &more);
    project.until_idle(&[]).must(0, &[]);
    let sent = project.json(&["tail", "echo/out", "--no-follow"]);
    assert_eq!(data(&sent), ["hi"]);
}
