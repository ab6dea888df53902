//! Deploying: what is to run is compared with what does, shown as a plan, and written as one change.
//!
//! Owns the plan. Components' files are `components`', the rows the log's; who runs what is deployed
//! is `serve`'s business and need not be there.

pub(crate) mod components;

use crate::manifest::{self, Config, ManifestError};
use crate::plan::{Entry, Step, plan};
use std::collections::HashMap;
use std::path::Path;
use windlass_log::{Change, Deployed, Deployment};

/// What a consumer is to run on.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// Its configuration.
    pub config: Config,
    /// Its component's digest.
    pub digest: String,
}

/// One step of a plan, with all there is to show of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// `+`, `~`, `-` or `=`.
    pub sign: char,
    /// The consumer.
    pub consumer: String,
    /// The revision that serves then; none once it is withdrawn.
    pub revision: Option<u64>,
    /// The one that serves now.
    pub before: Option<u64>,
    /// The component's digest then.
    pub digest: Option<String>,
    /// What changes: `component`, and keys of the configuration.
    pub changes: Vec<String>,
}

/// What is to be done, made before anything is.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Of what was deployed when this was made.
    pub seen: u64,
    /// For who looks.
    pub lines: Vec<Line>,
    /// For the log.
    pub changes: Vec<Change>,
}

