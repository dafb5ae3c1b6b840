//! Environments without a network: random play, given actions from given states, and steps with the actions of another program.

pub mod random_play;
pub mod replay;
pub mod step;
