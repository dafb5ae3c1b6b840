//! Exported ONNX models compute what the policy computes, by onnxruntime: several components, masks, bounds, and observations of every kind.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use operant_learn::ActionDistribution;
use operant_learn::cpu::inference::{Choice, Inference, ObsRows};
use operant_learn::network::{Head, Outputs};
use operant_run::{SavedPolicy, export};

use crate::networks;

/// Rows of each comparison.
const ROWS: usize = 100;

/// Checks the model in the working directory, and writes its outputs for the inputs there.
const SCRIPT: &str = "
import numpy as np, onnx, onnxruntime, sys
model = onnx.load('m.onnx')
onnx.checker.check_model(model, full_check=True)
names = [x.name for x in [*model.graph.input, *model.graph.initializer]] + [x for node in model.graph.node for x in node.output]
assert len(names) == len(set(names)), 'a name is assigned twice'
session = onnxruntime.InferenceSession('m.onnx')
feed = {i.name: np.fromfile(i.name, {'tensor(float)': 'f4', 'tensor(bool)': '?', 'tensor(int64)': 'i8', 'tensor(uint8)': 'u1'}[i.type])
        .reshape(-1, *i.shape[1:]) for i in session.get_inputs()}
for output, value in zip(session.get_outputs(), session.run(None, feed)):
    value.astype('f4').tofile(output.name)
";

fn read(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Compares onnxruntime's outputs with the engine's.
fn compare(python: &Path, saved: &SavedPolicy) {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    let outputs = saved.policy.network.policy_outputs();
    let words = networks::observations(&saved.policy.obs, ROWS, |name, bytes| {
        let is_other = ["action", "value"].contains(&name);
        let file = if is_other { at(&format!("obs.{name}")) } else { at(name) };
        std::fs::write(file, bytes).expect("written");
    });
    let obs = ObsRows::Words(&words);
    // At least one choice of each component is legal: every third and every fifth.
    let legal: Vec<i8> = (0..ROWS * outputs)
        .map(|i| i8::from((i % outputs).is_multiple_of(3) || i.is_multiple_of(5)))
        .collect();
    std::fs::write(at("action_mask"), legal.iter().map(|&x| x as u8).collect::<Vec<u8>>()).expect("written");
    let states: Vec<f32> =
        (0..ROWS * saved.policy.network.states).map(|i| (i * 31 % 17) as f32 / 9.0 - 0.9).collect();
    let bytes: Vec<u8> = states.iter().flat_map(|x| x.to_le_bytes()).collect();
    std::fs::write(at("core_state"), bytes).expect("written");
    export::write_onnx(saved, &at("m.onnx")).expect("written");
    let ran = Command::new(python).args(["-c", SCRIPT]).current_dir(dir.path()).output().expect("started");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));

    let inference = Inference::new(saved.policy.clone());
    let (mut logits, mut values) = (vec![0.0; ROWS * outputs], vec![0.0; ROWS]);
    let mut next = states.clone();
    inference.evaluate(obs, &mut next, &mut logits, &mut values);
    let mut actions = vec![0.0; ROWS * saved.policy.actions.components()];
    let mask = saved.policy.masked.then_some(&legal[..]);
    let mut after = states.clone();
    inference.act(obs, mask, Choice::Greedy, &mut after, &mut actions);
    assert_eq!(next, after);
    let close = |name: &str, ours: &[f32]| {
        let theirs = read(&at(name));
        assert_eq!(theirs.len(), ours.len(), "{name}");
        let scale = ours.iter().fold(1.0f32, |most, x| most.max(x.abs()));
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert!((ours - theirs).abs() <= 1e-5 * scale, "{name}: {ours} and {theirs}");
        }
    };
    let name = match saved.policy.network.architecture.outputs {
        Outputs::ActionValues => "q_values",
        _ => "logits",
    };
    if saved.policy.masked {
        let theirs = read(&at(name));
        for ((ours, theirs), legal) in logits.iter().zip(theirs).zip(&legal) {
            let expected = if *legal == 1 { *ours } else { -1e8 };
            assert!((theirs - expected).abs() <= 1e-4, "{name}: {expected} and {theirs}");
        }
    } else if let Head::Continuous(of) = saved.policy.network.architecture.head {
        let of_side = |side: usize, f: &dyn Fn(f32) -> f32| -> Vec<f32> {
            let rows = logits.chunks_exact(outputs);
            rows.flat_map(|row| row.chunks_exact(of.actions).nth(side).unwrap().iter().map(|&x| f(x)))
                .collect()
        };
        if of.distribution == ActionDistribution::Beta {
            let shape = |x: f32| 1.0 + x.exp().ln_1p();
            close("alpha", &of_side(0, &shape));
            close("beta", &of_side(1, &shape));
        } else {
            close("mean", &of_side(0, &|x| x));
        }
        if of.computes_log_std() {
            close("log_std", &of_side(1, &|x| -1.5 + 3.5 * ((x + 1.5) / 3.5).tanh()));
        }
    } else {
        close(name, &logits);
    }
    if !saved.policy.network.architecture.outputs.has_critics() {
        close("value", &values);
    }
    if !states.is_empty() {
        close("next_core_state", &next);
    }
    close("action", &actions);
}

#[test]
fn onnxruntime_computes_what_the_engine_does() {
    let Some(python) = std::env::var_os("OPERANT_TEST_PYTHON") else {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED onnxruntime_computes_what_the_engine_does: no OPERANT_TEST_PYTHON with onnxruntime; cargo xtask python makes one"
        );
        return;
    };
    networks::all().iter().for_each(|saved| compare(Path::new(&python), saved));
}
