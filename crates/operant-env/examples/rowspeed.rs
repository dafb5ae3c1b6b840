use operant_env::world::WorldEnv;
use operant_env::{AnyEnv, LaneWidth, builtin};
use std::time::Instant;
fn rate(env: &dyn AnyEnv) -> f64 {
    let mut play = env.random_play(1, 0, 2048, LaneWidth::WIDEST).unwrap();
    play.play(100).unwrap();
    let mut best: f64 = 0.0;
    for _ in 0..5 {
        let t = Instant::now();
        let mut steps = 0;
        while t.elapsed().as_secs_f64() < 0.2 { steps += play.play(50).unwrap().steps; }
        best = best.max(steps as f64 / t.elapsed().as_secs_f64());
    }
    best
}
fn main() {
    let names: Vec<String> = std::env::args().skip(1).collect();
    for env in builtin().envs() {
        let name = env.spec().name;
        if !names.contains(&name) { continue; }
        let world = WorldEnv::new(env.world().unwrap());
        let (a, b) = (rate(&**env), rate(&world));
        println!("{name}: compiled {:.1} M, rows {:.1} M, 1/{:.1}; {}", a / 1e6, b / 1e6, a / b, world.sizes());
    }
}
