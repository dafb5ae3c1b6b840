//! Prints the machine's utilization four times a second and the time a sample takes: `cargo run --example sample -- [GPU-UUID]`.

use std::time::{Duration, Instant};

use operant_host::Sampler;

fn main() {
    let gpu = std::env::args().nth(1);
    let made = Instant::now();
    let mut sampler = gpu.as_deref().map_or_else(Sampler::new, Sampler::with_gpu);
    println!("made in {:.0} us", made.elapsed().as_secs_f64() * 1e6);
    if let Some(reason) = sampler.gpu_missing() {
        println!("no GPU: {reason}");
    }
    for _ in 0..8 {
        std::thread::sleep(Duration::from_millis(250));
        let start = Instant::now();
        let sample = sampler.sample();
        println!("{:.0} us: {sample:?}", start.elapsed().as_secs_f64() * 1e6);
    }
    // Back to back, as a benchmark: warm caches, so less than the figures above.
    let (calls, start) = (2_000, Instant::now());
    for _ in 0..calls {
        std::hint::black_box(sampler.sample());
    }
    println!(
        "{calls} calls back to back: {:.1} us each",
        start.elapsed().as_secs_f64() * 1e6 / f64::from(calls)
    );
}
