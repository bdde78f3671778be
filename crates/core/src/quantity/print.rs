use std::fmt;

use super::{Format, NANOS, Quantity};

const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// From 10^-9 upwards in steps of a thousand.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let whole = self.nanos % NANOS == 0;
        let small = self.nanos.abs() < 1024 * NANOS;
        match self.format {
            Format::Binary if whole && !small => binary(f, self.nanos / NANOS),
            // A binary suffix would round here, so the decimal ones are used.
            Format::Binary | Format::Decimal => {
                let (mantissa, step) = by_thousands(self.nanos);
                write!(f, "{mantissa}{}", DECIMAL[step])
            }
            Format::Exponent => {
                let (mantissa, step) = by_thousands(self.nanos);
                match 3 * i32::try_from(step).unwrap_or_default() - 9 {
                    0 => write!(f, "{mantissa}"),
                    exponent => write!(f, "{mantissa}e{exponent}"),
                }
            }
        }
    }
}

fn binary(f: &mut fmt::Formatter<'_>, mut value: i128) -> fmt::Result {
    let mut step = 0;
    while value % 1024 == 0 && step + 1 < BINARY.len() {
        value /= 1024;
        step += 1;
    }
    write!(f, "{value}{}", BINARY[step])
}

fn by_thousands(mut mantissa: i128) -> (i128, usize) {
    let mut step = 0;
    while mantissa % 1000 == 0 && step + 1 < DECIMAL.len() {
        mantissa /= 1000;
        step += 1;
    }
    (mantissa, step)
}
