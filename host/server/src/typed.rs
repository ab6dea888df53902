//! Sizes and spans of time as people type them, in a manifest and on the command line.

use bytesize::ByteSize;
use std::time::Duration;

/// A span such as `30s`, within `least` and `most`; why it is none.
pub(crate) fn duration(text: &str, least: Duration, most: Duration) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Err(_) => Err(format!("`{text}` is not a duration such as \"30s\" or \"5m\"")),
        Ok(span) if span < least || span > most => {
            Err(format!("`{text}` is not between {} and {}", human(least), human(most)))
        }
        Ok(span) => Ok(span),
    }
}

/// A size such as `64 MiB` in bytes, at least `least`; why it is none.
pub(crate) fn size(text: &str, least: u64) -> Result<u64, String> {
    match text.parse::<ByteSize>() {
        Err(_) => Err(format!("`{text}` is not a size such as \"64 MiB\"")),
        Ok(size) if size.0 < least => Err(format!("`{text}` is less than {}", ByteSize(least))),
        Ok(size) => Ok(size.0),
    }
}

/// A span as a person would type it; `humantime` makes months and years of what is said in days.
pub(crate) fn human(span: Duration) -> String {
    let days = span.as_secs() / 86_400;
    if days > 1 && Duration::from_hours(days * 24) == span {
        return format!("{days} days");
    }
    humantime::format_duration(span).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_type_is_read_and_what_is_wrong_is_named() {
        let [second, year] = [Duration::from_secs(1), Duration::from_hours(365 * 24)];
        let span = |text| duration(text, second, year);
        assert_eq!(span("5m"), Ok(Duration::from_mins(5)));
        assert_eq!(span("1h 30m"), Ok(Duration::from_mins(90)));
        assert!(span("5").unwrap_err().contains("\"30s\""));
        assert!(span("10ms").unwrap_err().ends_with("between 1s and 365 days"));
        for (text, bytes) in [("64 MiB", 64 << 20), ("2GB", 2_000_000_000), ("17", 17)] {
            assert_eq!(size(text, 1), Ok(bytes), "{text}");
        }
        assert!(size("0", 1).unwrap_err().contains("less than 1 B"));
        assert!(size("much", 1).unwrap_err().contains("\"64 MiB\""));
    }
}
