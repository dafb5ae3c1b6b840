//! macOS, whose scheduler alone chooses the CPU of a thread.

/// Binding threads is not supported on this system.
///
/// # Errors
/// Always.
pub fn bind(cpu: u32) -> Result<(), String> {
    Err(format!("no thread can be bound to CPU {cpu} on this system"))
}
