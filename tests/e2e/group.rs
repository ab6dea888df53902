//! `windlass group ls|show|add|set|seek|rm|pending|release|gap`.

use crate::kit::{Dev, Project, samples, until};
use serde_json::{Value, json};

/// A project whose topic `poison` was read by nobody but the work queue.
fn with_messages(texts: &[&str]) -> (Project, Vec<String>) {
    let project = Project::of("poison", "");
    project.make_log();
    let publish = |text: &&str| {
        let answers = project.json(&["publish", "poison", "--data", text]);
        answers[0]["id"].as_str().unwrap().to_owned()
    };
    let ids = texts.iter().map(publish).collect();
    (project, ids)
}

fn add(project: &Project, group: &str, more: &[&str]) -> Value {
    project.json(&[&["group", "add", "poison", group], more].concat()).remove(0)
}

#[test]
fn a_group_starts_where_it_is_told_and_shows_its_policy() {
    let (project, ids) = with_messages(&["ok", "ok", "ok"]);
    let second = ids[1].as_str();
    for (name, more, lag) in [
        ("all", &[][..], 3),
        ("new", &["--start", "latest"], 0),
        ("hour", &["--start", "1h"], 3),
        ("future", &["--start", "9999-12-31T23:59:59Z"], 0),
        ("from", &["--start", second], 2),
        ("behind", &["--start", second, "--after"], 1),
    ] {
        let added = add(&project, name, more);
        assert_eq!((&added["topic"], &added["group"]), (&json!("poison"), &json!(name)));
        assert_eq!(added["lag"], json!(lag), "{name}");
    }
    let policy = ["--max-attempts", "2", "--lease", "7s", "--in-flight", "9"];
    add(&project, "own", &[&policy[..], &["--dead-letter-topic", "poison/dead"]].concat());
    let shown = project.json(&["group", "show", "poison", "own"]).remove(0);
    let expected = json!({
        "topic": "poison", "group": "own",
        "ready": 3, "delayed": 0, "retrying": 0, "parked": 0, "leased": 0, "dead": 0, "lag": 3,
        "max_attempts": 2, "lease_ms": 7_000, "in_flight": 9,
        "backoff": { "initial_ms": 1_000, "factor": 2.0, "max_ms": 300_000, "jitter": 0.2 },
        "dead_letter_topic": "poison/dead", "copies_missed": 0, "gap_messages": 0,
    });
    assert_eq!(shown, expected);
    let listed = project.json(&["group", "ls", "poison"]);
    let names: Vec<_> = listed.iter().map(|group| group["group"].as_str().unwrap()).collect();
    assert_eq!(names, ["", "all", "behind", "from", "future", "hour", "new", "own"]);
    assert_eq!(listed.last(), Some(&expected));
    assert_eq!(project.json(&["group", "ls"]), listed);
    let text = project.run(&["group", "ls"]);
    assert!(text.out.starts_with("TOPIC") && text.out.contains("(work queue)"), "{text:?}");
    let text = project.run(&["group", "show", "poison", "own"]);
    assert!(text.out.contains("1.0 s x 2 up to 5m, 20 % jitter"), "{text:?}");
}

#[test]
fn what_cannot_be_added_is_refused_with_what_to_do() {
    let (project, ids) = with_messages(&["ok"]);
    add(&project, "g", &[]);
    let refused = |args: &[&str], code, parts: &[&str]| {
        project.run(&[&["group"], args].concat()).must(code, parts);
    };
    refused(&["add", "poison", "g"], 1, &["BUSYGROUP", "next: windlass group show poison g"]);
    refused(&["add", "poison", "h", "--start", "soon"], 2, &["`earliest`, `latest`"]);
    refused(&["add", "poison", "h", "--start", "latest", "--after"], 2, &["--start ID"]);
    refused(&["add", "poison", "h", "--lease", "10ms"], 2, &["between 1s and"]);
    refused(&["add", "poison", "a/b"], 2, &["a group has no `/`"]);
    refused(&["show", "poison", "h"], 1, &["NOGROUP", "next: windlass group ls poison"]);
    refused(&["show", "gone", "h"], 1, &["there is no topic `gone`", "next: windlass topic ls"]);
    refused(&["ls", "gone"], 1, &["there is no topic `gone`"]);
    refused(&["pending", "poison", "h"], 1, &["NOGROUP"]);
    let log = project.log();
    let elsewhere = ["group", "show", "poison", "h", "--log", log.to_str().unwrap()];
    project.run(&elsewhere).must(1, &["next: windlass group ls poison --log '"]);
    assert_eq!(project.json(&["group", "ls"]).len(), 2, "{ids:?}");
}

