//! Kubernetes quantities, exactly: `100m`, `1.5Gi`, `2e3`.
//!
//! Values are whole nano-units in 128 bits, so sums and comparisons never round. Reading and canonical printing follow
//! `k8s.io/apimachinery`: finer than a nano rounds away from zero, larger than 2^63-1 is capped, and the kind of suffix
//! that was read is the kind that is printed.

mod parse;
mod print;

use std::{cmp::Ordering, ops::Add};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

pub use parse::BadQuantity;

const NANOS: i128 = 1_000_000_000;

/// The kind of suffix a quantity is printed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// `Ki`, `Mi`, `Gi`, …
    Binary,
    /// `n`, `u`, `m`, none, `k`, `M`, …
    Decimal,
    /// `e3`, `e6`, …
    Exponent,
}

/// The smallest step of a computed amount, and how it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// Thousandths, printed with decimal suffixes: cpu.
    Milli,
    /// Whole units, printed with binary suffixes: bytes.
    Byte,
}

impl Grain {
    const fn nanos(self) -> i128 {
        match self {
            Self::Milli => NANOS / 1000,
            Self::Byte => NANOS,
        }
    }
}

/// An amount of some resource.
///
/// ```
/// use podwright_core::quantity::Quantity;
/// let sum = "700m".parse::<Quantity>().unwrap() + "0.5".parse().unwrap();
/// assert_eq!(sum.to_string(), "1200m");
/// assert_eq!(sum.ceil_to(&"1".parse().unwrap()), 2);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

impl Quantity {
    /// Nothing of it.
    pub const ZERO: Self = Self { nanos: 0, format: Format::Decimal };

    /// A whole number of units.
    #[must_use]
    pub const fn units(units: u32) -> Self {
        Self { nanos: units as i128 * NANOS, format: Format::Decimal }
    }

    /// So many MiB.
    #[must_use]
    pub const fn mebibytes(mebibytes: u32) -> Self {
        Self { nanos: mebibytes as i128 * 1_048_576 * NANOS, format: Format::Binary }
    }

    /// So many grains.
    #[must_use]
    pub fn of_grains(count: i128, grain: Grain) -> Self {
        let format = match grain {
            Grain::Milli => Format::Decimal,
            Grain::Byte => Format::Binary,
        };
        Self { nanos: parse::capped(count.saturating_mul(grain.nanos())), format }
    }

    /// How many whole grains are in it.
    #[must_use]
    pub const fn floor_grains(&self, grain: Grain) -> i128 {
        self.nanos.div_euclid(grain.nanos())
    }

    /// Rounded up to whole grains.
    #[must_use]
    pub fn rounded_up(&self, grain: Grain) -> Self {
        let whole = self.ceil_to(&Self { nanos: grain.nanos(), format: self.format });
        Self { nanos: parse::capped(whole.saturating_mul(grain.nanos())), format: self.format }
    }

    /// So many percent of it in whole grains, rounded down. What is finer than a grain counts as one before, as it does in
    /// Kubernetes.
    ///
    /// ```
    /// use podwright_core::quantity::{Grain, Quantity};
    /// let three: Quantity = "3".parse().unwrap();
    /// assert_eq!(three.percent_floor(29, Grain::Milli).to_string(), "870m");
    /// ```
    #[must_use]
    pub fn percent_floor(&self, percent: u32, grain: Grain) -> Self {
        let whole = self.rounded_up(grain).floor_grains(grain);
        Self::of_grains((whole * i128::from(percent)).div_euclid(100), grain)
    }

    /// The amount itself, however it is printed.
    pub(crate) const fn nanos(&self) -> i128 {
        self.nanos
    }

    /// Whether it is more than nothing.
    #[must_use]
    pub const fn is_positive(&self) -> bool {
        self.nanos > 0
    }

    /// How many of `unit` hold it all: the quotient, rounded up. A unit of nothing counts as one.
    #[must_use]
    pub fn ceil_to(&self, unit: &Self) -> i128 {
        let unit = if unit.nanos > 0 { unit.nanos } else { NANOS };
        self.nanos.div_euclid(unit) + i128::from(self.nanos.rem_euclid(unit) != 0)
    }
}

/// Nothing of it.
impl Default for Quantity {
    fn default() -> Self {
        Self::ZERO
    }
}

/// By amount: `1000m` and `1` are equal.
impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

/// The sum is printed as the first operand is, unless that is zero.
impl Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let format = if self.nanos == 0 { other.format } else { self.format };
        Self { nanos: parse::capped(self.nanos.saturating_add(other.nanos)), format }
    }
}

