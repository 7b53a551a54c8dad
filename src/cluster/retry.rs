//! Which failed requests are sent again, and when. Pure.
//!
//! A request that may have been carried out is sent again only if doing it twice is doing it once: never a POST, unless
//! the server says that it turned the request away before looking at it.

use std::time::Duration;

/// Attempts in all, the first one included.
pub(crate) const ATTEMPTS: u32 = 5;
/// The same while the server turns requests away because it has too many: it says when to come again.
const THROTTLED: u32 = 20;
/// The same while a server that was there is not: it is being started again, which takes seconds.
const PATIENT: u32 = 8;
const LONGEST: Duration = Duration::from_secs(10);

/// How an attempt failed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Failure {
    /// The server answered with this status and, perhaps, a Retry-After in seconds.
    Status(u16, Option<u64>),
    /// No answer: the request may or may not have been carried out.
    NoAnswer,
    /// No connection to a server that has answered before: the request was not carried out.
    NotSent,
}

/// The pause before the next attempt, or `None` to give up. `attempt` counts from 1.
pub(crate) fn pause(method: &http::Method, failure: Failure, attempt: u32) -> Option<Duration> {
    let most = match failure {
        Failure::NotSent => PATIENT,
        Failure::Status(429, _) => THROTTLED,
        Failure::Status(..) | Failure::NoAnswer => ATTEMPTS,
    };
    if attempt >= most {
        return None;
    }
    let repeatable = *method != http::Method::POST;
    let backoff = Duration::from_millis(100 << attempt.min(6));
    match failure {
        // Turned away by the server's flow control: nothing was done.
        Failure::Status(429, after) => Some(after.map_or(backoff, Duration::from_secs).min(LONGEST)),
        Failure::Status(502..=504, after) if repeatable => {
            Some(after.map_or(backoff, Duration::from_secs).min(LONGEST))
        }
        // A failing webhook or etcd: the server says when it is worth asking again, else it is an answer.
        Failure::Status(500, Some(after)) if repeatable => Some(Duration::from_secs(after).min(LONGEST)),
        Failure::NotSent => Some(backoff.min(Duration::from_secs(3))),
        Failure::NoAnswer if repeatable => Some(backoff),
        Failure::Status(..) | Failure::NoAnswer => None,
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
            (Method::POST, Failure::Status(429, Some(1)), 1, Some(ms(1000))),
            (Method::POST, Failure::Status(503, Some(1)), 1, None),
            (Method::POST, Failure::NoAnswer, 1, None),
            (Method::POST, Failure::NotSent, 1, Some(ms(200))),
            (Method::POST, Failure::NotSent, ATTEMPTS, Some(ms(3000))),
            (Method::POST, Failure::NotSent, PATIENT, None),
            (Method::GET, Failure::NoAnswer, 1, Some(ms(200))),
            (Method::PATCH, Failure::Status(503, None), 2, Some(ms(400))),
            (Method::PATCH, Failure::Status(504, Some(3600)), 1, Some(ms(10_000))),
            (Method::PATCH, Failure::Status(500, None), 1, None),
            (Method::PATCH, Failure::Status(500, Some(1)), 1, Some(ms(1000))),
            (Method::PUT, Failure::Status(409, None), 1, None),
            (Method::GET, Failure::Status(404, None), 1, None),
            (Method::GET, Failure::Status(429, None), ATTEMPTS, Some(ms(3200))),
            (Method::GET, Failure::Status(429, None), THROTTLED, None),
            (Method::GET, Failure::Status(503, None), ATTEMPTS, None),
        ];
        for (method, failure, attempt, expected) in cases {
            assert_eq!(pause(&method, failure, attempt), expected, "{method} {failure:?} attempt {attempt}");
        }
    }
}