#[test]
fn removing_a_group_settles_its_share_and_its_dead_letters_only_by_force() {
    let more = format!("group = \"g\"\nmax-attempts = 1\n{}", samples("poison", &["reject:no"]));
    let project = Project::of("poison", &more);
    project.until_idle(&[]).must(3, &[]);
    project.json(&["publish", "poison", "--data", "ok"]);
    let rm = ["group", "rm", "poison", "g"];
    let with = |more: &[&str]| project.run(&[&rm, more].concat());
    with(&[]).must(1, &["1 dead letters", "windlass dlq ls poison --group g", "--force"]);
    with(&["--yes"]).must(1, &["1 dead letters", "--force"]);
    with(&["--force"]).must(2, &["--yes"]);
    assert_eq!(project.json(&["group", "ls"]).len(), 1);
    let removed = project.json(&[&rm[..], &["--force", "--yes"]].concat()).remove(0);
    assert_eq!((&removed["topic"], &removed["group"]), (&json!("poison"), &json!("g")));
    assert_eq!((&removed["dead"], &removed["lag"]), (&json!(1), &json!(1)));
    with(&["--yes"]).must(1, &["NOGROUP"]);
    assert_eq!(project.json(&["group", "ls"]), [] as [Value; 0]);
    let text = project.run(&["group", "ls", "poison"]);
    text.must(0, &["no group reads `poison`"]);
}

#[test]
fn pending_tells_who_holds_what_and_what_waits_for_when() {
    let texts = ["err-timeout", "sleep:60000", "ok"];
    let more = format!(
        "concurrency = 1\nbackoff = {{ initial = \"1h\", max = \"2h\" }}\n\
         limits = {{ wall = \"2m\" }}\n{}",
        samples("poison", &texts)
    );
    let project = Project::of("poison", &more);
    let mut dev = Dev::ready(&project, &[]);
    dev.until_disposition("retry");
    until("a lease", || (project.topic("poison")["leased"] == 1).then_some(()));
    let pending = project.json(&["group", "pending", "poison", ""]);
    assert_eq!(pending.len(), 2, "what is new is not listed: {pending:#?}");
    let [retrying, leased] = &pending[..] else { panic!("{pending:?}") };
    for entry in [retrying, leased] {
        assert_eq!((&entry["topic"], &entry["group"]), (&json!("poison"), &json!("")));
        assert_eq!(entry["attempts"], json!(1));
        for key in ["id", "first_at", "last_at", "due"] {
            assert!(entry[key].is_string(), "{key}: {entry}");
        }
    }
    assert_eq!((&retrying["place"], &leased["place"]), (&json!("retrying"), &json!("leased")));
    assert!(retrying["worker"].is_null() && retrying["idle_ms"].is_null(), "{retrying}");
    assert!(leased["worker"].is_string() && leased["idle_ms"].is_u64(), "{leased}");
    let text = project.run(&["group", "pending", "poison", "", "--limit", "1"]);
    let first = retrying["id"].as_str().unwrap();
    let next = format!("next: windlass group pending poison '' --after {first}");
    text.must(0, &["more than 1", &next]);
    assert!(text.out.contains("in 59m") || text.out.contains("in 1h"), "{text:?}");
    let behind = project.json(&["group", "pending", "poison", "", "--after", first]);
    assert_eq!(behind.len(), 1);
    assert_eq!(behind[0]["id"], leased["id"]);
    let none =
        project.run(&["group", "pending", "poison", "", "--after", leased["id"].as_str().unwrap()]);
    none.must(0, &["nothing is leased or waits"]);
    dev.signal("INT");
    dev.signal("INT");
    dev.end().must(0, &[]);
}

#[test]
fn a_group_is_moved_back_and_forward() {
    let (project, ids) = with_messages(&["ok", "ok", "ok"]);
    add(&project, "g", &[]);
    let seek = |more: &[&str]| {
        project.json(&[&["group", "seek", "poison", "g", "--to"], more].concat()).remove(0)
    };
    for (to, lag) in [
        (&["latest"][..], 0),
        (&[ids[1].as_str()], 2),
        (&[ids[1].as_str(), "--after"], 1),
        (&["9999-12-31T23:59:59Z"], 0),
        (&["1h"], 3),
        (&["earliest"], 3),
    ] {
        let moved = seek(to);
        assert_eq!((&moved["group"], &moved["lag"]), (&json!("g"), &json!(lag)), "{to:?}");
    }
    let told = project.run(&["group", "seek", "poison", "g", "--to", "latest"]);
    told.must(0, &[]);
    assert_eq!(told.out.trim_end(), "moved group g of poison: 0 to settle");
    let refused = |args: &[&str], code, parts: &[&str]| {
        project.run(&[&["group", "seek"], args].concat()).must(code, parts);
    };
    refused(&["poison", "h", "--to", "latest"], 1, &["NOGROUP", "windlass group ls poison"]);
    refused(&["gone", "g", "--to", "latest"], 1, &["there is no topic `gone`"]);
    refused(&["poison", "g", "--to", "soon"], 2, &["`earliest`, `latest`"]);
    refused(&["poison", "g", "--to", "latest", "--after"], 2, &["--to ID"]);
    refused(&["poison", "g"], 2, &["--to"]);
}

