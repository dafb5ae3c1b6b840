//! Checkpoints: bytes, the header of the tensors, metadata and configuration, with checksums that fit.

use std::path::Path;

use operant_learn::EvalActions;
use operant_run::eval::{self, EvalTarget};
use operant_run::{
    CommandLine, Device, EnvFacts, Result, Resume, SavedPolicy, Trust, backend, checkpoint, config,
};

use super::{Random, change_bytes, change_document};
use crate::table::swept;

const FILES: [&str; 3] = ["config.toml", "meta.json", "state.safetensors"];

pub fn reader(place: &Path) -> Box<dyn FnMut(u64)> {
    let trials = swept(place).join("trials");
    let run = std::fs::read_dir(&trials).expect("trials").next().expect("a trial").expect("a trial").path();
    let (_, step) = checkpoint::steps(&run.join("checkpoints")).expect("steps").pop().expect("a checkpoint");
    let files = FILES.map(|file| std::fs::read(step.join(file)).expect("a file"));
    Box::new(move |number| {
        let random = &mut Random::new(number);
        let mut changed = files.clone();
        let at = random.below(FILES.len());
        change(&mut changed[at], random);
        let mut sums: String = FILES.iter().zip(&changed).map(|(name, bytes)| sum(name, bytes)).collect();
        if random.below(10) == 0 {
            let mut bytes = sums.into_bytes();
            change_bytes(&mut bytes, random);
            sums = String::from_utf8_lossy(&bytes).into_owned();
        }
        for (name, bytes) in FILES.iter().zip(&changed) {
            std::fs::write(step.join(name), bytes).expect("written");
        }
        std::fs::write(step.join("checksums"), sums).expect("written");
        std::fs::write(run.join("config.toml"), &changed[0]).expect("written");
        read(&trials, &run, &step);
    })
}

/// A line of `checksums`.
fn sum(name: &str, bytes: &[u8]) -> String {
    format!("{:08x} {} {name}\n", crc32fast::hash(bytes), bytes.len())
}

/// Changes bytes, or what is in them: JSON as a document, and the header of tensors too, whose length comes first.
fn change(bytes: &mut Vec<u8>, random: &mut Random) {
    let length = bytes.first_chunk().map_or(usize::MAX, |length| u64::from_le_bytes(*length) as usize);
    let header = bytes.get(8..8usize.saturating_add(length)).map(serde_json::from_slice::<serde_json::Value>);
    match (header, serde_json::from_slice::<serde_json::Value>(bytes)) {
        (Some(Ok(mut header)), _) if random.below(3) > 0 => {
            change_document(&mut header, random);
            let header = header.to_string().into_bytes();
            let tensors = bytes.split_off(8 + length);
            *bytes = [&(header.len() as u64).to_le_bytes()[..], &header, &tensors].concat();
        }
        (_, Ok(mut document)) if random.below(3) > 0 => {
            change_document(&mut document, random);
            *bytes = document.to_string().into_bytes();
        }
        _ => change_bytes(bytes, random),
    }
}

fn read(trials: &Path, run: &Path, step: &Path) {
    let registry = operant_env::builtin();
    let path = step.to_str().expect("text");
    let errors = [
        SavedPolicy::load(&registry, trials, path).err(),
        Resume::open(trials, run.to_str().expect("text"))
            .and_then(|run| run.env(&registry, Trust::Nothing))
            .err(),
        evaluated(path, trials).err(),
    ];
    for error in errors.into_iter().flatten() {
        assert!(!error.to_string().is_empty(), "{error:?}");
    }
}

fn evaluated(path: &str, trials: &Path) -> Result<()> {
    let registry = operant_env::builtin();
    let target = EvalTarget::find(trials, path)?;
    let env = target.env(&registry, Trust::Nothing)?;
    let facts = EnvFacts::of(&env.spec(), &registry);
    let saved = (target.run.as_str(), target.checkpoint.config.as_str());
    let requested = config::requested(facts, &CommandLine::default(), Some(saved))?;
    let play = |requested: &_| backend(&env, requested, &Device::cpu());
    eval::evaluate(&target, &requested, 1, EvalActions::Greedy, &mut || false, play).map(drop)
}
