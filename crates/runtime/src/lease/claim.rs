//! Who leads, and until when.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

/// The right to lead until a moment of our own clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Who holds it.
    pub holder: String,
    /// From when on it is no longer certain.
    pub expires_at: Instant,
}

impl Claim {
    /// Whether `me` may act as the leader at `now`.
    #[must_use]
    pub fn is_held_by(&self, me: &str, now: Instant) -> bool {
        self.holder == me && now < self.expires_at
    }
}

/// The question "do we lead", to be asked again before each write; clones ask about the same lease.
#[derive(Clone, Debug)]
pub struct Leadership {
    me: Arc<str>,
    /// None where there is no election.
    claims: Option<watch::Receiver<Option<Claim>>>,
    /// What [`changed`](Self::changed) told last.
    told: bool,
}

/// A handle for `me`, and where the election tells it what it finds.
pub(super) fn channel(me: &str) -> (watch::Sender<Option<Claim>>, Leadership) {
    let (send, receive) = watch::channel(None);
    (send, Leadership { me: me.into(), claims: Some(receive), told: false })
}

impl Leadership {
    /// Leadership without an election, for a single replica.
    #[must_use]
    pub fn always() -> Self {
        Self { me: "".into(), claims: None, told: false }
    }

    /// Whether we lead at this moment. A claim that has expired says no, also if nobody could tell us yet.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.claims.as_ref().is_none_or(|claims| {
            claims.borrow().as_ref().is_some_and(|claim| claim.is_held_by(&self.me, Instant::now()))
        })
    }

    /// Who holds the lease as far as we know; none if it is free, or if there is no election.
    #[must_use]
    pub fn holder(&self) -> Option<String> {
        self.claims.as_ref()?.borrow().as_ref().map(|claim| claim.holder.clone())
    }

    /// Waits until [`is_current`](Self::is_current) differs from what this handle told last, and tells it. A new handle
    /// counts as having told "no". Dropping the future loses nothing.
    pub async fn changed(&mut self) -> bool {
        loop {
            let (is_current, expires_at) = self.look();
            if is_current != self.told {
                self.told = is_current;
                return is_current;
            }
            let news = async {
                let told = match &mut self.claims {
                    Some(claims) => claims.changed().await.is_ok(),
                    None => false,
                };
                if !told {
                    // No election, or its task has ended: only an expiry can change anything now.
                    std::future::pending::<()>().await;
                }
            };
            let expiry = async {
                match expires_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = news => {}
                () = expiry => {}
            }
        }
    }

    /// Whether we lead, and if so until when.
    fn look(&mut self) -> (bool, Option<Instant>) {
        let Some(claims) = &mut self.claims else {
            return (true, None);
        };
        let claim = claims.borrow_and_update();
        let mine = claim.as_ref().filter(|claim| claim.is_held_by(&self.me, Instant::now()));
        (mine.is_some(), mine.map(|claim| claim.expires_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use std::time::Duration;

    fn claim(holder: &str, seconds: u64) -> Claim {
        Claim { holder: holder.to_owned(), expires_at: Instant::now() + Duration::from_secs(seconds) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_ends_by_itself_without_any_news() {
        let (claims, mut leadership) = channel("me");
        assert!(!leadership.is_current());
        claims.send_replace(Some(claim("me", 10)));
        assert!(leadership.is_current() && leadership.changed().await);
        tokio::time::advance(Duration::from_millis(9_999)).await;
        assert!(leadership.is_current());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!leadership.is_current());
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_at_the_expiry_also_when_the_election_is_gone() {
        let (claims, mut leadership) = channel("me");
        claims.send_replace(Some(claim("me", 10)));
        assert!(leadership.changed().await);
        let started = Instant::now();
        drop(claims);
        assert!(!leadership.changed().await);
        assert_eq!(started.elapsed().as_secs(), 10);
        assert!(leadership.changed().now_or_never().is_none(), "nothing can change any more");
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_is_no_change_and_a_loss_is() {
        let (claims, mut leadership) = channel("me");
        claims.send_replace(Some(claim("me", 10)));
        assert!(leadership.changed().await);
        claims.send_replace(Some(claim("me", 20)));
        assert!(leadership.changed().now_or_never().is_none());
        claims.send_replace(Some(claim("other", 20)));
        assert!(!leadership.changed().await);
        assert_eq!(leadership.holder().as_deref(), Some("other"));
    }

    #[tokio::test]
    async fn without_an_election_we_always_lead() {
        let mut leadership = Leadership::always();
        assert!(leadership.is_current() && leadership.changed().await);
        assert!(leadership.changed().now_or_never().is_none());
        assert_eq!(leadership.holder(), None);
    }
}
