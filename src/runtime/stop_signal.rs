//! The signal that stops the parts of a process: a stop from outside, or the end of one part, stops the others.

use std::convert::Infallible;
use std::pin::Pin;

use tokio::sync::watch;

/// Resolves when work has to stop.
pub(super) type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A signal that is given once.
pub(super) struct StopSignal(watch::Sender<bool>);

impl StopSignal {
    /// A signal that is not given yet.
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    /// Gives the signal.
    pub(super) fn stop(&self) {
        self.0.send_replace(true);
    }

    /// Resolves when the signal is given.
    pub(super) fn stopped(&self) -> Stop {
        let mut stopping = self.0.subscribe();
        // An error means that the sender is gone: stop as well.
        Box::pin(async move { drop(stopping.wait_for(|stop| *stop).await) })
    }

    /// Does work to its end. `stop` gives the signal meanwhile.
    pub(super) async fn run<T>(&self, stop: impl Future<Output = ()>, work: impl Future<Output = T>) -> T {
        let stop = async {
            stop.await;
            self.stop();
            std::future::pending::<Infallible>().await
        };
        tokio::select! {
            result = work => result,
            never = stop => match never {},
        }
    }
}
