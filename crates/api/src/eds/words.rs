//! Words of the protocol between the two kinds, their users and other programs, letter by letter.

/// What an ExtendedDaemonSet is doing, in `status.state`.
pub mod state {
    /// Nothing holds it back.
    pub const RUNNING: &str = "Running";
    /// The rolling update is paused.
    pub const ROLLING_UPDATE_PAUSED: &str = "RollingUpdate Paused";
    /// Nothing is created or replaced.
    pub const ROLLOUT_FROZEN: &str = "Rollout frozen";
    /// A new template is tried on a few nodes.
    pub const CANARY: &str = "Canary";
    /// The trial is paused.
    pub const CANARY_PAUSED: &str = "Canary Paused";
    /// The trial has failed.
    pub const CANARY_FAILED: &str = "Canary Failed";
}

/// The part that a replica set plays, in its `status.status`.
pub mod role {
    /// Its pods run everywhere but on the canary's nodes.
    pub const ACTIVE: &str = "active";
    /// Its pods run on the canary's nodes.
    pub const CANARY: &str = "canary";
    /// Its template was tried and failed.
    pub const CANARY_FAILED: &str = "canary-failed";
    /// It is neither, and goes once it has no pods.
    pub const UNKNOWN: &str = "unknown";
}

/// Types of conditions.
pub mod condition {
    /// On both kinds: the canary is paused.
    pub const CANARY_PAUSED: &str = "Canary-Paused";
    /// On both kinds: the canary has failed. Set on a replica set by whoever wants it to fail.
    pub const CANARY_FAILED: &str = "Canary-Failed";
    /// On both kinds: something could not be done.
    pub const RECONCILE_ERROR: &str = "ReconcileError";
    /// Replica set: it is the active one and neither paused nor frozen. Since when counts for the slow start.
    pub const ACTIVE: &str = "Active";
    /// Replica set: it is the active one and paused.
    pub const ROLLING_UPDATE_PAUSED: &str = "RollingUpdatePaused";
    /// Replica set: it is the active one and frozen.
    pub const ROLLOUT_FROZEN: &str = "RolloutFrozen";
    /// Replica set: it is the canary. Since when counts for `canaryTimeout`.
    pub const CANARY: &str = "Canary";
    /// Replica set: a canary pod restarted, at the condition's time.
    pub const POD_RESTARTING: &str = "PodRestarting";
    /// Replica set: a canary pod cannot start.
    pub const POD_CANNOT_START: &str = "PodCannotStart";
    /// Replica set: pods that the scheduler finds no room for.
    pub const UNSCHEDULE: &str = "Unschedule";
    /// Replica set: whether pods that had to go could be deleted.
    pub const PODS_CLEANUP_DONE: &str = "PodsCleanupDone";
    /// Replica set: when pods were deleted last.
    pub const POD_DELETION: &str = "PodDeletion";
    /// Replica set: when pods were created last.
    pub const POD_CREATION: &str = "PodCreation";
    /// Replica set: when something changed last.
    pub const LAST_FULL_SYNC: &str = "LastFullSync";
    /// ExtendedDaemonSet: fewer nodes can take the canary than it should have.
    pub const CANARY_TOO_FEW_NODES: &str = "Canary-TooFewNodes";
    /// ExtendedDaemonSet, for tools that wait on any object: every pod is there, up to date and available.
    pub const READY: &str = "Ready";
    /// ExtendedDaemonSet, likewise: it is on the way there.
    pub const RECONCILING: &str = "Reconciling";
    /// ExtendedDaemonSet, likewise: it will not get there by itself.
    pub const STALLED: &str = "Stalled";
}

/// Why a canary is paused or failed. Besides these it may be any reason with which a container ended, or what a person wrote.
pub mod reason {
    /// A container starts and ends again and again.
    pub const CRASH_LOOP_BACK_OFF: &str = "CrashLoopBackOff";
    /// A container needed more memory than its limit.
    pub const OOM_KILLED: &str = "OOMKilled";
    /// Containers went on restarting for too long.
    pub const RESTARTS_TIMEOUT_EXCEEDED: &str = "RestartsTimeoutExceeded";
    /// The canary took too long.
    pub const TIMEOUT_EXCEEDED: &str = "TimeoutExceeded";
    /// A pod took too long to start.
    pub const SLOW_START_TIMEOUT_EXCEEDED: &str = "SlowStartTimeoutExceeded";
    /// Nobody said why.
    pub const UNKNOWN: &str = "Unknown";
    /// Of the ExtendedDaemonSet's condition Canary-Failed.
    pub const CANARY_FAILED: &str = "CanaryFailed";
    /// Of a replica set that a person has failed.
    pub const MANUALLY_FAILED: &str = "Manually failed";

    /// A container that waits for one of these reasons cannot start.
    pub const CANNOT_START: [&str; 11] = [
        "ErrImagePull",
        "ImagePullBackOff",
        "ImageInspectError",
        "ErrImageNeverPull",
        "RegistryUnavailable",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "PreStartHookError",
        "PostStartHookError",
        "PreCreateHookError",
    ];
}

/// Whether a setting is used, in its `status.status`.
pub mod setting {
    /// It is.
    pub const VALID: &str = "valid";
    /// It is not; `status.error` says why.
    pub const ERROR: &str = "error";
}
