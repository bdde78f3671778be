use super::*;
use crate::tls::testing::{PemPair, self_signed};
use std::fs;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

struct Scene {
    dir: TempDir,
    store: Arc<CertStore>,
    send: watch::Sender<Option<String>>,
    bundle: watch::Receiver<Option<String>>,
}

impl Scene {
    fn new() -> Self {
        let (send, bundle) = watch::channel(None);
        Self { dir: tempfile::tempdir().unwrap(), store: Arc::new(CertStore::new()), send, bundle }
    }

    fn put(&self, name: &str, content: &str) {
        fs::write(self.dir.path().join(name), content).unwrap();
    }

    fn put_pair(&self, pair: &PemPair) {
        self.put("tls.crt", &pair.chain);
        self.put("tls.key", &pair.key);
    }

    async fn open(&self) -> Result<Directory, DirectoryError> {
        Directory::open(self.dir.path(), Arc::clone(&self.store), self.send.clone()).await
    }

    fn served(&self) -> Vec<String> {
        self.store.current().unwrap().names
    }
}

#[tokio::test]
async fn a_missing_file_is_named() {
    let scene = Scene::new();
    let message = scene.open().await.unwrap_err().to_string();
    assert!(message.contains("tls.crt") && message.contains("No such file"), "{message}");

    scene.put("tls.crt", &self_signed(&["a"]).chain);
    let message = scene.open().await.unwrap_err().to_string();
    assert!(message.contains("tls.key") && message.contains("readable by this process"), "{message}");
}

#[tokio::test]
async fn an_unusable_pair_or_bundle_is_an_error_at_the_start() {
    let scene = Scene::new();
    scene.put_pair(&PemPair { chain: self_signed(&["a"]).chain, key: self_signed(&["b"]).key });
    assert!(matches!(scene.open().await, Err(DirectoryError::Pair { source: StoreError::Mismatch, .. })));

    scene.put_pair(&self_signed(&["a"]));
    scene.put("ca.crt", "nonsense");
    let message = scene.open().await.unwrap_err().to_string();
    assert!(message.contains("ca.crt"), "{message}");
    assert!(!scene.store.is_loaded(), "nothing may be served that clients are told not to trust");
}

#[tokio::test]
async fn the_bundle_is_published_and_follows_the_file() {
    let scene = Scene::new();
    let pair = self_signed(&["a"]);
    scene.put_pair(&pair);
    let mut directory = scene.open().await.unwrap();
    assert_eq!(*scene.bundle.borrow(), None);

    scene.put("ca.crt", &pair.chain);
    assert!(matches!(directory.reload().await, Reload::Installed(_)));
    let authority = Certificate::parse_all(pair.chain.as_bytes()).unwrap().remove(0);
    assert_eq!(*scene.bundle.borrow(), Some(authority.pem()));
}

#[tokio::test]
async fn only_changed_content_is_loaded_again() {
    let scene = Scene::new();
    let pair = self_signed(&["a"]);
    scene.put_pair(&pair);
    let mut directory = scene.open().await.unwrap();
    scene.put_pair(&pair);
    assert!(matches!(directory.reload().await, Reload::Unchanged));
    assert_eq!(scene.store.installs(), 1);

    scene.put_pair(&self_signed(&["b"]));
    assert!(matches!(directory.reload().await, Reload::Installed(_)));
    assert_eq!(scene.served(), ["b"]);
}

#[tokio::test]
async fn a_half_written_pair_is_kept_out_and_told_about_once() {
    let scene = Scene::new();
    scene.put_pair(&self_signed(&["a"]));
    let mut directory = scene.open().await.unwrap();

    let next = self_signed(&["b"]);
    scene.put("tls.crt", &next.chain);
    let kept = directory.reload().await;
    assert!(
        matches!(kept, Reload::Kept(DirectoryError::Pair { source: StoreError::Mismatch, .. })),
        "{kept:?}"
    );
    assert!(matches!(directory.reload().await, Reload::Unchanged));
    assert_eq!(scene.served(), ["a"]);

    scene.put("tls.key", &next.key);
    assert!(matches!(directory.reload().await, Reload::Installed(_)));
    assert_eq!(scene.served(), ["b"]);
}

#[tokio::test]
async fn files_that_vanish_leave_the_last_good_pair_and_may_come_back() {
    let scene = Scene::new();
    let pair = self_signed(&["a"]);
    scene.put_pair(&pair);
    let mut directory = scene.open().await.unwrap();
    fs::remove_file(scene.dir.path().join("tls.key")).unwrap();
    assert!(matches!(directory.reload().await, Reload::Kept(DirectoryError::Read { .. })));
    assert!(matches!(directory.reload().await, Reload::Unchanged));
    assert_eq!(scene.served(), ["a"]);
    scene.put_pair(&pair);
    assert!(matches!(directory.reload().await, Reload::Installed(_)));
}

#[tokio::test]
async fn a_swap_of_the_data_link_is_seen() {
    let scene = Scene::new();
    let root = scene.dir.path();
    for (version, name) in [("..v1", "a"), ("..v2", "b")] {
        let pair = self_signed(&[name]);
        fs::create_dir(root.join(version)).unwrap();
        scene.put(&format!("{version}/tls.crt"), &pair.chain);
        scene.put(&format!("{version}/tls.key"), &pair.key);
    }
    symlink("..v1", root.join("..data")).unwrap();
    for file in ["tls.crt", "tls.key"] {
        symlink(Path::new("..data").join(file), root.join(file)).unwrap();
    }
    let mut directory = scene.open().await.unwrap();
    assert_eq!(scene.served(), ["a"]);

    symlink("..v2", root.join("..data_tmp")).unwrap();
    fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
    assert!(matches!(directory.reload().await, Reload::Installed(_)));
    assert_eq!(scene.served(), ["b"]);
}

#[tokio::test]
async fn the_watch_reloads_on_its_timer_and_ends_when_cancelled() {
    let scene = Scene::new();
    scene.put_pair(&self_signed(&["a"]));
    let directory = scene.open().await.unwrap();
    let cancel = CancellationToken::new();
    let mut bundle = scene.bundle.clone();
    let watching = tokio::spawn(directory.watch(Duration::from_millis(5), cancel.clone()));

    let next = self_signed(&["b"]);
    scene.put("tls.crt", &next.chain);
    scene.put("tls.key", &next.key);
    scene.put("ca.crt", &next.chain);
    bundle.wait_for(Option::is_some).await.unwrap();
    assert_eq!(scene.served(), ["b"]);
    cancel.cancel();
    watching.await.unwrap();
}
