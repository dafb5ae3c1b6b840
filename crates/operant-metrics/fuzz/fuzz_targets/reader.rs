//! The ring's reader on arbitrary bytes; interesting inputs are kept in corpus/reader.
#![no_main]

#[path = "../src/drive.rs"]
mod drive;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    drive::bytes(input);
});
