//! Logs on stderr: for people (text, coloured on a terminal) or for machines (one JSON object a line).

use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::str::FromStr;

use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object a line, the event's fields at its top level.
    Json,
}

impl FromStr for LogFormat {
    type Err = TelemetryError;

    fn from_str(value: &str) -> Result<Self, Self::Err> {
        match value.trim() {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(TelemetryError::UnknownFormat(other.to_owned())),
        }
    }
}

impl std::fmt::Display for LogFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Json => "json",
        })
    }
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The name of the format is not one of ours.
    #[error("unknown log format {0:?}: use \"text\" or \"json\"")]
    UnknownFormat(String),
    /// The filter cannot be parsed.
    #[error("invalid log filter {filter:?}: write a level such as \"info\", or \"info,some_module=debug\"")]
    Filter {
        /// What was given.
        filter: String,
        /// What the parser says.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// A subscriber is there already: this is called once a process.
    #[error("logging was set up twice in this process")]
    AlreadySet(#[source] tracing_subscriber::util::TryInitError),
}

/// Sets the process's logging up; to be called once, first thing in `main`.
///
/// `filter` is in the syntax of `RUST_LOG`. Colours are used for text on a terminal only, and never with `NO_COLOR`.
pub fn init(format: LogFormat, filter: &str) -> Result<(), TelemetryError> {
    let filter = parse_filter(filter)?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let coloured = wants_colour(std::env::var_os("NO_COLOR").as_deref(), std::io::stderr().is_terminal());
    let installed = match format {
        LogFormat::Text => install(builder.with_ansi(coloured).finish()),
        LogFormat::Json => install(builder.json().flatten_event(true).finish()),
    };
    installed.map_err(TelemetryError::AlreadySet)
}

fn install(
    subscriber: impl tracing_subscriber::util::SubscriberInitExt,
) -> Result<(), tracing_subscriber::util::TryInitError> {
    subscriber.try_init()
}

fn parse_filter(filter: &str) -> Result<EnvFilter, TelemetryError> {
    EnvFilter::try_new(filter).map_err(|source| TelemetryError::Filter { filter: filter.to_owned(), source })
}

/// The rule of no-color.org: set and not empty means no colour.
fn wants_colour(no_color: Option<&OsStr>, is_terminal: bool) -> bool {
    is_terminal && no_color.is_none_or(OsStr::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_read_by_name_and_written_back() {
        for (name, format) in [("text", LogFormat::Text), ("json", LogFormat::Json)] {
            assert_eq!(name.parse::<LogFormat>().unwrap(), format);
            assert_eq!(format.to_string(), name);
        }
        assert_eq!(" json ".parse::<LogFormat>().unwrap(), LogFormat::Json);
    }

    #[test]
    fn an_unknown_format_names_the_known_ones() {
        let message = "xml".parse::<LogFormat>().unwrap_err().to_string();
        assert!(message.contains("xml") && message.contains("\"text\" or \"json\""), "{message}");
    }

    #[test]
    fn colour_needs_a_terminal_and_no_objection() {
        assert!(wants_colour(None, true));
        assert!(wants_colour(Some(OsStr::new("")), true));
        assert!(!wants_colour(Some(OsStr::new("1")), true));
        assert!(!wants_colour(None, false));
    }

    #[test]
    fn a_bad_filter_is_refused_with_an_example() {
        let message = init(LogFormat::Text, "info,[=").unwrap_err().to_string();
        assert!(message.contains("info,[=") && message.contains("some_module=debug"), "{message}");
    }
}
