//! The program as a user starts it: without a terminal and in a pseudo-terminal.

mod headless;
#[path = "../../../crates/operant-monitor/examples/synthetic/mod.rs"]
mod synthetic;
mod terminal;
#[path = "../../operant/tests/common/terminal.rs"]
mod window;
