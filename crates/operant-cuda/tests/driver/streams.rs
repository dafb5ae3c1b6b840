//! Streams, events and graphs.

use std::panic::{AssertUnwindSafe, catch_unwind};

use operant_cuda::{CudaError, LaunchConfig, Transfers};

use crate::{Scale, device, needs_stand_in, program};

#[test]
fn events_measure_time_and_say_when_they_are_over() {
    needs_stand_in!();
    let device = device(0);
    let stream = device.stream().expect("a stream");
    let buffer = device.alloc::<u8>(1 << 20).expect("a buffer");
    let (start, stop) = (device.event().expect("an event"), device.event().expect("an event"));
    let error = stop.elapsed_ms(&start).expect_err("nothing recorded them");
    assert!(
        error.to_string().contains("cuEventElapsedTime failed with CUDA_ERROR_INVALID_HANDLE (400: "),
        "{error}"
    );
    stream.record(&start).expect("recorded");
    for byte in 0..50 {
        buffer.fill(&stream, byte).expect("filled");
    }
    stream.record(&stop).expect("recorded");
    stop.synchronize().expect("over");
    assert!(start.query().expect("an answer") && stop.query().expect("an answer"));
    let milliseconds = stop.elapsed_ms(&start).expect("a time");
    assert!(milliseconds > 0.0 && milliseconds < 60_000.0, "{milliseconds}");
    let other = device.stream().expect("a stream");
    other.wait(&stop).expect("ordered");
    other.synchronize().expect("done");
    device.synchronize().expect("done");
}

#[test]
fn a_graph_repeats_what_was_captured_and_keeps_what_it_needs() {
    needs_stand_in!();
    let device = device(0);
    let stream = device.stream().expect("a stream");
    let scale = device.load(&program()).expect("a module").function("scale").expect("a kernel");
    let (from, to) =
        (device.alloc::<f32>(100).expect("a buffer"), device.alloc::<f32>(100).expect("a buffer"));
    let mut into = device.pinned::<f32>(100).expect("pinned memory");
    let mut source = device.pinned::<f32>(100).expect("pinned memory");
    source.set(&[2.0; 100]).expect("set");
    to.fill(&stream, 0).expect("filled");

    let before = device.transfers();
    let graph = stream
        .capture(|stream| {
            assert!(stream.is_capturing());
            from.write_from(stream, &source)?;
            let params = Scale { from: from.pointer(), to: to.pointer(), count: 100, factor: 1.5 };
            // SAFETY: `scale` takes this struct, and the graph keeps both buffers of 100.
            unsafe { scale.launch(stream, LaunchConfig { blocks: 2, threads: 64, shared: 0 }, &params) }?;
            to.keep_in(stream);
            to.read_into(stream, &mut into)
        })
        .expect("a graph");
    assert!(!stream.is_capturing());
    assert_eq!(device.transfers(), before, "nothing was done yet");
    assert_eq!(to.read(&stream).expect("read"), [0.0; 100]);
    assert_eq!(graph.work(), Transfers { bytes_h2d: 400, bytes_d2h: 400, launches: 1, graphs: 0 });

    let before = device.transfers();
    graph.launch(&stream).expect("launched");
    assert_eq!(into.to_vec().expect("values"), [3.0; 100]);
    drop((from, to, scale));
    source.set(&[-4.0; 100]).expect("set");
    drop(source);
    graph.launch(&stream).expect("launched again");
    assert_eq!(into.to_vec().expect("values"), [-6.0; 100]);
    let other = device.stream().expect("a stream");
    graph.launch(&other).expect("launched in another stream");
    let expected = Transfers { bytes_h2d: 1200, bytes_d2h: 1200, launches: 3, graphs: 3 };
    assert_eq!(device.transfers().since(&before), expected);
    drop(into);
    graph.launch(&stream).expect("its memory lives as long as it does");
}

