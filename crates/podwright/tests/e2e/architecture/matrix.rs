//! Every shape of image, by every kind of name, with every kind of credential, and every answer of a registry: each with its
//! placement.

use podwright_lab::registry::{Fault, ImageBuilder, LocalRegistry, Pushed, User, image};
use serde_json::json;

use super::ground::{Scene, architectures, ground, pod, scene};

/// What an image looks like in its registry, and where it can then run. None: nobody can say.
fn shapes(namespace: &str) -> Vec<(&'static str, ImageBuilder, Option<&'static [&'static str]>)> {
    let arm = Some(&["arm64"][..]);
    let named = |name: &str| image(&format!("team-a/{namespace}/{name}")).tag("1");
    vec![
        ("list", named("list").docker().platforms(["linux/arm64", "windows/amd64"]), arm),
        ("index", named("index").platforms(["linux/arm64", "linux/s390x"]), arm),
        ("single", named("single").single("linux/arm64"), arm),
        ("docker-single", named("docker-single").docker().single("linux/amd64"), Some(&["amd64"])),
        ("nested", named("nested").platforms(["linux/arm64"]).nested(1), arm),
        ("attested", named("attested").platforms(["linux/arm64"]).attested(), arm),
        ("everything", named("everything").platforms(["linux/amd64", "linux/arm64"]).attested(), Some(&[])),
        ("unnamed", named("unnamed").unnamed(), None),
    ]
}

fn names(pushed: &Pushed) -> [(&'static str, String); 3] {
    let both = format!("{}/{}:{}@{}", pushed.registry, pushed.repository, pushed.tag, pushed.digest);
    [("tag", pushed.by_tag()), ("digest", pushed.by_digest()), ("tag@digest", both)]
}

/// Asserts where a pod with this image goes.
async fn expect(
    scene: &Scene<'_>,
    what: &str,
    image: &str,
    secret: Option<&str>,
    expected: Option<&[&str]>,
) -> anyhow::Result<()> {
    let mut made = pod("matrix", &[image]);
    if let Some(secret) = secret {
        made["spec"]["imagePullSecrets"] = json!([{"name": secret}]);
    }
    let answer = scene.try_out(&made).await?;
    anyhow::ensure!(answer.status == 201, "{what}: {answer:?}");
    let told = answer.warnings.join("\n");
    let Some(expected) = expected else {
        anyhow::ensure!(architectures(&answer.object).is_empty(), "{what}: something is assumed: {answer:?}");
        anyhow::ensure!(told.contains("not known what image"), "{what}: nobody is told: {answer:?}");
        return Ok(());
    };
    anyhow::ensure!(architectures(&answer.object) == expected, "{what}: {answer:?}");
    anyhow::ensure!(told.is_empty(), "{what}: {told}");
    Ok(())
}

#[tokio::test]
async fn every_shape_by_every_name_with_every_credential_is_placed_as_expected() {
    scene(ground().await, "matrix", |scene| async move {
        let registries = &scene.ground.registries;
        let glob = registries.passwords.address().replace("127.0", "*.0");
        let path = format!("{}/team-a/{}", registries.passwords.address(), scene.namespace);
        let by_password = registries.passwords.address();
        let by_token = registries.tokens.address();
        for (name, config) in [
            ("basic", User::A.docker_config(&by_password)),
            ("bearer", User::A.docker_config(&by_token)),
            ("other-team", User::B.docker_config(&by_token)),
            ("glob", User::B.docker_config(&glob)),
            // All that match are tried, the most specific first.
            ("path", json!({"auths": {
                path: {"username": "team-a", "password": "wrong"}, &by_password: {"username": User::B.name(), "password": User::B.password()},
            }}).to_string()),
            ("wrong", json!({"auths": {
                &by_password: {"username": "team-a", "password": "wrong"}, &by_token: {"username": "team-a", "password": "wrong"},
            }}).to_string()),
        ] {
            scene.secret(name, "dockerconfigjson", &config).await?;
        }
        let cases: [(&LocalRegistry, Option<&str>, bool); 11] = [
            (&registries.open, None, true),
            (&registries.open, Some("wrong"), true),
            (&registries.passwords, Some("basic"), true),
            (&registries.passwords, Some("glob"), true),
            (&registries.passwords, Some("path"), true),
            (&registries.passwords, Some("wrong"), false),
            (&registries.passwords, None, false),
            (&registries.tokens, Some("bearer"), true),
            (&registries.tokens, Some("other-team"), false),
            (&registries.tokens, Some("wrong"), false),
            (&registries.tokens, None, false),
        ];
        for (shape, made, expected) in shapes(&scene.namespace) {
            let pushed = made.push(&registries.open).await?;
            for (registry, secret, opens) in cases {
                for (kind, name) in names(&pushed.at(&registry.address())) {
                    let what = format!("{shape} by {kind} at {name} with {secret:?}");
                    expect(&scene, &what, &name, secret, expected.filter(|_| opens)).await?;
                }
            }
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn every_answer_of_a_registry_has_its_placement() {
    scene(ground().await, "answers", |scene| async move {
        let registries = &scene.ground.registries;
        let pushed = image(&format!("{}/app", scene.namespace)).tag("1").platforms(["linux/arm64"]);
        let pushed = pushed.push(&registries.open).await?;
        let again = Some(Fault::Status(429, Some(1)));
        for (proxy, (what, fault, times)) in [
            ("200", None, None),
            ("401", Some(Fault::Status(401, None)), None),
            ("404", Some(Fault::Status(404, None)), None),
            ("429", Some(Fault::Status(429, Some(60))), None),
            ("429 once, with a Retry-After of a second", again, Some(1)),
            ("500", Some(Fault::Status(500, None)), None),
            ("500 once", Some(Fault::Status(500, None)), Some(1)),
            ("no answer", Some(Fault::Hang), None),
        ]
        .into_iter()
        .enumerate()
        {
            let proxy = &registries.proxies[proxy];
            let fails = fault.is_some() && times.is_none();
            match (fault, times) {
                (Some(fault), None) => proxy.fault("/v2/", fault),
                (Some(fault), Some(times)) => proxy.fault_times("/v2/", fault, times),
                (None, _) => {}
            }
            for (kind, name) in names(&pushed.at(&proxy.address())) {
                let what = format!("{what} by {kind}");
                expect(&scene, &what, &name, None, (!fails).then_some(&["arm64"][..])).await?;
            }
            proxy.heal();
        }
        Ok(())
    })
    .await;
}
