//! What every other crate of Windlass may use, and what knows none of them.
//!
//! - [`backoff`]: how long to wait before another try
//! - [`blocking`]: futures of callers that block
//! - [`body_memory`]: what large answers of servers share
//! - [`bounded_json`]: JSON of others, within what it may take
//! - [`bounded_read`]: files and streams that are read within a limit
//! - [`causes`]: an error with its causes, in one line
//! - [`cel_expression`]: expressions in CEL that tenants write
//! - [`child_process`]: programs that are started and waited for, within limits
//! - [`cron`]: times of schedules
//! - [`hex`]: bytes as hexadecimal digits
//! - [`local_address`]: addresses where tenants' servers may not be
//! - [`machine`]: how much memory the process may take
//! - [`namespace_places`]: places of all, of which one namespace has a part
//! - [`namespace_semaphores`]: what one namespace may take of what all share
//! - [`redact`]: secrets, and their masks in messages

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod backoff;
pub mod blocking;
pub mod body_memory;
pub mod bounded_json;
pub mod bounded_read;
pub mod causes;
pub mod cel_expression;
pub mod child_process;
pub mod cron;
pub mod hex;
pub mod local_address;
pub mod machine;
pub mod namespace_places;
pub mod namespace_semaphores;
pub mod redact;
