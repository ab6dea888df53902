//! What manifests may say, and how they are refused.

use super::*;
use std::time::Duration;
use windlass_core::{Backoff, GroupPolicy, Limits};
use windlass_log::Start;

fn parse(text: &str) -> Result<Manifest, String> {
    Manifest::parse(Path::new("/p/windlass.toml"), text).map_err(|error| error.to_string())
}

const SMALL: &str = "[[consumer]]\nname = \"a\"\ncomponent = \"a.wasm\"\ntopics = [\"t\"]\n";

#[test]
fn what_is_not_said_is_the_contracts_default() {
    let manifest = parse(SMALL).unwrap();
    let consumer = &manifest.consumers[0];
    assert_eq!(consumer.policy, GroupPolicy::default());
    assert_eq!(consumer.limits, Limits::default());
    assert_eq!(consumer.concurrency.get(), 8);
    assert_eq!(consumer.component, Path::new("/p/a.wasm"));
    assert_eq!((consumer.start, consumer.sends), (Start::Earliest, SendMode::WithAck));
    assert!(consumer.group.is_work_queue());
    assert_eq!(manifest.topics_mode, TopicsMode::Open);
}

#[test]
fn everything_that_can_be_said_is_read() {
    let manifest = parse(
        r#"
topics = "declared"
[topics."audit/all"]
[[consumer]]
name = "billing"
component = "target/billing.wasm"
build = "make"
topics = ["orders", "orders/created"]
group = "billing"
start = "latest"
concurrency = 2
lease = "1m"
max-attempts = 3
in-flight = 1_000
sends = "immediate"
instances = "fresh"
[consumer.backoff]
initial = "500ms"
factor = 3
max = "1m"
jitter = 0.5
[consumer.limits]
memory = "128 MiB"
wall = "5s"
cpu = "1s"
sends = 7
sent-bytes = "1 MiB"
resources = 10
output = "1 KiB"
[consumer.allow]
publish = ["audit/>", "orders/*"]
[consumer.env]
B = "2"
A = "1"
[[dev.samples]]
topic = "orders"
data = "one"
metadata = { z = "1", a = "2" }
[[dev.samples]]
topic = "audit/all"
data = "{}"
content-type = "application/json"
metadata = [["k", "1"], ["k", "2"]]
"#,
    )
    .unwrap();
    let consumer = &manifest.consumers[0];
    assert_eq!(
        consumer.policy.backoff,
        Backoff {
            initial: Duration::from_millis(500),
            factor: 3.0,
            max: Duration::from_mins(1),
            jitter: 0.5,
        }
    );
    assert_eq!(consumer.policy.in_flight_max.get(), 1_000);
    assert_eq!(consumer.limits.memory_bytes, 128 << 20);
    assert_eq!(consumer.limits.output_bytes, 1 << 10);
    assert_eq!(consumer.grants.env, [("B".into(), "2".into()), ("A".into(), "1".into())]);
    assert_eq!(consumer.grants.publish.len(), 2);
    assert_eq!(manifest.topics_mode, TopicsMode::Declared);
    assert_eq!(manifest.groups().len(), 2);
    assert_eq!(manifest.declared_topics().len(), 3);
    assert_eq!(manifest.samples[0].metadata, [("z".into(), "1".into()), ("a".into(), "2".into())]);
    assert_eq!(manifest.samples[0].content_type.as_deref(), Some(TEXT));
    assert_eq!(manifest.samples[1].metadata.len(), 2);
}

#[test]
fn all_problems_are_told_at_once_with_their_lines() {
    let error = parse(
        r#"[[consumer]]
nam = "a"
component = "a.wasm"
topics = ["ok", "a//b"]
lease = "10"
rate = "5/s"
[consumer.allow]
http = ["example.com"]
"#,
    )
    .unwrap_err();
    let found: Vec<&str> = error.lines().collect();
    for (line, part) in [
        (1, "needs `name`"),
        (2, "unknown key `nam` in [[consumer]]; the nearest known one is `name`"),
        (4, "a `/` must stand between"),
        (5, "is not a duration"),
        (6, "must be a number"),
        (8, "`http` is not built yet"),
    ] {
        let start = format!("/p/windlass.toml:{line}: ");
        assert!(
            found.iter().any(|found| found.starts_with(&start) && found.contains(part)),
            "{line} {part}\n{error}"
        );
    }
    assert_eq!(found.len(), 6, "{error}");
}

#[test]
fn values_out_of_range_or_of_the_wrong_kind_are_refused() {
    for (line, part) in [
        ("lease = \"10ms\"", "is not between 1s and 365 days"),
        ("lease = 5", "must be a string, not integer"),
        ("max-attempts = 0", "from 1 to"),
        ("concurrency = -1", "from 1 to"),
        ("concurrency = 1.5", "from 1 to"),
        ("group = \"a/b\"", "a group has no `/`"),
        ("start = \"now\"", "\"earliest\" or \"latest\""),
        ("instances = \"hot\"", "\"fresh\" or \"warm\""),
        ("rate = 0", "`rate` must be a number from 0.001 to"),
        ("build = \"b\"\nwatch = [\"\"]", "a path is empty"),
        ("backoff = { factor = 0.5 }", "from 1 to"),
        ("backoff = { jitter = 2 }", "from 0 to 1"),
        ("backoff = { initial = \"10m\", max = \"1m\" }", "longer than its `max`"),
        ("backoff = { max = \"400 days\" }", "is not between"),
        ("limits = { memory = \"0 B\" }", "is less than"),
        ("limits = { memory = \"lots\" }", "not a size"),
        ("limits = { sends = 0 }", "from 1 to"),
        ("allow = { publish = [\"a*\"] }", "is not a valid pattern"),
        ("env = { A = 1 }", "must be a string"),
        ("env = { \"A=B\" = \"1\" }", "cannot be set"),
        ("dead-letter-topic = \"t\"", "that this consumer reads"),
        ("dead-letter-topic = \"t//\"", "a `/` must stand"),
    ] {
        let error = parse(&format!("{SMALL}{line}\n")).unwrap_err();
        let at = 4 + line.lines().count();
        assert!(error.contains(part) && error.contains(&format!(":{at}: ")), "{line}: {error}");
    }
}

