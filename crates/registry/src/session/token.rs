use http::{HeaderValue, Method, Uri};

use super::{Session, successful};
use crate::{
    RequestKind,
    auth::{Challenge, Grant, Token},
    credentials::{Class, Credential, Login},
    failure::Failure,
    transport::Ask,
};

const MOST_BYTES: usize = 64 << 10;
/// How we call ourselves where a token server asks.
const CLIENT_ID: &str = "podwright";

impl Session<'_> {
    /// What to show to a host that wants to be shown something.
    pub(super) async fn authorization(&self, challenge: &Challenge) -> Result<Option<HeaderValue>, Failure> {
        let text = match self.grant(challenge) {
            None => self.credential.and_then(Credential::basic),
            Some(grant) => {
                let token = match self.wire.tokens.get(&grant, (self.wire.clock)()) {
                    Some(token) => token,
                    None => self.token(grant).await?,
                };
                Some(format!("Bearer {}", token.0))
            }
        };
        text.map(|text| secret(&text)).transpose()
    }

    pub(super) fn grant(&self, challenge: &Challenge) -> Option<Grant> {
        match challenge {
            Challenge::Basic => None,
            Challenge::Bearer { realm, service } => Some(Grant {
                realm: realm.clone(),
                service: service.clone(),
                scope: self.endpoint.scope(),
                class: self.credential.map_or(Class::Anonymous, Credential::class),
            }),
        }
    }

    /// Gets a token: with the password, with the identity token, or as nobody.
    async fn token(&self, grant: Grant) -> Result<Token, Failure> {
        let plain = self.endpoint.insecure && grant.realm.starts_with("http://");
        if !plain && !grant.realm.starts_with("https://") {
            return Err(Failure::invalid(
                "its registry wants the credentials sent to a token server without TLS",
            ));
        }
        let query = form(&[("service", grant.service.as_deref()), ("scope", Some(&grant.scope))]);
        let mut ask = Ask {
            method: Method::GET,
            url: Uri::default(),
            trust: &self.endpoint.name,
            accept: None,
            authorization: None,
            form: None,
            limit: MOST_BYTES,
        };
        let address = if let Some(Login::IdentityToken(token)) = self.credential.map(Credential::login) {
            let own = [
                ("grant_type", Some("refresh_token")),
                ("refresh_token", Some(token)),
                ("client_id", Some(CLIENT_ID)),
            ];
            ask.method = Method::POST;
            ask.form = Some(format!("{}&{query}", form(&own)));
            grant.realm.clone()
        } else {
            ask.authorization =
                self.credential.and_then(Credential::basic).map(|text| secret(&text)).transpose()?;
            let separator = if grant.realm.contains('?') { '&' } else { '?' };
            format!("{}{separator}{query}", grant.realm)
        };
        ask.url = address
            .parse()
            .map_err(|_| Failure::invalid("its registry names a token server that is none"))?;
        let answer = match self.send(RequestKind::Token, ask).await? {
            // Token servers refuse in different ways; none of them means that the image is not there.
            answer if answer.status.is_client_error() => return Err(Failure::Refused),
            answer => successful(answer)?,
        };
        let missing = || Failure::invalid("the token server of its registry gives no token");
        self.wire.tokens.take(grant, &answer.body, (self.wire.clock)()).ok_or_else(missing)
    }
}

fn secret(text: &str) -> Result<HeaderValue, Failure> {
    let mut value = HeaderValue::from_str(text).map_err(|_| Failure::Refused)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Fields as in a form or a query, each letter that could mean something else escaped.
fn form(fields: &[(&str, Option<&str>)]) -> String {
    let escaped = |text: &str| {
        text.bytes().fold(String::new(), |text, byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text + char::from(byte).encode_utf8(&mut [0; 4])
            }
            _ => text + &format!("%{byte:02X}"),
        })
    };
    let given =
        fields.iter().filter_map(|(name, value)| value.map(|value| format!("{name}={}", escaped(value))));
    given.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_escaped() {
        let fields = [("service", Some("a b&c=d")), ("none", None), ("scope", Some("repository:a/b:pull"))];
        assert_eq!(form(&fields), "service=a%20b%26c%3Dd&scope=repository%3Aa%2Fb%3Apull");
    }
}
