use super::Reference;

/// How old an answer about an image may be: its `imagePullPolicy`, as far as a registry is asked at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PullPolicy {
    /// The kubelet asks the registry at each start, so what a tag means is asked again too.
    Always,
    /// The kubelet takes what the node has.
    IfNotPresent,
}

impl PullPolicy {
    /// The policy that holds for an image: the one stated, else the API server's default. `None` for `Never`: the
    /// registry has no say in what the node has.
    #[must_use]
    pub fn of(stated: Option<&str>, reference: &Reference) -> Option<Self> {
        match stated {
            Some("Never") => None,
            Some("Always") => Some(Self::Always),
            Some("IfNotPresent") => Some(Self::IfNotPresent),
            _ if reference.digest().is_none() && reference.tag() == Some("latest") => Some(Self::Always),
            _ => Some(Self::IfNotPresent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_is_not_stated_follows_from_the_tag() {
        for (stated, image, expected) in [
            (None, "app", Some(PullPolicy::Always)),
            (None, "app:latest", Some(PullPolicy::Always)),
            (None, "app:1", Some(PullPolicy::IfNotPresent)),
            (Some("Always"), "app:1", Some(PullPolicy::Always)),
            (Some("IfNotPresent"), "app", Some(PullPolicy::IfNotPresent)),
            (Some("Never"), "app", None),
        ] {
            assert_eq!(PullPolicy::of(stated, &image.parse().unwrap()), expected, "{stated:?} {image}");
        }
    }
}