#[test]
fn a_dropped_graph_frees_its_memory() {
    needs_stand_in!();
    let _alone = crate::memory::little_memory();
    let device = device(3);
    let free = || device.memory().expect("a size").free;
    let stream = device.stream().expect("a stream");
    let (filled, kept, not_kept) =
        (device.alloc::<u8>(1000), device.alloc::<u8>(2000), device.alloc::<u8>(4000));
    let (filled, kept) = (filled.expect("a buffer"), kept.expect("a buffer"));
    let all = (1 << 20) - 7000;
    assert_eq!(free(), all);
    let graph = stream
        .capture(|stream| {
            kept.keep_in(stream);
            filled.fill(stream, 1)
        })
        .expect("a graph");
    kept.keep_in(&stream); // without a capture there is nothing to keep it
    drop((filled, kept, not_kept));
    assert_eq!(free(), all + 4000);
    graph.launch(&stream).expect("launched");
    drop(graph);
    assert_eq!(free(), 1 << 20);
}

#[test]
fn a_second_stream_joins_a_capture_by_events() {
    needs_stand_in!();
    let device = device(0);
    let (stream, side) = (device.stream().expect("a stream"), device.stream().expect("a stream"));
    let (fork, join) = (device.event().expect("an event"), device.event().expect("an event"));
    let buffer = device.alloc::<u8>(4).expect("a buffer");
    let mut pinned = device.pinned::<u8>(4).expect("pinned memory");
    let graph = stream
        .capture(|stream| {
            buffer.fill(stream, 5)?;
            stream.record(&fork)?;
            side.wait(&fork)?;
            assert!(side.is_capturing());
            buffer.read_into(&side, &mut pinned)?;
            side.record(&join)?;
            stream.wait(&join)
        })
        .expect("a graph");
    assert!(!side.is_capturing());
    assert_eq!(pinned.to_vec().expect("values"), [0; 4]);
    graph.launch(&stream).expect("launched");
    assert_eq!(pinned.to_vec().expect("values"), [5; 4]);
    // The side stream works by itself again.
    buffer.fill(&side, 6).expect("filled");
    assert_eq!(buffer.read(&side).expect("read"), [6; 4]);
}

#[test]
fn a_capture_refuses_synchronous_work_and_continues() {
    needs_stand_in!();
    let device = device(0);
    let stream = device.stream().expect("a stream");
    let buffer = device.alloc::<u8>(4).expect("a buffer");
    let ready = stream.capture(|_| Ok::<(), CudaError>(())).expect("an empty graph");
    let graph = stream
        .capture(|stream| {
            let refused = [
                buffer.write(stream, &[0; 4]),
                buffer.read(stream).map(|_| ()),
                stream.synchronize(),
                stream.capture(|_| Ok(())).map(|_| ()),
                ready.launch(stream),
            ];
            for result in refused {
                let text = result.expect_err("not in a capture").to_string();
                assert!(text.contains("while a stream of device 0"), "{text}");
            }
            buffer.fill(stream, 3)
        })
        .expect("a graph, for none of that reached the driver");
    graph.launch(&stream).expect("launched");
    assert_eq!(buffer.read(&stream).expect("read"), [3; 4]);
}

#[test]
fn a_capture_that_fails_leaves_the_stream_as_it_was() {
    needs_stand_in!();
    let device = device(0);
    let stream = device.stream().expect("a stream");
    let buffer = device.alloc::<u8>(4).expect("a buffer");
    let error = CudaError::Length { what: "it", given: 1, expected: 2 };
    assert_eq!(stream.capture(|_| Err(error.clone())).map(|_| ()), Err(error));
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _ = stream.capture::<CudaError>(|_| panic!("in the middle of a capture"));
    }));
    assert!(unwound.is_err());
    // Allocating is what the driver itself refuses.
    let result = stream.capture(|_| device.alloc::<u8>(1).map(|_| ())).map(|_| ());
    assert!(result.expect_err("not in a capture").to_string().contains("CUDA_ERROR_STREAM_CAPTURE_"));
    buffer.fill(&stream, 9).expect("filled");
    assert_eq!(buffer.read(&stream).expect("read"), [9; 4]);
    assert!(!device.is_lost());
}

#[test]
fn a_graph_is_launched_from_several_threads() {
    needs_stand_in!();
    let device = device(0);
    let stream = device.stream().expect("a stream");
    let buffer = device.alloc::<u32>(64).expect("a buffer");
    let mut pinned = device.pinned::<u32>(64).expect("pinned memory");
    let graph = stream
        .capture(|stream| {
            buffer.fill(stream, 1)?;
            buffer.read_into(stream, &mut pinned)
        })
        .expect("a graph");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let own = device.stream().expect("a stream");
                for _ in 0..50 {
                    graph.launch(&own).expect("launched");
                    assert_eq!(pinned.to_vec().expect("values"), [0x0101_0101; 64]);
                }
            });
        }
    });
    assert_eq!(device.transfers().graphs, 200);
}

