//! Futures of callers that do not wait: state files are evaluated by functions that block.

use tokio::runtime::Builder;

use windlass_base::redact::SecretScope;

/// Runs a future to its end on a thread of its own: callers may be in a runtime already.
///
/// # Errors
/// Those of the future; also if there is no runtime.
pub(super) fn wait<T: Send, F: Future<Output = Result<T, String>>>(
    make: impl FnOnce() -> F + Send,
) -> Result<T, String> {
    let secrets = SecretScope::current();
    std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            let runtime = Builder::new_current_thread().enable_all().build();
            runtime.map_err(|error| error.to_string())?.block_on(secrets.run_async(async { make().await }))
        });
        work.join().unwrap_or_else(|_| Err("the request did not end".to_owned()))
    })
}
