//! The functions that a page's script calls. Texts and numbers pass through one buffer: the script writes to `input`, and reads `output`
//! of `output_len` bytes after a call.

// Exported names are a promise that the compiler cannot check.
#![allow(unsafe_code)]

use std::cell::RefCell;

use operant_env::StepError;

use crate::bundle::Bundle;
use crate::drawing::encode;
use crate::player::{Player, Side, Status};

#[derive(Default)]
struct Page {
    input: Vec<u8>,
    output: Vec<u8>,
    numbers: Vec<f32>,
    player: Option<Player>,
}

thread_local! {
    static PAGE: RefCell<Page> = RefCell::default();
}

/// What a call returns if it failed; the output is the error's text.
const FAILED: i32 = -1;

impl Page {
    fn failed(&mut self, error: String) -> i32 {
        self.output = error.into_bytes();
        FAILED
    }

    fn stepped(&mut self, outcome: Result<Status, StepError>) -> i32 {
        match outcome {
            Ok(status) => status as i32,
            Err(error) => self.failed(error.to_string()),
        }
    }

    /// Calls with the player that was loaded.
    fn played<T>(&mut self, call: impl FnOnce(&mut Player) -> T) -> Option<T> {
        self.player.as_mut().map(call)
    }
}

fn page<T>(call: impl FnOnce(&mut Page) -> T) -> T {
    PAGE.with_borrow_mut(call)
}

fn seed(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// Room for this many bytes, into which the script writes what the next call reads.
#[unsafe(no_mangle)]
pub extern "C" fn input(bytes: usize) -> *mut u8 {
    page(|page| {
        page.input.resize(bytes, 0);
        page.input.as_mut_ptr()
    })
}

/// Where the output of the last call is.
#[unsafe(no_mangle)]
pub extern "C" fn output() -> *const u8 {
    page(|page| page.output.as_ptr())
}

/// Its length in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn output_len() -> usize {
    page(|page| page.output.len())
}

/// Outputs the hash of the environments that were compiled in.
#[unsafe(no_mangle)]
pub extern "C" fn worlds() {
    page(|page| page.output = crate::WORLDS.as_bytes().to_vec());
}

/// Takes a bundle, `text` bytes of JSON, and its numbers, the rest of the input.
#[unsafe(no_mangle)]
pub extern "C" fn load(text: usize, low: u32, high: u32) -> i32 {
    page(|page| {
        let (text, numbers) = page.input.split_at(text);
        let numbers: Vec<f32> =
            numbers.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let bundle: Result<Bundle, _> = serde_json::from_slice(text);
        let player = bundle
            .map_err(|error| error.to_string())
            .and_then(|bundle| Player::new(&bundle, &numbers, seed(low, high)));
        page.input = Vec::new();
        match player {
            Ok(player) => {
                page.player = Some(player);
                Status::Running as i32
            }
            Err(error) => page.failed(error),
        }
    })
}

/// Begins an episode, for the reader if `is_own`.
#[unsafe(no_mangle)]
pub extern "C" fn restart(is_own: bool, low: u32, high: u32, number: u32) -> i32 {
    page(|page| {
        let side = if is_own { Side::Reader } else { Side::Agent };
        let begun = page.played(|player| player.restart(side, seed(low, high), number));
        page.stepped(begun.unwrap_or(Ok(())).map(|()| Status::Running))
    })
}

/// Whether actions are drawn from the policy.
#[unsafe(no_mangle)]
pub extern "C" fn sample(is_sampled: bool) {
    page(|page| page.played(|player| player.is_sampled = is_sampled));
}

/// Steps up to `count` times, until the episode has ended; with the reader's action, or that of the agent where it is NaN.
#[unsafe(no_mangle)]
pub extern "C" fn step(action: f32, count: u32) -> i32 {
    page(|page| {
        let own = (!action.is_nan()).then_some(action);
        let outcome = page.played(|player| {
            let mut outcome = Ok(Status::Running);
            for _ in 0..count {
                outcome = player.step(own);
                if outcome != Ok(Status::Running) {
                    break;
                }
            }
            outcome
        });
        page.stepped(outcome.unwrap_or(Ok(Status::Running)))
    })
}

/// Plays the episode on, up to `most` steps, and outputs the hash of [`Player::finish`]: for tests.
#[unsafe(no_mangle)]
pub extern "C" fn finish(most: u32) -> i32 {
    page(|page| match page.played(|player| player.finish(most)).unwrap_or(Ok(0)) {
        Ok(trace) => {
            page.output = trace.to_le_bytes().to_vec();
            Status::Running as i32
        }
        Err(error) => page.failed(error.to_string()),
    })
}

/// Whether a choice is legal.
#[unsafe(no_mangle)]
pub extern "C" fn is_legal(choice: usize) -> bool {
    page(|page| page.played(|player| player.is_legal(choice)).unwrap_or(false))
}

/// The return so far.
#[unsafe(no_mangle)]
pub extern "C" fn episodic_return() -> f32 {
    page(|page| page.played(|player| player.episodic_return()).unwrap_or(0.0))
}

/// Steps so far.
#[unsafe(no_mangle)]
pub extern "C" fn steps() -> u32 {
    page(|page| page.played(|player| player.steps()).unwrap_or(0))
}

/// Outputs the last action.
#[unsafe(no_mangle)]
pub extern "C" fn action() {
    page(|page| {
        let action = page.played(|player| player.action().flat_map(f32::to_le_bytes).collect());
        page.output = action.unwrap_or_default();
    });
}

/// Outputs the words of the state, its observation and its legal choices.
#[unsafe(no_mangle)]
pub extern "C" fn words() {
    page(|page| {
        let words = page.played(|player| player.words().into_iter().flat_map(u32::to_le_bytes).collect());
        page.output = words.unwrap_or_default();
    });
}

/// Outputs the picture of the state.
#[unsafe(no_mangle)]
pub extern "C" fn draw() {
    page(|page| {
        let Some(scene) = page.played(|player| player.scene()) else { return };
        encode(&scene, &mut page.numbers);
        page.output.clear();
        page.output.extend(page.numbers.iter().flat_map(|number| number.to_le_bytes()));
    });
}
