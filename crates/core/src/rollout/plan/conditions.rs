//! Conditions, changed by the rule that users of the Go controller rely on, and those for tools that wait on any object.

use podwright_api::{Moment, eds::Condition};

/// Conditions of one object, about to be changed.
pub(super) struct Conditions {
    list: Vec<Condition>,
    now: Moment,
}

impl Conditions {
    pub(super) fn of(stored: &[Condition], now: Moment) -> Self {
        Self { list: stored.to_vec(), now: now.whole_seconds() }
    }

    pub(super) fn finish(self) -> Vec<Condition> {
        self.list
    }

    /// Sets a condition. One that does not hold keeps its words, and is not put there if it never held.
    pub(super) fn set(&mut self, type_: &str, holds: bool, reason: &str, message: &str) {
        let now = self.now;
        let Some(condition) = self.list.iter_mut().find(|condition| condition.type_ == type_) else {
            if holds {
                self.list.push(Condition {
                    type_: type_.to_owned(),
                    status: word(true).to_owned(),
                    last_transition_time: Some(now),
                    last_update_time: Some(now),
                    reason: reason.to_owned(),
                    message: message.to_owned(),
                    observed_generation: None,
                });
            }
            return;
        };
        if condition.is_true() != holds {
            word(holds).clone_into(&mut condition.status);
            condition.last_transition_time = Some(now);
            condition.last_update_time = Some(now);
        }
        if holds && (condition.reason != reason || condition.message != message) {
            reason.clone_into(&mut condition.reason);
            message.clone_into(&mut condition.message);
        }
    }

    /// Sets a condition that holds and tells when it was last so.
    pub(super) fn touch(&mut self, type_: &str, message: &str) {
        self.touch_at(type_, "", message, self.now);
    }

    /// Likewise, at a time that is not now.
    pub(super) fn touch_at(&mut self, type_: &str, reason: &str, message: &str, at: Moment) {
        let now = std::mem::replace(&mut self.now, at.whole_seconds());
        self.set(type_, true, reason, message);
        if let Some(condition) = self.list.iter_mut().find(|condition| condition.type_ == type_) {
            condition.last_update_time = Some(self.now);
        }
        self.now = now;
    }

    /// Sets a condition for tools that wait on any object: always there, always with its reason, for a generation.
    pub(super) fn state(&mut self, type_: &str, holds: bool, reason: &str, message: &str, generation: i64) {
        let now = self.now;
        let index = self.list.iter().position(|condition| condition.type_ == type_).unwrap_or_else(|| {
            self.list.push(Condition { type_: type_.to_owned(), ..Condition::default() });
            self.list.len() - 1
        });
        let condition = &mut self.list[index];
        if condition.status != word(holds) {
            word(holds).clone_into(&mut condition.status);
            condition.last_transition_time = Some(now);
            condition.last_update_time = Some(now);
        }
        reason.clone_into(&mut condition.reason);
        message.clone_into(&mut condition.message);
        condition.observed_generation = Some(generation);
    }
}

const fn word(holds: bool) -> &'static str {
    if holds { "True" } else { "False" }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EARLY: Moment = Moment::from_millis(1_000_000);
    const LATE: Moment = Moment::from_millis(2_000_500);

    fn stored(status: &str) -> Vec<Condition> {
        vec![Condition {
            type_: "Canary-Failed".to_owned(),
            status: status.to_owned(),
            last_transition_time: Some(EARLY),
            last_update_time: Some(EARLY),
            reason: "why".to_owned(),
            message: "what".to_owned(),
            observed_generation: None,
        }]
    }

    fn changed(status: &str, change: impl FnOnce(&mut Conditions)) -> Condition {
        let mut conditions = Conditions::of(&stored(status), LATE);
        change(&mut conditions);
        conditions.finish().remove(0)
    }

    #[test]
    fn a_condition_that_does_not_change_keeps_its_times() {
        assert_eq!(changed("True", |list| list.set("Canary-Failed", true, "why", "what")), stored("True")[0]);
        assert_eq!(changed("False", |list| list.set("Canary-Failed", false, "", "")), stored("False")[0]);
    }

    #[test]
    fn a_condition_that_changes_has_both_times_and_one_that_ends_keeps_its_words() {
        let ended = changed("True", |list| list.set("Canary-Failed", false, "new", "new"));
        assert_eq!(
            (ended.status.as_str(), ended.reason.as_str(), ended.message.as_str()),
            ("False", "why", "what")
        );
        assert_eq!(
            (ended.last_transition_time, ended.last_update_time),
            (Some(LATE.whole_seconds()), Some(LATE.whole_seconds()))
        );
        let begun = changed("False", |list| list.set("Canary-Failed", true, "new", "newer"));
        assert_eq!((begun.reason.as_str(), begun.message.as_str()), ("new", "newer"));
        assert_eq!(begun.last_transition_time, Some(LATE.whole_seconds()));
    }

    #[test]
    fn a_condition_that_never_held_is_not_written() {
        let mut conditions = Conditions::of(&[], LATE);
        conditions.set("Active", false, "", "");
        assert_eq!(conditions.finish(), []);
    }

    #[test]
    fn touching_moves_only_the_time_of_the_update() {
        let touched = changed("True", |list| list.touch_at("Canary-Failed", "why", "what", LATE));
        assert_eq!(
            (touched.last_transition_time, touched.last_update_time),
            (Some(EARLY), Some(LATE.whole_seconds()))
        );
    }
}
