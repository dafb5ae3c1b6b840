//! A minibatch on an H200, by hand.

use operant_learn::Config;
use operant_learn::cuda::specialise::{Limits, UpdateSpecialisation};
use operant_learn::network::{Architecture, Head, Input, Network};
use operant_learn::{Activation, Precision};

use super::super::count::Counts;
use super::super::work::Work;
use super::*;

fn measurement(precision: Precision) -> Measurement {
    let config = Config {
        hidden: vec![64, 64],
        shared_trunk: true,
        num_envs: NUM_ENVS,
        activation: Activation::Tanh,
        ..Config::default()
    };
    let network = Network::new(Architecture::new(&config, Input::Dense(4), Head::MultiDiscrete(vec![2])));
    let limits = Limits { shared: 232_448, multiprocessors: 132 };
    let update = UpdateSpecialisation::new(&network, &config, precision, limits).expect("it fits");
    let tile = Work::of_tile(&network, precision, update.warps);
    Measurement { network, update, sample: 32, tile }
}

#[test]
fn blocks_are_as_many_as_are_resident() {
    let f32 = measurement(Precision::F32);
    // 80,208 bytes and 1,024: two by shared memory. 4 warps of 32 x 200 registers, in steps of 256: two by registers.
    let grid = Grid::of(&f32, 200);
    assert_eq!(grid, Grid { resident: 2, blocks: 264, tiles: 512 });
    assert_eq!((grid.busy(), grid.of_block(), grid.of_multiprocessor()), (264, 2, 4));
    assert_eq!(Grid::of(&f32, 255).resident, 2);
    assert_eq!(Grid::of(&f32, 128).resident, 2);
    assert_eq!(Grid::of(&measurement(Precision::Tf32), 151).blocks, 132);
}

fn step(tile: Part) -> AdamStep {
    AdamStep { tile, around: Part::default(), reduce: Part::default(), adam: Part::default() }
}

#[test]
fn the_greatest_limit_binds_the_tiles() {
    let measurement = measurement(Precision::F32);
    let grid = Grid::of(&measurement, 200);
    let of = |counts: Counts, trips: f64| {
        times(&step(Part { counts, trips, own_trips: 0.0 }), &measurement, grid).tiles()
    };
    let counts = Counts { all: 10_000.0, global: 2.0, ..Counts::default() };
    let near = |(time, limit): (f64, &'static str), cycles: f64, named: &str| {
        assert!((time - cycles / 1_755.0).abs() < 1e-9 && limit == named, "{time} {limit}");
    };
    // 4 tiles of 4 warps by 4 schedulers.
    near(of(counts, 0.0), 40_000.0, "issue");
    near(of(Counts { shared_cycles: 5_000.0, ..counts }, 0.0), 80_000.0, "shared");
    near(of(Counts { mufu: 2_000.0, ..counts }, 0.0), 64_000.0, "MUFU");
    near(of(Counts { hmma: 2_000.0, ..counts }, 0.0), 64_000.0, "HMMA");
    // Two tiles one after the other, 100 trips each.
    near(of(counts, 100.0), 2.0 * 36_000.0, "alone");
}

#[test]
fn gradients_that_no_register_holds_cost_bytes() {
    let measurement = measurement(Precision::F32);
    let grid = Grid::of(&measurement, 200);
    let bytes = |global: f64| {
        let counts = Counts { global, ..Counts::default() };
        let times = times(&step(Part { counts, trips: 0.0, own_trips: 0.0 }), &measurement, grid);
        times.limits[4].0 * 5.5e6
    };
    let parameters = 4.0 * 4_675.0;
    // 512 tiles store, and those that are not a block's first load; held ones are stored by 264 blocks.
    assert!((bytes(80.0) - bytes(2.0) - (512.0 + 248.0 - 264.0) * parameters).abs() < 1.0);
}

#[test]
fn the_step_is_the_sum_of_its_parts() {
    let times = Times {
        limits: [(1.0, "issue"), (2.0, "MUFU"), (6.0, "HMMA"), (3.0, "shared"), (4.0, "L2"), (5.0, "alone")],
        around: 10.0,
        reduce: 20.0,
        adam: 30.0,
    };
    assert_eq!((times.step(), greatest(times.parts())), (6.0 + 60.0 + 3.0, (30.0, "Adam")));
}

#[test]
fn a_speed_leaves_the_step_that_reaches_it() {
    assert!((speed(30.0, 160.0) - 1_048_576.0 / 4_000.0).abs() < 1e-9);
    assert!((left(speed(30.0, 160.0), 160.0) - 30.0).abs() < 1e-9);
}
