//! The lab as people and scripts use it: does it come up once, and leave nothing behind?
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use std::process::{Command, Output};
use std::time::Duration;

use anyhow::ensure;
use podwright_lab::eventually;
use serde_json::{Value, json};

fn podwright_lab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_podwright-lab")).args(args).output().unwrap()
}

fn pids(dir: &str) -> (u32, Vec<u32>) {
    let state: Value = serde_json::from_slice(&std::fs::read(format!("{dir}/lab.json")).unwrap()).unwrap();
    let pid = |process: &Value| u32::try_from(process["pid"].as_u64().unwrap()).unwrap();
    (pid(&state["supervisor"]), state["processes"].as_array().unwrap().iter().map(pid).collect())
}

fn runs(pid: u32) -> bool {
    // A zombie is as dead as one that is gone; in a container without a proper init it may stay.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn send(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

#[tokio::test]
async fn nothing_survives_a_lab_that_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let up = ["up", "--dir", path, "--nodes", "1", "--without-podwright", "--detach"];
    let first = podwright_lab(&up);
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    let line: Value = serde_json::from_slice(&first.stdout).unwrap();
    assert_eq!(
        line,
        json!({ "kubeconfig": format!("{path}/kubeconfig"), "dashboard": null, "metrics": [], "webhook": [] })
    );
    let again = podwright_lab(&up);
    assert_eq!(first.stdout, again.stdout, "a lab that runs is not started twice");
    assert!(String::from_utf8_lossy(&again.stderr).contains("already"));

    let (supervisor, children) = pids(path);
    assert_eq!(children.len(), 5);
    assert!(children.iter().all(|pid| runs(*pid)));
    send("-KILL", supervisor);
    let gone = eventually(Duration::from_secs(5), || async {
        ensure!(!children.iter().any(|pid| runs(*pid)), "some still run");
        Ok(())
    });
    gone.await.unwrap();

    assert!(podwright_lab(&["down", "--dir", path]).status.success());
    assert!(podwright_lab(&["down", "--dir", path]).status.success(), "down is idempotent");
    assert!(!dir.path().join("kubeconfig").exists());
    assert!(dir.path().join("logs/kube-apiserver.log").exists());
}

#[tokio::test]
async fn down_stops_a_lab_that_runs_in_the_foreground() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let mut up = tokio::process::Command::new(env!("CARGO_BIN_EXE_podwright-lab"))
        .args(["up", "--dir", path, "--nodes", "1", "--without-podwright"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    eventually(Duration::from_mins(1), || async {
        let state: Value = serde_json::from_slice(&std::fs::read(dir.path().join("lab.json"))?)?;
        ensure!(!state["endpoints"].is_null(), "not up yet");
        Ok(())
    })
    .await
    .unwrap();
    let (_, children) = pids(path);
    let down = tokio::task::spawn_blocking({
        let path = path.to_owned();
        move || podwright_lab(&["down", "--dir", &path])
    });
    assert!(up.wait().await.unwrap().success());
    assert!(down.await.unwrap().status.success());
    assert!(!children.iter().any(|pid| runs(*pid)));
    assert!(!dir.path().join("lab.json").exists());
}

#[test]
fn a_child_whose_lab_is_gone_does_not_start() {
    // No process has pid 0.
    let output = podwright_lab(&["exec-child", "--parent", "0", "--", "true"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("is gone"));
}
