//! Environments without a network: random play, and given actions from given states.

pub mod random_play;
pub mod replay;
