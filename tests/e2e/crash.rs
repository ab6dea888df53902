//! SIGKILL of the real binary, under publishing, handling and dead-lettering.

use crate::kit::{Dev, Ended, Project, consumer, run, windlass};
use crate::log;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What messages say, and how many messages each sends when it is acked; nothing: it dies.
const KINDS: [(&str, Option<usize>); 7] = [
    ("ok", Some(0)),
    ("sleep:20", Some(0)),
    ("send:poison/out", Some(1)),
    ("sends:3", Some(3)),
    ("sends:7", Some(7)),
    ("reject-ok:no", None),
    ("send-then-fail", None),
];
/// The last kind fails at every attempt. Twenty of it at once would pause the consumer.
const FAILING: usize = KINDS.len() - 1;
const FAILING_MAX: usize = 15;

const MANIFEST: &str = r#"
lease = "1s"
max-attempts = 100
backoff = { initial = "5ms", max = "20ms" }
allow = { publish = ["poison/out"] }
"#;

/// All that was answered, over all runs.
#[derive(Default)]
struct Account {
    failing: usize,
    published: BTreeMap<String, usize>,
    acked: HashSet<String>,
    buried: HashSet<String>,
}

impl Account {
    /// What a killed publisher had been answered, in the order of its file.
    fn enter_published(&mut self, ended: &Ended, kinds: &[usize]) {
        let whole = ended.out.rfind('\n').map_or("", |end| &ended.out[..end]);
        for (line, kind) in whole.lines().zip(kinds) {
            let answer: Value = serde_json::from_str(line).unwrap();
            let earlier = self.published.insert(answer["id"].as_str().unwrap().to_owned(), *kind);
            assert_eq!(earlier, None, "an id was given twice");
        }
    }

    fn enter_deliveries(&mut self, ended: &Ended) {
        for line in ended.out.lines() {
            let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
            if event["event"] != "delivery" {
                assert!(event["event"] == "ready" || event["event"] == "serving", "{event}");
                continue;
            }
            let id = event["id"].as_str().unwrap();
            let settled = self.acked.contains(id) || self.buried.contains(id);
            assert!(!settled, "given again after its settlement was answered: {event}");
            match event["disposition"].as_str().unwrap() {
                "ack" => drop(self.acked.insert(id.to_owned())),
                "dead-letter" => drop(self.buried.insert(id.to_owned())),
                "retry" | "release" => {}
                _ => panic!("{event}"),
            }
        }
    }
}

/// Goal: as for the log alone, with a component, the dispatcher and the command line in between.
/// Method: `dev` runs, another process publishes; both are killed at a random moment, again and
/// again; then the rest is handled, and the log is compared with what was told.
#[test]
fn whatever_moment_the_binary_dies_nothing_is_lost_repeated_or_doubled() {
    let kills = std::env::var("WINDLASS_KILLS").map_or(60, |kills| kills.parse().unwrap());
    let seed =
        std::env::var("WINDLASS_SEED").map_or_else(|_| rand::random(), |s| s.parse().unwrap());
    println!("WINDLASS_SEED={seed}");
    let mut dice = StdRng::seed_from_u64(seed);
    let project = Project::new(&consumer("poison", MANIFEST));
    project.make_log();
    let mut account = Account::default();
    let start = Instant::now();
    for _ in 0..kills {
        live_and_die(&project, &mut dice, &mut account);
    }
    let told = (account.published.len(), account.acked.len(), account.buried.len());
    println!("{kills} kills in {:.0?}: published, acked, buried: {told:?}", start.elapsed());
    assert!(told.0 > kills && told.1 > kills, "idle processes were killed: {told:?}");

    // What fails always is buried soon; the rest is handled. Each death of a process that held a
    // message has cost it an attempt, so there must be more of those than it can have lost.
    project.rewrite(&consumer("poison", &MANIFEST.replace("100", "60")));
    let ended = project.until_idle(&["--no-samples"]);
    assert!(matches!(ended.code, Some(0 | 3)), "{ended:?}");
    let summary = ended.last();
    assert_eq!(summary["event"], "summary");
    let deliveries = ended.deliveries();
    let text: Vec<String> = deliveries.iter().map(ToString::to_string).collect();
    account.enter_deliveries(&Ended { code: None, out: text.join("\n"), err: String::new() });
    compare(&project, &account);
}

