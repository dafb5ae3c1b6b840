//! operant-run carries out a run: the training loop over a device ([`operant_learn::Backend`]), its directory and
//! checkpoints, signals, published metrics and evaluation, with a layered configuration. The command line is in
//! operant-cli, PPO in operant-learn.
//!
//! A program trains its own environment with [`train`]: make a configuration with
//! [`config::requested`], put it into a [`Job`], and build the backend in the closure. It gets the same files, checkpoints, resume
//! and signals as `operant train`.
//!
//! ```no_run
//! use operant_run::{CommandLine, EnvFacts, Job, config};
//!
//! # fn main() -> operant_run::Result<()> {
//! let registry = operant_env::builtin();
//! let env = operant_run::device::find(&registry, "cartpole")?; // or Arc::new(MyEnv)
//! let requested = config::requested(EnvFacts::of(&env.spec(), &registry), &CommandLine::default(), None)?;
//! let outcome = operant_run::train(Job::new(requested), |requested, device| operant_run::backend(&env, requested, device))?;
//! println!("{}", outcome.result.to_json());
//! # Ok(())
//! # }
//! ```

#![cfg_attr(not(target_os = "macos"), forbid(unsafe_code))] // os/macos.rs calls the system

pub mod checkpoint;
pub mod config;
pub mod device;
pub mod dir;
pub mod distributed;
pub mod error;
pub mod eval;
pub mod evaluate;
pub mod export;
pub mod gpu;
mod init_from;
pub mod invocation;
pub mod league;
pub mod log;
pub mod machine;
pub mod notes;
pub mod opponent;
mod os;
pub mod paint;
pub mod path_text;
pub mod policy;
pub mod progress;
mod result;
mod resume;
mod run;
pub mod runs;
mod signals;
pub mod sinks;
mod start;
mod state;
mod telemetry;
#[cfg(test)]
mod testing;
mod train_loop;
pub mod trust;
pub mod world;

pub use config::{CommandLine, EnvFacts, Requested, Settings};
pub use device::{Built, Device, backend, backend_in};
pub use error::{Error, ErrorKind, Result};
pub use init_from::InitialWeights;
pub use log::Log;
pub use policy::{Mark, SavedPolicy};
pub use result::RunResult;
pub use resume::{Resume, SavedRun};
pub use run::{Job, OnCheckpoint, OnReady, OnRecord, Outcome, Ready, train};
pub use signals::Signals;
pub use train_loop::ExitReason;
pub use trust::Trust;
