//! Whole rotations with everybody late: replicas that still serve what was written before, a bundle that is published
//! with delay, and clients that have not yet heard of it.

use super::*;
use proptest::prelude::*;

/// Something that happens, after some time.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The leader looks at the Secret, and changes it if that is due.
    Keep,
    /// A replica sees the next version of the Secret.
    Serve(usize),
    /// The bundle of the Secret is written to where clients look for it.
    Publish,
    /// Clients hear of what was published.
    Hear,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => Just(Event::Keep),
        1 => Just(Event::Serve(0)),
        1 => Just(Event::Serve(1)),
        1 => Just(Event::Publish),
        1 => Just(Event::Hear),
    ]
}

/// A value that somebody follows with a delay of at most the propagation time.
struct Follower<T> {
    current: T,
    ahead: Vec<(Timestamp, T)>,
}

impl<T: Clone> Follower<T> {
    fn new(current: T) -> Self {
        Self { current, ahead: Vec::new() }
    }

    fn tell(&mut self, now: Timestamp, value: T) {
        self.ahead.push((now, value));
    }

    /// One step on.
    fn follow(&mut self) {
        if !self.ahead.is_empty() {
            self.current = self.ahead.remove(0).1;
        }
    }

    /// Whatever was told longer than the propagation time ago has arrived.
    fn catch_up(&mut self, now: Timestamp, propagation: Duration) {
        while self.ahead.first().is_some_and(|(told, _)| later(*told, propagation) <= now) {
            self.follow();
        }
    }
}

struct World {
    params: Params,
    now: Timestamp,
    secret: Material,
    /// What each replica serves.
    replicas: [Follower<Material>; 2],
    published: String,
    /// What clients trust.
    trusted: Follower<String>,
    promotions: usize,
}

impl World {
    /// A cluster in which the first certificates have reached everybody.
    fn new(params: Params) -> Self {
        let secret = mint(&Change::Found { fault: None }, &Material::default(), start(), &params).unwrap();
        Self {
            params,
            now: start(),
            replicas: [Follower::new(secret.clone()), Follower::new(secret.clone())],
            published: secret.bundle(),
            trusted: Follower::new(secret.bundle()),
            secret,
            promotions: 0,
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now = later(self.now, time);
        for replica in &mut self.replicas {
            replica.catch_up(self.now, self.params.propagation);
        }
        self.trusted.catch_up(self.now, self.params.propagation);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Keep => {
                let step = plan(&self.secret, self.now, &self.params, Some(&self.published));
                let Step::Change(change) = step else { return };
                assert!(!matches!(change, Change::Found { .. }), "a rotation never starts anew");
                self.promotions += usize::from(change == Change::Promote);
                self.secret = mint(&change, &self.secret, self.now, &self.params).unwrap();
                self.secret = Material::read(Some(&stored(&self.secret)));
                for replica in &mut self.replicas {
                    replica.tell(self.now, self.secret.clone());
                }
            }
            Event::Serve(replica) => self.replicas[replica].follow(),
            Event::Publish if self.published != self.secret.bundle() => {
                self.published = self.secret.bundle();
                self.trusted.tell(self.now, self.published.clone());
            }
            Event::Publish => {}
            Event::Hear => self.trusted.follow(),
        }
    }

    /// Clients that trust what they have heard of, or what is published by now, accept every replica.
    fn check(&self) -> Result<(), TestCaseError> {
        let heard = Some(&self.trusted.current).filter(|heard| **heard != self.published);
        for bundle in [Some(&self.published), heard].into_iter().flatten() {
            let bundle = crate::tls::certificate::Certificate::parse_all(bundle.as_bytes()).unwrap();
            for (number, replica) in self.replicas.iter().enumerate() {
                let serving = serving(&replica.current);
                prop_assert!(
                    is_accepted(serving, &bundle, self.now),
                    "replica {number} is refused at {}",
                    self.now
                );
            }
        }
        Ok(())
    }
}

/// Lives in which a rotation takes a few seconds, as in a demonstration.
fn quick() -> Params {
    let seconds = Duration::from_secs;
    Params { ca_lifetime: seconds(60), serving_lifetime: seconds(24), propagation: seconds(4), ..params() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn clients_accept_every_replica_at_every_step(
        events in prop::collection::vec((0..400_u64, event()), 300..500),
    ) {
        let mut world = World::new(quick());
        for (milliseconds, event) in events {
            world.pass(Duration::from_millis(milliseconds));
            // The leader and whoever publishes are never away for long.
            if milliseconds % 5 == 0 {
                world.happen(Event::Keep);
                world.happen(Event::Publish);
            }
            world.happen(event);
            world.check()?;
        }
    }
}

#[test]
fn replicas_that_lag_by_one_step_are_accepted_through_several_rotations() {
    let mut world = World::new(quick());
    let mut changes = 0;
    while world.promotions < 3 {
        world.pass(Duration::from_millis(250));
        let before = world.secret.clone();
        world.happen(Event::Keep);
        if world.secret != before {
            changes += 1;
            // Each replica comes to the former version only now.
            for replica in 0..2 {
                let replica = &mut world.replicas[replica];
                while replica.ahead.len() > 1 {
                    replica.follow();
                }
            }
        }
        world.check().unwrap();
        world.happen(Event::Publish);
        world.check().unwrap();
    }
    assert!(changes > 12, "preparing, confirming, promoting and retiring, three times: {changes}");
}
