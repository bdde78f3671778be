//! Where things lie in the lab's directory.
//!
//! `logs/` outlives the lab. Everything else that the lab writes is listed in [`Layout::remove_runtime_data`], which
//! removes exactly that: a directory that also holds other people's files is safe.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The directory of one lab, as an absolute path.
#[derive(Clone, Debug)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// The layout under `root`, made absolute; nothing is created.
    pub fn new(root: &Path) -> Result<Self> {
        let root = std::path::absolute(root)
            .with_context(|| format!("{} is not a usable directory name", root.display()))?;
        // A symlink in the way would make the same lab look like two.
        let root = fs::canonicalize(&root).unwrap_or(root);
        Ok(Self { root })
    }

    /// Creates the directories.
    pub fn create(root: &Path) -> Result<Self> {
        fs::create_dir_all(root).with_context(|| format!("failed to create {}", root.display()))?;
        let layout = Self::new(root)?;
        for dir in [layout.logs(), layout.run()] {
            fs::create_dir_all(&dir).with_context(|| format!("failed to create {}", dir.display()))?;
        }
        Ok(layout)
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Logs of all processes, kept after the lab is gone.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// The log of one process.
    #[must_use]
    pub fn log(&self, name: &str) -> PathBuf {
        self.logs().join(format!("{name}.log"))
    }

    /// Data, keys and settings of the control plane.
    #[must_use]
    pub fn run(&self) -> PathBuf {
        self.root.join("run")
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.root.join("kubeconfig")
    }

    /// The kubeconfig that Podwright runs with.
    #[must_use]
    pub fn podwright_kubeconfig(&self) -> PathBuf {
        self.root.join("podwright.kubeconfig")
    }

    /// Podwright's settings.
    #[must_use]
    pub fn podwright_config(&self) -> PathBuf {
        self.root.join("podwright.yaml")
    }

    /// Who runs in this directory.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.root.join("lab.json")
    }

    /// Held by the lab for as long as it lives.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.root.join("lab.lock")
    }

    /// Removes what a lab that is gone leaves behind, except its logs. The lock file stays: removing it would let two
    /// labs hold "the" lock at once.
    pub fn remove_runtime_data(&self) -> Result<()> {
        for file in [self.kubeconfig(), self.podwright_kubeconfig(), self.podwright_config(), self.state()] {
            absent(fs::remove_file(&file)).with_context(|| format!("failed to remove {}", file.display()))?;
        }
        let run = self.run();
        absent(fs::remove_dir_all(&run)).with_context(|| format!("failed to remove {}", run.display()))
    }

    /// Empties the logs of an earlier lab in this directory, so that nothing old is taken for new.
    pub fn remove_logs(&self) -> Result<()> {
        let logs = self.logs();
        absent(fs::remove_dir_all(&logs)).with_context(|| format!("failed to remove {}", logs.display()))
    }
}

fn absent(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Writes a file whole or not at all, readable by its owner only: most of what the lab writes holds keys.
pub(crate) fn write_private(path: &Path, contents: &str) -> Result<()> {
    let temporary = path.with_added_extension("tmp");
    let write = || -> std::io::Result<()> {
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(contents.as_bytes())?;
        fs::rename(&temporary, path)
    };
    write().with_context(|| format!("failed to write {}", path.display()))
}

/// The last `lines` lines of a log, or why it cannot be read.
#[must_use]
pub(crate) fn tail(path: &Path, lines: usize) -> String {
    match fs::read(path) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let all: Vec<&str> = text.lines().collect();
            all[all.len().saturating_sub(lines)..].join("\n")
        }
        Err(error) => format!("({}: {error})", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logs_and_foreign_files_survive_the_lab() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::create(dir.path()).unwrap();
        fs::write(layout.log("etcd"), "x").unwrap();
        fs::write(dir.path().join("mine.txt"), "x").unwrap();
        write_private(&layout.kubeconfig(), "x").unwrap();
        layout.remove_runtime_data().unwrap();
        layout.remove_runtime_data().unwrap();
        assert!(layout.log("etcd").exists());
        assert!(dir.path().join("mine.txt").exists());
        assert!(!layout.kubeconfig().exists());
        assert!(!layout.run().exists());
    }

    #[test]
    fn the_tail_of_a_log_is_its_last_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::write(&path, "a\nb\nc\n").unwrap();
        assert_eq!(tail(&path, 2), "b\nc");
        assert!(tail(&dir.path().join("none"), 2).contains("none"));
    }
}
