//! Philox4x32-10 against the known answers published with Random123 (kat_vectors, philox4x32 10).

use core::num::Wrapping;

use operant_lane::philox::philox;
use operant_lane::{Lane, Packed, Uint, Wide};

/// Counter, key and result.
const KNOWN: [([u32; 4], [u32; 2], [u32; 4]); 3] = [
    ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
    ([0xffff_ffff; 4], [0xffff_ffff; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
    (
        [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
        [0xa409_3822, 0x299f_31d0],
        [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
    ),
];

fn check<L: Packed>() {
    for (counter, key, expected) in KNOWN {
        let block = philox::<L>(counter.map(L::Uint::splat), key.map(L::Uint::splat));
        for (word, expected) in block.into_iter().zip(expected) {
            let mut lanes = [0; 16];
            L::store_uint(word, &mut lanes);
            assert_eq!(lanes[..L::WIDTH], vec![expected; L::WIDTH], "{counter:x?} {key:x?}");
        }
    }
}

#[test]
fn known_answers_on_every_packed_lane() {
    check::<f32>();
    check::<Wide<8>>();
    check::<Wide<16>>();
}

#[test]
fn known_answers_while_recording() {
    // With constant arguments the recording lane folds the whole generator; `conformance` runs it emitted.
    use operant_lane::trace::{Trace, Value};
    for (counter, key, expected) in KNOWN {
        let block = philox::<Trace<'_>>(counter.map(Value::Constant), key.map(Value::Constant));
        for (word, expected) in block.into_iter().zip(expected) {
            assert!(matches!(word, Value::Constant(x) if x == expected));
        }
    }
}

#[test]
fn known_answers_on_double_lanes() {
    for (counter, key, expected) in KNOWN {
        let words: [<f64 as Lane>::Uint; 4] = philox::<f64>(counter.map(Wrapping), key.map(Wrapping));
        assert_eq!(words.map(|w| w.0), expected);
    }
}
