//! Annotation, label and resource names, each in one place.

/// How many vCPUs the pod's VM gets. Read by the cloud adaptor.
pub const VM_VCPUS: &str = "io.katacontainers.config.hypervisor.default_vcpus";
/// How much memory, in MiB, the pod's VM gets. Read by the cloud adaptor.
pub const VM_MEMORY: &str = "io.katacontainers.config.hypervisor.default_memory";
/// How many GPUs the pod's VM gets. Read by the cloud adaptor.
pub const VM_GPUS: &str = "io.katacontainers.config.hypervisor.default_gpus";

/// The extended resource that stands for one peer-pod VM.
pub const VM_RESOURCE: &str = "kata.peerpods.io/vm";
/// The runtime class of peer pods.
pub const PEER_POD_RUNTIME_CLASS: &str = "kata-remote";

/// On a peer pod: what its containers asked for before we took it away, so that a second invocation counts each
/// container once.
pub const PEER_POD_RECORD: &str = "podwright.io/peer-pod-record";

/// On a Node: how many peer-pod VMs it offers (a whole number), or `off`.
pub const NODE_VM_CAPACITY: &str = "podwright.io/peer-pod-vms";
/// On a Node: set by the cloud adaptor when it advertises the node's VMs itself.
pub const ADAPTOR_OWNER: &str = "kata.peerpods.io/caa-owner";

/// On a mirror pod: it is a static pod's reflection and cannot be changed.
pub const MIRROR_POD: &str = "kubernetes.io/config.mirror";

/// On a peer pod: the machine type of its VM. Read by the cloud adaptor.
pub const VM_MACHINE_TYPE: &str = "io.katacontainers.config.hypervisor.machine_type";
/// On a peer pod: the image that its VM starts from. Read by the cloud adaptor.
pub const VM_IMAGE: &str = "io.katacontainers.config.hypervisor.image";

/// On a Node: its architecture.
pub const ARCH_LABEL: &str = "kubernetes.io/arch";
/// On a Node: its architecture, as it was called before.
pub const OLD_ARCH_LABEL: &str = "beta.kubernetes.io/arch";
/// On a Node: its operating system.
pub const OS_LABEL: &str = "kubernetes.io/os";
/// On a Node: its operating system, as it was called before.
pub const OLD_OS_LABEL: &str = "beta.kubernetes.io/os";
/// On a Windows Node: its build, such as `10.0.20348`.
pub const WINDOWS_BUILD_LABEL: &str = "node.kubernetes.io/windows-build";

/// As a label of a pod: `off` leaves it alone. As its annotation: what its images offer and where it may therefore run. As
/// its scheduling gate: it waits until that is known.
pub const ARCHITECTURE: &str = "podwright.io/architecture";
/// The value of the label [`ARCHITECTURE`] that leaves a pod alone.
pub const OFF: &str = "off";
/// Label on a pod that we watch: [`GATED`] or [`NO_COMMON_PLATFORM`].
pub const ARCHITECTURE_STATE: &str = "podwright.io/architecture-state";
/// It waits until the platforms of its images are known.
pub const GATED: &str = "gated";
/// Its images have no platform in common.
pub const NO_COMMON_PLATFORM: &str = "no-common-platform";
/// On a pod: which architectures it prefers, such as `arm64=80,amd64=20`, or `arm64`.
pub const PREFERRED_ARCHITECTURES: &str = "podwright.io/preferred-architectures";
/// A label that no node has, in the node affinity of a pod whose images have no platform in common.
pub const IMPOSSIBLE_NO_COMMON_PLATFORM: &str = "podwright.io/images-have-no-common-platform";
/// A label that no node has, in the node affinity of a pod whose images' platforms could not be had.
pub const IMPOSSIBLE_UNKNOWN: &str = "podwright.io/platforms-of-images-are-unknown";

/// On a DaemonSet, or on its pods: the FlexDaemonsetTemplate by which they are sized. Empty: none.
pub const RESOURCE_TEMPLATE: &str = "flexdaemonsets.xai/resource-template";
/// On a DaemonSet: what becomes of its pods when they cannot be sized, `Deny` or `Allow`.
pub const SIZING_ON_ERROR: &str = "podwright.io/sizing-on-error";
/// On a sized pod: by which template, node and rules it was sized.
pub const SIZED_BY: &str = "podwright.io/sized-by";

// ExtendedDaemonSet: the keys that its users, its plugin and other controllers know.

