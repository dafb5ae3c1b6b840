//! Prints this machine, its plan, and how long both took: `cargo run --example plan`.

use std::time::Instant;

use operant_host::{Plan, PlanRequest, Topology, Workload};

fn main() {
    let start = Instant::now();
    let topology = Topology::read();
    println!("read in {:.2} ms: {topology:#?}", start.elapsed().as_secs_f64() * 1e3);
    let work = Workload {
        tile: 64,
        num_envs: None,
        rollout_tiles: &[(16, 1.0), (32, 1.5), (64, 2.5)],
        lane_widths: &[8, 16],
    };
    let start = Instant::now();
    let plan = Plan::new(&topology, &PlanRequest::default(), &work);
    println!("planned in {:.3} ms", start.elapsed().as_secs_f64() * 1e3);
    for setting in plan.settings {
        println!("{:16} {:24} {}", setting.name, setting.value, setting.reason);
    }
}
