//! Invalid products and their error messages.

use operant_cuda::{CudaError, Element, Epilogue, GemmShape, InputPrecision};

use crate::case::{Case, shape};
use crate::{device, stand_in};

#[test]
fn a_product_of_nothing_or_of_crooked_rows_is_refused() {
    let Some((_, blas, _)) = device(0) else { return };
    let good = shape((4, 5, 6), InputPrecision::Bf16, Element::F32, 0);
    let refused = |shape: GemmShape, words: &str| {
        let text = blas.gemm(shape).map(|_| ()).expect_err("refused").to_string();
        assert!(text.contains(words), "{text}");
    };
    refused(GemmShape { m: 0, ..good }, "A of (0, 5) = A (0, 6) B (6, 5) of bf16 into f32");
    refused(GemmShape { n: 0, ..good }, "B of (4, 0)");
    refused(GemmShape { k: 0, ..good }, "skip empty products");
    refused(
        GemmShape { a_stride: 0, ..good },
        "A of (4, 5) = A (4, 6) B (6, 5) of bf16 into f32 with no epilogue has rows",
    );
    refused(GemmShape { k: 9, ..good }, "rows of 9 elements that begin 8 apart");
    refused(GemmShape { b_stride: 12, ..good }, "begin 12 elements of 2 bytes apart; give a stride");
    refused(GemmShape { c_stride: 6, ..good }, "begin 6 elements of 4 bytes apart");
    refused(GemmShape { m: usize::MAX, ..good }, "more than memory can hold");
    assert!(blas.gemm(GemmShape { c_stride: 12, ..good }).expect("planned").is_some());
}

#[test]
fn what_does_not_fit_the_plan_is_refused() {
    let Some((device, blas, stream)) = device(0) else { return };
    let mut shape = shape((4, 5, 6), InputPrecision::Bf16, Element::F32, 0);
    let plain = blas.gemm(shape).expect("planned").expect("an algorithm");
    shape.epilogue = Epilogue::ReluBias;
    let gemm = blas.gemm(shape).expect("planned").expect("an algorithm");
    let half = |len: usize| device.alloc::<u16>(len).expect("a buffer");
    let single = |len: usize| device.alloc::<f32>(len).expect("a buffer");
    let (a, b, c, vector) = (half(30), half(45), single(29), single(5));
    gemm.launch(&stream, (&a).into(), (&b).into(), (&c).into(), Some(&vector)).expect("as short as can be");

    let text = |result: Result<(), CudaError>| result.expect_err("refused").to_string();
    let name = "(4, 5) = A (4, 6) B (6, 5) of bf16 into f32";
    let wrong = single(45);
    let given = gemm.launch(&stream, (&a).into(), (&wrong).into(), (&c).into(), Some(&vector));
    assert_eq!(
        text(given),
        format!(
            "B of {name} with a bias and ReLU was given as f32; give bf16, or plan the product for the other"
        )
    );
    let wrong = half(29);
    let given = gemm.launch(&stream, (&a).into(), (&b).into(), (&wrong).into(), Some(&vector));
    assert!(text(given).starts_with(&format!("C of {name} with a bias and ReLU was given as bf16")));
    let short = half(29);
    let given = gemm.launch(&stream, (&short).into(), (&b).into(), (&c).into(), Some(&vector));
    let expected = "has 29 elements where 4 rows of 6, 8 apart, need 30; give a buffer that holds them";
    assert_eq!(text(given), format!("A of {name} with a bias and ReLU {expected}"));
    let short = single(28);
    let given = gemm.launch(&stream, (&a).into(), (&b).into(), (&short).into(), Some(&vector));
    assert!(text(given).contains("C of "));

    let given = gemm.launch(&stream, (&a).into(), (&b).into(), (&c).into(), None);
    assert_eq!(
        text(given),
        format!("the product {name} with a bias and ReLU has no vector; give one of 5 numbers")
    );
    let given = plain.launch(&stream, (&a).into(), (&b).into(), (&c).into(), Some(&vector));
    assert!(text(given).starts_with(&format!("the product {name} with no epilogue was given a vector; ")));
    let long = single(6);
    let given = gemm.launch(&stream, (&a).into(), (&b).into(), (&c).into(), Some(&long));
    let expected = CudaError::Length { what: "the vector of a matrix product", given: 6, expected: 5 };
    assert_eq!(given, Err(expected));

    let Some((other, _, other_stream)) = crate::device(1) else { return };
    let far = other.alloc::<u16>(30).expect("a buffer");
    let given = gemm.launch(&stream, (&far).into(), (&b).into(), (&c).into(), Some(&vector));
    assert!(text(given).contains("use a stream of the same device"));
    let given = gemm.launch(&other_stream, (&a).into(), (&b).into(), (&c).into(), Some(&vector));
    assert!(text(given).contains("use a stream of the same device"));
    assert!(!device.is_lost() && !other.is_lost());
}

