//! What is deployed: revisions never change, and nobody undoes what they have not seen.

use super::Harness;
use crate::DynLog;
use crate::deployments::{Change, Deployed, REVISIONS_KEPT, Told};

fn serve(consumer: &str, digest: &str) -> Change {
    let [consumer, digest] = [consumer, digest].map(str::to_owned);
    Change::Serve { consumer, digest, config: "config".to_owned() }
}

fn back(to: u64, failed: Option<&str>) -> Change {
    Change::Return { consumer: "a".to_owned(), to, failed: failed.map(str::to_owned) }
}

fn pause(paused: bool) -> Change {
    Change::Pause { consumer: "a".to_owned(), paused }
}

/// Deploys what must be taken; the version then.
async fn deploy(log: &DynLog, changes: Vec<Change>) -> u64 {
    let seen = log.deployed_version().await.unwrap();
    log.deploy(seen, changes).await.unwrap().expect("it is as it was seen")
}

/// Name, revision, digest and whether it is paused.
fn brief(deployed: &Deployed) -> Vec<(String, u64, String, bool)> {
    let of = |one: &crate::deployments::Deployment| {
        let revision = &one.revision;
        (revision.consumer.clone(), revision.number, revision.digest.clone(), one.paused)
    };
    deployed.deployments.iter().map(of).collect()
}

/// With the version as a mark of change; a restart forgets nothing.
pub async fn what_is_deployed_is_kept(h: &dyn Harness) {
    let log = h.log();
    assert_eq!(log.deployed().await.unwrap(), Deployed::default());
    let first = deploy(&log, vec![serve("b", "1"), serve("a", "2")]).await;
    let second = deploy(&log, vec![serve("a", "3"), pause(true)]).await;
    assert!(second > first);
    let log = h.reopen().await;
    let deployed = log.deployed().await.unwrap();
    assert_eq!(deployed.version, second);
    let of = |name: &str, number, digest: &str, paused| {
        (name.to_owned(), number, digest.to_owned(), paused)
    };
    assert_eq!(brief(&deployed), [of("a", 2, "3", true), of("b", 1, "1", false)]);
    assert_eq!(deployed.find("a").unwrap().revision.config, "config");
    let revisions = log.revisions("a").await.unwrap();
    assert_eq!(revisions.iter().map(|one| one.number).collect::<Vec<_>>(), [2, 1]);
    deploy(&log, vec![serve("a", "4"), pause(false)]).await;
    assert_eq!(brief(&log.deployed().await.unwrap())[0], of("a", 3, "4", false));
}

/// All changes or none; who comes second is told.
pub async fn a_deployment_undoes_nothing_that_was_not_seen(h: &dyn Harness) {
    let log = h.log();
    let seen = deploy(&log, vec![serve("a", "1")]).await;
    let now = log.deploy(seen, vec![serve("a", "2")]).await.unwrap().unwrap();
    assert_eq!(log.deploy(seen, vec![serve("a", "3")]).await.unwrap(), None);
    let before = log.deployed().await.unwrap();
    let unknown = Change::Withdraw { consumer: "unknown".to_owned() };
    for change in [back(9, None), unknown.clone()] {
        assert_eq!(log.deploy(now, vec![serve("b", "9"), change]).await.unwrap(), None);
    }
    let twice = Change::Withdraw { consumer: "a".to_owned() };
    assert_eq!(log.deploy(now, vec![twice.clone(), twice]).await.unwrap(), None);
    assert_eq!(log.deployed().await.unwrap(), before);
    if let Some(other) = h.second_process().await {
        deploy(&other, vec![serve("b", "1")]).await;
        assert_eq!(log.deploy(now, vec![serve("a", "3")]).await.unwrap(), None);
        assert!(log.deployed_version().await.unwrap() > now);
    }
}

/// Why one failed stays with it; numbers are not used again, also after the consumer was withdrawn.
pub async fn an_earlier_revision_serves_again(h: &dyn Harness) {
    let log = h.log();
    deploy(&log, vec![serve("a", "1")]).await;
    deploy(&log, vec![serve("a", "2")]).await;
    deploy(&log, vec![back(1, Some("all failed"))]).await;
    let log = h.reopen().await;
    let serving = log.deployed().await.unwrap().deployments.remove(0).revision;
    assert_eq!((serving.number, serving.digest.as_str(), serving.failed), (1, "1", None));
    let newest = log.revisions("a").await.unwrap().remove(0);
    assert_eq!((newest.number, newest.failed.as_deref()), (2, Some("all failed")));
    deploy(&log, vec![Change::Withdraw { consumer: "a".to_owned() }]).await;
    assert!(log.deployed().await.unwrap().deployments.is_empty());
    deploy(&log, vec![serve("a", "1")]).await;
    assert_eq!(log.deployed().await.unwrap().deployments[0].revision.number, 3);
}

/// Of the newest, and of what serves.
pub async fn so_many_revisions_are_kept(h: &dyn Harness) {
    let log = h.log();
    let last = REVISIONS_KEPT + 5;
    for number in 1..=last {
        deploy(&log, vec![serve("a", &number.to_string())]).await;
    }
    let kept: Vec<_> = log.revisions("a").await.unwrap().iter().map(|one| one.number).collect();
    assert_eq!(kept, (last - REVISIONS_KEPT..=last).rev().collect::<Vec<_>>());
    assert_eq!(log.deploy(last, vec![back(1, None)]).await.unwrap(), None);
}

/// It is no change of what is wanted, and goes with the deployment.
pub async fn what_a_server_says_is_kept(h: &dyn Harness) {
    let log = h.log();
    let told =
        Told { revision: 1, state: "serving".into(), text: "x".into(), at_ms: 7, proven: true };
    log.tell_deployment("a", told.clone()).await.unwrap();
    let version = deploy(&log, vec![serve("a", "1")]).await;
    assert_eq!(log.deployed().await.unwrap().deployments[0].told, None);
    log.tell_deployment("a", told.clone()).await.unwrap();
    let deployed = h.reopen().await.deployed().await.unwrap();
    assert_eq!((deployed.version, &deployed.deployments[0].told), (version, &Some(told)));
    assert_eq!(deployed.taken, 0);
    h.log().tell_taken(version).await.unwrap();
    let deployed = h.reopen().await.deployed().await.unwrap();
    assert_eq!((deployed.version, deployed.taken), (version, version));
}
