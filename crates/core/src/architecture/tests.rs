use podwright_api::config::Config;
use proptest::{collection, prelude::*, sample::select};

use super::*;

fn platforms(list: &[&str]) -> Platforms {
    list.iter()
        .map(|text| {
            let (platform, version) =
                text.split_once('@').map_or((*text, None), |(one, two)| (one, Some(two)));
            platform.parse::<crate::image::Platform>().unwrap().os_version(version).unwrap()
        })
        .collect()
}

fn kinds(list: &[&str]) -> ClusterPlatforms {
    let kind = |text: &&str| {
        let (platform, build) = text.split_once('@').map_or((*text, None), |(one, two)| (one, Some(two)));
        let (os, architecture) = platform.split_once('/').unwrap();
        NodeKind {
            os: os.to_owned(),
            architecture: architecture.to_owned(),
            windows_build: build.map(str::to_owned),
        }
    };
    ClusterPlatforms { kinds: list.iter().map(kind).collect(), taints: BTreeMap::new() }
}

fn rules(yaml: &str) -> Rules {
    let config = Config::read(&format!("architecture: {{architectures: {yaml}}}")).unwrap();
    config.check().unwrap();
    config.architecture.architectures.into()
}

fn placed(images: &[&[&str]], cluster: &[&str], yaml: &str) -> Placement {
    let images: Vec<Platforms> = images.iter().map(|list| platforms(list)).collect();
    let offers: Vec<Offer<'_>> = images.iter().map(|platforms| Offer { image: "i", platforms }).collect();
    place(&offers, &kinds(cluster), &rules(yaml), AskedOs::default())
}

/// `key=a|b,key2=c` for each alternative.
fn shown(placement: &Placement) -> Vec<String> {
    match placement {
        Placement::Anywhere(_) => vec!["anywhere".to_owned()],
        Placement::Nowhere => vec!["nowhere".to_owned()],
        Placement::Within { alternatives, absent, .. } => alternatives
            .iter()
            .map(|one| {
                let parts: Vec<String> = one
                    .iter()
                    .map(|(key, values)| {
                        let key = key.rsplit('/').next().unwrap();
                        format!("{key}={}", values.iter().cloned().collect::<Vec<_>>().join("|"))
                    })
                    .collect();
                format!("{}{}", parts.join(","), if *absent { " (absent)" } else { "" })
            })
            .collect(),
    }
}

const MIXED: &[&str] = &["linux/amd64", "linux/arm64"];

#[test]
fn a_pod_runs_where_all_its_images_run() {
    for (images, expected) in [
        (&[&["linux/amd64"][..]][..], "arch=amd64"),
        (&[&["linux/arm64"]], "arch=arm64"),
        (&[&["linux/amd64", "linux/arm64"]], "anywhere"),
        (&[&["linux/amd64", "linux/arm64", "linux/s390x"], &["linux/arm64"]], "arch=arm64"),
        (&[&["linux/amd64"], &["linux/arm64"]], "nowhere"),
        (&[&["linux/s390x"]], "arch=s390x (absent)"),
        (&[&["linux/s390x"], &["linux/s390x", "linux/ppc64le"]], "arch=s390x (absent)"),
        (&[&["windows/amd64"]], "arch=amd64,os=windows (absent)"),
        (&[], "anywhere"),
    ] {
        assert_eq!(shown(&placed(images, MIXED, "{}")), [expected], "{images:?}");
    }
}

#[test]
fn an_architecture_that_is_configured_counts_as_there() {
    let both = &[&["linux/amd64", "linux/s390x"][..]];
    assert_eq!(shown(&placed(both, MIXED, "{}")), ["arch=amd64"]);
    assert_eq!(shown(&placed(both, MIXED, "{s390x: {}}")), ["arch=amd64|s390x"]);
    assert_eq!(shown(&placed(&[&["linux/arm64"]], &["linux/amd64"], "{arm64: {}}")), ["arch=arm64"]);
}

#[test]
fn a_variant_runs_those_below_it_and_none_above() {
    for (image, architectures, expected) in [
        ("linux/arm/v6", "{}", "arch=arm"),
        ("linux/arm/v7", "{}", "arch=arm"),
        ("linux/arm/v8", "{}", "nowhere"),
        ("linux/arm/v7", "{arm: {variant: v6}}", "nowhere"),
        ("linux/arm/v8", "{arm: {variant: v8}}", "arch=arm"),
        ("linux/amd64/v3", "{}", "nowhere"),
        ("linux/amd64/v3", "{amd64: {variant: v3}}", "arch=amd64"),
        ("linux/amd64/v2", "{amd64: {variant: v3}}", "arch=amd64"),
        ("linux/amd64", "{amd64: {variant: v3}}", "arch=amd64"),
    ] {
        let placement = placed(&[&[image]], &["linux/amd64", "linux/arm"], architectures);
        assert_eq!(shown(&placement), [expected], "{image} {architectures}");
    }
}

