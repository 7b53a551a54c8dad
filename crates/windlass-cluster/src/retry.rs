//! Which failed requests are retried, and when. Pure.
//!
//! A request that may have been executed is retried only if it is idempotent: never a POST, unless the server says
//! that it refused the request unprocessed.

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    time::{Duration, Instant},
};

/// Attempts, the first one included.
pub(crate) const ATTEMPTS: u32 = 5;
/// The same while a known server is down: a restart takes seconds.
const ATTEMPTS_NOT_SENT: u32 = 8;
/// How long requests to a throttling server are retried.
pub(crate) const THROTTLED: Duration = Duration::from_secs(60);
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// How an attempt failed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RequestFailure {
    /// The server answered with this status and perhaps a Retry-After in seconds.
    Status(u16, Option<u64>),
    /// No answer: the request may have been executed.
    NoAnswer,
    /// No connection to a server that answered before: the request was not executed.
    NotSent,
}

/// The pause before the next attempt, or `None` to give up. `attempt` counts from 1, and has the most attempts of a request without an
/// answer beside it; `throttled` is how long the server has been throttling.
pub(crate) fn pause(
    method: &http::Method,
    failure: RequestFailure,
    (attempt, attempts): (u32, u32),
    throttled: Duration,
) -> Option<Duration> {
    let most = match failure {
        RequestFailure::NotSent => ATTEMPTS_NOT_SENT,
        // Limited by time: the server decides how many attempts there are.
        RequestFailure::Status(429, _) => u32::MAX,
        RequestFailure::Status(..) => ATTEMPTS,
        RequestFailure::NoAnswer => attempts,
    };
    if attempt >= most {
        return None;
    }
    let repeatable = *method != http::Method::POST;
    let backoff = Duration::from_millis(100 << attempt.min(6));
    match failure {
        // Refused by the server's flow control, unprocessed. Never retried at once, whatever it says.
        RequestFailure::Status(429, after) => {
            let pause = after.map_or(backoff, |s| Duration::from_secs(s).max(backoff / 4)).min(MAX_PAUSE);
            Some(pause).filter(|pause| throttled + *pause <= THROTTLED)
        }
        RequestFailure::Status(502..=504, after) if repeatable => {
            Some(after.map_or(backoff, Duration::from_secs).min(MAX_PAUSE))
        }
        // A failing webhook or etcd: with Retry-After it is worth a retry, else it is an answer.
        RequestFailure::Status(500, Some(after)) if repeatable => {
            Some(Duration::from_secs(after).min(MAX_PAUSE))
        }
        RequestFailure::NotSent => Some(backoff.min(Duration::from_secs(3))),
        RequestFailure::NoAnswer if repeatable => Some(backoff),
        RequestFailure::Status(..) | RequestFailure::NoAnswer => None,
    }
}

/// Adds a random part of up to a quarter, so that throttled clients do not return together.
pub(crate) fn spread(pause: Duration) -> Duration {
    // Each state is seeded differently.
    let chance = u32::try_from(RandomState::new().build_hasher().finish() % 256).unwrap_or_default();
    pause + pause / 1024 * chance
}

/// How long a server has been throttling, over all requests to it: otherwise each of a release's objects would wait
/// by itself.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    /// The first and the last time.
    turned_away: Option<(Instant, Instant)>,
}

impl Throttle {
    /// Records a throttled request; returns for how long the server has been throttling.
    pub(crate) fn refused(&mut self, now: Instant) -> Duration {
        // An old refusal does not count.
        let recent = self.turned_away.filter(|(_, last)| now.duration_since(*last) < THROTTLED / 2);
        let since = recent.map_or(now, |(first, _)| first);
        self.turned_away = Some((since, now));
        now.duration_since(since)
    }

