//! Futures of callers that block: one runtime for all of them in a process.
//!
//! Owns that runtime. It lives as long as the process, so that a connection that a client keeps for its next request outlives the call
//! that opened it. Refuses to know what is waited for.

use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};

use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};

use crate::redact::SecretScope;

/// Threads of the runtime: callers wait for one or two requests at a time.
const WORKERS: usize = 2;

/// The runtime of callers that block. It is built when it is first asked for: most commands need none.
///
/// # Errors
/// The system has no thread or no event queue for it.
pub fn runtime() -> io::Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    static BUILDING: Mutex<()> = Mutex::new(());
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    // Of two that are built at a time, one would be dropped, which panics within another runtime.
    let _building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let built = Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?;
    Ok(RUNTIME.get_or_init(|| built))
}

/// Why a future does not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum BlockingError {
    /// There is no runtime.
    #[error("cannot start: {0}")]
    Runtime(#[source] io::Error),
    /// There is no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    /// It panicked.
    #[error("the request did not end")]
    Panicked,
}

impl From<BlockingError> for String {
    fn from(error: BlockingError) -> Self {
        error.to_string()
    }
}

/// Runs a future to its end. Callers may be in a runtime already: it runs on a thread of its own, over the runtime of the caller where
/// that has threads of its own.
///
/// # Errors
/// Those of the future; also if there is no runtime.
pub fn wait<T: Send, E: From<BlockingError> + Send, F: Future<Output = Result<T, E>>>(
    make: impl FnOnce() -> F + Send,
) -> Result<T, E> {
    let secrets = SecretScope::current();
    let around = Handle::try_current().ok();
    // A runtime of one thread does nothing while that thread waits here.
    let handle = match around.filter(|handle| handle.runtime_flavor() != RuntimeFlavor::CurrentThread) {
        Some(handle) => handle,
        None => runtime().map_err(BlockingError::Runtime)?.handle().clone(),
    };
    std::thread::scope(|scope| {
        let work = || handle.block_on(secrets.run_async(async { make().await }));
        // Without memory for another thread this request fails, and not the process.
        let work = std::thread::Builder::new().spawn_scoped(scope, work);
        let work = work.map_err(BlockingError::Thread)?;
        work.join().unwrap_or_else(|_| Err(BlockingError::Panicked.into()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_outlives_the_call_that_started_it() {
        let (send, receive) = tokio::sync::oneshot::channel::<()>();
        let task = wait(async || Ok::<_, String>(tokio::spawn(async move { receive.await.is_ok() })));
        send.send(()).unwrap();
        assert_eq!(wait(async || task.unwrap().await.map_err(|error| error.to_string())), Ok(true));
    }

    #[tokio::test]
    async fn a_caller_in_a_runtime_of_one_thread_waits_too() {
        let ready = wait(async || tokio::task::spawn(async {}).await.map_err(|error| error.to_string()));
        assert_eq!(ready, Ok(()));
    }

    #[test]
    fn callers_that_begin_at_once_share_the_runtime() {
        let begin = std::sync::Barrier::new(8);
        let one = || {
            let own = Builder::new_current_thread().build().unwrap();
            own.block_on(async {
                begin.wait();
                std::ptr::from_ref(runtime().unwrap()) as usize
            })
        };
        let all = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect::<std::collections::BTreeSet<_>>()
        });
        assert_eq!(all.len(), 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_panic_is_an_error() {
        let failed = wait::<(), String, _>(async || panic!("for the test"));
        assert_eq!(failed, Err("the request did not end".to_owned()));
    }
}