#[test]
fn a_kernel_is_loaded_when_it_is_looked_up_and_not_in_a_capture() {
    needs_stand_in!();
    let device = device(0);
    let (stream, module) = (device.stream().expect("a stream"), device.load(&program()).expect("compiled"));
    let buffer = device.alloc::<f32>(64).expect("a buffer");
    let params = Scale { from: buffer.pointer(), to: buffer.pointer(), count: 64, factor: 3.0 };
    let grid = LaunchConfig { blocks: 1, threads: 64, shared: 0 };
    let late = stream.capture(|_| module.function("turn").map(|_| ())).map(|_| ());
    let text = late.expect_err("a capture does not allow it").to_string();
    assert!(text.contains("cuFuncLoad failed with CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"), "{text}");
    // Its first launch of all lies in the capture.
    let function = module.function("scale").expect("the kernel");
    let graph = stream.capture(|stream| {
        buffer.keep_in(stream);
        // SAFETY: the kernel's own parameters; the graph keeps the memory.
        unsafe { function.launch(stream, grid, &params) }
    });
    buffer.write(&stream, &[2.0; 64]).expect("written");
    graph.expect("captured").launch(&stream).expect("launched");
    assert_eq!(buffer.read(&stream).expect("read"), vec![6.0; 64]);
}

/// Fills a buffer with 1 in one stream and with 2 in another, which waits for the first if `ordered`.
fn filled_last_by(device: &operant_cuda::Device, ordered: bool) -> u8 {
    let (first, second) = (device.stream().expect("a stream"), device.stream().expect("a stream"));
    let (filled, buffer) = (device.event().expect("an event"), device.alloc::<u8>(1).expect("a buffer"));
    let mut pinned = device.pinned::<u8>(1).expect("pinned memory");
    buffer.fill(&first, 1).expect("filled");
    first.record(&filled).expect("recorded");
    if ordered {
        second.wait(&filled).expect("ordered");
    }
    buffer.fill(&second, 2).expect("filled");
    device.synchronize().expect("done");
    buffer.read_into(&second, &mut pinned).expect("read");
    pinned.to_vec().expect("a value")[0]
}

#[test]
fn deferred_streams_run_in_any_order_that_events_allow() {
    if !crate::stand_in::is_child() {
        let streams = [("OPERANT_HOST_STREAMS", "1".to_owned())];
        for test in [
            "streams::deferred_streams_run_in_any_order_that_events_allow",
            "streams::a_graph_repeats_what_was_captured_and_keeps_what_it_needs",
            "streams::a_second_stream_joins_a_capture_by_events",
            "streams::a_graph_is_launched_from_several_threads",
            "streams::a_capture_refuses_synchronous_work_and_continues",
            "memory::pinned_memory_begins_as_zeros_and_is_copied_both_ways",
            "memory::a_buffer_is_filled_from_another_without_the_bus",
        ] {
            let Some(output) = crate::stand_in::rerun_with(test, &streams) else { return };
            crate::stand_in::must_pass(&output);
        }
        return;
    }
    let device = device(0);
    let stream = device.stream().expect("a stream");
    let (buffer, done) = (device.alloc::<u8>(1).expect("a buffer"), device.event().expect("an event"));
    (0..3).for_each(|byte| buffer.fill(&stream, byte).expect("filled"));
    stream.record(&done).expect("recorded");
    // Every query advances the device by a step: three fills are not done at once, but eventually.
    let asked = (0..10).position(|_| done.query().expect("an answer"));
    assert!(asked.is_some_and(|times| times > 0), "{asked:?}");
    let unordered: Vec<u8> = (0..40).map(|_| filled_last_by(&device, false)).collect();
    assert!(unordered.contains(&1) && unordered.contains(&2), "{unordered:?}");
    assert!((0..40).all(|_| filled_last_by(&device, true) == 2));
}
