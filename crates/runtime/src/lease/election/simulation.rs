//! Two candidates, an API server, and a network between them that delays, reorders and loses what it likes.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Times in the world are milliseconds; each candidate reads them off a clock of its own.
const RETRY: u64 = 2_000;
const TIMEOUT: u64 = 5_000;

/// What happens to one request.
#[derive(Clone, Copy, Debug)]
struct Fate {
    there: u64,
    back: u64,
    is_lost_there: bool,
    is_lost_back: bool,
    /// For how long the process is stopped afterwards.
    pause: u64,
    /// The leader gives the lease back instead of renewing it.
    releases: bool,
}

const GOOD: Fate =
    Fate { there: 5, back: 5, is_lost_there: false, is_lost_back: false, pause: 0, releases: false };

fn fate() -> impl Strategy<Value = Fate> {
    let delay = prop_oneof![5 => 0..200_u64, 2 => 200..6_000_u64, 1 => 6_000..30_000_u64];
    let pause = prop_oneof![6 => Just(0_u64), 1 => 0..20_000_u64];
    let rare = || prop::bool::weighted(0.1);
    (delay.clone(), delay, rare(), rare(), pause, rare()).prop_map(
        |(there, back, is_lost_there, is_lost_back, pause, releases)| Fate {
            there,
            back,
            is_lost_there,
            is_lost_back,
            pause,
            releases,
        },
    )
}

#[derive(Clone, Copy, Debug)]
enum Request {
    Get,
    Put { expects: Option<u64>, holder: Option<usize> },
}

#[derive(Debug)]
enum Answer {
    Read(Option<Record>),
    Ours { version: u64 },
    Released,
    Refused,
}

/// What happens to a candidate counts only if it still waits for it: in the turn in which it asked.
#[derive(Debug)]
enum Event {
    Wake { who: usize, turn: u64 },
    Arrive { who: usize, turn: u64, request: Request, sent: u64, fate: Fate },
    Answer { who: usize, turn: u64, sent: u64, pause: u64, answer: Answer },
}

struct Player {
    candidate: Candidate,
    turn: u64,
    /// The lease must be read before the next write.
    must_read: bool,
    /// How fast its clock runs, in thousandths.
    rate: u64,
}

struct World {
    base: Instant,
    now: u64,
    players: Vec<Player>,
    /// The lease: its holder and version.
    lease: Option<(Option<usize>, u64)>,
    versions: u64,
    /// By time, and in the order they were planned.
    events: BTreeMap<(u64, u64), Event>,
    planned: u64,
    fates: std::vec::IntoIter<Fate>,
    /// Who led, one after the other.
    terms: Vec<usize>,
}

impl World {
    fn new(fates: Vec<Fate>, rates: [u64; 2]) -> Self {
        let player = |(who, rate): (usize, u64)| {
            let params = LeaseParams::new("default", "lease", who.to_string());
            Player { candidate: Candidate::new(&params), turn: 0, must_read: true, rate }
        };
        let mut world = Self {
            base: Instant::now(),
            now: 0,
            players: rates.into_iter().enumerate().map(player).collect(),
            lease: None,
            versions: 0,
            events: BTreeMap::new(),
            planned: 0,
            fates: fates.into_iter(),
            terms: Vec::new(),
        };
        for who in 0..2 {
            world.plan(0, Event::Wake { who, turn: 0 });
        }
        world
    }

    fn plan(&mut self, time: u64, event: Event) {
        self.planned += 1;
        self.events.insert((time, self.planned), event);
    }

    fn clock(&self, who: usize, time: u64) -> Instant {
        self.base + Duration::from_millis(time * self.players[who].rate / 1000)
    }

    fn leads(&self, who: usize) -> bool {
        let claim = self.players[who].candidate.claim();
        claim.is_some_and(|claim| claim.is_held_by(&who.to_string(), self.clock(who, self.now)))
    }

