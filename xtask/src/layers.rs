//! The map of docs/architecture.md, checked.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail, ensure};

/// What must not be found below a crate, however far down.
const FORBIDDEN: &[(&str, &[&str])] = &[
    (
        "podwright-api",
        &["tokio", "kube-client", "hyper", "axum", "rand", "podwright-core", "podwright-runtime"],
    ),
    ("podwright-core", &["tokio", "kube-client", "hyper", "axum", "rand", "podwright-runtime"]),
    ("podwright-runtime", &["podwright-api", "podwright-core"]),
    (
        "podwright-registry",
        &[
            "kube-client",
            "kube-runtime",
            "axum",
            "podwright-runtime",
            "podwright-controllers",
            "podwright-admission",
        ],
    ),
    ("podwright-admission", &["kube-client", "kube-runtime", "podwright-controllers", "podwright-runtime"]),
    ("podwright-controllers", &["podwright-admission", "podwright-registry"]),
    ("podwright", &["podwright-lab"]),
];

/// What a crate must not name itself, though it may come along with the types of others.
const UNNAMED: &[(&str, &[&str])] = &[("podwright-core", &["jiff", "kube", "k8s-openapi"])];

pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let mut complaints = Vec::new();
    for (package, forbidden) in FORBIDDEN {
        let used = dependencies(root, package, &[])?;
        for name in forbidden.iter().filter(|name| used.contains(**name)) {
            complaints.push(format!("{package} must not use {name}; see docs/architecture.md"));
        }
    }
    for (package, unnamed) in UNNAMED {
        let named = dependencies(root, package, &["--depth", "1"])?;
        for name in unnamed.iter().filter(|name| named.contains(**name)) {
            complaints.push(format!("{package} must not depend on {name} itself; see docs/architecture.md"));
        }
    }
    for member in members(root)? {
        let manifest = fs::read_to_string(member.join("Cargo.toml"))?;
        if !manifest.contains("[lints]\nworkspace = true") {
            complaints.push(format!("{} does not take the workspace's lints", member.display()));
        }
        orphans(&member.join("src"), &mut complaints)?;
    }
    if complaints.is_empty() {
        println!("layers: {} crates keep to the map", FORBIDDEN.len());
        return Ok(());
    }
    bail!("{}", complaints.join("\n"));
}

fn dependencies(root: &Path, package: &str, options: &[&str]) -> anyhow::Result<BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--package", package, "--edges", "normal", "--prefix", "none", "--format", "{p}"])
        .args(options)
        .current_dir(root)
        .output()
        .context("failed to run cargo tree")?;
    ensure!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().skip(1).filter_map(|line| line.split(' ').next()).map(str::to_owned).collect())
}

fn members(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut members = vec![root.join("xtask")];
    for entry in fs::read_dir(root.join("crates"))? {
        members.push(entry?.path());
    }
    Ok(members)
}

/// Finds files that no `mod` names: they are not compiled, so they rot.
fn orphans(directory: &Path, complaints: &mut Vec<String>) -> anyhow::Result<()> {
    let mut named = BTreeSet::new();
    let mut files = Vec::new();
    collect(directory, &mut files)?;
    for file in &files {
        for line in fs::read_to_string(file)?.lines() {
            let line = line.trim().trim_start_matches("pub ").trim_start_matches("pub(crate) ");
            if let Some(name) = line.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';')) {
                named.insert(name.to_owned());
            }
        }
    }
    for file in files {
        let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let module = if stem == "mod" {
            file.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default()
        } else {
            stem
        };
        if !matches!(module, "lib" | "main") && !named.contains(module) {
            complaints.push(format!("{} belongs to no module", file.display()));
        }
    }
    Ok(())
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}
