//! Buffers, arenas and pinned memory: contents, lengths, lifetimes and counters.

use std::sync::{Mutex, MutexGuard, PoisonError};

use operant_cuda::{Arena, Buffer, CudaError, Plain, Transfers};

use crate::{device, needs_stand_in};

/// Held by tests of the device whose memory they count.
pub fn little_memory() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn goes_there_and_back<T: Plain + PartialEq + std::fmt::Debug>(values: &[T]) {
    let device = device(0);
    let stream = device.stream().expect("a stream");
    let buffer = device.alloc::<T>(values.len()).expect("a buffer");
    buffer.write(&stream, values).expect("written");
    assert_eq!(buffer.read(&stream).expect("read"), values);
}

#[test]
fn elements_go_there_and_back() {
    needs_stand_in!();
    goes_there_and_back::<f32>(&[]);
    goes_there_and_back(&[f32::MIN_POSITIVE / 2.0, -0.0, f32::MAX]);
    goes_there_and_back(&(0..1000u32).collect::<Vec<_>>());
    goes_there_and_back(&[u64::MAX, 0, 1]);
    goes_there_and_back(&[[1u8, 2, 3], [4, 5, 6]]);
    goes_there_and_back(&[f64::MAX]);
    goes_there_and_back(&[i64::MIN, -1]);
}

#[test]
fn a_buffer_is_filled_byte_by_byte() {
    needs_stand_in!();
    let device = device(0);
    let stream = device.stream().expect("a stream");
    let buffer = device.alloc::<u32>(5).expect("a buffer");
    buffer.fill(&stream, 0xab).expect("filled");
    assert_eq!(buffer.read(&stream).expect("read"), [0xabab_abab; 5]);
    assert_eq!((buffer.len(), buffer.bytes(), buffer.is_empty()), (5, 20, false));
    assert_ne!(buffer.pointer(), 0);
    let empty = device.alloc::<u32>(0).expect("nothing");
    empty.fill(&stream, 1).expect("nothing to fill");
    assert_eq!((empty.pointer(), empty.is_empty()), (0, true));
}

#[test]
fn lengths_must_agree() {
    needs_stand_in!();
    let device = device(0);
    let stream = device.stream().expect("a stream");
    let buffer = device.alloc::<u32>(3).expect("a buffer");
    let mut pinned = device.pinned::<u32>(4).expect("pinned memory");
    let wrong = |what, given| CudaError::Length { what, given, expected: 3 };
    assert_eq!(buffer.write(&stream, &[1, 2]), Err(wrong("the host's slice", 2)));
    assert_eq!(buffer.read_into(&stream, &mut pinned), Err(wrong("the pinned memory", 4)));
    assert_eq!(buffer.write_from(&stream, &pinned), Err(wrong("the pinned memory", 4)));
    assert!(matches!(pinned.set(&[1]), Err(CudaError::Length { given: 1, expected: 4, .. })));
    assert!(matches!(pinned.copy_to(&mut [1]), Err(CudaError::Length { given: 1, expected: 4, .. })));
}

#[test]
fn a_part_is_the_same_memory_and_keeps_it() {
    needs_stand_in!();
    let device = device(0);
    let stream = device.stream().expect("a stream");
    let buffer = device.alloc::<u32>(6).expect("a buffer");
    buffer.write(&stream, &[0, 1, 2, 3, 4, 5]).expect("written");
    let part = buffer.part(2..5).expect("a part");
    assert_eq!(part.pointer(), buffer.pointer() + 8);
    part.part(1..2).expect("a part of it").write(&stream, &[30]).expect("written");
    assert_eq!(buffer.read(&stream).expect("read"), [0, 1, 2, 30, 4, 5]);
    drop(buffer);
    assert_eq!(part.read(&stream).expect("read"), [2, 30, 4]);
    assert!(part.part(3..3).expect("an empty part").is_empty());
    #[expect(clippy::reversed_empty_ranges, reason = "a range that is none")]
    for range in [0..4, 4..4, 2..1] {
        let error = part.part(range).map(|_| ()).expect_err("it does not have that");
        assert!(error.to_string().contains("are not within a buffer of 3"), "{error}");
    }
}