#[test]
fn parts_of_a_policy_are_set_and_the_rest_stays() {
    let (project, _) = with_messages(&["ok"]);
    add(&project, "g", &["--max-attempts", "2", "--lease", "7s", "--start", "latest"]);
    let set = |more: &[&str]| project.run(&[&["group", "set", "poison"], more].concat());
    let told = project.json(&["group", "set", "poison", "g", "--in-flight", "9"]).remove(0);
    assert_eq!((&told["in_flight"], &told["max_attempts"]), (&json!(9), &json!(2)));
    assert_eq!((&told["lease_ms"], &told["lag"]), (&json!(7_000), &json!(0)), "it stays");
    set(&["g", "--max-attempts", "3"]).must(0, &[]);
    assert_eq!(project.json(&["group", "show", "poison", "g"])[0]["max_attempts"], json!(3));
    set(&["g"]).must(2, &["nothing is given", "--max-attempts N"]);
    set(&["h", "--in-flight", "9"]).must(1, &["NOGROUP"]);
    set(&["g", "--lease", "10ms"]).must(2, &["between 1s and"]);
    assert_eq!(project.json(&["group", "ls", "poison"]).len(), 2);
}

#[test]
fn a_gap_is_shown_until_it_is_acknowledged() {
    let (project, ids) = with_messages(&["ok", "ok"]);
    add(&project, "g", &[]);
    let gap =
        |more: &[&str]| project.json(&[&["group", "gap", "poison", "g"], more].concat()).remove(0);
    assert_eq!(gap(&[])["gap"], json!(null));
    project.run(&["group", "gap", "poison", "g"]).must(0, &["group g of poison has no gap"]);
    project.run(&["topic", "set", "poison", "--max-age", "1s"]).must(0, &[]);
    let dev = Dev::ready(&project, &[]);
    until("a gap", || (gap(&[])["gap"]["messages"] == 2).then_some(()));
    dev.signal("INT");
    dev.end();
    let found = gap(&[]);
    let last = ids[1].split('-').next_back().unwrap();
    assert_eq!((&found["gap"]["messages"], &found["gap"]["through"]), (&json!(2), &json!(last)));
    assert!(found["gap"]["at"].is_string() && found["acknowledged"] == json!(false), "{found}");
    let told = project.run(&["group", "gap", "poison", "g"]);
    told.must(0, &["next: windlass group gap poison g --acknowledge"]);
    assert!(told.out.starts_with("2 messages"), "{told:?}");
    assert_eq!(gap(&["--acknowledge"])["acknowledged"], json!(true));
    assert_eq!(gap(&["--acknowledge"])["acknowledged"], json!(false));
    assert_eq!(gap(&[])["gap"], json!(null));
    project.run(&["group", "gap", "poison", "h"]).must(1, &["NOGROUP"]);
}

/// A consumer that was killed keeps nobody waiting for its leases.
#[test]
fn what_a_dead_worker_held_is_released() {
    let more = "group = \"g\"\nlease = \"10m\"\nlimits = { wall = \"9m\" }\n";
    let project = Project::of("poison", &format!("{more}{}", samples("poison", &["sleep:60000"])));
    let dev = Dev::ready(&project, &[]);
    until("a lease", || (project.topic("poison")["leased"] == 1).then_some(()));
    dev.kill();
    let pending = project.json(&["group", "pending", "poison", "g"]).remove(0);
    let worker = pending["worker"].as_str().unwrap();
    let release = ["group", "release", "poison", "g", "--worker"];
    let nobody = project.run(&[&release[..], &["nobody"]].concat());
    nobody.must(0, &["holds nothing", "windlass group pending poison g"]);
    let released = project.json(&[&release[..], &[worker]].concat()).remove(0);
    assert_eq!((&released["released"], &released["worker"]), (&json!(1), &json!(worker)));
    let group = project.json(&["group", "show", "poison", "g"]).remove(0);
    assert_eq!((&group["leased"], &group["lag"]), (&json!(0), &json!(1)));
    project.run(&["group", "release", "poison", "h", "--worker", "w"]).must(1, &["NOGROUP"]);
    project.run(&["group", "release", "poison", "g"]).must(2, &["--worker"]);
}