/// On an ExtendedDaemonSet's pod: a digest of the resource overrides that its Node carries. There only if there are any.
pub const EDS_NODE_OVERRIDES: &str = "extendeddaemonset.datadoghq.com/nodehash";
/// Label on an ExtendedDaemonSet's pod: the ExtendedDaemonsetSetting that gave it its resources. There only if one did.
pub const EDS_SETTING: &str = "extendeddaemonsetsetting.datadoghq.com/name";

/// Label on replica sets and pods: the ExtendedDaemonSet's name.
pub const EDS_NAME: &str = "extendeddaemonset.datadoghq.com/name";
/// Label on pods: the replica set's name.
pub const EDS_REPLICA_SET: &str = "extendeddaemonsetreplicaset.datadoghq.com/name";
/// Label on pods of a canary: `true`.
pub const EDS_CANARY: &str = "extendeddaemonsetreplicaset.datadoghq.com/canary";
/// Label on pods: the namespace of the ExtendedDaemonsetSetting that gave it its resources.
pub const EDS_SETTING_NAMESPACE: &str = "extendeddaemonsetsetting.datadoghq.com/namespace";
/// On replica sets, pods and the PodTemplate: a digest of the template.
pub const EDS_TEMPLATE_HASH: &str = "extendeddaemonset.datadoghq.com/templatehash";
/// On an ExtendedDaemonSet: the replica set that a person has found good.
pub const EDS_CANARY_VALID: &str = "extendeddaemonset.datadoghq.com/canary-valid";
/// On an ExtendedDaemonSet: `true` pauses the canary.
pub const EDS_CANARY_PAUSED: &str = "extendeddaemonset.datadoghq.com/canary-paused";
/// On an ExtendedDaemonSet: why a person paused the canary.
pub const EDS_CANARY_PAUSED_REASON: &str = "extendeddaemonset.datadoghq.com/canary-paused-reason";
/// On an ExtendedDaemonSet: `true` lets the canary go on and keeps it from pausing itself.
pub const EDS_CANARY_UNPAUSED: &str = "extendeddaemonset.datadoghq.com/canary-unpaused";
/// On an ExtendedDaemonSet: `true` keeps outdated pods from being replaced.
pub const EDS_ROLLING_UPDATE_PAUSED: &str = "extendeddaemonset.datadoghq.com/rolling-update-paused";
/// On an ExtendedDaemonSet: `true` keeps pods from being created and replaced.
pub const EDS_ROLLOUT_FROZEN: &str = "extendeddaemonset.datadoghq.com/rollout-frozen";
/// On an ExtendedDaemonSet: the DaemonSet whose pods it takes over.
pub const EDS_OLD_DAEMONSET: &str = "extendeddaemonset.datadoghq.com/old-daemonset";
/// On a Node, followed by `<namespace>.<name>.<container>`: resources of that container on that node, as JSON.
pub const EDS_NODE_OVERRIDE_PREFIX: &str = "resources.extendeddaemonset.datadoghq.com/";
/// Annotation on pods and label on the PodTemplate: tells the cluster autoscaler that they are a DaemonSet's.
pub const AUTOSCALER_DAEMONSET_POD: &str = "cluster-autoscaler.kubernetes.io/daemonset-pod";
/// On an ExtendedDaemonSet's pod: which of its containers have other resources than its template says, and a digest of them.
/// There only if its node has annotations for it or a setting applies to it.
pub const EDS_POD_OVERRIDES: &str = "podwright.io/overrides";
/// On an ExtendedDaemonSet's pod: how many pods before it failed on its node in a row. There only if any did.
pub const EDS_POD_FAILURES: &str = "podwright.io/failures";

/// On a pod that we have spread: what Versprei writes there.
pub const MUTATED_BY: &str = "mutated-by";
/// Versprei's value of it.
pub const MUTATED_BY_VERSPREI: &str = "spread-webhook-service";
/// On a pod that we have spread: by which rule, to which entry, and the ticket of its place.
pub const DISTRIBUTION: &str = "podwright.io/distribution";
/// On a pod: the lower, the sooner it goes when its ReplicaSet is scaled down.
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// On a pod: the deletion cost that we gave it. A cost that differs from it is the user's own and stays.
pub const OUR_DELETION_COST: &str = "podwright.io/deletion-cost";
/// Label on the pods of a Deployment: their revision.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";
/// Label on the pods of an Argo Rollout: their revision.
pub const ROLLOUTS_POD_TEMPLATE_HASH: &str = "rollouts-pod-template-hash";
/// Label on the pods of a StatefulSet and of others: their revision.
pub const CONTROLLER_REVISION_HASH: &str = "controller-revision-hash";
/// Label on the pods of a StatefulSet: their ordinal.
pub const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
/// Label by which a pod without a controller finds its rule, as in Versprei.
pub const APP: &str = "app";