#[test]
fn an_arena_is_cut_at_multiples_of_256_bytes_and_outlived_by_its_buffers() {
    needs_stand_in!();
    let device = device(0);
    let stream = device.stream().expect("a stream");
    let mut arena = device.arena(1024).expect("an arena");
    let one = arena.take::<u8>(1).expect("a buffer");
    let two = arena.take::<f64>(33).expect("a buffer");
    assert_eq!((arena.size(), arena.left()), (1024, 256));
    assert_eq!((one.pointer() % 256, two.pointer()), (0, one.pointer() + 256));
    let error = arena.take::<u32>(65).map(|_| ()).expect_err("260 bytes of 256");
    assert_eq!(error, CudaError::ArenaFull { requested: 512, left: 256, size: 1024 });
    assert_eq!(
        error.to_string(),
        "an arena of 1024 bytes has 256 left and 512 were requested; make the arena larger"
    );
    let last = arena.take::<u32>(64).expect("exactly what is left");
    assert_eq!(arena.left(), 0);
    assert!(arena.take::<u32>(0).expect("nothing always fits").is_empty());
    drop(arena);
    last.fill(&stream, 7).expect("filled");
    one.fill(&stream, 1).expect("filled");
    two.fill(&stream, 2).expect("filled");
    assert_eq!(last.read(&stream).expect("read"), [0x0707_0707; 64]);
    assert_eq!(one.read(&stream).expect("read"), [1]);
    assert_eq!(Arena::bytes_for::<f32>(65).expect("a size"), 512);
    assert!(Arena::bytes_for::<f32>(usize::MAX / 2).is_err());
}

#[test]
fn pinned_memory_begins_as_zeros_and_is_copied_both_ways() {
    needs_stand_in!();
    let device = device(0);
    let stream = device.stream().expect("a stream");
    let mut pinned = device.pinned::<u32>(3).expect("pinned memory");
    assert_eq!(pinned.to_vec().expect("values"), [0; 3]);
    pinned.set(&[1, 2, 3]).expect("set");
    let buffer = device.alloc::<u32>(3).expect("a buffer");
    buffer.write_from(&stream, &pinned).expect("written");
    // The host's access waits for the copy, so this cannot reach the device.
    pinned.set(&[9, 9, 9]).expect("set");
    assert_eq!(buffer.read(&stream).expect("read"), [1, 2, 3]);
    buffer.read_into(&stream, &mut pinned).expect("read");
    let mut values = [0; 3];
    pinned.copy_to(&mut values).expect("copied");
    assert_eq!(values, [1, 2, 3]);
    assert!(pinned.ready().expect("an answer"));
    // In another stream the copy waits for the first.
    let other = device.stream().expect("a stream");
    buffer.fill(&stream, 1).expect("filled");
    buffer.read_into(&stream, &mut pinned).expect("read");
    buffer.write_from(&other, &pinned).expect("written");
    assert_eq!(pinned.to_vec().expect("values"), [0x0101_0101; 3]);
    let mut empty = device.pinned::<f32>(0).expect("nothing");
    assert!(
        empty.is_empty() && empty.to_vec().expect("nothing").is_empty() && empty.ready().expect("an answer")
    );
    device.alloc::<f32>(0).expect("nothing").read_into(&stream, &mut empty).expect("nothing");
}

#[test]
fn a_buffer_is_filled_from_another_without_the_bus() {
    needs_stand_in!();
    let device = device(0);
    let stream = device.stream().expect("a stream");
    let (one, other) = (device.alloc::<u32>(3).expect("a buffer"), device.alloc::<u32>(3).expect("a buffer"));
    one.write(&stream, &[1, 2, 3]).expect("written");
    let before = (device.transfers(), device.allocations());
    other.copy_from(&stream, &one).expect("copied");
    assert_eq!((device.transfers(), device.allocations()), before);
    assert_eq!(other.read(&stream).expect("read"), [1, 2, 3]);
    let shorter = other.part(0..2).expect("a part");
    let error = shorter.copy_from(&stream, &one).expect_err("another length");
    assert_eq!(error, CudaError::Length { what: "the other buffer", given: 3, expected: 2 });
    let none = device.alloc::<u32>(0).expect("nothing");
    none.copy_from(&stream, &device.alloc(0).expect("nothing")).expect("nothing to copy");
    device.pinned::<u8>(1).expect("pinned memory");
    assert_eq!(device.allocations(), before.1 + 1);
}

