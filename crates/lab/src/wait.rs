//! Waiting for conditions, never for time.

use std::time::Duration;

use anyhow::{Context as _, Result};

/// Tries `check` again and again until it succeeds, and gives back what it found. When the time is up, the error is the
/// reason that the last try gave.
///
/// ```
/// # use std::time::Duration;
/// # async fn example() -> anyhow::Result<()> {
/// let mut tries = 0;
/// let found = podwright_lab::eventually(Duration::from_secs(5), || {
///     tries += 1;
///     let enough = tries >= 3;
///     async move {
///         anyhow::ensure!(enough, "not yet");
///         Ok(42)
///     }
/// })
/// .await?;
/// assert_eq!(found, 42);
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
pub async fn eventually<T, F, C>(timeout: Duration, mut check: C) -> Result<T>
where
    C: FnMut() -> F,
    F: Future<Output = Result<T>>,
{
    let deadline = tokio::time::Instant::now() + timeout;
    let mut pause = Duration::from_millis(10);
    loop {
        // A check that hangs must not hang the wait.
        let reason = match tokio::time::timeout_at(deadline.max(tokio::time::Instant::now()), check()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(reason)) => reason,
            Err(_) => anyhow::anyhow!("the last check did not come back"),
        };
        if tokio::time::Instant::now() + pause >= deadline {
            return Err(reason).with_context(|| format!("not within {} s", timeout.as_secs_f64()));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_last_reason_is_told_when_time_is_up() {
        let mut tries = 0;
        let result: Result<()> = eventually(Duration::from_secs(3), || {
            tries += 1;
            let tries = tries;
            async move { Err(anyhow::anyhow!("try {tries} failed")) }
        })
        .await;
        let text = format!("{:#}", result.unwrap_err());
        assert!(text.starts_with("not within 3 s: try "), "{text}");
        assert!(tries > 20, "{tries}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_that_hangs_is_given_up() {
        let result: Result<()> = eventually(Duration::from_secs(1), std::future::pending).await;
        assert!(format!("{:#}", result.unwrap_err()).contains("did not come back"));
    }
}