impl std::iter::Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Quantity;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a quantity such as 100m or 2Gi")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Quantity, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }
        }
        deserializer.deserialize_any(Visitor).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Quantity {
        text.parse().unwrap()
    }

    #[test]
    fn quantities_print_as_the_api_server_canonicalises_them() {
        for (given, canonical) in [
            ("0", "0"),
            ("0Gi", "0"),
            ("1", "1"),
            ("1.5", "1500m"),
            ("1000m", "1"),
            ("0.1", "100m"),
            (".5", "500m"),
            ("5.", "5"),
            ("+3", "3"),
            ("-2500m", "-2500m"),
            ("100000", "100k"),
            ("1536", "1536"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("0.001Ki", "1024m"),
            ("1023Ki", "1023Ki"),
            ("2048", "2048"),
            ("1e3", "1e3"),
            ("12e4", "120e3"),
            ("1E3", "1e3"),
            ("1E", "1E"),
            ("1e-3", "1e-3"),
            ("5n", "5n"),
            ("0.1n", "1n"),
            ("-0.1n", "-1n"),
            ("1000u", "1m"),
            ("9223372036854775807", "9223372036854775807"),
            ("100E", "9223372036854775807"),
            ("8Ei", "9223372036854775807"),
            ("123456789012", "123456789012"),
        ] {
            assert_eq!(read(given).to_string(), canonical, "{given}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused_by_name() {
        for text in [
            "",
            "Gi",
            "1.2.3",
            "1Qi",
            "1 Gi",
            "--1",
            "1e",
            "1ee3",
            "e3",
            ".",
            "1Gi ",
            "0x10",
            "1mm",
            "1e99999999999",
        ] {
            let error = text.parse::<Quantity>().unwrap_err();
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn rounding_up_gives_whole_units() {
        let (core, mebibyte) = (Quantity::units(1), Quantity::mebibytes(1));
        assert_eq!(read("1500m").ceil_to(&core), 2);
        assert_eq!(read("2").ceil_to(&core), 2);
        assert_eq!(read("5Gi").ceil_to(&mebibyte), 5120);
        assert_eq!(read("1").ceil_to(&mebibyte), 1);
        assert_eq!(read("100M").ceil_to(&mebibyte), 96);
    }

    #[test]
    fn percentages_are_exact_and_rounded_down_to_whole_grains() {
        for (whole, percent, grain, part) in [
            ("4", 10, Grain::Milli, "400m"),
            ("3920m", 10, Grain::Milli, "392m"),
            ("63770m", 10, Grain::Milli, "6377m"),
            ("3", 29, Grain::Milli, "870m"),
            ("10", 10, Grain::Milli, "1"),
            ("15", 10, Grain::Milli, "1500m"),
            ("16Gi", 15, Grain::Byte, "2576980377"),
            ("15842424Ki", 15, Grain::Byte, "2433396326"),
            ("260000000Ki", 15, Grain::Byte, "39000000Ki"),
            ("95551679124", 5, Grain::Byte, "4777583956"),
            ("100Gi", 5, Grain::Byte, "5Gi"),
            ("8Gi", 50, Grain::Byte, "4Gi"),
            ("50Gi", 1, Grain::Byte, "512Mi"),
            ("2000", 50, Grain::Byte, "1k"),
            ("100n", 100, Grain::Milli, "1m"),
            ("500m", 100, Grain::Byte, "1"),
            ("5", 10, Grain::Byte, "0"),
        ] {
            assert_eq!(read(whole).percent_floor(percent, grain).to_string(), part, "{percent}% of {whole}");
        }
    }

    #[test]
    fn no_whole_number_of_cores_loses_a_milli_to_a_percentage() {
        for cores in 1..=128_u32 {
            for percent in 1..=100_u32 {
                let millis =
                    Quantity::units(cores).percent_floor(percent, Grain::Milli).floor_grains(Grain::Milli);
                assert_eq!(millis, i128::from(cores * percent * 10), "{percent}% of {cores}");
            }
        }
    }

    #[test]
    fn a_sum_keeps_the_first_suffix_that_is_not_zero() {
        assert_eq!((read("1Gi") + read("1")).to_string(), "1073741825");
        assert_eq!((Quantity::ZERO + read("1Gi")).to_string(), "1Gi");
        assert_eq!([read("0.7"), read("0.5")].into_iter().sum::<Quantity>().to_string(), "1200m");
    }

    #[test]
    fn numbers_are_read_from_json_as_well_as_strings() {
        for (json, canonical) in [("\"2Gi\"", "2Gi"), ("2", "2"), ("0.5", "500m"), ("-1", "-1")] {
            assert_eq!(serde_json::from_str::<Quantity>(json).unwrap().to_string(), canonical);
        }
        assert!(serde_json::from_str::<Quantity>("true").is_err());
    }

    proptest! {
        #[test]
        fn printing_and_reading_give_the_same_amount(text in "-?[0-9]{1,12}(\\.[0-9]{1,9})?(n|u|m||k|M|G|T|Ki|Mi|Gi|Ti|e2|e-2)") {
            let quantity = read(&text);
            let printed = quantity.to_string();
            prop_assert_eq!(read(&printed), quantity, "{} printed as {}", text, printed);
            prop_assert_eq!(read(&printed).to_string(), printed);
        }
    }
}