#[test]
fn samples_have_one_body_and_a_declared_topic() {
    for (sample, part) in [
        ("topic = \"t\"", "`data` or `file`"),
        ("topic = \"t\"\ndata = \"\"\nfile = \"x\"", "`data` or `file`"),
        ("data = \"x\"", "needs `topic`"),
        ("topic = \"t\"\nfile = \"missing\"", "`missing`: No such file"),
        ("topic = \"u\"\ndata = \"x\"", "not declared"),
        ("topic = \"t\"\ndata = \"x\"\nkey = \"\"", "`key`: it is empty"),
        ("topic = \"t\"\ndata = \"x\"\ndelay = \"soon\"", "is not a duration"),
        ("topic = \"t\"\ndata = \"x\"\nmetadata = { windlass-id = \"1\" }", "are the host's"),
        ("topic = \"t\"\ndata = \"x\"\nmetadata = [[\"a\"]]", "list of pairs"),
        ("topic = \"t\"\ndata = \"x\"\nmetadata = { \"\" = \"1\" }", "key is empty"),
        ("topic = \"t\"\ndata = \"x\"\nmetadata = [[\"\", \"1\"]]", "key is empty"),
        ("topic = \"t\"\ndata = \"x\"\ncontent-type = \"\"", "content type is empty"),
        ("topic = \"t\"\ndata = \"x\"\ncontent-type = \"a\\nb\"", "control character"),
        ("topic = \"t\"\nfile = \"/dev/zero\"", "larger than the 1.0 MiB"),
    ] {
        let text = format!("topics = \"declared\"\n{SMALL}[[dev.samples]]\n{sample}\n");
        let error = parse(&text).unwrap_err();
        assert!(error.contains(part), "{sample}: {error}");
    }
}

#[test]
fn consumers_must_agree_on_a_group_they_share() {
    let two = |second: &str| {
        let other = SMALL.replace("\"a\"", "\"b\"");
        parse(&format!("{SMALL}{other}{second}")).map(drop)
    };
    assert_eq!(two(""), Ok(()));
    assert_eq!(two("group = \"g\"\nlease = \"5s\""), Ok(()));
    assert!(two("lease = \"5s\"").unwrap_err().contains("differ in its policy"));
    assert!(parse(&SMALL.repeat(2)).unwrap_err().contains("two consumers named `a`"));
}

#[test]
fn what_is_not_toml_or_has_no_consumer_is_refused_with_a_line() {
    assert!(parse("x = \n").unwrap_err().starts_with("/p/windlass.toml:1: "));
    for none in ["", "consumer = []"] {
        assert!(parse(none).unwrap_err().contains("there is no [[consumer]]"), "{none}");
    }
    let single = SMALL.replace("[[consumer]]", "[consumer]");
    assert!(parse(&single).unwrap_err().contains("write `[[consumer]]`"));
    let empty = SMALL.replace("a.wasm", "");
    assert!(parse(&empty).unwrap_err().contains(":3: `component` is empty"));
    let twice = format!("topics = \"declared\"\n[topics.\"a\"]\nretain = \"5\"\n{SMALL}");
    assert!(parse(&twice).unwrap_err().contains(":3: `retain`: `5` is not a duration"));
}

#[test]
fn what_a_build_is_made_of_and_where_copies_of_dead_letters_go() {
    let more = "build = \"make\"\nwatch = [\"src\", \"../shared\"]\ndead-letter-topic = \"dead\"\n";
    let manifest = parse(&format!("{SMALL}{more}")).unwrap();
    let consumer = &manifest.consumers[0];
    assert_eq!(consumer.watch, [Path::new("/p/src"), Path::new("/p/../shared")]);
    assert_eq!(consumer.policy.dead_letter_topic, Some(Topic::new("dead").unwrap()));
    assert!(manifest.declared_topics().contains(&Topic::new("dead").unwrap()));
    let error = parse(&format!("{SMALL}watch = [\"src\"]\n")).unwrap_err();
    assert!(error.contains("there is no `build`"), "{error}");
}

#[test]
fn topics_have_limits_and_samples_keys_and_delays() {
    let text = format!(
        "[topics.\"t\"]\nmax-messages = 10\nmax-bytes = \"1 MiB\"\ndedup-window = \"1h\"\nretain = \"2h\"\nmax-age = \"3h\"\n{SMALL}\
         [[dev.samples]]\ntopic = \"t\"\ndata = \"x\"\nkey = \"k\"\ndelay = \"5s\"\ndedup-id = \"d\"\n"
    );
    let manifest = parse(&text).unwrap();
    let limits = windlass_log::TopicLimits {
        max_messages: 10,
        max_bytes: 1 << 20,
        dedup_window: Duration::from_hours(1),
        retain: Some((Duration::from_hours(2), 10_000)),
        max_age: Some(Duration::from_hours(3)),
    };
    assert_eq!(manifest.topics, [(Topic::new("t").unwrap(), limits)]);
    let sample = &manifest.samples[0];
    assert_eq!((sample.key.as_deref(), sample.dedup_id.as_deref()), (Some("k"), Some("d")));
    assert_eq!(sample.delay, Some(Duration::from_secs(5)));
}
