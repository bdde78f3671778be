//! The programs of the control plane: found, or built by Go from the module in `controlplane/` and kept by content.
//!
//! The module's files are part of this binary, so a lab also works where there is no checkout. Binaries lie under a
//! directory whose name is a hash over everything that goes into them: two checkouts of one version share them, and
//! a change of version never meets old ones.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use sha2::{Digest as _, Sha256};

use crate::gobuild;
use crate::process::on_path;
use crate::progress::say;

const GO_MOD: &str = include_str!("../controlplane/go.mod");
const GO_SUM: &str = include_str!("../controlplane/go.sum");
const TOOLS_GO: &str = include_str!("../controlplane/tools.go");

/// The Kubernetes version that `go.mod` pins, as the API server calls itself.
pub const KUBERNETES_VERSION: &str = "v1.36.1";

/// A program, and the Go package that it is built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
}

const ETCD: Program = Program { name: "etcd", package: "go.etcd.io/etcd/server/v3" };
const APISERVER: Program =
    Program { name: "kube-apiserver", package: "k8s.io/kubernetes/cmd/kube-apiserver" };
const CONTROLLERS: Program =
    Program { name: "kube-controller-manager", package: "k8s.io/kubernetes/cmd/kube-controller-manager" };
const SCHEDULER: Program =
    Program { name: "kube-scheduler", package: "k8s.io/kubernetes/cmd/kube-scheduler" };
const KWOK: Program = Program { name: "kwok", package: "sigs.k8s.io/kwok/cmd/kwok" };
const KUBECTL: Program = Program { name: "kubectl", package: "k8s.io/kubernetes/cmd/kubectl" };
const ALL: [Program; 6] = [ETCD, APISERVER, CONTROLLERS, SCHEDULER, KWOK, KUBECTL];

/// Where the control plane's programs are.
#[derive(Clone, Debug)]
pub struct Binaries {
    /// etcd
    pub etcd: PathBuf,
    /// kube-apiserver
    pub apiserver: PathBuf,
    /// kube-controller-manager
    pub controller_manager: PathBuf,
    /// kube-scheduler
    pub scheduler: PathBuf,
    /// kwok
    pub kwok: PathBuf,
}

/// Finds the control plane's programs, building what is missing: minutes the first time, nothing afterwards.
/// Blocks; progress goes to stderr.
pub fn control_plane() -> Result<Binaries> {
    let mut found = ensure(&[ETCD, APISERVER, CONTROLLERS, SCHEDULER, KWOK])?.into_iter();
    let mut next = || found.next().context("a program of the control plane is missing");
    Ok(Binaries {
        etcd: next()?,
        apiserver: next()?,
        controller_manager: next()?,
        scheduler: next()?,
        kwok: next()?,
    })
}

/// kubectl: the one on PATH if there is one, else built as the control plane is.
pub fn kubectl() -> Result<PathBuf> {
    if let Some(path) = on_path(KUBECTL.name) {
        return Ok(path);
    }
    ensure(&[KUBECTL])?.pop().context("kubectl is missing")
}

fn ensure(programs: &[Program]) -> Result<Vec<PathBuf>> {
    let given = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let dir = cache_root(|name| std::env::var_os(name))?.join(format!("lab-{}", cache_key()));
    let locate = |program: &Program| locate(given.as_deref(), &dir, *program);
    if let Some(all) = programs.iter().map(locate).collect::<Option<Vec<_>>>() {
        return Ok(all);
    }
    let source = dir.join("module");
    fs::create_dir_all(&source).with_context(|| format!("failed to create {}", source.display()))?;
    let lock = wait_for_turn(&dir)?;
    // Somebody may have built them while we waited.
    let missing: Vec<Program> =
        programs.iter().filter(|program| locate(program).is_none()).copied().collect();
    if !missing.is_empty() {
        for (name, contents) in [("go.mod", GO_MOD), ("go.sum", GO_SUM), ("tools.go", TOOLS_GO)] {
            let path = source.join(name);
            fs::write(&path, contents).with_context(|| format!("failed to write {}", path.display()))?;
        }
        gobuild::build(&source, &dir, &missing)?;
    }
    drop(lock);
    programs
        .iter()
        .map(|program| {
            locate(program).with_context(|| format!("{} was built but is not there", program.name))
        })
        .collect()
}

fn locate(given: Option<&Path>, cache: &Path, program: Program) -> Option<PathBuf> {
    [given, Some(cache)].into_iter().flatten().map(|dir| dir.join(program.name)).find(|path| path.is_file())
}

/// One build at a time for each version; the lock goes with the file.
fn wait_for_turn(dir: &Path) -> Result<File> {
    let path = dir.join("build.lock");
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .with_context(|| format!("failed to open {}", path.display()))?;
    match lock.try_lock() {
        Ok(()) => return Ok(lock),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("failed to lock {}", path.display()));
        }
    }
    say("another lab is building the control plane; waiting for it to finish");
    lock.lock().with_context(|| format!("failed to lock {}", path.display()))?;
    Ok(lock)
}

/// The directory for binaries, from the environment.
fn cache_root(env: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    let set = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(dir) = set("PODWRIGHT_LAB_CACHE") {
        return Ok(dir);
    }
    if let Some(dir) = set("XDG_CACHE_HOME") {
        return Ok(dir.join("podwright"));
    }
    match set("HOME") {
        Some(home) => Ok(home.join(".cache/podwright")),
        None => bail!("neither PODWRIGHT_LAB_CACHE, XDG_CACHE_HOME nor HOME says where binaries may be kept"),
    }
}

fn cache_key() -> String {
    let mut hash = Sha256::new();
    let mut add = |part: &str| {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    };
    add(GO_MOD);
    add(GO_SUM);
    for program in ALL {
        add(program.package);
    }
    for flag in gobuild::flags() {
        add(&flag);
    }
    add(std::env::consts::OS);
    add(std::env::consts::ARCH);
    hash.finalize().iter().take(8).fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(vars: &[(&str, &str)]) -> Result<PathBuf> {
        cache_root(|name| vars.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value)))
    }

    #[test]
    fn the_most_specific_setting_chooses_the_cache() {
        assert_eq!(
            root(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x"), ("PODWRIGHT_LAB_CACHE", "/p")]).unwrap(),
            Path::new("/p")
        );
        assert_eq!(root(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]).unwrap(), Path::new("/x/podwright"));
        assert_eq!(
            root(&[("HOME", "/h"), ("XDG_CACHE_HOME", "")]).unwrap(),
            Path::new("/h/.cache/podwright")
        );
        assert!(root(&[]).unwrap_err().to_string().contains("PODWRIGHT_LAB_CACHE"));
    }

    #[test]
    fn binaries_that_were_given_come_before_cached_ones() {
        let given = tempfile::tempdir().unwrap();
        let cache = tempfile::tempdir().unwrap();
        fs::write(given.path().join("etcd"), "").unwrap();
        fs::write(cache.path().join("etcd"), "").unwrap();
        fs::write(cache.path().join("kwok"), "").unwrap();
        let find = |program| locate(Some(given.path()), cache.path(), program);
        assert_eq!(find(ETCD), Some(given.path().join("etcd")));
        assert_eq!(find(KWOK), Some(cache.path().join("kwok")));
        assert_eq!(find(SCHEDULER), None);
    }

    #[test]
    fn the_version_is_the_one_that_the_module_pins() {
        assert!(GO_MOD.contains(&format!("k8s.io/kubernetes {KUBERNETES_VERSION}\n")));
        for program in ALL {
            assert!(TOOLS_GO.contains(&format!("\"{}\"", program.package)), "{}", program.package);
        }
    }
}
