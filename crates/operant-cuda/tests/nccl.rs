//! Sums and exchanges between devices, on the stand-in for NCCL.

#[path = "support/stand_in.rs"]
mod stand_in;

use std::path::Path;

use operant_cuda::{Communicator, Cuda, CudaError, Device, SearchPaths, Stream, Summable, inspect_at};

/// The devices that differ only in the order of their threads.
const DEVICES: usize = 3;

fn cuda(directory: &Path) -> Cuda {
    Cuda::find_in(Some(directory)).expect("the stand-in").cached_in(Some(&stand_in::cache(directory)))
}

/// What `work` returns on each of `size` devices, each in a thread of its own. None without the stand-in.
fn on_all<R: Send>(
    size: usize,
    work: impl Fn(usize, &Device, &Stream, &Communicator) -> R + Sync,
) -> Option<Vec<R>> {
    let cuda = cuda(&stand_in::directory("NCCL")?);
    let id = cuda.communicator_id().expect("an id");
    Some(std::thread::scope(|scope| {
        let (cuda, work) = (&cuda, &work);
        let start = |rank| {
            scope.spawn(move || {
                let device = cuda.open(rank).expect("a device");
                let communicator = device.join(id, rank, size).expect("joined");
                assert_eq!(
                    (communicator.size(), communicator.library().version.map(|it| it.minor)),
                    (size, Some(27))
                );
                let stream = device.stream().expect("a stream");
                work(rank, &device, &stream, &communicator)
            })
        };
        let all: Vec<_> = (0..size).map(start).collect();
        all.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    }))
}

/// Numbers of a rank whose sums depend on their order.
fn numbers<T: From<f32> + std::ops::Div<Output = T>>(rank: usize, count: usize) -> Vec<T> {
    (0..count)
        .map(|i| T::from((1 + i * 7 + rank * 13) as f32) / T::from((3 + i % 11 + rank) as f32))
        .collect()
}

fn summed<T>(size: usize, count: usize) -> Option<Vec<Vec<T>>>
where
    T: Summable + From<f32> + std::ops::Div<Output = T> + Send,
{
    on_all(size, |rank, device, stream, communicator| {
        let buffer = device.alloc::<T>(count).expect("memory");
        buffer.write(stream, &numbers(rank, count)).expect("written");
        communicator.sum(stream, &buffer).expect("enqueued");
        buffer.read(stream).expect("read")
    })
}

#[test]
fn devices_have_the_sum_of_all() {
    for (size, count) in [(1, 5), (2, 1), (2, 1_000), (3, 1_001)] {
        let Some(sums) = summed::<f32>(size, count) else { return };
        assert!(sums.iter().all(|sum| *sum == sums[0]), "{size} devices agree");
        let exact = summed::<f64>(size, count).expect("as above");
        assert!(exact.iter().all(|sum| *sum == exact[0]));
        for (i, sum) in exact[0].iter().enumerate() {
            let expected: f64 = (0..size).map(|rank| numbers::<f64>(rank, count)[i]).sum();
            assert!((sum - expected).abs() < 1e-9 * expected, "{size} devices, number {i}");
            assert!((f64::from(sums[0][i]) - expected).abs() < 1e-5 * expected);
        }
    }
}

#[test]
fn devices_have_what_all_have() {
    let gathered = on_all(DEVICES, |rank, device, stream, communicator| {
        let own = device.alloc::<f32>(7).expect("memory");
        let all = device.alloc::<f32>(7 * DEVICES).expect("memory");
        own.write(stream, &numbers(rank, 7)).expect("written");
        communicator.gather(stream, &own, &all).expect("enqueued");
        let error = communicator.gather(stream, &own, &own).expect_err("too short");
        assert!(matches!(error, CudaError::Length { given: 7, expected: 21, .. }), "{error}");
        all.read(stream).expect("read")
    });
    let Some(gathered) = gathered else { return };
    let expected: Vec<f32> = (0..DEVICES).flat_map(|rank| numbers(rank, 7)).collect();
    assert_eq!(gathered, vec![expected; DEVICES]);
}

