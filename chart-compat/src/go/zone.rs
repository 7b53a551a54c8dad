//! Time zones by IANA name, from the bundled time zone database.

use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

/// A zone with its rules.
pub(crate) struct Zone {
    name: String,
    rules: TimeZone,
}

/// Offset and abbreviation at a point in time.
pub(crate) struct Offset {
    /// Seconds east of UTC.
    pub seconds: i32,
    /// The abbreviation, e.g. `CEST`.
    pub abbreviation: String,
}

impl Zone {
    /// The zone named `name`, case-sensitive as in Go; an empty name is UTC.
    #[must_use]
    pub(crate) fn named(name: &str) -> Option<Self> {
        if matches!(name, "" | "UTC") {
            return Some(Self::utc());
        }
        // Not the global database, which may read the file system.
        static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);
        let rules = DATABASE.get(name).ok()?;
        // The database ignores case; Go's lookup in the file system does not.
        (rules.iana_name() == Some(name)).then(|| Self { name: name.to_owned(), rules })
    }

    /// Coordinated universal time.
    #[must_use]
    pub(crate) fn utc() -> Self {
        Self { name: "UTC".to_owned(), rules: TimeZone::UTC }
    }

    /// The zone's name.
    #[must_use]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The offset in effect at a point in time, in seconds since 1970.
    #[must_use]
    pub(crate) fn at(&self, seconds: i64) -> Offset {
        let near = seconds.clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
        let moment = Timestamp::from_second(near).unwrap_or(Timestamp::UNIX_EPOCH);
        let info = self.rules.to_offset_info(moment);
        Offset { seconds: info.offset().seconds(), abbreviation: info.abbreviation().to_owned() }
    }

    /// Converts a local time, in seconds as if it were UTC, to seconds since 1970 (`time.Date`).
    #[must_use]
    pub(crate) fn moment(&self, local: i64) -> i64 {
        let first = i64::from(self.at(local).seconds);
        local - i64::from(self.at(local - first).seconds)
    }

    /// The offset of an abbreviation near a local time, in seconds as if it were UTC (`Location.lookupName`).
    #[must_use]
    pub(crate) fn offset_of(&self, abbreviation: &str, local: i64) -> Option<i32> {
        // The abbreviation is in use at that time, or half a year before or after.
        const HALF_YEAR: i64 = 182 * 86_400;
        let around = [local, local - HALF_YEAR, local + HALF_YEAR];
        let offsets = around.map(|at| self.at(at));
        let candidates = offsets.iter().filter(|o| o.abbreviation == abbreviation).map(|o| o.seconds);
        let valid = |o: &i32| self.at(local - i64::from(*o)).abbreviation == abbreviation;
        candidates.clone().find(valid).or_else(|| candidates.into_iter().next())
    }
}
