//! A pod as admission sees it: a slim view to read, and a patch to write.
//!
//! The pod's JSON is never decoded into a full type and written back. Fields that are newer than this program, or of no
//! concern to it, are not even looked at, and so survive.

mod patch;
mod placement;
mod qos;
mod scheduling;
mod view;

pub use patch::PatchBuilder;
pub(crate) use patch::pointer;
pub use placement::{
    Affinity, DaemonOwner, FieldRequirement, NodeAffinity, NodeTerm, OwnerReference, RequiredNodes,
};
pub use qos::QosClass;
pub use scheduling::{NodeRequirement, PodOs, PreferredTerm, SchedulingGate, SecretName, Toleration};
pub(crate) use view::null_is_empty;
pub use view::{
    Claim, Container, DownwardFile, DownwardVolume, EnvSource, EnvVar, Metadata, PodView, ResourceFieldRef,
    ResourceList, Resources, RestartPolicy, Spec, Volume,
};
