//! What a person sees while the lab works: lines on stderr with the time that each step took.
//!
//! Lines are written straight to stderr, not through the printing macros: a closed stderr must not take the lab down,
//! and a test harness must not swallow the news that a long build is under way.

use std::io::Write as _;
use std::time::{Duration, Instant};

/// How much the lab tells on stderr. Long builds are reported either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// Only what takes minutes, and what goes wrong.
    #[default]
    Quiet,
    /// Every step, with the time that it took.
    Steps,
}

impl Progress {
    /// One line, if steps are wanted.
    pub fn note(self, line: &str) {
        if self == Self::Steps {
            say(line);
        }
    }

    /// Reports that `what` is done, and how long it took since `since`.
    pub fn done(self, what: &str, since: Instant) {
        self.note(&format!("{what:<44} {:>6}", seconds(since.elapsed())));
    }
}

/// One line on stderr, whatever the level.
pub fn say(line: &str) {
    // Nobody is left to be told when stderr is gone.
    drop(writeln!(std::io::stderr(), "podwright-lab: {line}"));
}

/// `1.2 s`, or minutes and seconds from two minutes on.
#[must_use]
pub fn seconds(duration: Duration) -> String {
    let whole = duration.as_secs();
    if whole < 120 {
        format!("{:.1} s", duration.as_secs_f64())
    } else {
        format!("{} min {} s", whole / 60, whole % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_times_read_as_minutes() {
        assert_eq!(seconds(Duration::from_millis(1_234)), "1.2 s");
        assert_eq!(seconds(Duration::from_secs(185)), "3 min 5 s");
    }
}