#[test]
fn the_operating_system_is_named_only_where_there_are_several() {
    let cluster = &["linux/amd64", "linux/arm64", "windows/amd64@10.0.20348"];
    for (images, expected) in [
        (&[&["linux/amd64", "linux/arm64"][..]][..], &["os=linux"][..]),
        (&[&["linux/amd64"]], &["arch=amd64,os=linux"]),
        (&[&["windows/amd64@10.0.20348.169"]], &["os=windows"]),
        (&[&["windows/amd64@10.0.17763.1"]], &["arch=amd64,os=windows,windows-build=10.0.17763 (absent)"]),
        (&[&["linux/arm64", "windows/amd64"]], &["arch=arm64,os=linux", "os=windows"]),
        (&[&["linux/amd64"], &["windows/amd64"]], &["nowhere"]),
    ] {
        assert_eq!(shown(&placed(images, cluster, "{}")), expected, "{images:?}");
    }
}

#[test]
fn windows_images_run_on_nodes_of_their_own_build() {
    let cluster = &["linux/amd64", "windows/amd64@10.0.17763", "windows/amd64@10.0.20348"];
    let old = &["windows/amd64@10.0.17763.5"][..];
    assert_eq!(shown(&placed(&[old], cluster, "{}")), ["os=windows,windows-build=10.0.17763"]);
    let both = &["windows/amd64@10.0.17763.5", "windows/amd64@10.0.20348.9"][..];
    assert_eq!(shown(&placed(&[both], cluster, "{}")), ["os=windows"]);
    assert_eq!(shown(&placed(&[both, old], cluster, "{}")), ["os=windows,windows-build=10.0.17763"]);
}

#[test]
fn what_the_pod_says_of_its_operating_system_counts() {
    let cluster = kinds(&["linux/amd64", "windows/amd64"]);
    let image = platforms(&["linux/amd64", "windows/amd64"]);
    let offers = [Offer { image: "i", platforms: &image }];
    let asked = |selected, declared| {
        shown(&place(&offers, &cluster, &Rules::default(), AskedOs { selected, declared }))
    };
    assert_eq!(asked(None, None), ["anywhere"]);
    assert_eq!(asked(None, Some("windows")), ["os=windows"]);
    assert_eq!(asked(Some("windows"), None), ["anywhere"], "the node selector says it already");
    assert_eq!(asked(Some("linux"), Some("windows")), ["nowhere"]);
}

#[test]
fn required_labels_hold_for_their_own_architecture_only() {
    let both = &["linux/amd64", "linux/arm64"][..];
    let arm_pool = "{arm64: {requireNodeLabels: [{kubernetes.io/arch: arm64}, {pool: arm}]}}";
    assert_eq!(shown(&placed(&[both], MIXED, arm_pool)), ["arch=amd64", "arch=arm64,pool=arm"]);
    assert_eq!(shown(&placed(&[&["linux/amd64"]], MIXED, arm_pool)), ["arch=amd64"]);
    let same = "{arm64: {requireNodeLabels: [{pool: x}]}, amd64: {requireNodeLabels: [{pool: x}]}}";
    assert_eq!(shown(&placed(&[both], MIXED, same)), ["pool=x"]);
    let only_arch = "{arm64: {requireNodeLabels: [{kubernetes.io/arch: arm64}]}}";
    assert_eq!(shown(&placed(&[both], MIXED, only_arch)), ["anywhere"]);
}

