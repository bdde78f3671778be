//! Reference pages and definitions of custom resources, made from the code, so that they cannot say anything else.

mod config;

use std::{fmt::Write, fs, path::Path};

use anyhow::{Context, bail};
use clap::CommandFactory;
use kube::CustomResourceExt;
use podwright_api::{distributor::PodDistributor, eds, flex::FlexDaemonsetTemplate};
use serde::Serialize;

pub(crate) fn generate(root: &Path, check: bool) -> anyhow::Result<()> {
    let schema = podwright_api::config::Config::schema();
    let [daemon_set, replica_set, setting] = eds::definitions();
    let files = [
        ("docs/reference/cli.md", commands()),
        ("docs/reference/config.md", config::page(&schema)?),
        ("docs/reference/config.schema.json", serde_json::to_string_pretty(&schema)? + "\n"),
        ("deploy/crds/flexdaemonsettemplates.yaml", definition(&FlexDaemonsetTemplate::crd())?),
        ("deploy/crds/poddistributors.yaml", definition(&PodDistributor::crd())?),
        ("deploy/crds/extendeddaemonsets.yaml", definition(&daemon_set)?),
        ("deploy/crds/extendeddaemonsetreplicasets.yaml", definition(&replica_set)?),
        ("deploy/crds/extendeddaemonsetsettings.yaml", definition(&setting)?),
    ];
    let mut stale = Vec::new();
    for (name, wanted) in files {
        let path = root.join(name);
        if fs::read_to_string(&path).ok().as_deref() == Some(&wanted) {
            continue;
        }
        if check {
            stale.push(name);
        } else {
            fs::create_dir_all(path.parent().unwrap_or(root))?;
            fs::write(&path, wanted).with_context(|| format!("cannot write {name}"))?;
            println!("gen: wrote {name}");
        }
    }
    if !stale.is_empty() {
        bail!("not up to date: {}; run `cargo xtask gen` and commit the result", stale.join(", "));
    }
    if check {
        println!("gen: all files are up to date");
    }
    Ok(())
}

fn definition(crd: &impl Serialize) -> anyhow::Result<String> {
    // By way of a JSON value, whose keys are in order.
    let value = serde_json::to_value(crd)?;
    Ok(format!("# Made by `cargo xtask gen`.\n{}", serde_saphyr::to_string(&value)?))
}

fn commands() -> String {
    let mut page = "# Command line\n\n<!-- Made by `cargo xtask gen`. -->\n".to_owned();
    let mut root = podwright::Cli::command().term_width(100);
    root.build();
    describe(&mut page, root.clone(), "podwright");
    for command in root.get_subcommands().filter(|command| command.get_name() != "help") {
        describe(&mut page, command.clone(), &format!("podwright {}", command.get_name()));
    }
    page
}

fn describe(page: &mut String, command: clap::Command, name: &str) {
    let help = command.term_width(100).bin_name(name).render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = write!(page, "\n## `{name}`\n\n```text\n{}\n```\n", help.join("\n").trim_end());
}
