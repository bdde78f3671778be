//! How soon canaries are judged, and how long nodes are bare when a manager dies.

#[path = "../../e2e/rollout/invariants.rs"]
mod invariants;
mod killed;
#[expect(dead_code, reason = "shared with the tests of e2e, which use all of it")]
#[path = "../../e2e/rollout/scene.rs"]
mod scene;
mod signals;

pub(crate) use scene::alone;
