//! What comes of what images offer.

use super::*;

#[test]
fn a_pod_is_kept_to_the_architecture_of_its_image_and_let_in_there() {
    let placed = world().placed(&pod(&["arm"]));
    assert_eq!(*terms(&placed), json!([{"matchExpressions": [arch_in(&["arm64"])]}]));
    assert_eq!(placed["spec"]["tolerations"], json!([arm_toleration()]));
    let record: Value =
        serde_json::from_str(placed["metadata"]["annotations"][keys::ARCHITECTURE].as_str().unwrap())
            .unwrap();
    assert_eq!(record, json!({"runsOn": ["arm64"], "images": {"arm:1": ["linux/arm64"]}}));

    let placed = world().placed(&pod(&["amd"]));
    assert_eq!(*terms(&placed), json!([{"matchExpressions": [arch_in(&["amd64"])]}]));
    assert!(placed["spec"]["tolerations"].is_null(), "no taint of arm64 is tolerated");
}

#[test]
fn a_pod_that_runs_everywhere_only_gets_its_tolerations() {
    let placed = world().placed(&pod(&["both", "all"]));
    assert!(placed["spec"]["affinity"].is_null());
    assert_eq!(placed["spec"]["tolerations"], json!([arm_toleration()]));
    let untainted = World { census: Census::default(), ..world() }.node("amd64", &[]).node("arm64", &[]);
    assert_eq!(untainted.review(&pod(&["both"])).0.patch, []);
}

#[test]
fn init_containers_and_sidecars_count_like_containers() {
    for extra in [
        json!({"name": "i", "image": "arm:1"}),
        json!({"name": "i", "image": "arm:1", "restartPolicy": "Always"}),
    ] {
        let placed = world().placed(&with(pod(&["both"]), "/spec/initContainers", json!([extra])));
        assert_eq!(*terms(&placed), json!([{"matchExpressions": [arch_in(&["arm64"])]}]), "{extra}");
    }
}

#[test]
fn an_image_that_is_never_pulled_is_not_considered() {
    let mut never = pod(&["both", "arm"]);
    never["spec"]["containers"][1]["imagePullPolicy"] = json!("Never");
    let (outcome, asked) = world().review(&never);
    assert!(patched(&never, &outcome)["spec"]["affinity"].is_null());
    assert_eq!(asked.len(), 2, "{asked:?}");
}

#[test]
fn images_are_asked_for_once_with_the_pods_own_secrets() {
    let mut secretive = pod(&["both", "both"]);
    secretive["spec"]["imagePullSecrets"] = json!([{"name": "a"}, {"name": "b"}]);
    secretive["spec"]["serviceAccountName"] = json!("builder");
    let (_, asked) = world().review(&secretive);
    let [Lookup::Cluster, Lookup::Image(image)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((image.secrets.join(","), image.service_account.as_str()), ("a,b".to_owned(), "builder"));
    assert_eq!(image.namespace, "default");
}

#[test]
fn images_without_a_common_platform_keep_the_pod_pending_and_say_why_one_by_one() {
    let (placed, warnings) = world().admitted(&pod(&["amd", "arm"]));
    assert_eq!(
        *terms(&placed),
        json!([{"matchExpressions": [{"key": keys::IMPOSSIBLE_NO_COMMON_PLATFORM, "operator": "Exists"}]}])
    );
    assert_eq!(placed["metadata"]["labels"][keys::ARCHITECTURE_STATE], keys::NO_COMMON_PLATFORM);
    assert_eq!(
        warnings,
        [
            "architecture: no node can run all images of this pod (nodes are linux/amd64, linux/arm64); use images that have \
             a platform in common",
            "architecture: image amd:1 offers linux/amd64",
            "architecture: image arm:1 offers linux/arm64",
        ]
    );
    let strict = world().config("architecture: {onNoCommonPlatform: Deny}");
    let denial = strict.review(&pod(&["amd", "arm"])).0.denial.unwrap();
    assert!(denial.contains("image amd:1 offers linux/amd64"), "{denial}");
}

#[test]
fn a_pod_whose_architecture_the_cluster_lacks_waits_for_it() {
    let (placed, warnings) = world().admitted(&pod(&["mainframe"]));
    assert_eq!(*terms(&placed), json!([{"matchExpressions": [arch_in(&["s390x"])]}]));
    assert!(warnings[0].contains("s390x") && warnings[0].contains("linux/arm64"), "{warnings:?}");
    let configured = world().config("architecture: {architectures: {s390x: {}}}");
    let placed = configured.placed(&pod(&["mainframe"]));
    assert_eq!(placed["spec"]["tolerations"][0]["value"], "s390x");
}

#[test]
fn an_image_that_is_not_known_has_no_say_and_its_author_is_told() {
    let (placed, warnings) = world().admitted(&pod(&["arm", "lost"]));
    assert_eq!(*terms(&placed), json!([{"matchExpressions": [arch_in(&["arm64"])]}]));
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("lost:1") && warnings[0].contains("503"), "{warnings:?}");
    let (alone, warnings) = world().admitted(&pod(&["lost"]));
    assert_eq!(alone, pod(&["lost"]), "nothing is ever assumed");
    assert_eq!(warnings.len(), 1);
    assert_eq!(placed["spec"]["tolerations"], json!([arm_toleration()]), "there is nowhere else to go");
}

