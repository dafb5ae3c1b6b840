//! Defines and trains an environment outside operant through the library: runs the example of docs/environments.md.

#[path = "../examples/corridor.rs"]
#[expect(dead_code, reason = "the example's main is not called")]
mod corridor;

#[test]
fn an_external_environment_learns_and_leaves_a_complete_run() {
    let scratch = tempfile::tempdir().expect("a directory");
    let run_dir = format!("run_dir={}", scratch.path().display());
    let settings = ["name=mine", "ring=false", &run_dir];
    let result = corridor::learn(&settings).expect("a finished run");
    assert_eq!((result.run.as_str(), result.env.as_str()), ("mine", "corridor"));
    let mean = result.eval_return_mean.expect("an evaluation");
    assert!(mean >= 160.0, "mean return {mean}");
    let run = scratch.path().join("mine");
    for file in ["config.toml", "metrics.csv", "result.json", "checkpoints"] {
        assert!(run.join(file).exists(), "{file} is missing");
    }
}
