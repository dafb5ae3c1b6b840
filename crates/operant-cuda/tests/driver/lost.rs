//! A device that is lost in the middle of its work: every later call is an error, and nothing hangs.

use std::sync::mpsc;
use std::time::Duration;

use operant_cuda::{CudaError, LaunchConfig};

use crate::{Scale, device, needs_stand_in, program};

/// Does the work in a thread, so that a hang fails the test instead of holding it.
fn without_a_hang(work: impl FnOnce() + Send + 'static) {
    let (over, wait) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        work();
        let _ = over.send(());
    });
    match wait.recv_timeout(Duration::from_secs(60)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("a call on a lost device hangs"),
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => {
            if let Err(panic) = worker.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

// The only test on this device, which stays lost in this process.
#[test]
fn a_lost_device_answers_every_call_with_an_error() {
    needs_stand_in!();
    without_a_hang(|| {
        let device = device(5);
        let stream = device.stream().expect("a stream");
        let module = device.load(&program()).expect("a module");
        let mut function = module.function("scale").expect("a kernel");
        let buffer = device.alloc::<f32>(64).expect("a buffer");
        let mut arena = device.arena(1024).expect("an arena");
        let (event, other) = (device.event().expect("an event"), device.event().expect("an event"));
        let mut pinned = device.pinned::<f32>(64).expect("pinned memory");
        let graph = stream.capture(|stream| buffer.read_into(stream, &mut pinned)).expect("a graph");
        buffer.read_into(&stream, &mut pinned).expect("a copy whose end nobody asks for");
        let params = Scale { from: buffer.pointer(), to: buffer.pointer(), count: 64, factor: 1.0 };
        // SAFETY: `scale` takes this struct, and the buffer has 64 elements.
        let launch = || unsafe {
            function.launch(&stream, LaunchConfig { blocks: 1, threads: 64, shared: 0 }, &params)
        };
        for _ in 0..3 {
            launch().expect("the first three");
        }

        assert!(!device.is_lost());
        let first = launch().expect_err("the fourth");
        let CudaError::Call { failure, .. } = &first else { panic!("{first}") };
        assert_eq!(
            (failure.call, failure.name.as_str(), failure.code),
            ("cuLaunchKernel", "CUDA_ERROR_LAUNCH_FAILED", 719)
        );
        assert!(first.is_lost() && device.is_lost());
        assert!(first.to_string().contains("start the program again from its last checkpoint"), "{first}");

        let mut answers = vec![
            ("launch", launch()),
            ("memory", device.memory().map(|_| ())),
            ("stream", device.stream().map(|_| ())),
            ("event", device.event().map(|_| ())),
            ("alloc", device.alloc::<f32>(1).map(|_| ())),
            ("arena", device.arena(1).map(|_| ())),
            ("pinned", device.pinned::<f32>(1).map(|_| ())),
            ("load", device.load(&program()).map(|_| ())),
            ("device.synchronize", device.synchronize()),
            ("write", buffer.write(&stream, &[0.0; 64])),
            ("read", buffer.read(&stream).map(|_| ())),
            ("fill", buffer.fill(&stream, 0)),
            ("write_from", buffer.write_from(&stream, &pinned)),
            ("read_into", buffer.read_into(&stream, &mut pinned)),
            ("pinned.to_vec", pinned.to_vec().map(|_| ())),
            ("pinned.ready", pinned.ready().map(|_| ())),
            ("stream.synchronize", stream.synchronize()),
            ("record", stream.record(&event)),
            ("wait", stream.wait(&event)),
            ("capture", stream.capture(|_| Ok(())).map(|_| ())),
            ("graph.launch", graph.launch(&stream)),
            ("query", event.query().map(|_| ())),
            ("event.synchronize", event.synchronize()),
            ("elapsed_ms", event.elapsed_ms(&other).map(|_| ())),
            ("function", module.function("scale").map(|_| ())),
            ("registers", function.registers().map(|_| ())),
            ("occupancy", function.blocks_per_multiprocessor(64, 0).map(|_| ())),
        ];
        answers.push(("shared", function.shared(1024)));
        for (what, answer) in answers {
            let error = answer.expect_err(what);
            assert!(error.is_lost(), "{what}: {error}");
            let text = error.to_string();
            assert!(
                text.contains("was lost when cuLaunchKernel failed with CUDA_ERROR_LAUNCH_FAILED"),
                "{what}: {text}"
            );
        }
        assert_eq!(device.transfers().launches, 3);
        // Taking a buffer of an arena makes no driver call.
        arena.take::<f32>(1).expect("a buffer");

        // Opened again it is still lost, as the driver reports.
        if let Ok(again) = crate::cuda().open(5) {
            let error = again.synchronize().expect_err("still lost");
            assert!(error.is_lost(), "{error}");
        }
        // Here all of it is dropped.
    });
    // Other devices still work.
    let whole = device(0);
    let stream = whole.stream().expect("a stream");
    let buffer = whole.alloc::<u8>(2).expect("a buffer");
    buffer.fill(&stream, 8).expect("filled");
    assert_eq!(buffer.read(&stream).expect("read"), [8, 8]);
}
