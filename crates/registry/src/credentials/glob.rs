/// Whether `text` matches `pattern` as Go's `path.Match` has it: `*`, `?`, `[a-z]`, `[^a-z]` and `\` before a letter that
/// stands for itself. A pattern that is not well-formed matches nothing.
///
/// Patterns come from users' secrets, so the time is bounded by the product of both lengths: only the last `*` is ever
/// stretched.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        if let Some((b'*', rest)) = pattern.split_first() {
            star = Some((rest, text));
            pattern = rest;
            continue;
        }
        let step = match text.split_first() {
            None if pattern.is_empty() => return true,
            None => None,
            Some((letter, after)) => one(pattern, *letter).map(|rest| (rest, after)),
        };
        if let Some(step) = step {
            (pattern, text) = step;
            continue;
        }
        let Some((rest, [_, shorter @ ..])) = star else { return false };
        star = Some((rest, shorter));
        (pattern, text) = (rest, shorter);
    }
}

/// What follows the first element of the pattern, if that is one that matches `letter`.
fn one(pattern: &[u8], letter: u8) -> Option<&[u8]> {
    match pattern {
        [b'?', rest @ ..] => Some(rest),
        [b'[', rest @ ..] => class(rest, letter).filter(|(inside, _)| *inside).map(|(_, rest)| rest),
        [b'\\', literal, rest @ ..] if *literal == letter => Some(rest),
        [b'\\', ..] => None,
        [literal, rest @ ..] if *literal == letter => Some(rest),
        _ => None,
    }
}

/// Whether `letter` is in the class that begins `pattern` (after its `[`), and what follows the class.
fn class(pattern: &[u8], letter: u8) -> Option<(bool, &[u8])> {
    let (negated, mut rest) = match pattern.split_first() {
        Some((b'^', rest)) => (true, rest),
        _ => (false, pattern),
    };
    let (mut inside, mut first) = (false, true);
    loop {
        match rest {
            [b']', after @ ..] if !first => return Some((inside != negated, after)),
            [low, b'-', high, after @ ..] if *high != b']' => {
                inside |= (*low..=*high).contains(&letter);
                rest = after;
            }
            [one, after @ ..] => {
                inside |= *one == letter;
                rest = after;
            }
            [] => return None,
        }
        first = false;
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn globs_match_as_in_the_kubelet() {
        for (pattern, text, expected) in [
            ("registry", "registry", true),
            ("registry", "registry2", false),
            ("*", "anything", true),
            ("*", "", true),
            ("reg*ry", "registry", true),
            ("r*s*y", "registry", true),
            ("r*s*x", "registry", false),
            ("*ry*", "registry", true),
            ("r?gistry", "registry", true),
            ("r?gistry", "rgistry", false),
            ("[a-r]egistry", "registry", true),
            ("[^a-r]egistry", "registry", false),
            ("[xr]egistry", "registry", true),
            ("[r", "r", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("\\", "\\", false),
        ] {
            assert_eq!(super::matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
        assert!(!super::matches("*a".repeat(5_000).as_bytes(), "a".repeat(60).as_bytes()));
    }
}
