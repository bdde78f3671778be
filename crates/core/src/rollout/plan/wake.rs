use podwright_api::Moment;

/// The next moment at which something changes though nothing happens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wake {
    now: Moment,
    next: Option<Moment>,
}

impl Wake {
    pub(super) const fn after(now: Moment) -> Self {
        Self { now, next: None }
    }

    /// Something changes then. What is past has changed already.
    pub(super) fn at(&mut self, moment: Moment) {
        if moment > self.now {
            self.next = Some(self.next.map_or(moment, |known| known.min(moment)));
        }
    }

    /// There is more to decide as soon as this plan is stored.
    pub(super) fn at_once(&mut self) {
        self.next = Some(self.now);
    }

    pub(super) const fn next(self) -> Option<Moment> {
        self.next
    }
}
