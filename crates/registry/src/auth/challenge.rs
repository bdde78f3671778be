use http::HeaderMap;

/// What a 401 asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// The credential itself.
    Basic,
    /// A token, which `realm` gives.
    Bearer { realm: String, service: Option<String> },
}

impl Challenge {
    /// The challenge to answer: a token rather than the credential itself, where the registry takes both.
    pub(crate) fn strongest(headers: &HeaderMap) -> Option<Self> {
        let challenges: Vec<Self> = headers
            .get_all(http::header::WWW_AUTHENTICATE)
            .iter()
            .filter_map(|value| Self::parse(value.to_str().ok()?))
            .collect();
        challenges.iter().find(|challenge| **challenge != Self::Basic).or_else(|| challenges.first()).cloned()
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (scheme, parameters) = text.split_once(' ').unwrap_or((text, ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (mut realm, mut service) = (None, None);
        let mut rest = parameters;
        while let Some((name, value, after)) = parameter(rest) {
            match name.to_ascii_lowercase().as_str() {
                "realm" => realm = Some(value),
                "service" => service = Some(value),
                _ => {}
            }
            rest = after;
        }
        Some(Self::Bearer { realm: realm?, service })
    }
}

/// The first `name=value` or `name="value"`, and what comes after it.
fn parameter(text: &str) -> Option<(&str, String, &str)> {
    let (name, rest) = text.trim_start_matches([',', ' ', '\t']).split_once('=')?;
    let Some(quoted) = rest.strip_prefix('"') else {
        let end = rest.find([',', ' ']).unwrap_or(rest.len());
        return Some((name.trim(), rest[..end].to_owned(), &rest[end..]));
    };
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((position, letter)) = letters.next() {
        match letter {
            '"' => return Some((name.trim(), value, &quoted[position + 1..])),
            '\\' => value.extend(letters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strongest(values: &[&str]) -> Option<Challenge> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("www-authenticate", value.parse().unwrap());
        }
        Challenge::strongest(&headers)
    }

    fn bearer(realm: &str, service: Option<&str>) -> Challenge {
        Challenge::Bearer { realm: realm.to_owned(), service: service.map(str::to_owned) }
    }

    #[test]
    fn challenges_are_read_as_registries_write_them() {
        assert_eq!(strongest(&["Basic realm=\"Registry Realm\""]), Some(Challenge::Basic));
        assert_eq!(strongest(&["basic"]), Some(Challenge::Basic));
        assert_eq!(
            strongest(&[
                "Bearer realm=\"https://auth.example/token\",service=\"r\",scope=\"repository:a,b:pull\""
            ]),
            Some(bearer("https://auth.example/token", Some("r")))
        );
        assert_eq!(
            strongest(&["bearer scope=\"a,b\", service=r, realm=\"https://a.example/\\\"x\""]),
            Some(bearer("https://a.example/\"x", Some("r")))
        );
        assert_eq!(
            strongest(&["Basic realm=\"r\"", "Bearer realm=\"https://a\""]),
            Some(bearer("https://a", None))
        );
        for nothing in [&["Negotiate"][..], &["Bearer service=\"r\""], &["Bearer realm=\"unclosed"], &[]] {
            assert_eq!(strongest(nothing), None, "{nothing:?}");
        }
    }
}
