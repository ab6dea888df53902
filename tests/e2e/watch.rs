//! `windlass dev` while files change: what is built, what is swapped in, what is told.

use crate::kit::{Dev, Project, guest, windlass};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

/// The guest's code as another digest: a custom section changes nothing that it does.
pub(crate) fn variant(name: &str, number: u8) -> Vec<u8> {
    let mut bytes = std::fs::read(guest(name)).unwrap();
    bytes.extend([0, 3, 1, b'v', number]);
    bytes
}

/// Puts a file there in one step, as most tools do.
fn rename_over(path: &Path, bytes: &[u8]) {
    let new = path.with_extension("new");
    std::fs::write(&new, bytes).unwrap();
    std::fs::rename(new, path).unwrap();
}

/// Copies over a file, slowly: for a moment half of it is there.
fn copy_over(path: &Path, bytes: &[u8]) {
    use std::io::Write as _;
    let mut file = std::fs::File::create(path).unwrap();
    let (first, second) = bytes.split_at(bytes.len() / 2);
    file.write_all(first).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    file.write_all(second).unwrap();
}

/// A project whose component is a file of its own, with `more` in its consumer's table.
pub(crate) fn project(name: &str, more: &str) -> Project {
    let text = manifest(name, more);
    let project = Project::new(&text);
    std::fs::write(project.path().join("app.wasm"), variant(name, 0)).unwrap();
    project
}

/// `echo` may send what it sends.
pub(crate) fn manifest(name: &str, more: &str) -> String {
    let grant = if name == "echo" { "allow = { publish = [\"echo/out\"] }" } else { "" };
    format!(
        "[[consumer]]\nname = \"c\"\ncomponent = \"app.wasm\"\ntopics = [\"{name}\"]\n{grant}\n{more}\n"
    )
}

/// In one step: a look in the middle of a save would see an empty file.
pub(crate) fn write(project: &Project, file: &str, text: &str) {
    let path = project.path().join(file);
    let new = path.with_file_name(".new");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, path).unwrap();
}

pub(crate) fn publish(project: &Project, topic: &str, data: &str) -> String {
    project.json(&["publish", topic, "--data", data])[0]["id"].as_str().unwrap().to_owned()
}

pub(crate) fn is(event: &Value, name: &str) -> bool {
    event["event"] == name
}

pub(crate) fn serving(dev: &mut Dev) -> String {
    dev.until(|event| is(event, "serving"))["revision"].as_str().unwrap().to_owned()
}

