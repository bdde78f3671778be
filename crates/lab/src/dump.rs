//! The state of a namespace and of the lab as text, for a person who wants to know why a test failed.

use std::fmt::{Display, Write as _};
use std::fs;

use k8s_openapi::api::core::v1::{ContainerState, Event, Node, Pod};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

use crate::layout::{Layout, tail};
use crate::nodes::is_usable;

const LOG_LINES: usize = 15;
/// Some components log whole objects.
const LINE_WIDTH: usize = 300;

pub(crate) async fn dump(client: &Client, layout: &Layout, namespace: &str) -> String {
    let everything = ListParams::default();
    let mut text = String::new();
    section(&mut text, &format!("pods in {namespace}"));
    match Api::<Pod>::namespaced(client.clone(), namespace).list(&everything).await {
        Ok(pods) => pods.iter().for_each(|pod| line(&mut text, pod_line(pod))),
        Err(error) => line(&mut text, error),
    }
    section(&mut text, &format!("events in {namespace}"));
    match Api::<Event>::namespaced(client.clone(), namespace).list(&everything).await {
        Ok(events) => events.iter().for_each(|event| line(&mut text, event_line(event))),
        Err(error) => line(&mut text, error),
    }
    section(&mut text, "nodes");
    match Api::<Node>::all(client.clone()).list(&everything).await {
        Ok(nodes) => nodes_lines(&mut text, &nodes.items),
        Err(error) => line(&mut text, error),
    }
    logs(&mut text, layout);
    text
}

fn section(text: &mut String, title: &str) {
    line(text, format!("── {title}"));
}

fn line(text: &mut String, content: impl Display) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{content}");
}

fn pod_line(pod: &Pod) -> String {
    let status = pod.status.clone().unwrap_or_default();
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("-");
    let ready = status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == "Ready")
        .map_or("-", |condition| condition.status.as_str());
    let containers: Vec<String> = status
        .container_statuses
        .iter()
        .flatten()
        .map(|container| {
            let state = container.state.as_ref().map_or_else(String::new, state_word);
            format!("{}={state}/{}", container.name, container.restart_count)
        })
        .collect();
    format!(
        "{} node={node} phase={} ready={ready} {}{}",
        pod.name_any(),
        status.phase.as_deref().unwrap_or("-"),
        containers.join(" "),
        if pod.metadata.deletion_timestamp.is_some() { " terminating" } else { "" },
    )
}

fn state_word(state: &ContainerState) -> String {
    if state.running.is_some() {
        return "Running".to_owned();
    }
    let waiting = state.waiting.as_ref().and_then(|waiting| waiting.reason.clone());
    let terminated = state.terminated.as_ref().and_then(|terminated| terminated.reason.clone());
    waiting.or(terminated).unwrap_or_default()
}

fn event_line(event: &Event) -> String {
    format!(
        "{} {}/{} {}: {}",
        event.type_.as_deref().unwrap_or("-"),
        event.involved_object.kind.as_deref().unwrap_or("-"),
        event.involved_object.name.as_deref().unwrap_or("-"),
        event.reason.as_deref().unwrap_or("-"),
        event.message.as_deref().unwrap_or("-"),
    )
}

/// A count, and those that are not well.
fn nodes_lines(text: &mut String, nodes: &[Node]) {
    let unusable: Vec<&Node> = nodes.iter().filter(|node| !is_usable(node)).collect();
    line(text, format!("{} nodes, {} of them not ready", nodes.len(), unusable.len()));
    for node in unusable.iter().take(20) {
        line(text, node.name_any());
    }
}

fn logs(text: &mut String, layout: &Layout) {
    let mut paths: Vec<_> = match fs::read_dir(layout.logs()) {
        Ok(entries) => entries.filter_map(Result::ok).map(|entry| entry.path()).collect(),
        Err(error) => return line(text, error),
    };
    paths.sort();
    for path in paths.iter().filter(|path| path.file_stem().is_some_and(|stem| stem != "audit")) {
        section(text, &path.display().to_string());
        for entry in tail(path, LOG_LINES).lines() {
            line(text, entry.chars().take(LINE_WIDTH).collect::<String>());
        }
    }
}