    /// Plays until the fates run out, and looks after each event that at most one leads. A claim begins with an event
    /// only, so this misses none.
    fn play(&mut self) -> Result<(), TestCaseError> {
        while let Some(((time, _), event)) = self.events.pop_first() {
            self.now = time;
            match event {
                Event::Wake { who, turn } if self.players[who].turn == turn => {
                    let Some(fate) = self.fates.next() else {
                        return Ok(());
                    };
                    self.ask(who, fate);
                }
                Event::Arrive { who, turn, request, sent, fate } => {
                    self.serve(who, turn, request, sent, fate);
                }
                Event::Answer { who, turn, sent, pause, answer } if self.players[who].turn == turn => {
                    self.hear(who, sent, pause, answer);
                }
                Event::Wake { .. } | Event::Answer { .. } => {}
            }
            let leaders: Vec<usize> = (0..2).filter(|&who| self.leads(who)).collect();
            prop_assert!(leaders.len() < 2, "both lead at {time} ms");
            if leaders.first().is_some_and(|leader| self.terms.last() != Some(leader)) {
                self.terms.extend(leaders);
            }
        }
        Ok(())
    }

    fn ask(&mut self, who: usize, fate: Fate) {
        let now = self.clock(who, self.now);
        let player = &mut self.players[who];
        let known = player.candidate.view.as_ref().map(|view| view.version.parse().unwrap());
        let mine = Request::Put { expects: known, holder: Some(who) };
        let request = match player.candidate.step(now) {
            _ if player.must_read => Request::Get,
            Step::Wait { .. } => Request::Get,
            Step::Renew if fate.releases => {
                player.candidate.resign();
                Request::Put { expects: known, holder: None }
            }
            Step::Create | Step::Acquire | Step::Renew => mine,
        };
        player.turn += 1;
        player.must_read = true;
        let turn = player.turn;
        if !fate.is_lost_there {
            self.plan(self.now + fate.there, Event::Arrive { who, turn, request, sent: self.now, fate });
        }
        // It waits no longer than that, though the request may still be on its way and have its effect.
        self.plan(self.now + TIMEOUT + fate.pause, Event::Wake { who, turn });
    }

    fn serve(&mut self, who: usize, turn: u64, request: Request, sent: u64, fate: Fate) {
        let answer = match request {
            Request::Get => Answer::Read(self.lease.map(|(holder, version)| Record {
                holder: holder.map(|holder| holder.to_string()),
                duration: Some(Duration::from_secs(15)),
                version: version.to_string(),
            })),
            Request::Put { expects, .. } if expects != self.lease.map(|(_, version)| version) => {
                Answer::Refused
            }
            Request::Put { holder, .. } => {
                self.versions += 1;
                self.lease = Some((holder, self.versions));
                if holder.is_some() { Answer::Ours { version: self.versions } } else { Answer::Released }
            }
        };
        if !fate.is_lost_back {
            let answer = Event::Answer { who, turn, sent, pause: fate.pause, answer };
            self.plan(self.now + fate.back, answer);
        }
    }

    fn hear(&mut self, who: usize, sent: u64, pause: u64, answer: Answer) {
        let (sent, now) = (self.clock(who, sent), self.clock(who, self.now));
        let player = &mut self.players[who];
        player.turn += 1;
        let turn = player.turn;
        let mut next = RETRY;
        match answer {
            Answer::Read(record) => {
                player.candidate.observe(record, now);
                player.must_read = matches!(player.candidate.step(now), Step::Wait { .. });
                if !player.must_read {
                    next = 0;
                }
            }
            Answer::Ours { version } => {
                player.candidate.wrote(version.to_string(), sent);
                player.must_read = false;
            }
            Answer::Released | Answer::Refused => {}
        }
        self.plan(self.now + next + pause, Event::Wake { who, turn });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn two_candidates_never_lead_at_once(
        fates in prop::collection::vec(fate(), 20..200),
        rates in [900..1_100_u64, 900..1_100_u64],
    ) {
        World::new(fates, rates).play()?;
    }
}

#[test]
fn a_good_network_has_one_leader_that_stays() {
    let mut world = World::new(vec![GOOD; 200], [1000, 1000]);
    world.play().unwrap();
    assert_eq!(world.terms.len(), 1);
}

#[test]
fn a_release_hands_the_lead_over_and_the_simulation_sees_it() {
    let mut fates = vec![GOOD; 200];
    for fate in fates.iter_mut().skip(20).step_by(20) {
        fate.releases = true;
    }
    let mut world = World::new(fates, [1000, 1000]);
    world.play().unwrap();
    assert!(world.terms.len() > 1, "{:?}", world.terms);
}
