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

/// On a DaemonSet, or on its pods: the FlexDaemonsetTemplate by which they are sized. Empty: none.
pub const RESOURCE_TEMPLATE: &str = "flexdaemonsets.xai/resource-template";
/// On a DaemonSet: what becomes of its pods when they cannot be sized, `Deny` or `Allow`.
pub const SIZING_ON_ERROR: &str = "podwright.io/sizing-on-error";
/// On a sized pod: by which template, node and rules it was sized.
pub const SIZED_BY: &str = "podwright.io/sized-by";

/// On an ExtendedDaemonSet's pod: a digest of the resource overrides that its Node carries. There only if there are any.
pub const EDS_NODE_OVERRIDES: &str = "extendeddaemonset.datadoghq.com/nodehash";
/// Label on an ExtendedDaemonSet's pod: the ExtendedDaemonsetSetting that gave it its resources. There only if one did.
pub const EDS_SETTING: &str = "extendeddaemonsetsetting.datadoghq.com/name";

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
