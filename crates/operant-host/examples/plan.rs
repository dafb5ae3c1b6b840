//! Prints this machine, what would be made of it, and what finding out cost: `cargo run --example plan`.

use std::time::Instant;

use operant_host::{Plan, Topology, Wishes, Work};

fn main() {
    let start = Instant::now();
    let topology = Topology::read();
    println!("read in {:.2} ms: {topology:#?}", start.elapsed().as_secs_f64() * 1e3);
    let work = Work {
        tile: 64,
        num_envs: None,
        rollout_tiles: &[(16, 1.0), (32, 1.5), (64, 2.5)],
        lane_widths: &[8, 16],
        layers: 2,
        networks: 1,
        sample_bytes: 64,
        most_parts: 64,
        parts_of_one_tile: 8,
        tiles_of_part: 4,
    };
    let start = Instant::now();
    let plan = Plan::new(&topology, &Wishes::default(), &work);
    println!("planned in {:.3} ms", start.elapsed().as_secs_f64() * 1e3);
    for setting in plan.settings {
        println!("{:16} {:24} {}", setting.name, setting.value, setting.reason);
    }
}
