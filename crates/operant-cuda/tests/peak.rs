//! The kernels that measure a device's limits compute the documented results, on the stand-in: no GPU is needed.

#![cfg(target_os = "linux")]

#[path = "support/stand_in.rs"]
mod stand_in;

use operant_cuda::{Cuda, Device, Multiplier, Peak, SearchPaths, Stream};

/// A device of the stand-in, its kernels and a stream; None without a C++ compiler.
fn device(ordinal: usize) -> Option<(Device, Peak, Stream)> {
    let directory = stand_in::directory("the tests of limits")?;
    let cuda = Cuda::find_at(&SearchPaths::only(&[&directory])).unwrap_or_else(|error| panic!("{error}"));
    let device = cuda.cached_in(Some(&stand_in::cache(&directory))).open(ordinal).expect("a device");
    let module = device.load(&Peak::program()).unwrap_or_else(|error| panic!("{error}"));
    let (peak, stream) = (Peak::new(&module).expect("its kernels"), device.stream().expect("a stream"));
    Some((device, peak, stream))
}

#[test]
fn multiply_adds_are_all_done_and_counted() {
    for ordinal in 0..3 {
        let Some((device, peak, stream)) = device(ordinal) else { return };
        let out = device.alloc::<f32>(Peak::threads(2)).expect("a buffer");
        let (factor, addend) = (0.75f32, 0.5f32);
        let flops = peak.multiply(&stream, Multiplier::F32, &out, 5, [factor, addend]).expect("launched");
        assert_eq!(flops, 2.0 * 16.0 * 5.0 * 512.0);
        let mut expected = 0.0f32;
        for chain in 0..16u8 {
            expected += (0..5).fold(f32::from(chain), |x, _| x.mul_add(factor, addend));
        }
        assert_eq!(out.read(&stream).expect("read"), vec![expected; 512]);

        // Powers of two are exact in every precision: 8 tiles of 4 numbers, each its start and 3 rounds of k products.
        for (multiplier, k) in [(Multiplier::Tf32, 8.0), (Multiplier::Bf16, 16.0)] {
            out.fill(&stream, 0xff).expect("filled");
            let flops = peak.multiply(&stream, multiplier, &out, 3, [0.25, 2.0]).expect("launched");
            assert_eq!(flops, 2.0 * 16.0 * 8.0 * f64::from(k) * 8.0 * 3.0 * 16.0, "16 warps");
            assert_eq!(out.read(&stream).expect("read"), vec![32.0 * (2.0 + 3.0 * k * 0.25); 512]);
        }
    }
}

#[test]
fn a_copy_copies_everything_and_nothing_more() {
    let Some((device, peak, stream)) = device(2) else { return };
    for count in [2, 510, 4_098] {
        let from: Vec<u64> = (0..count).map(|i| i * 0x9e37_79b9_7f4a_7c15).collect();
        let source = device.alloc::<u64>(from.len()).expect("a buffer");
        let room = device.alloc::<u64>(from.len() + 2).expect("a buffer");
        source.write(&stream, &from).expect("written");
        room.fill(&stream, 0xff).expect("filled");
        let to = room.part(0..from.len()).expect("a part");
        peak.copy(&stream, &source, &to, 1).expect("launched");
        let mut copied = room.read(&stream).expect("read");
        let beyond = copied.split_off(from.len());
        assert_eq!(copied, from);
        assert_eq!(beyond, [u64::MAX; 2]);
    }
}

#[test]
fn buffers_that_do_not_fit_are_refused() {
    let Some((device, peak, stream)) = device(0) else { return };
    let odd = device.alloc::<f32>(300).expect("a buffer");
    assert!(peak.multiply(&stream, Multiplier::F32, &odd, 1, [1.0, 1.0]).is_err());
    let buffer = |len| device.alloc::<u64>(len).expect("a buffer");
    assert!(peak.copy(&stream, &buffer(4), &buffer(6), 1).is_err());
    assert!(peak.copy(&stream, &buffer(3), &buffer(3), 1).is_err());
    let (long, even) = (buffer(9), buffer(8));
    let shifted = long.part(1..9).expect("a part");
    assert!(peak.copy(&stream, &shifted, &even, 1).is_err());
    assert_eq!(device.transfers().launches, 0);
}

#[test]
#[ignore = "cargo xtask test --nightly"]
fn nightly_they_stay_within_their_memory() {
    for test in ["multiply_adds_are_all_done_and_counted", "a_copy_copies_everything_and_nothing_more"] {
        let Some(child) = stand_in::rerun_sanitized(test) else { return };
        stand_in::must_pass(&child);
    }
}
