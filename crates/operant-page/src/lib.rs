//! The runtime of a web page in which a trained agent plays its environment: the engine's own environments and inference, compiled to
//! WebAssembly, so that an episode in a browser has the bits of `operant play`.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Bundle`] | what a page holds beside this program: environment, network, opponent |
//! | [`Player`] | plays one episode at a time, and draws its states |
//! | `exports` | the functions that the page's script calls |
//!
//! `cargo xtask page` compiles it into operant-sweep, which puts it into every page.

mod bundle;
mod drawing;
#[cfg(target_family = "wasm")]
mod exports;
mod player;

pub use bundle::{Bundle, Norm, World};
pub use drawing::encode;
pub use player::{Player, Side, Status};

/// The environments that this build has: the hash of all texts that they emit. `cargo xtask page` sets it.
pub const WORLDS: &str = match option_env!("PAGE_WORLDS") {
    Some(hash) => hash,
    None => "",
};