/// Law 25. Each is handled once, at its first attempt, by one revision, however the file came.
#[test]
fn a_component_replaced_five_times_under_load_handles_each_message_once() {
    let project = project("slow", "concurrency = 4");
    let mut dev = Dev::start(&project, &[]);
    let mut served = vec![serving(&mut dev)];
    let messages = "{\"data\":\"200ms\"}\n".repeat(100);
    project.run_with(&["publish", "slow", "--ndjson", "-"], messages.as_bytes()).must(0, &[]);
    let app = project.path().join("app.wasm");
    for number in 1..=5 {
        // Some are handled by each.
        for _ in 0..8 {
            dev.until(|event| is(event, "delivery"));
        }
        let put = if number % 2 == 0 { copy_over } else { rename_over };
        put(&app, &variant("slow", number));
        served.push(serving(&mut dev));
    }
    let mut all = 40;
    while all < 100 {
        dev.until(|event| is(event, "delivery"));
        all = project.topic("slow")["lag"].as_u64().map_or(0, |lag| 100 - lag);
    }
    dev.signal("INT");
    let ended = dev.end();
    ended.must(0, &[]);
    let deliveries = ended.deliveries();
    assert_eq!(deliveries.len(), 100);
    let ids: BTreeSet<_> = deliveries.iter().map(|d| d["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 100, "none twice");
    let mut by_revision: BTreeMap<&str, u32> = BTreeMap::new();
    for delivery in &deliveries {
        assert_eq!((&delivery["attempt"], &delivery["disposition"]), (&json!(1), &json!("ack")));
        *by_revision.entry(delivery["revision"].as_str().unwrap()).or_default() += 1;
    }
    assert_eq!(served.iter().collect::<BTreeSet<_>>().len(), 6, "{served:?}");
    for revision in &served {
        assert!(by_revision.contains_key(revision.as_str()), "{revision}: {by_revision:?}");
    }
    let problems = ended.objects().into_iter().filter(|event| is(event, "problem"));
    assert_eq!(problems.count(), 0, "half a file is no problem to tell");
}

/// Printed, not judged: a machine's pace is no property of the program.
#[test]
fn from_the_end_of_a_build_to_the_next_message_on_new_code() {
    let build = "build = \"cp next.wasm app.wasm\"\nwatch = [\"src\"]";
    let project = project("webhooks", build);
    std::fs::write(project.path().join("next.wasm"), variant("webhooks", 0)).unwrap();
    let mut dev = Dev::start(&project, &[]);
    let mut times = Vec::new();
    let mut old = serving(&mut dev);
    for number in 1..=5 {
        std::fs::write(project.path().join("next.wasm"), variant("webhooks", number)).unwrap();
        write(&project, "src/lib.rs", &number.to_string());
        dev.until(|event| is(event, "built"));
        let start = Instant::now();
        loop {
            publish(&project, "webhooks", "{}");
            let delivery = dev.until(|event| is(event, "delivery"));
            let revision = delivery["revision"].as_str().unwrap();
            if revision != old {
                old = revision.to_owned();
                break;
            }
        }
        times.push(start.elapsed());
    }
    times.sort();
    println!("=== from a build's end to a message on new code: {times:?}");
    dev.signal("INT");
    dev.end().must(0, &[]);
}

#[test]
fn a_manifest_with_a_mistake_changes_nothing_and_one_without_changes_all_at_once() {
    let project = project("poison", "");
    let mut dev = Dev::start(&project, &[]);
    serving(&mut dev);
    let id = publish(&project, "poison", "send:elsewhere");
    dev.until(|event| is(event, "paused") && event["reason"] == "grant-missing");
    let grant = "[consumer.allow]\npublish = [\"elsewhere\"]";
    project.rewrite(&manifest("poison", &format!("max-attempts = \"many\"\n{grant}")));
    let problem = dev.until(|event| is(event, "problem"));
    assert!(problem["why"][0].as_str().unwrap().contains("max-attempts"), "{problem}");
    // The mistake is mended, and another topic and group are there.
    let more = format!("group = \"audit\"\n{grant}\n");
    let other = manifest("echo", "").replace("\"c\"", "\"d\"");
    project.rewrite(&format!("{}{other}", manifest("poison", grant)));
    dev.until(|event| is(event, "mended"));
    let delivery = dev.until_disposition("ack");
    assert_eq!(delivery["id"], id.as_str(), "with the grant it is handled");
    assert!(delivery["attempt"].as_u64().unwrap() <= 2);
    // The first one reads as another group: it sees everything again, as a new one does.
    project.rewrite(&format!("{}{other}", manifest("poison", &more)));
    let again = dev.until_disposition("ack");
    assert_eq!((&again["id"], &again["group"]), (&json!(id), &json!("audit")));
    // One is taken out.
    project.rewrite(&other);
    let retired = dev.until(|event| is(event, "retired"));
    assert_eq!(retired["consumer"], "c");
    publish(&project, "poison", "ok");
    publish(&project, "echo", "x");
    assert_eq!(dev.until(|event| is(event, "delivery"))["consumer"], "d");
    dev.signal("INT");
    dev.end();
    assert_eq!(project.topic("poison")["groups"].as_array().unwrap().len(), 2);
}

#[test]
fn a_component_that_fails_its_check_never_claims() {
    let project = project("echo", "");
    let mut dev = Dev::start(&project, &[]);
    let old = serving(&mut dev);
    let app = project.path().join("app.wasm");
    for (bytes, part) in [
        (b"garbage".to_vec(), "not WebAssembly"),
        (b"\0asm\x01\0\0\0".to_vec(), "core WebAssembly module"),
        (variant("echo", 1)[..500].to_vec(), ""),
    ] {
        rename_over(&app, &bytes);
        let problem = dev.until(|event| is(event, "problem"));
        assert!(problem["what"].as_str().unwrap().contains(part), "{problem}");
        publish(&project, "echo", "x");
        assert_eq!(dev.until(|event| is(event, "delivery"))["revision"], old.as_str());
    }
    std::fs::remove_file(&app).unwrap();
    dev.until(|event| is(event, "problem"));
    rename_over(&app, &variant("echo", 2));
    dev.until(|event| is(event, "mended"));
    assert_ne!(serving(&mut dev), old);
    dev.signal("INT");
    dev.end();
}

#[test]
fn ctrl_c_ends_a_rebuild_with_all_that_it_started() {
    let build = "build = \"sh build.sh\"\nwatch = [\"build.sh\"]";
    let project = project("echo", build);
    write(&project, "build.sh", "exit 0");
    let mut dev = Dev::start(&project, &[]);
    serving(&mut dev);
    write(&project, "build.sh", "sleep 300 & echo $! > child; wait");
    dev.until(|event| is(event, "building"));
    let child = crate::kit::until("the build", || {
        let text = std::fs::read_to_string(project.path().join("child")).ok()?;
        text.ends_with('\n').then_some(text)
    });
    let start = Instant::now();
    dev.signal("INT");
    dev.end().must(0, &[]);
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    let alive = Path::new("/proc").join(child.trim()).join("cmdline");
    crate::kit::until("the end of the build's child", || {
        std::fs::read(&alive).map_or(true, |line| line.is_empty()).then_some(())
    });
}

/// While new code is compiled and an old message runs: the message finishes.
#[test]
fn ctrl_c_in_the_middle_of_a_compile_and_a_message_loses_neither() {
    let project = project("slow", "");
    let mut dev = Dev::start(&project, &[]);
    serving(&mut dev);
    let id = publish(&project, "slow", "2s");
    crate::kit::until("a lease", || (project.topic("slow")["leased"] == 1).then_some(()));
    rename_over(&project.path().join("app.wasm"), &std::fs::read(guest("webhooks")).unwrap());
    std::thread::sleep(Duration::from_millis(80));
    dev.signal("INT");
    let ended = dev.end();
    ended.must(0, &[]);
    let deliveries = ended.deliveries();
    assert_eq!((deliveries.len(), &deliveries[0]["id"]), (1, &json!(id)));
    assert_eq!(deliveries[0]["disposition"], "ack");
}

/// What a person sees: 80 columns, no colours where there is no terminal.
#[test]
fn the_screen_of_a_run_that_breaks_and_is_mended() {
    let build = "build = \"sh build.sh\"\nwatch = [\"build.sh\"]\nmax-attempts = 2\n\
                 backoff = { initial = \"200ms\" }\n";
    let project = project("poison", build);
    write(&project, "build.sh", "exit 0");
    let out = project.path().join("out.txt");
    let mut command = windlass(&["dev", project.path().to_str().unwrap()]);
    command.stdout(std::fs::File::create(&out).unwrap());
    command.stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    let shown = |part: &str| {
        crate::kit::until(part, || {
            let text = std::fs::read_to_string(&out).unwrap();
            text.contains(part).then_some(text)
        })
    };
    shown("runs   c ");
    publish(&project, "poison", "panic");
    shown("windlass dlq redrive poison --id ");
    write(&project, "build.sh", "echo 'error: broken' >&2; exit 1");
    shown("goes on until this is mended");
    write(&project, "build.sh", "exit 0");
    let text = shown("mended build `sh build.sh`");
    crate::kit::signal("INT", child.id());
    crate::kit::wait(&mut child);
    for part in [
        "retry  c ",
        "trapped, attempt 1 of 2; again in ",
        "dead   c ",
        "panicked at",
        "broken the build of `c` failed",
        "       error: broken",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "{text}");
    let long: Vec<_> = text
        .lines()
        .filter(|line| line.chars().count() > 80 && !line.contains("> windlass"))
        .collect();
    assert!(long.is_empty(), "{long:#?}");
}
