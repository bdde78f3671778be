//! What must happen within so many seconds, apart from the tests that fill the machine.
//!
//! Cargo runs one test binary after the other, so nothing of `e2e` runs beside these. Among themselves they keep quiet by [`quiet`]
//! and [`silence`]. The harness is that of `e2e`.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[expect(dead_code, reason = "shared with the tests of e2e, which use all of it")]
#[path = "../e2e/audit.rs"]
mod audit;
mod availability;
#[expect(dead_code, reason = "shared with the tests of e2e, which use all of it")]
#[path = "../e2e/labs.rs"]
mod labs;
#[path = "../e2e/record.rs"]
mod record;
mod rollout;
mod sizing;

use tokio::sync::{OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};

static MACHINE: RwLock<()> = RwLock::const_new(());

/// For tests that mostly wait themselves: they may run beside each other. The labs that they share run by then, because to start
/// one is work for the whole machine.
async fn quiet() -> RwLockReadGuard<'static, ()> {
    static LABS: OnceCell<()> = OnceCell::const_new();
    let start = || async {
        let _alone = silence().await;
        rollout::alone().await;
        labs::plain().await;
    };
    LABS.get_or_init(start).await;
    MACHINE.read().await
}

/// For what needs the machine for itself.
async fn silence() -> RwLockWriteGuard<'static, ()> {
    MACHINE.write().await
}
