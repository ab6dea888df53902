//! Ending `dev`: Ctrl-C and SIGTERM, at every stage.

use crate::kit::{Dev, Project, samples, until};
use serde_json::json;
use std::time::{Duration, Instant};

/// Much less than the drain's 10 seconds.
const AT_ONCE: Duration = Duration::from_secs(6);

/// A run whose handler is entered and sleeps for so long.
fn sleeping(text: &str) -> (Project, Dev) {
    let more = "limits = { wall = \"2m\" }\n";
    let project = Project::of("poison", &format!("{more}{}", samples("poison", &[text])));
    let dev = Dev::ready(&project, &[]);
    until("a lease", || (project.topic("poison")["leased"] == 1).then_some(()));
    (project, dev)
}

/// The second when the first was heard: two of a kind that wait together are one.
fn interrupt_twice(dev: &Dev) {
    dev.signal("INT");
    until("the note", || dev.said().contains("once more ends at once").then_some(()));
    dev.signal("INT");
}

#[test]
fn what_runs_may_finish_on_sigterm_and_nothing_new_begins() {
    let (project, dev) = sleeping("sleep:3000");
    dev.signal("TERM");
    until("the note", || dev.said().contains("ending").then_some(()));
    let late = project.json(&["publish", "poison", "--data", "ok"])[0]["id"].clone();
    let ended = dev.end();
    ended.must(0, &[]);
    let deliveries = ended.deliveries();
    assert_eq!(deliveries.len(), 1, "{deliveries:#?}");
    assert_eq!(deliveries[0]["disposition"], json!("ack"));
    assert_eq!(ended.last()["handled"], json!(1));
    let topic = project.topic("poison");
    assert_eq!((&topic["ready"], &topic["leased"]), (&json!(1), &json!(0)));
    let next = project.until_idle(&["--no-samples"]);
    assert_eq!(next.deliveries()[0]["id"], late);
}

#[test]
fn what_does_not_finish_in_the_drain_is_given_back_with_its_attempt() {
    let (project, dev) = sleeping("sleep:90000");
    let start = Instant::now();
    dev.signal("TERM");
    let ended = dev.end();
    assert!(start.elapsed() > Duration::from_secs(8), "it drained for {:?}", start.elapsed());
    ended.must(0, &[]);
    let delivery = &ended.deliveries()[0];
    assert_eq!(
        (&delivery["outcome"], &delivery["disposition"]),
        (&json!("interrupted"), &json!("release"))
    );
    assert_eq!(project.topic("poison")["ready"], json!(1));
    let dev = Dev::ready(&project, &["--no-samples"]);
    until("a lease", || (project.topic("poison")["leased"] == 1).then_some(()));
    interrupt_twice(&dev);
    assert_eq!(dev.end().deliveries()[0]["attempt"], json!(1), "the attempt was given back");
}

#[test]
fn a_second_ctrl_c_ends_at_once_and_gives_the_message_back() {
    let (project, dev) = sleeping("sleep:90000");
    let start = Instant::now();
    interrupt_twice(&dev);
    let ended = dev.end();
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    ended.must(0, &[]);
    let topic = project.topic("poison");
    assert_eq!((&topic["ready"], &topic["leased"]), (&json!(1), &json!(0)));
}

#[test]
fn ctrl_c_ends_a_guest_that_loops() {
    let more = "limits = { wall = \"2m\", cpu = \"2m\" }\n";
    let project = Project::of("poison", &format!("{more}{}", samples("poison", &["loop"])));
    let dev = Dev::ready(&project, &[]);
    until("a lease", || (project.topic("poison")["leased"] == 1).then_some(()));
    let start = Instant::now();
    interrupt_twice(&dev);
    dev.end().must(0, &[]);
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    assert_eq!(project.topic("poison")["ready"], json!(1));
}

/// The build's own children end with it.
#[test]
fn ctrl_c_ends_a_build_and_all_that_it_started() {
    let project = Project::of("echo", "build = \"sleep 300 & echo $! > child; wait\"");
    let dev = Dev::start(&project, &[]);
    let file = project.path().join("child");
    let read = || std::fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n'));
    let child = until("the build", read);
    let start = Instant::now();
    dev.signal("INT");
    dev.end().must(1, &["interrupted"]);
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    let alive = std::path::Path::new("/proc").join(child.trim()).join("cmdline");
    until("the end of the build's child", || {
        std::fs::read(&alive).map_or(true, |line| line.is_empty()).then_some(())
    });
    assert!(!project.log().exists());
}

/// Method: the build is over in an instant, so that the signal comes while the component is
/// compiled, or so near to it that it makes no difference to the user.
#[test]
fn ctrl_c_ends_a_compile() {
    let project = Project::of("webhooks", "build = \"touch built\"");
    let dev = Dev::start(&project, &[]);
    let built = project.path().join("built");
    until("the build", || built.exists().then_some(()));
    let start = Instant::now();
    dev.signal("INT");
    let ended = dev.end();
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    assert!(matches!(ended.code, Some(0 | 1)), "{ended:?}");
}

#[test]
fn a_reader_that_goes_away_ends_the_run() {
    let project = Project::of("echo", "");
    project.make_log();
    let path = project.path().to_str().unwrap().to_owned();
    let mut command = crate::kit::windlass(&["dev", &path, "--json"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    // Something to say, at the latest.
    project.run(&["publish", "echo", "--data", "x"]).must(0, &[]);
    assert!(crate::kit::wait(&mut child).is_some());
}