#[test]
fn a_taint_goes_on_keeping_out_pods_of_which_not_all_is_known() {
    let weights = world().config("architecture: {architectures: {arm64: {preference: 80}}}");
    for images in [&["lost"][..], &["both", "lost"]] {
        let (placed, _) = weights.admitted(&pod(images));
        assert_eq!(placed, pod(images), "neither let in nor drawn to where it may not run");
    }
    let mut never = pod(&["both"]);
    never["spec"]["containers"][0]["imagePullPolicy"] = json!("Never");
    assert_eq!(weights.placed(&never), never);
}

#[test]
fn where_the_unknown_is_denied_the_reason_says_what_to_do() {
    let strict = world().config("architecture: {onUnknown: Deny}");
    let denial = strict.review(&pod(&["arm", "lost"])).0.denial.unwrap();
    for part in ["lost:1", "503", "podwright.io/architecture=off"] {
        assert!(denial.contains(part), "{denial}");
    }
    assert_eq!(strict.review(&pod(&["arm"])).0.denial, None);
}

#[test]
fn preferences_are_soft_and_the_pods_own_come_first() {
    let weights =
        world().config("architecture: {architectures: {arm64: {preference: 80}, amd64: {preference: 20}}}");
    let term = |architecture: &str, weight: u8| json!({"weight": weight, "preference": {"matchExpressions": [arch_in(&[architecture])]}});
    let placed = weights.placed(&pod(&["both"]));
    assert!(terms(&placed).is_null(), "nothing is required");
    assert_eq!(*placed.pointer(PREFERRED).unwrap(), json!([term("amd64", 20), term("arm64", 80)]));

    let own = with(pod(&["both"]), "/metadata/annotations", json!({keys::PREFERRED_ARCHITECTURES: "amd64"}));
    assert_eq!(*weights.placed(&own).pointer(PREFERRED).unwrap(), json!([term("amd64", 100)]));
    let bad =
        with(pod(&["both"]), "/metadata/annotations", json!({keys::PREFERRED_ARCHITECTURES: "amd64=x"}));
    assert!(weights.admitted(&bad).1[0].contains("amd64=x"));

    assert!(weights.placed(&pod(&["arm"])).pointer(PREFERRED).is_none(), "there is no choice");
    let theirs = with(pod(&["both"]), PREFERRED, json!([term("amd64", 1)]));
    assert_eq!(*weights.placed(&theirs).pointer(PREFERRED).unwrap(), json!([term("amd64", 1)]));
    let other =
        json!({"weight": 5, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}});
    let placed = weights.placed(&with(pod(&["both"]), PREFERRED, json!([other])));
    assert_eq!(*placed.pointer(PREFERRED).unwrap(), json!([other, term("amd64", 20), term("arm64", 80)]));
}

#[test]
fn the_operating_system_is_required_where_the_cluster_has_several() {
    let placed = world().windows_node().placed(&pod(&["both"]));
    let os = |name: &str| json!({"key": "kubernetes.io/os", "operator": "In", "values": [name]});
    assert_eq!(*terms(&placed), json!([{"matchExpressions": [os("linux")]}]));
    let placed = world().windows_node().placed(&pod(&["amd"]));
    assert_eq!(*terms(&placed), json!([{"matchExpressions": [arch_in(&["amd64"]), os("linux")]}]));
    let declared = with(pod(&["all"]), "/spec/os", json!({"name": "windows"}));
    assert_eq!(
        *terms(&world().windows_node().placed(&declared)),
        json!([{"matchExpressions": [os("windows")]}])
    );
}

#[test]
fn in_a_cluster_of_one_kind_no_registry_is_asked() {
    let (outcome, asked) =
        World { census: Census::default(), ..world() }.node("amd64", &[]).review(&pod(&["arm"]));
    assert_eq!((outcome.verdict(), &asked[..]), (crate::mutate::Verdict::Skipped, &[Lookup::Cluster][..]));
}

#[test]
fn a_workloads_images_can_be_asked_for_before_its_pods_come() {
    let cluster = world().census.platforms();
    let mutator = world().mutator();
    assert_eq!(mutator.lookups("ns", &view(&pod(&["both", "arm", "arm"])), &cluster).len(), 2);
    let chosen = with(pod(&["both"]), "/spec/nodeSelector", json!({"kubernetes.io/arch": "arm64"}));
    assert_eq!(mutator.lookups("ns", &view(&chosen), &cluster), []);
}
