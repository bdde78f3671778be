use podwright_core::image::PullPolicy::IfNotPresent;
use podwright_lab::registry::{Access, LocalRegistry, Proxy, TokenServer, User, image};
use podwright_registry::{Keychain, Registry};

use crate::world::{ask, keychain_of, manifests, registry, settings, told};

struct Tenants {
    proxy: Proxy,
    client: Registry,
    _upstream: LocalRegistry,
}

async fn tenants() -> Tenants {
    let upstream = LocalRegistry::start(Access::Tokens(TokenServer::start().await.unwrap())).await.unwrap();
    let proxy = Proxy::start(&upstream.address()).await.unwrap();
    for repository in ["team-a/app", "public/app"] {
        image(repository).single("linux/arm64").push(&upstream).await.unwrap();
    }
    let client = registry(settings([proxy.address().as_str()]));
    Tenants { proxy, client, _upstream: upstream }
}

#[tokio::test]
async fn who_has_no_credential_learns_nothing_from_who_has() {
    let Tenants { proxy, client, _upstream } = tenants().await;
    let (a, b) = (keychain_of(User::A, &proxy.address()), keychain_of(User::B, &proxy.address()));
    let name = format!("{}/team-a/app", proxy.address());
    let digest = by_digest(&client, &name, &a, &proxy).await;
    for name in [name.clone(), digest] {
        assert_eq!(told(&ask(&client, &name, &a).await), "linux/arm64");
        for other in [Keychain::default(), b.clone()] {
            assert!(client.peek(&name.parse().unwrap(), IfNotPresent, &other).is_none(), "{name}");
            assert_eq!(told(&ask(&client, &name, &other).await), "unauthorized", "{name}");
        }
        let before = proxy.seen().len();
        assert_eq!(told(&ask(&client, &name, &a).await), "linux/arm64");
        assert_eq!(proxy.seen().len(), before, "who has it still finds it in the cache");
    }
}

/// The name by digest of an image that only `keychain` can see.
async fn by_digest(client: &Registry, name: &str, keychain: &Keychain, proxy: &Proxy) -> String {
    ask(client, name, keychain).await.unwrap();
    let seen = proxy.seen();
    let path = seen.iter().rev().find(|seen| seen.path.contains("/manifests/sha256:")).unwrap().path.clone();
    format!("{name}@{}", path.rsplit('/').next().unwrap())
}

#[tokio::test]
async fn what_everybody_may_see_is_fetched_once_for_all() {
    let Tenants { proxy, client, _upstream } = tenants().await;
    let name = format!("{}/public/app", proxy.address());
    assert_eq!(told(&ask(&client, &name, &Keychain::default()).await), "linux/arm64");
    let before = proxy.seen().len();
    for user in User::ALL {
        assert_eq!(told(&ask(&client, &name, &keychain_of(user, &proxy.address())).await), "linux/arm64");
    }
    assert_eq!(proxy.seen().len(), before);
}

#[tokio::test]
async fn a_second_credential_proves_itself_by_head_and_nothing_is_fetched_twice() {
    let Tenants { proxy, client, _upstream } = tenants().await;
    let name = format!("{}/public/app", proxy.address());
    for user in User::ALL {
        assert_eq!(told(&ask(&client, &name, &keychain_of(user, &proxy.address())).await), "linux/arm64");
    }
    let (_, gets) = manifests(&proxy);
    assert_eq!(gets, 1);
}
