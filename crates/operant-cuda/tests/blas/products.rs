//! Products are correct, reproducible, ordered by streams and repeated by graphs.

use operant_cuda::{Element, Epilogue, GemmShape, InputPrecision, Transfers};

use crate::case::{Case, EPILOGUES, Kind, near, shape, transposed};
use crate::{device, stand_in};

#[test]
fn products_of_every_kind_are_right() {
    let Some((device, blas, stream)) = device(0) else { return };
    let kinds = [
        (InputPrecision::F32, Element::F32),
        (InputPrecision::Tf32, Element::F32),
        (InputPrecision::Bf16, Element::F32),
        (InputPrecision::Bf16, Element::Bf16),
    ];
    let mut done = 0;
    for size in [(1, 1, 1), (3, 5, 7), (17, 33, 65), (64, 3, 200)] {
        for (products, output) in kinds {
            for (more, form) in (0..8).map(|i| (i / 4 * 16, i % 4)) {
                for epilogue in EPILOGUES {
                    let plain = shape(size, products, output, more);
                    let shape = GemmShape { epilogue, ..transposed(plain, form & 1 != 0, form & 2 != 0) };
                    let gemm = blas.gemm(shape).unwrap_or_else(|error| panic!("{error}"));
                    if output == Element::Bf16 && epilogue != Epilogue::None {
                        assert!(gemm.is_none(), "the vector is f32 and {output} is not");
                        continue;
                    }
                    let gemm = gemm.unwrap_or_else(|| panic!("no algorithm for {shape}"));
                    assert_eq!(*gemm.shape(), shape);
                    let case = Case::new(&device, &stream, shape);
                    case.launch(&gemm, &stream).unwrap_or_else(|error| panic!("{error}"));
                    case.check(&stream);
                    done += 1;
                }
            }
        }
    }
    assert_eq!(done, 4 * 8 * (3 * 4 + 1));
}

#[test]
fn they_are_right_in_streams_that_run_behind() {
    let streams = [("OPERANT_HOST_STREAMS", "7".to_owned())];
    let Some(output) = stand_in::rerun_with("products::products_of_every_kind_are_right", &streams) else {
        return;
    };
    stand_in::must_pass(&output);
}

#[test]
#[ignore = "cargo xtask test --nightly"]
fn nightly_they_stay_within_their_memory() {
    let Some(output) = stand_in::rerun_sanitized("products::products_of_every_kind_are_right") else {
        return;
    };
    stand_in::must_pass(&output);
}

#[test]
fn a_long_sum_has_the_same_bits_each_time_and_with_any_plan() {
    let Some((device, blas, stream)) = device(0) else { return };
    let mut shape = shape((5, 9, 3000), InputPrecision::F32, Element::F32, 0);
    shape.epilogue = Epilogue::BiasGradient;
    let case = Case::new(&device, &stream, shape);
    let mut seen = None;
    for _ in 0..2 {
        let gemm = blas.gemm(shape).expect("planned").expect("an algorithm");
        for _ in 0..5 {
            case.launch(&gemm, &stream).expect("launched");
            let bits = case.c.bits(&stream);
            assert_eq!(*seen.get_or_insert_with(|| bits.clone()), bits);
        }
    }
    case.check(&stream);
    // Another handle, on a device with a small workspace.
    let Some((small, blas, stream)) = crate::device(3) else { return };
    let gemm = blas.gemm(shape).expect("planned").expect("an algorithm");
    let case = Case::new(&small, &stream, shape);
    case.launch(&gemm, &stream).expect("launched");
    case.check(&stream);
}

#[test]
fn parts_of_buffers_that_begin_at_multiples_of_16_bytes_will_do() {
    let Some((device, blas, stream)) = device(0) else { return };
    let mut shape = shape((2, 4, 8), InputPrecision::F32, Element::F32, 0);
    shape.epilogue = Epilogue::Bias;
    let gemm = blas.gemm(shape).expect("planned").expect("an algorithm");
    let all = device.alloc::<f32>(200).expect("a buffer");
    all.write(&stream, &[1.0; 200]).expect("written");
    let part = |start: usize, len: usize| all.part(start..start + len).expect("a part");
    let (a, b, c, vector) = (part(4, 16), part(20, 60), part(84, 12), part(100, 4));
    gemm.launch(&stream, (&a).into(), (&b).into(), (&c).into(), Some(&vector)).expect("launched");
    let values = c.read(&stream).expect("read");
    assert_eq!(values, [9.0, 9.0, 9.0, 9.0, 1.0, 1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0]);

    let crooked = |index: usize, name: &str| {
        let one_off = part(1, [16, 60, 12, 4][index]);
        let mut given = [&a, &b, &c, &vector];
        given[index] = &one_off;
        let [a, b, c, vector] = given;
        let error = gemm.launch(&stream, a.into(), b.into(), c.into(), Some(vector));
        let text = error.expect_err("4 bytes off").to_string();
        assert!(
            text.starts_with(&format!("{name} of (2, 4) = A (2, 8) B (8, 4) of f32 into f32 with a bias ")),
            "{text}"
        );
        assert!(text.contains("multiple of 16 bytes"), "{text}");
    };
    for (index, name) in ["A", "B", "C", "the vector"].into_iter().enumerate() {
        crooked(index, name);
    }
}