impl Plan {
    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

/// The steps from `deployed` to `wanted`. With `keep`, what is not wanted stays as it is. `next` says
/// which number a consumer's next revision has.
pub(crate) fn propose(
    deployed: &Deployed,
    wanted: &[Wanted],
    keep: bool,
    next: &HashMap<String, u64>,
) -> Plan {
    let now: Vec<(&str, (String, String))> = deployed
        .deployments
        .iter()
        .map(|one| (one.revision.consumer.as_str(), revision(one)))
        .collect();
    let goal: Vec<(&str, (String, String))> = wanted
        .iter()
        .map(|one| (one.config.name(), (one.digest.clone(), one.config.to_string())))
        .collect();
    let (mut lines, mut changes) = (Vec::new(), Vec::new());
    for step in plan(&entries(&now), &entries(&goal)) {
        let (Step::Keep(name) | Step::Start(name) | Step::Swap(name) | Step::Stop(name)) = step;
        let before = deployed.find(name);
        let number = before.map(|one| one.revision.number);
        let line = |sign, revision, digest: Option<String>, changes| {
            let consumer = name.to_owned();
            Line { sign, consumer, revision, before: number, digest, changes }
        };
        match step {
            Step::Stop(_) if keep => {}
            Step::Stop(_) => {
                changes.push(Change::Withdraw { consumer: name.to_owned() });
                lines.push(line('-', None, None, Vec::new()));
            }
            Step::Keep(_) => {
                let digest = before.map(|one| one.revision.digest.clone());
                lines.push(line('=', number, digest, Vec::new()));
            }
            Step::Start(_) | Step::Swap(_) => {
                let Some(one) = wanted.iter().find(|one| one.config.name() == name) else {
                    continue;
                };
                let (digest, config) = (one.digest.clone(), one.config.to_string());
                let consumer = name.to_owned();
                changes.push(Change::Serve { consumer, digest: digest.clone(), config });
                let sign = if before.is_some() { '~' } else { '+' };
                let differ = before.map(|before| differences(before, one)).unwrap_or_default();
                let revision = next.get(name).copied().unwrap_or(1);
                lines.push(line(sign, Some(revision), Some(digest), differ));
            }
        }
    }
    Plan { seen: deployed.version, lines, changes }
}

/// All that makes a revision.
fn revision(deployment: &Deployment) -> (String, String) {
    // As it would be written now.
    let config = &deployment.revision.config;
    let config = Config::read(config).map_or_else(|_| config.clone(), |config| config.to_string());
    (deployment.revision.digest.clone(), config)
}

fn entries<'a>(all: &'a [(&'a str, (String, String))]) -> Vec<Entry<'a, (String, String)>> {
    all.iter().map(|(name, revision)| Entry { name, revision }).collect()
}

fn differences(before: &Deployment, wanted: &Wanted) -> Vec<String> {
    let mut differ = Vec::new();
    if before.revision.digest != wanted.digest {
        differ.push("component".to_owned());
    }
    match Config::read(&before.revision.config) {
        Ok(config) => differ.extend(config.differences(&wanted.config)),
        Err(_) => differ.push("configuration".to_owned()),
    }
    differ
}

/// Whether all that would be deployed after `plan` may run beside one another; what is wrong if not.
pub(crate) fn check(
    log: &Path,
    deployed: &Deployed,
    wanted: &[Wanted],
    plan: &Plan,
) -> Result<(), ManifestError> {
    let is_withdrawn =
        |name: &str| plan.lines.iter().any(|line| line.sign == '-' && line.consumer == name);
    let is_wanted = |name: &str| wanted.iter().any(|one| one.config.name() == name);
    let stays = deployed.deployments.iter().filter_map(|one| {
        let name = &one.revision.consumer;
        if is_withdrawn(name) || is_wanted(name) {
            return None;
        }
        let config = Config::read(&one.revision.config).ok()?;
        Some((config, components::name(&one.revision.digest)))
    });
    let wanted = wanted.iter().map(|one| (one.config.clone(), components::name(&one.digest)));
    manifest::consumers(&log.join(components::FOLDER), stays.chain(wanted)).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_log::Revision;

    fn config(name: &str, lease: &str) -> Config {
        let mut config = Config::named(name);
        config.set_list("topics", [name.to_owned()]);
        config.set_text("lease", lease);
        config
    }

    fn deployed(all: &[(&str, &str, &str)]) -> Deployed {
        let of = |(name, digest, lease): &(&str, &str, &str)| Deployment {
            revision: Revision {
                consumer: (*name).to_owned(),
                number: 3,
                digest: (*digest).to_owned(),
                config: config(name, lease).to_string(),
                at_ms: 0,
                failed: None,
            },
            paused: false,
            told: None,
        };
        Deployed { version: 7, taken: 0, deployments: all.iter().map(of).collect() }
    }

    fn told(plan: &Plan) -> Vec<String> {
        let line =
            |line: &Line| format!("{} {} {}", line.sign, line.consumer, line.changes.join(" "));
        plan.lines.iter().map(|one| line(one).trim_end().to_owned()).collect()
    }

    #[test]
    fn a_plan_says_what_changes_and_changes_nothing_else() {
        let now = deployed(&[("same", "1", "5s"), ("other", "1", "5s"), ("gone", "1", "5s")]);
        let wanted: Vec<_> = [("same", "1", "5s"), ("other", "2", "6s"), ("new", "1", "5s")]
            .map(|(name, digest, lease)| Wanted {
                config: config(name, lease),
                digest: digest.to_owned(),
            })
            .into();
        let next = HashMap::from([("other".to_owned(), 4)]);
        let plan = propose(&now, &wanted, false, &next);
        assert_eq!(told(&plan), ["= same", "~ other component lease", "+ new", "- gone"]);
        assert_eq!((plan.seen, plan.changes.len()), (7, 3));
        let numbers: Vec<_> = plan.lines.iter().map(|line| (line.before, line.revision)).collect();
        let three = Some(3);
        assert_eq!(numbers, [(three, three), (three, Some(4)), (None, Some(1)), (three, None)]);
        let kept = propose(&now, &wanted, true, &next);
        assert_eq!(told(&kept), ["= same", "~ other component lease", "+ new"]);
        assert!(propose(&now, &[], true, &next).is_empty());
    }

    #[test]
    fn what_stays_is_checked_with_what_comes() {
        let now = deployed(&[("a", "1", "5s")]);
        let mut config = config("b", "6s");
        config.set_list("topics", ["a".to_owned()]);
        let wanted = [Wanted { config, digest: "1".into() }];
        let judge = |keep| {
            let plan = propose(&now, &wanted, keep, &HashMap::new());
            check(Path::new("/log"), &now, &wanted, &plan)
        };
        assert!(judge(true).unwrap_err().text.contains("both read `a`"));
        assert!(judge(false).is_ok());
    }
}
