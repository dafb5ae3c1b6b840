//! The ring's reader on bytes of a stranger's making; the inputs worth keeping lie in corpus/reader.
#![no_main]

#[path = "../src/drive.rs"]
mod drive;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    drive::bytes(input);
});
