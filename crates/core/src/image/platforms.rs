use std::fmt;

use super::Platform;

/// The platforms that one image is built for: each once, sorted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Platforms(Vec<Platform>);

impl Platforms {
    /// The platforms, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Platform> {
        self.0.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Platform> for Platforms {
    fn from_iter<I: IntoIterator<Item = Platform>>(platforms: I) -> Self {
        let mut platforms: Vec<Platform> = platforms.into_iter().collect();
        platforms.sort();
        platforms.dedup();
        platforms.shrink_to_fit();
        Self(platforms)
    }
}

impl<'a> IntoIterator for &'a Platforms {
    type Item = &'a Platform;
    type IntoIter = std::slice::Iter<'a, Platform>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// As people list them: `linux/amd64, linux/arm64`.
impl fmt::Display for Platforms {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, platform) in self.0.iter().enumerate() {
            let comma = if position == 0 { "" } else { ", " };
            write!(formatter, "{comma}{platform}")?;
        }
        Ok(())
    }
}