    /// Records an accepted request.
    pub(crate) fn admitted(&mut self) {
        self.turned_away = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;

    #[test]
    fn repeats_only_what_may_be_repeated() {
        let ms = Duration::from_millis;
        let cases = [
            (Method::POST, RequestFailure::Status(503, Some(1)), 1, None),
            (Method::POST, RequestFailure::NoAnswer, 1, None),
            (Method::POST, RequestFailure::NotSent, 1, Some(ms(200))),
            (Method::POST, RequestFailure::NotSent, ATTEMPTS, Some(ms(3000))),
            (Method::POST, RequestFailure::NotSent, ATTEMPTS_NOT_SENT, None),
            (Method::GET, RequestFailure::NoAnswer, 1, Some(ms(200))),
            (Method::PATCH, RequestFailure::Status(503, None), 2, Some(ms(400))),
            (Method::PATCH, RequestFailure::Status(504, Some(3600)), 1, Some(ms(10_000))),
            (Method::PATCH, RequestFailure::Status(500, None), 1, None),
            (Method::PATCH, RequestFailure::Status(500, Some(1)), 1, Some(ms(1000))),
            (Method::PUT, RequestFailure::Status(409, None), 1, None),
            (Method::GET, RequestFailure::Status(404, None), 1, None),
            (Method::GET, RequestFailure::Status(503, None), ATTEMPTS, None),
        ];
        for (method, failure, attempt, expected) in cases {
            let found = pause(&method, failure, (attempt, ATTEMPTS), Duration::ZERO);
            assert_eq!(found, expected, "{method} {failure:?} attempt {attempt}");
        }
    }

    #[test]
    fn a_server_that_throttles_is_waited_for_and_not_for_ever() {
        let ms = Duration::from_millis;
        let second = Duration::from_secs;
        for (after, attempt, throttled, expected) in [
            (Some(1), 1, second(0), Some(ms(1000))),
            (Some(0), 1, second(0), Some(ms(50))),
            (Some(0), 99, second(0), Some(ms(1600))),
            (Some(3600), 1, second(0), Some(ms(10_000))),
            (None, 1, second(0), Some(ms(200))),
            (None, 99, second(0), Some(ms(6400))),
            (Some(1), 1, second(59), Some(ms(1000))),
            (Some(1), 1, ms(59_001), None),
            (None, 1, second(60), None),
        ] {
            let found =
                pause(&Method::POST, RequestFailure::Status(429, after), (attempt, ATTEMPTS), throttled);
            assert_eq!(found, expected, "{after:?} attempt {attempt} after {throttled:?}");
        }
        // All pauses of one request together.
        for after in [None, Some(0), Some(1), Some(3600)] {
            let mut waited = Duration::ZERO;
            let mut attempt = 1;
            while let Some(next) =
                pause(&Method::GET, RequestFailure::Status(429, after), (attempt, ATTEMPTS), waited)
            {
                (waited, attempt) = (waited + next, attempt + 1);
            }
            assert!(waited > second(50) && waited <= THROTTLED, "{after:?}: {waited:?}");
        }
    }

    #[test]
    fn pauses_are_spread_upwards() {
        let pause = Duration::from_secs(8);
        let all: Vec<Duration> = (0..64).map(|_| spread(pause)).collect();
        assert!(all.iter().all(|p| *p >= pause && *p <= pause + pause / 4), "{all:?}");
        assert!(all.iter().any(|p| *p != all[0]), "{all:?}");
    }

    #[test]
    fn throttling_is_one_for_all_requests_until_one_is_let_through() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut throttle = Throttle::default();
        assert_eq!(throttle.refused(at(0)), Duration::ZERO);
        assert_eq!(throttle.refused(at(20)), Duration::from_secs(20));
        assert_eq!(throttle.refused(at(45)), Duration::from_secs(45));
        throttle.admitted();
        assert_eq!(throttle.refused(at(46)), Duration::ZERO);
        assert_eq!(throttle.refused(at(146)), Duration::ZERO, "nobody asked for long");
    }
}
