//! When an operation is given up: at its deadline, or when its caller cancels it.

use crate::error::EngineError;
use std::time::Duration;
use tokio::{sync::watch, time::Instant};

/// The limits of an operation; by default there are none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Deadline {
    pub(crate) cancel: Option<watch::Receiver<bool>>,
    /// The end, and the duration until it.
    until: Option<(Instant, Duration)>,
}

impl Deadline {
    /// The same, with a limit from now on, unless one is set already.
    pub(crate) fn bounded(&self, limit: Option<Duration>) -> Self {
        let from_now = || limit.map(|limit| (Instant::now() + limit, limit));
        Self { until: self.until.or_else(from_now), ..self.clone() }
    }

    /// Ends when the operation is cancelled or passes its deadline, with the error.
    pub(crate) async fn given_up(&self) -> EngineError {
        let passed = async {
            match self.until {
                Some((end, limit)) => {
                    tokio::time::sleep_until(end).await;
                    limit.as_secs()
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.cancelled() => EngineError::Cancelled,
            seconds = passed => EngineError::Deadline { seconds },
        }
    }

    async fn cancelled(&self) {
        if let Some(flag) = &self.cancel
            && flag.clone().wait_for(|raised| *raised).await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}