#[test]
fn taints_are_the_configured_ones_else_those_that_nodes_have_of_their_architecture() {
    let mut census = Census::default();
    let arm: BTreeMap<String, String> = [(keys::ARCH_LABEL.to_owned(), "arm64".to_owned())].into();
    let taints = [("kubernetes.io/arch", "arm64", "NoSchedule"), ("other", "arm64", "NoSchedule")];
    assert!(census.note("a", &arm, taints));
    assert!(!census.note("b", &arm, taints), "a second one is no news");
    let cluster = census.platforms();
    let names: BTreeSet<String> = ["arm64".to_owned(), "amd64".to_owned()].into();
    let keys = |yaml: &str| -> Vec<String> {
        rules(yaml)
            .taints(&names, &cluster)
            .iter()
            .map(|taint| format!("{}={}", taint.key, taint.value.clone().unwrap_or_default()))
            .collect()
    };
    assert_eq!(keys("{}"), ["kubernetes.io/arch=arm64"]);
    assert_eq!(keys("{arm64: {taintsToTolerate: [{key: ARM, value: 'true'}]}}"), ["ARM=true"]);
    assert_eq!(keys("{arm64: {taintsToTolerate: []}}"), Vec::<String>::new());
    assert_eq!(keys("{amd64: {}}"), ["kubernetes.io/arch=amd64", "kubernetes.io/arch=arm64"]);
    assert!(!census.forget("a") && census.forget("b"), "the last of its kind is news");
    assert_eq!(census.platforms(), ClusterPlatforms::default());
}

#[test]
fn preferences_are_read_as_people_write_them() {
    assert_eq!(preferences("arm64").unwrap(), [("arm64".to_owned(), 100)].into());
    assert_eq!(
        preferences(" arm64 = 80, amd64=20 ").unwrap(),
        [("arm64".to_owned(), 80), ("amd64".to_owned(), 20)].into()
    );
    for text in ["", "arm64=", "arm64=0", "arm64=101", "=5", "arm64;amd64", "a b"] {
        assert!(preferences(text).unwrap_err().to_string().contains("arm64=80"), "{text:?}");
    }
}

#[test]
fn a_crash_is_explained_by_the_architecture_only_where_it_is_that() {
    let arm = NodeKind::linux("arm64");
    let (amd_only, both) = (platforms(&["linux/amd64"]), platforms(&["linux/amd64", "linux/arm64"]));
    let told = |said: &str, known: Option<&Platforms>| {
        let container = CrashingContainer { name: "app", image: "x:1", said };
        diagnose(container, "n1", &arm, known, &Rules::default())
    };
    let text = told("", Some(&amd_only)).unwrap();
    for part in ["app", "x:1", "n1", "linux/arm64", "linux/amd64"] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(told("out of memory", Some(&both)), None);
    assert!(told("exec /app: exec format error", Some(&both)).unwrap().contains("claims"));
    assert!(told("exec /app: exec format error", None).unwrap().contains("not known"));
    assert_eq!(told("", None), None);
}

/// Whether a node fulfils one of the alternatives.
fn admits(placement: &Placement, kind: &NodeKind) -> bool {
    match placement {
        Placement::Anywhere(_) => true,
        Placement::Nowhere => false,
        Placement::Within { alternatives, .. } => alternatives.iter().any(|one| {
            one.iter().all(|(key, values)| {
                let value = match key.as_str() {
                    keys::ARCH_LABEL => Some(&kind.architecture),
                    keys::OS_LABEL => Some(&kind.os),
                    keys::WINDOWS_BUILD_LABEL => kind.windows_build.as_ref(),
                    other => panic!("an unexpected demand on {other}"),
                };
                value.is_some_and(|value| values.contains(value))
            })
        }),
    }
}

proptest! {
    /// Exactly the nodes that all images run on are let in: no more, and no fewer.
    #[test]
    fn what_is_demanded_is_what_the_images_can_run_on(
        images in collection::vec(collection::vec(select(vec![
            "linux/amd64", "linux/arm64", "linux/arm/v6", "linux/arm/v7", "linux/s390x", "windows/amd64@10.0.17763.5",
            "windows/amd64@10.0.20348.9",
        ]), 1..4), 0..4),
        nodes in collection::vec(select(vec![
            "linux/amd64", "linux/arm64", "linux/arm", "windows/amd64@10.0.17763", "windows/amd64@10.0.20348",
        ]), 1..5),
    ) {
        let images: Vec<Platforms> = images.iter().map(|list| platforms(list)).collect();
        let offers: Vec<Offer<'_>> = images.iter().map(|platforms| Offer { image: "i", platforms }).collect();
        let cluster = kinds(&nodes);
        let placement = place(&offers, &cluster, &Rules::default(), AskedOs::default());
        for kind in &cluster.kinds {
            let runs = images.iter().all(|all| all.iter().any(|one| compatibility::runs_on(one, kind, None)));
            prop_assert_eq!(admits(&placement, kind), runs, "{} in {:?}", kind, placement);
        }
    }
}