#[test]
fn out_of_memory_says_what_is_requested_and_free() {
    needs_stand_in!();
    let _alone = little_memory();
    let device = device(3);
    assert_eq!(device.memory().expect("a size").total, 1 << 20);
    let half = device.alloc::<u8>(1 << 19).expect("half of it");
    let error = device.alloc::<f32>(1 << 18).map(|_| ()).expect_err("all of it");
    let CudaError::OutOfMemory { kind, requested, free, total, .. } = &error else { panic!("{error}") };
    assert_eq!((*kind, *requested, *free, *total), ("device", 1 << 20, 1 << 19, 1 << 20));
    let text = error.to_string();
    assert!(text.starts_with("device 3 (host, little memory) has no room for 1048576 bytes"), "{text}");
    assert!(text.contains("524288 of its 1048576 bytes are free; "), "{text}");
    assert!(!error.is_lost() && device.arena(1 << 20).is_err());
    drop(half);
    assert_eq!(device.memory().expect("a size").free, 1 << 20);
    device.alloc::<f32>(1 << 18).expect("all of it, now");
}

#[test]
fn sizes_beyond_memory_are_refused_before_the_driver_sees_them() {
    needs_stand_in!();
    let device = device(0);
    for result in
        [device.alloc::<f64>(usize::MAX).map(|_| ()), device.pinned::<f64>(usize::MAX / 8).map(|_| ())]
    {
        let text = result.expect_err("more than can be").to_string();
        assert!(text.contains("more than memory can hold"), "{text}");
    }
}

#[test]
fn another_devices_stream_is_refused() {
    needs_stand_in!();
    let (one, other) = (device(0), device(1));
    let stream = other.stream().expect("a stream");
    let buffer = one.alloc::<u32>(4).expect("a buffer");
    let mut pinned = one.pinned::<u32>(4).expect("pinned memory");
    let results = [
        buffer.write(&stream, &[0; 4]),
        buffer.read(&stream).map(|_| ()),
        buffer.fill(&stream, 0),
        buffer.read_into(&stream, &mut pinned),
        buffer.write_from(&stream, &pinned),
        stream.record(&one.event().expect("an event")),
    ];
    for result in results {
        let text = result.expect_err("another device").to_string();
        assert!(text.contains("was passed to a stream of device"), "{text}");
    }
}

#[test]
fn transfers_are_counted_exactly() {
    needs_stand_in!();
    let device = device(0);
    let stream = device.stream().expect("a stream");
    let buffer: Buffer<u32> = device.alloc(10).expect("a buffer");
    let mut pinned = device.pinned::<u32>(10).expect("pinned memory");
    assert_eq!(device.transfers(), Transfers::default());
    buffer.write(&stream, &[0; 10]).expect("written");
    buffer.fill(&stream, 1).expect("filled");
    assert_eq!(device.transfers(), Transfers { bytes_h2d: 40, ..Transfers::default() });
    buffer.part(0..3).expect("a part").read(&stream).expect("read");
    buffer.read_into(&stream, &mut pinned).expect("read");
    let before = device.transfers();
    assert_eq!(before, Transfers { bytes_h2d: 40, bytes_d2h: 52, ..Transfers::default() });
    buffer.write_from(&stream, &pinned).expect("written");
    pinned.to_vec().expect("values");
    assert_eq!(device.transfers().since(&before), Transfers { bytes_h2d: 40, ..Transfers::default() });
    assert!(buffer.write(&stream, &[0; 9]).is_err());
    assert_eq!(
        device.clone().transfers(),
        Transfers { bytes_h2d: 80, bytes_d2h: 52, ..Transfers::default() }
    );
}