#[test]
fn a_graph_repeats_a_product_and_keeps_what_it_needs() {
    let Some((device, blas, stream)) = device(0) else { return };
    let mut shape = shape((8, 8, 64), InputPrecision::F32, Element::F32, 0);
    shape.epilogue = Epilogue::BiasGradient;
    let gemm = blas.gemm(shape).expect("planned").expect("an algorithm");
    let case = Case::new(&device, &stream, shape);
    // A second product, whose memory nothing else in the graph touches.
    let biased = GemmShape { epilogue: Epilogue::Bias, ..shape };
    let second = blas.gemm(biased).expect("planned").expect("an algorithm");
    let alone = Case::new(&device, &stream, biased);
    let (expected, sums) = case.expected();
    let (Kind::F32(a), Kind::F32(c)) = (&case.a.buffer, &case.c) else { panic!("f32") };
    let vector = case.vector.as_ref().expect("a vector");
    let mut out = device.pinned::<f32>(64).expect("pinned memory");
    let mut sums_out = device.pinned::<f32>(8).expect("pinned memory");
    let mut source = device.pinned::<f32>(a.len()).expect("pinned memory");
    source.set(&a.read(&stream).expect("read")).expect("set");

    let before = device.transfers();
    let graph = stream
        .capture(|stream| {
            a.write_from(stream, &source)?;
            case.launch(&gemm, stream)?;
            alone.launch(&second, stream)?;
            c.read_into(stream, &mut out)?;
            vector.read_into(stream, &mut sums_out)
        })
        .expect("a graph");
    assert_eq!(device.transfers(), before, "nothing was done yet");
    assert_eq!(graph.work().launches, 2);
    drop((case, alone, gemm, second, blas));
    let filler = device.alloc::<u8>(40 << 20).expect("a buffer");
    filler.fill(&stream, 0xff).expect("filled");
    for factor in [1.0, -2.0] {
        let scaled: Vec<f32> =
            source.to_vec().expect("values").iter().map(|value| value * factor as f32).collect();
        source.set(&scaled).expect("set");
        graph.launch(&stream).expect("launched");
        let given: Vec<f64> = out.to_vec().expect("values").into_iter().map(f64::from).collect();
        let scale = |values: &[f64]| -> Vec<f64> { values.iter().map(|value| value * factor).collect() };
        near(&given, &scale(&expected), 1e-6, "the graph's product");
        let given: Vec<f64> = sums_out.to_vec().expect("values").into_iter().map(f64::from).collect();
        near(&given, &scale(&sums), 1e-6, "the graph's vector");
    }
    let expected =
        Transfers { launches: 4, graphs: 2, bytes_h2d: 2 * 4 * 64 * 8, bytes_d2h: 2 * 4 * (64 + 8) };
    assert_eq!(device.transfers().since(&before), expected);
}

#[test]
fn a_launch_counts_as_one_and_copies_nothing() {
    let Some((device, blas, stream)) = device(0) else { return };
    let shape = shape((3, 3, 3), InputPrecision::Tf32, Element::F32, 0);
    let gemm = blas.gemm(shape).expect("planned").expect("an algorithm");
    let case = Case::new(&device, &stream, shape);
    let before = device.transfers();
    case.launch(&gemm, &stream).expect("launched");
    case.launch(&gemm, &stream).expect("launched");
    assert_eq!(device.transfers().since(&before), Transfers { launches: 2, ..Transfers::default() });
}

#[test]
fn several_threads_launch_the_same_plan() {
    let Some((device, blas, _)) = device(0) else { return };
    let mut shape = shape((4, 8, 8), InputPrecision::F32, Element::F32, 0);
    shape.epilogue = Epilogue::Bias;
    let gemm = blas.gemm(shape).expect("planned").expect("an algorithm");
    let (device, gemm) = (&device, &gemm);
    std::thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || {
                let stream = device.stream().expect("a stream");
                let case = Case::new(device, &stream, shape);
                let bias = [number as f32; 8];
                let case = Case { added: bias.to_vec(), ..case };
                case.vector.as_ref().expect("a vector").write(&stream, &bias).expect("written");
                for _ in 0..50 {
                    case.launch(gemm, &stream).expect("launched");
                    case.check(&stream);
                }
            });
        }
    });
}