#[test]
fn a_graph_repeats_a_sum() {
    let sums = on_all(2, |rank, device, stream, communicator| {
        let buffer = device.alloc::<f32>(3).expect("memory");
        buffer.write(stream, &[1.0, 2.0, rank as f32]).expect("written");
        let graph = stream.capture(|stream| communicator.sum(stream, &buffer)).expect("captured");
        assert_eq!(buffer.read(stream).expect("read"), [1.0, 2.0, rank as f32], "nothing ran yet");
        graph.launch(stream).expect("launched");
        graph.launch(stream).expect("launched");
        buffer.read(stream).expect("read")
    });
    assert!(sums.is_none_or(|sums| sums == [[4.0, 8.0, 2.0]; 2]));
}

#[test]
fn what_the_library_refuses_is_an_error() {
    let Some(directory) = stand_in::directory("NCCL") else { return };
    let cuda = cuda(&directory);
    let id = cuda.communicator_id().expect("an id");
    let (one, other) = (cuda.open(0).expect("a device"), cuda.open(0).expect("the same"));
    let twice: Vec<_> = std::thread::scope(|scope| {
        let join =
            |(rank, device): (usize, Device)| scope.spawn(move || device.join(id, rank, 2).map(|_| ()));
        let all: Vec<_> = [one, other].into_iter().enumerate().map(join).collect();
        all.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    for refused in twice {
        let (problem, remedy) = refused.expect_err("one GPU a rank").parts();
        assert!(problem.contains("ncclCommInitRank of NCCL 2.27"), "{problem}");
        assert!(
            problem.contains("failed with 5 (invalid usage)")
                && problem.contains("joining the communicator as rank"),
            "{problem}"
        );
        assert!(remedy.contains("NCCL_DEBUG"), "{remedy}");
    }
    let errors = on_all(2, |rank, _, stream, communicator| {
        let foreign = cuda.open(1 - rank).expect("a device").alloc::<f32>(4).expect("memory");
        communicator.sum(stream, &foreign).map_err(|error| error.to_string())
    });
    for error in errors.expect("the stand-in") {
        assert!(error.expect_err("refused").contains("was passed to a stream of"));
    }
}

#[test]
fn without_the_library_all_else_works() {
    let Some(directory) = stand_in::directory("NCCL") else { return };
    let place = tempfile::tempdir().expect("a temporary directory");
    for name in ["libcuda.so", "libnvrtc.so"] {
        std::os::unix::fs::symlink(directory.join(name), place.path().join(name)).expect("a link");
    }
    let cuda = Cuda::find_at(&SearchPaths::only(&[place.path()])).expect("a driver");
    let (problem, remedy) = cuda.communicator_id().expect_err("no library").parts();
    assert_eq!(problem, format!("no NCCL here: libnccl.so.2 is not in {}", place.path().display()));
    assert!(remedy.starts_with("`pip install nvidia-nccl-cu13`"), "{remedy}");
    let inspection = inspect_at(&SearchPaths::only(&[place.path()]));
    assert!(inspection.usable() && inspection.nccl.problem == Some(problem));

    std::fs::write(place.path().join("libnccl.so.2"), "not a library").expect("written");
    let (problem, _) = cuda.communicator_id().expect_err("no library").parts();
    assert!(problem.starts_with("no usable NCCL: "), "{problem}");
}

#[test]
fn an_old_library_is_refused() {
    if !stand_in::is_machine("an_old_library_is_refused", &[("OPERANT_HOST_NCCL_VERSION", "2804")]) {
        return;
    }
    let Some(directory) = stand_in::directory("NCCL") else { return };
    let (problem, _) = cuda(&directory).communicator_id().expect_err("too old").parts();
    assert!(problem.contains("is NCCL 2.8; the minimum is 2.10"), "{problem}");
}
