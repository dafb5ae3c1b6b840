//! Learning from a replay: environments and updates take turns, and a minibatch is drawn from all that was stored.

pub mod compare;
pub(crate) mod cycle;
pub mod given;
pub(crate) mod learner;
pub(crate) mod priorities;
pub mod replay;
mod sequences;
mod values;

pub(crate) use cycle::Replaying;
