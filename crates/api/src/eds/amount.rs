use serde::{Deserialize, Serialize};

/// A number or a percentage as it was written. Whatever was stored is read; whether it makes sense is asked later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrText {
    /// Written as a number.
    Number(i64),
    /// Written as a string, such as `10%`.
    Text(String),
}

impl From<i64> for IntOrText {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for IntOrText {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// So many, or so many in a hundred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many.
    Count(u32),
    /// So many in a hundred.
    Percent(u32),
}

/// What is neither a number nor a percentage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAmount {
    /// Less than nothing.
    #[error("{0} is negative: write 0 or more, or a percentage such as 10%")]
    Negative(i64),
    /// More than can be counted.
    #[error("{0} is too large")]
    TooLarge(String),
    /// A number in quotes.
    #[error("{0:?} is a string: write the number without quotes, or a percentage such as \"{0}%\"")]
    Quoted(String),
    /// Anything else.
    #[error(
        "{0:?} is neither a number nor a percentage: write a number such as 5, or a percentage such as \"10%\""
    )]
    Neither(String),
}

impl Amount {
    /// How many that are out of `total`. A percentage is rounded up.
    ///
    /// ```
    /// use podwright_api::eds::Amount;
    /// assert_eq!(Amount::Percent(10).of(11), 2);
    /// assert_eq!(Amount::Count(5).of(3), 5);
    /// ```
    #[must_use]
    pub const fn of(self, total: usize) -> usize {
        match self {
            Self::Count(count) => count as usize,
            Self::Percent(percent) => (percent as usize).saturating_mul(total).div_ceil(100),
        }
    }

    /// Whether it is nothing, whatever it is of.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        matches!(self, Self::Count(0) | Self::Percent(0))
    }
}

impl TryFrom<&IntOrText> for Amount {
    type Error = BadAmount;

    fn try_from(written: &IntOrText) -> Result<Self, BadAmount> {
        match written {
            IntOrText::Number(number @ ..0) => Err(BadAmount::Negative(*number)),
            IntOrText::Number(number) => {
                u32::try_from(*number).map(Self::Count).map_err(|_| BadAmount::TooLarge(number.to_string()))
            }
            IntOrText::Text(text) => {
                let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                match text.strip_suffix('%') {
                    Some(number) if digits(number) => {
                        number.parse().map(Self::Percent).map_err(|_| BadAmount::TooLarge(text.clone()))
                    }
                    None if digits(text) => Err(BadAmount::Quoted(text.clone())),
                    _ => Err(BadAmount::Neither(text.clone())),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(written: impl Into<IntOrText>) -> Result<Amount, BadAmount> {
        Amount::try_from(&written.into())
    }

    #[test]
    fn numbers_and_percentages_are_read_and_everything_else_says_what_to_write_instead() {
        assert_eq!(read(0), Ok(Amount::Count(0)));
        assert_eq!(read(250), Ok(Amount::Count(250)));
        assert_eq!(read("10%"), Ok(Amount::Percent(10)));
        assert_eq!(read("0%"), Ok(Amount::Percent(0)));
        for bad in ["abc", "10$", "%", "", "-5%", "1.5%", "10 %", "５%"] {
            let error = read(bad).unwrap_err().to_string();
            assert!(error.contains("percentage such as"), "{error}");
        }
        assert!(read("5").unwrap_err().to_string().contains("without quotes"));
        assert!(read(-1).unwrap_err().to_string().contains("negative"));
        assert!(matches!(read(1 << 40), Err(BadAmount::TooLarge(_))));
        assert!(matches!(read("99999999999%"), Err(BadAmount::TooLarge(_))));
    }

    #[test]
    fn a_percentage_of_anything_is_at_least_one() {
        for (percent, total, expected) in
            [(10, 10, 1), (10, 11, 2), (1, 1, 1), (0, 100, 0), (100, 7, 7), (50, 0, 0)]
        {
            assert_eq!(Amount::Percent(percent).of(total), expected, "{percent}% of {total}");
        }
    }
}
