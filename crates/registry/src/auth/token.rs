use std::{
    fmt,
    time::{Duration, Instant},
};

use moka::{policy::EvictionPolicy, sync::Cache};
use serde::Deserialize;

use crate::credentials::Class;

/// How many tokens are remembered: one for each repository and credential.
const MOST: u64 = 4096;
/// What a token is good for when its giver does not say.
const DEFAULT_LIFE: Duration = Duration::from_mins(1);
/// A token that is about to end could end on the way.
const MARGIN: Duration = Duration::from_secs(10);

/// The tokens that we have, until they end.
pub(crate) struct Tokens(Cache<Grant, (Token, Instant)>);

/// What a token was given for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Grant {
    pub(crate) realm: String,
    pub(crate) service: Option<String>,
    pub(crate) scope: String,
    pub(crate) class: Class,
}

/// A token. Prints as nothing.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) String);

#[derive(Deserialize)]
struct Given {
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    access_token: Option<String>,
    #[serde(default)]
    expires_in: Option<u64>,
}

impl Tokens {
    pub(crate) fn new() -> Self {
        Self(Cache::builder().max_capacity(MOST).eviction_policy(EvictionPolicy::lru()).build())
    }

    pub(crate) fn get(&self, grant: &Grant, now: Instant) -> Option<Token> {
        self.0.get(grant).filter(|(_, until)| *until > now).map(|(token, _)| token)
    }

    /// Reads the answer of a token server and remembers the token. `None` if there is none in it.
    pub(crate) fn take(&self, grant: Grant, answer: &[u8], now: Instant) -> Option<Token> {
        let given: Given = serde_json::from_slice(answer).ok()?;
        let written = |field: Option<String>| field.filter(|token| !token.is_empty());
        let token = Token(written(given.token).or_else(|| written(given.access_token))?);
        let life = given.expires_in.map_or(DEFAULT_LIFE, Duration::from_secs);
        if let Some(until) = now.checked_add(life.saturating_sub(MARGIN)) {
            self.0.insert(grant, (token.clone(), until));
        }
        Some(token)
    }

    pub(crate) fn forget(&self, grant: &Grant) {
        self.0.invalidate(grant);
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(scope: &str, class: Class) -> Grant {
        Grant { realm: "https://auth.example".into(), service: None, scope: scope.into(), class }
    }

    #[test]
    fn a_token_is_used_until_shortly_before_its_end_and_by_nobody_else() {
        let (tokens, now) = (Tokens::new(), Instant::now());
        let mine = grant("repository:app:pull", Class::Credential([1; 32]));
        let token = tokens.take(mine.clone(), br#"{"access_token":"t","expires_in":300}"#, now);
        assert_eq!(token, Some(Token("t".into())));
        assert_eq!(tokens.get(&mine, now + Duration::from_secs(289)), token);
        assert_eq!(tokens.get(&mine, now + Duration::from_secs(291)), None);
        assert_eq!(tokens.get(&grant("repository:app:pull", Class::Anonymous), now), None);
        assert_eq!(tokens.get(&grant("repository:b:pull", mine.class), now), None);
        tokens.forget(&mine);
        assert_eq!(tokens.get(&mine, now), None);
    }

    #[test]
    fn an_answer_without_a_token_gives_none() {
        let (tokens, now) = (Tokens::new(), Instant::now());
        for answer in [&b"{}"[..], br#"{"token":""}"#, b"<html>"] {
            assert_eq!(tokens.take(grant("s", Class::Anonymous), answer, now), None);
        }
    }
}
