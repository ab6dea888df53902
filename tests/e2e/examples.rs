//! The examples as they are, with their own manifests and samples: what their headers say.

use crate::kit::{Ended, Project, guest, root};
use serde_json::{Value, json};

/// An example's manifest and samples, with the component that is built already.
pub(crate) fn example(name: &str) -> Project {
    let folder = root().join("guest-examples").join(name);
    let manifest = std::fs::read_to_string(folder.join("windlass.toml")).unwrap();
    let component = format!("component = \"{}\"", guest(name).display());
    let lines = manifest.lines().filter(|line| !line.starts_with("build ="));
    let lines = lines.map(|line| if line.starts_with("component =") { &component } else { line });
    let project = Project::new(&lines.collect::<Vec<_>>().join("\n"));
    let samples = project.path().join("samples");
    std::fs::create_dir(&samples).unwrap();
    for file in std::fs::read_dir(folder.join("samples")).into_iter().flatten() {
        let file = file.unwrap();
        std::fs::copy(file.path(), samples.join(file.file_name())).unwrap();
    }
    project
}

fn figures(ended: &Ended) -> [Value; 3] {
    let last = ended.last();
    ["handled", "retried", "dead"].map(|key| last[key].clone())
}

#[test]
fn webhooks_routes_its_samples() {
    let ended = example("webhooks").until_idle(&[]);
    ended.must(0, &[]);
    assert_eq!(ended.last()["published"], json!(8), "four samples, each sent on");
    assert_eq!(figures(&ended), [json!(4), json!(0), json!(0)]);
    assert!(ended.deliveries().iter().all(|delivery| !delivery["output"].is_null()));
}

#[test]
fn echo_sends_its_sample_on() {
    let project = example("echo");
    let ended = project.until_idle(&[]);
    ended.must(0, &[]);
    assert_eq!(figures(&ended), [json!(1), json!(0), json!(0)]);
    assert_eq!(project.topic("echo/out")["ready"], json!(1));
}

/// Its lease of a second is shorter than its longest sleep: it is extended meanwhile.
#[test]
fn slow_handles_three_each_once_and_buries_one() {
    let ended = example("slow").until_idle(&[]);
    ended.must(3, &[]);
    assert_eq!(figures(&ended), [json!(3), json!(1), json!(1)]);
    assert!(ended.deliveries().iter().all(|delivery| delivery["disposition"] != "lease-lost"));
}

#[test]
fn poison_handles_three_and_buries_seven() {
    let ended = example("poison").until_idle(&[]);
    ended.must(3, &[]);
    let last = ended.last();
    assert_eq!((&last["handled"], &last["dead"]), (&json!(3), &json!(7)), "{last}");
}
