//! When the registry is asked for a workload: at an interval, or at the times of a schedule of cron. Pure.

use std::time::Duration;

use jiff::Timestamp;
use windlass_base::cron::Cron;

/// The shortest time between two requests.
pub(crate) const SHORTEST: Duration = Duration::from_secs(10);
/// How far back the last time of a schedule is looked for, in seconds: as far as schedules are looked ahead.
const YEARS: u32 = 5 * 366 * 86_400;

/// When the registry is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PollSchedule {
    Every(Duration),
    Times(Box<Cron>),
}

impl PollSchedule {
    /// Reads a schedule of cron as keel does: seconds come first, and the day of the week may be left out.
    ///
    /// # Errors
    /// It is none, or it has no time at all; the text says so.
    pub(crate) fn of_cron(text: &str) -> Result<Self, String> {
        let cron = Cron::parse_with_seconds(text).map_err(|error| error.to_string())?;
        match cron.next(Timestamp::UNIX_EPOCH) {
            Some(_) => Ok(Self::Times(Box::new(cron))),
            None => Err(format!("{text:?}: there is no such day")),
        }
    }

    /// How long until the registry is asked next.
    pub(crate) fn wait(&self, now: Timestamp) -> Duration {
        match self {
            Self::Every(interval) => *interval,
            Self::Times(cron) => {
                let next = cron
                    .next(now)
                    .map(|next| Duration::try_from(next.duration_since(now)).unwrap_or_default());
                next.unwrap_or(Duration::from_secs(YEARS.into())).max(SHORTEST)
            }
        }
    }

    /// How old an answer of the registry may be.
    pub(crate) fn age(&self, now: Timestamp) -> Duration {
        match self {
            // Half of it: who asks next may be another workload, with the same image.
            Self::Every(interval) => *interval / 2,
            Self::Times(cron) => {
                let age = last(cron, now).and_then(|last| Duration::try_from(now.duration_since(last)).ok());
                age.unwrap_or(Duration::MAX)
            }
        }
    }
}

/// The last time of a schedule that is not after `now`; `None` if there was none for years.
fn last(cron: &Cron, now: Timestamp) -> Option<Timestamp> {
    let next_by_now = |second: i64| {
        let next = Timestamp::from_second(second).ok().and_then(|at| cron.next(at));
        next.filter(|next| *next <= now)
    };
    // After `early` there is a time by now, after `late` there is none.
    let (mut early, mut late) = (now.as_second() - i64::from(YEARS), now.as_second());
    let mut found = next_by_now(early)?;
    while late - early > 1 {
        let middle = early + (late - early) / 2;
        match next_by_now(middle) {
            Some(next) => (found, early) = (next, middle),
            None => late = middle,
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_schedule_is_asked_at_its_times() {
        let seconds = Duration::from_secs;
        let now = at("2026-01-07T12:30:20Z");
        for (text, wait, age) in [
            // Seconds come first, whatever zone the machine has.
            ("30 * * * *", seconds(10), seconds(50)),
            ("0 * * * * *", seconds(40), seconds(20)),
            ("25 * * * * ?", SHORTEST, seconds(55)),
            ("*/5 * * * * *", SHORTEST, Duration::ZERO),
        ] {
            let schedule = PollSchedule::of_cron(text).unwrap();
            assert_eq!((schedule.wait(now), schedule.age(now)), (wait, age), "{text}");
        }
        let yearly = PollSchedule::of_cron("0 0 0 1 2 *").unwrap();
        let days = |time: Duration| time.as_secs() / 86_400;
        assert!((23..26).contains(&days(yearly.wait(now))), "{:?}", yearly.wait(now));
        assert!((338..341).contains(&days(yearly.age(now))), "{:?}", yearly.age(now));
        // 2100 is no leap year.
        let leap_days = PollSchedule::of_cron("0 0 0 29 2 ?").unwrap();
        assert_eq!(days(leap_days.wait(at("2096-03-05T00:00:00Z"))), 5 * 366);
        let every = PollSchedule::Every(seconds(600));
        assert_eq!((every.wait(now), every.age(now)), (seconds(600), seconds(300)));
        let error = PollSchedule::of_cron("0 0 0 30 2 *").unwrap_err();
        assert_eq!(error, "\"0 0 0 30 2 *\": there is no such day");
    }
}