fn live_and_die(project: &Project, dice: &mut StdRng, account: &mut Account) {
    let mut kinds: Vec<usize> = (0..40).map(|_| dice.random_range(0..FAILING)).collect();
    if account.failing < FAILING_MAX && dice.random_range(0..4) == 0 {
        account.failing += 1;
        kinds[dice.random_range(0..20)] = FAILING;
    }
    let lines: Vec<String> =
        kinds.iter().map(|kind| format!("{{\"data\": \"{}\"}}", KINDS[*kind].0)).collect();
    let file = project.path().join("lines.ndjson");
    std::fs::write(&file, lines.join("\n")).unwrap();
    let dev = Dev::ready(project, &["--no-samples"]);
    let publisher = publisher(project, &file);
    std::thread::sleep(Duration::from_millis(dice.random_range(0..250)));
    // Half of the publishers finish.
    let (publisher, dev) = if dice.random() {
        (publisher.kill(), dev.kill())
    } else {
        let dev = dev.kill();
        (publisher.end(), dev)
    };
    account.enter_published(&publisher, &kinds);
    account.enter_deliveries(&dev);
}

/// A process that publishes a file.
struct Publisher(Child);

fn publisher(project: &Project, file: &std::path::Path) -> Publisher {
    let mut command: Command =
        windlass(&["publish", "poison", "--json", "--ndjson", file.to_str().unwrap()]);
    command.current_dir(project.path()).stdout(Stdio::piped());
    Publisher(command.spawn().unwrap())
}

impl Publisher {
    fn kill(mut self) -> Ended {
        // It may have ended.
        drop(self.0.kill());
        self.end()
    }

    fn end(self) -> Ended {
        let output = self.0.wait_with_output().unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        Ended { code: output.status.code(), out, err: String::new() }
    }
}

fn compare(project: &Project, account: &Account) {
    let topic = project.topic("poison");
    assert_eq!(topic["lag"], 0, "{topic}");
    let letters = project.json(&["dlq", "show", "poison", "--limit", "1000000"]);
    let dead: HashMap<&str, &str> = letters
        .iter()
        .map(|letter| (letter["id"].as_str().unwrap(), letter["data"].as_str().unwrap()))
        .collect();
    assert_eq!(dead.len(), letters.len(), "dead twice");
    assert_eq!(topic["dead"], letters.len());
    let mut sent: HashMap<String, usize> = HashMap::new();
    for message in log::read_all(&project.log(), ["poison/out"]) {
        let source = log::metadata(&message, "source-id").unwrap().to_owned();
        *sent.entry(source).or_default() += 1;
    }
    for (id, kind) in &account.published {
        let (text, sends) = KINDS[*kind];
        let found = sent.get(id).copied().unwrap_or(0);
        if let Some(sends) = sends {
            assert_eq!(found, sends, "{id} {text}: what it sent");
            assert!(!dead.contains_key(id.as_str()), "{id} {text} is dead");
        } else {
            assert_eq!(dead.get(id.as_str()), Some(&text), "{id} {text} is lost");
            assert_eq!(found, 0, "{id} {text}: what it sent and did not ack");
        }
    }
    for id in &account.acked {
        assert!(!dead.contains_key(id.as_str()), "{id} was acked and is dead");
    }
    for id in &account.buried {
        assert!(dead.contains_key(id.as_str()), "{id} was buried and is not dead");
    }
    // Those whose publish was not answered are there whole, or not at all.
    let whole: HashSet<usize> = KINDS.iter().filter_map(|kind| kind.1).collect();
    assert!(sent.values().all(|count| whole.contains(count)), "{sent:?}");
    assert!(dead.keys().all(|id| !sent.contains_key(*id)), "in two places");
    let checked = run(windlass(&["topic", "ls", "--log", project.log().to_str().unwrap()]), b"");
    checked.must(0, &[]);
}