#[test]
fn a_plan_within_a_capture_is_the_librarys_error() {
    let Some((device, blas, stream)) = device(0) else { return };
    let shape = shape((4, 5, 6), InputPrecision::F32, Element::F32, 0);
    let gemm = blas.gemm(shape).expect("planned").expect("an algorithm");
    let case = Case::new(&device, &stream, shape);
    let graph = stream
        .capture(|stream| {
            let error = blas.gemm(shape).map(|_| ()).expect_err("not now");
            assert!(matches!(error, CudaError::Blas { .. }));
            let text = error.to_string();
            assert!(text.starts_with("cublasLtMatmulAlgoGetHeuristic of cuBLASLt 13.0 ("), "{text}");
            assert!(text.contains("CUBLAS_STATUS_INTERNAL_ERROR (14: "), "{text}");
            assert!(
                text.contains("on device 0 (host, threads in order) while planning the product (4, 5)"),
                "{text}"
            );
            assert!(text.contains("; run again with CUBLASLT_LOG_LEVEL=1"), "{text}");
            case.launch(&gemm, stream)
        })
        .expect("a graph all the same");
    graph.launch(&stream).expect("launched");
    case.check(&stream);
}

#[test]
fn a_device_that_is_lost_says_so() {
    let Some((device, blas, stream)) = device(5) else { return };
    let shape = shape((4, 5, 6), InputPrecision::F32, Element::F32, 0);
    let gemm = blas.gemm(shape).expect("planned").expect("an algorithm");
    let case = Case::new(&device, &stream, shape);
    for _ in 0..3 {
        case.launch(&gemm, &stream).expect("launched");
    }
    let error = case.launch(&gemm, &stream).expect_err("the fourth launch");
    assert!(error.is_lost() && device.is_lost(), "{error}");
    assert!(error.to_string().contains("CUDA_ERROR_LAUNCH_FAILED"), "{error}");
    assert!(matches!(case.launch(&gemm, &stream), Err(CudaError::Lost { .. })));
    assert!(blas.gemm(shape).is_err());
}

#[test]
fn after_a_refused_algorithm_the_next_is_taken() {
    let variables = [("OPERANT_HOST_BLAS_RECANTS", "3")];
    let name = "refusals::after_a_refused_algorithm_the_next_is_taken";
    if device(0).is_none() || !stand_in::is_machine(name, &variables) {
        return;
    }
    let Some((device, blas, stream)) = device(0) else { return };
    let shape = shape((4, 5, 6), InputPrecision::F32, Element::F32, 0);
    let gemm = blas.gemm(shape).expect("planned").expect("an algorithm");
    let case = Case::new(&device, &stream, shape);
    let before = device.transfers();
    case.launch(&gemm, &stream).expect("the fourth algorithm does it");
    case.check(&stream);
    assert_eq!(device.transfers().since(&before).launches, 1);
    // By now the refused algorithm is dropped, so the capture succeeds.
    let graph = stream.capture(|stream| case.launch(&gemm, stream)).expect("a graph");
    graph.launch(&stream).expect("launched");
    case.check(&stream);
}
