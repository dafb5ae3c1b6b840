//! One run in several processes: process 0 runs the training loop, and the others repeat what its backend does.
//!
//! ```text
//! process 0: lead                   ── Start ──> follow             both build a backend
//!            Leader::enqueue_update ── Update ─> enqueue_update     both exchange gradients and statistics
//!            Leader::save           ── Save ───> save               both exchange the state of environments
//!            Leader::load           ── Load ───> load               with the snapshot
//!            drop(Leader)           ── Leave ──> drop               all destroy the NCCL communicator
//!            drop(Leading)          ── End ────> follow returns
//! ```
//!
//! Only process 0 evaluates, writes files, and handles signals.

use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use operant_env::{AnyEnv, EnvCounters, Registry};
use operant_learn::group::{agreed, threads};
use operant_learn::{
    Backend, EpisodeRecording, EvalActions, Evaluation, Group, LearnError, Snapshot, Ticket, UpdateStats,
};
use operant_metrics::printable;
use serde::{Deserialize, Serialize};

use crate::checkpoint;
use crate::config::{self, CommandLine, EnvFacts, Requested};
use crate::device::{self, Built, Device};
use crate::error::{Error, ErrorKind, Result};
use crate::paint;
use crate::trust::Trust;
use crate::world;

/// What process 0 has the others do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    End,
    /// Build a backend; a [`Setup`] of this many bytes follows.
    Start(usize),
    Update,
    /// Take part in a snapshot.
    Save,
    /// Continue from a snapshot; one of this many bytes follows.
    Load(usize),
    /// Drop the backend.
    Leave,
}

impl Command {
    fn encode(self) -> [u8; 16] {
        let (kind, length) = match self {
            Command::End => (0, 0),
            Command::Start(length) => (1, length),
            Command::Update => (2, 0),
            Command::Save => (3, 0),
            Command::Load(length) => (4, length),
            Command::Leave => (5, 0),
        };
        ((length as u128) << 64 | kind).to_le_bytes()
    }

    fn decode(bytes: [u8; 16]) -> Option<Self> {
        let both = u128::from_le_bytes(bytes);
        let length = usize::try_from(both >> 64).ok()?;
        Some(match both as u64 {
            0 => Command::End,
            1 => Command::Start(length),
            2 => Command::Update,
            3 => Command::Save,
            4 => Command::Load(length),
            5 => Command::Leave,
            _ => return None,
        })
    }

    fn send(self, group: &dyn Group) -> Result<(), LearnError> {
        group.broadcast(&mut self.encode())
    }

    fn receive(group: &dyn Group) -> Result<Self, LearnError> {
        let mut bytes = [0; 16];
        group.broadcast(&mut bytes)?;
        Self::decode(bytes).ok_or_else(|| LearnError::Process("process 0 sent an unknown command".to_owned()))
    }
}

fn receive(group: &dyn Group, length: usize) -> Result<Vec<u8>, LearnError> {
    let mut bytes = vec![0; length];
    group.broadcast(&mut bytes)?;
    Ok(bytes)
}

/// The data that a process needs to take part.
#[derive(Debug, Serialize, Deserialize)]
struct Setup {
    operant: String,
    /// The name that the environment gives itself.
    env: String,
    /// The text of a world that is not built in.
    world: Option<String>,
    /// The configuration, as TOML.
    config: String,
    /// Whether it trains on a GPU.
    on_gpu: bool,
}

/// Process 0 of a group: when it is dropped, the others end.
#[derive(Debug)]
pub struct Leading(Arc<dyn Group>);

impl Leading {
    /// The leader of a group.
    pub fn new(group: Arc<dyn Group>) -> Self {
        Leading(group)
    }
}

impl Drop for Leading {
    fn drop(&mut self) {
        // In a panic the others wait for something else. Without them nothing has to end.
        if !std::thread::panicking() {
            let _ = Command::End.send(&*self.0);
        }
    }
}

/// In process 0: builds the shared backend, while every process builds its part. For the closure of [`crate::train`].
///
/// # Errors
/// The errors of [`device::backend_in`], and when another process cannot take part.
pub fn lead(
    env: &Arc<dyn AnyEnv>,
    requested: &Requested,
    device: &Device,
    group: &Arc<dyn Group>,
) -> Result<Built> {
    if group.size() == 1 {
        return device::backend(env, requested, device);
    }
    // Data that only process 0 has.
    if device.is_gpu() && requested.num_envs_is_open() {
        let error = Error::usage("num_envs = \"auto\" is not supported on several GPUs")
            .remedy("set num_envs to a number");
        return Err(requested.placed(error, "num_envs"));
    }
    let own_gpu = if device.is_gpu() { Some(device::gpu_of(requested, &**group)?) } else { None };
    if let Some((_, own)) = own_gpu.as_ref().filter(|(_, own)| own.name != device.name) {
        let what = format!("device {} is not the GPU that process 0 uses, {}", device.name, own.name);
        let error = Error::usage(what)
            .remedy("set device = \"cuda\" without a number; CUDA_VISIBLE_DEVICES selects GPUs");
        return Err(requested.placed(error, "device"));
    }
    let env_itself = device::with_options(&**env, &requested.settings)?;
    let setup = Setup {
        operant: env!("CARGO_PKG_VERSION").to_owned(),
        env: requested.settings.environment.clone(),
        world: env_itself.file(),
        config: requested.settings.to_saved_toml(),
        on_gpu: device.is_gpu(),
    };
    let mut bytes =
        serde_json::to_vec(&setup).map_err(|error| Error::new(ErrorKind::Device, error.to_string()))?;
    Command::Start(bytes.len()).send(&**group)?;
    group.broadcast(&mut bytes)?;
    agreed(&**group, Ok::<_, Error>(()))?;
    let built = agreed(&**group, device::backend_in(env, requested, device, group))?;
    let backend = Box::new(Leader { backend: built.backend, group: Arc::clone(group) });
    Ok(Built { backend, ..built })
}

/// In the other processes: takes part until process 0 ends.
///
/// # Errors
/// When a process is lost. Process 0 reports it, as it does when one cannot take part.
pub fn follow(group: &Arc<dyn Group>, registry: &Registry) -> Result<()> {
    loop {
        let length = match Command::receive(&**group)? {
            Command::Start(length) => length,
            Command::Leave => continue,
            Command::End => return Ok(()),
            other => return Err(unexpected(group, other)),
        };
        let setup = receive(&**group, length)?;
        // Process 0 may start again on another device, or end.
        let Ok(own) = agreed(&**group, prepare(&setup, registry, group)) else { continue };
        let built = device::backend_in(&own.env, &own.requested, &own.device, group);
        if let Ok(built) = agreed(&**group, built) {
            repeat(built.backend, group)?;
        }
    }
}

/// Repeats what the backend of process 0 does, until it is dropped.
fn repeat(mut backend: Box<dyn Backend>, group: &Arc<dyn Group>) -> Result<()> {
    loop {
        match Command::receive(&**group)? {
            Command::Update => {
                let updated = backend.enqueue_update().and_then(|_| backend.poll(false));
                if let Err(error @ LearnError::Cuda(_)) = &updated {
                    // The other GPUs wait for this one, which process 0 cannot know.
                    let line = printable(&format!("{}: {error}", group.describe(group.rank())));
                    let _ = writeln!(anstream::stderr(), "{} {line}", paint::paint(paint::BAD, "error:"));
                    std::process::exit(1);
                }
                // Other errors are those of all processes.
                for message in backend.messages() {
                    let line = format!("{}: {message}", group.describe(group.rank()));
                    let _ = writeln!(anstream::stderr(), "{}", paint::warning(&line));
                }
            }
            Command::Save => drop(backend.save()),
            Command::Load(length) => {
                let bytes = receive(&**group, length)?;
                let loaded = checkpoint::unpack(&bytes).map_err(LearnError::Snapshot);
                let _ = agreed(&**group, loaded.and_then(|snapshot| backend.load(&snapshot)));
            }
            Command::Leave => return Ok(()),
            other => return Err(unexpected(group, other)),
        }
    }
}

fn unexpected(group: &Arc<dyn Group>, command: Command) -> Error {
    group.abandon();
    Error::new(ErrorKind::Device, format!("{} sent an unexpected command, {command:?}", group.describe(0)))
}

/// Trains on several GPUs of this machine, each in its own thread; `train` is process 0.
///
/// # Errors
/// The errors of `train`. Threads may then still wait for a GPU that has failed.
pub fn on_gpus<R, E>(
    count: usize,
    registry: &Registry,
    train: impl FnOnce(&Arc<dyn Group>) -> std::result::Result<R, E>,
) -> std::result::Result<R, E> {
    let mut group = threads::group(count.max(1));
    let own = group.remove(0);
    let follow_in_thread = |other: Arc<dyn Group>| {
        let registry = registry.clone();
        // Process 0 reports what fails.
        std::thread::spawn(move || drop(follow(&other, &registry)))
    };
    let others: Vec<_> = group.into_iter().map(follow_in_thread).collect();
    let leading = Leading::new(Arc::clone(&own));
    let result = train(&own)?;
    drop(leading);
    for other in others {
        let _ = other.join();
    }
    Ok(result)
}

/// What a process builds its backend for.
struct Prepared {
    env: Arc<dyn AnyEnv>,
    requested: Requested,
    device: Device,
}

/// Reads what process 0 describes.
fn prepare(setup: &[u8], registry: &Registry, group: &Arc<dyn Group>) -> Result<Prepared> {
    let other = |found: &str| {
        let what =
            format!("this process runs operant {}, and process 0 runs {found}", env!("CARGO_PKG_VERSION"));
        Error::usage(what).remedy("install the same version on all machines")
    };
    let Setup { operant, env, world, config, on_gpu } =
        serde_json::from_slice(setup).map_err(|_| other("another version"))?;
    if operant != env!("CARGO_PKG_VERSION") {
        return Err(other(&operant));
    }
    let env = match world {
        None => device::find(registry, &env)?,
        Some(text) => sent_world(&text, &env, registry)?,
    };
    // Any device of this machine.
    let device = if on_gpu { "device=cuda" } else { "device=cpu" };
    let line = CommandLine { set: vec![device.to_owned()], ..CommandLine::default() };
    let facts = EnvFacts::of(&env.spec(), registry);
    let requested = config::requested(facts, &line, Some(("process 0", &config)))?;
    let (requested, device) = match on_gpu {
        true => device::gpu_of(&requested, &**group)?,
        false => (requested.on_cpu()?, Device::cpu()),
    };
    Ok(Prepared { env, requested, device })
}

fn sent_world(text: &str, name: &str, registry: &Registry) -> Result<Arc<dyn AnyEnv>> {
    let failed = |path: &Path, error: &std::io::Error| {
        Error::disk("the world of process 0 cannot be written to a temporary file", path, error)
    };
    let scratch = tempfile::tempdir().map_err(|error| failed(&std::env::temp_dir(), &error))?;
    let path = scratch.path().join(world::FILE);
    std::fs::write(&path, text).map_err(|error| failed(&path, &error))?;
    // Process 0 has checked it.
    device::find_of_run(registry, scratch.path(), name, None, Trust::All, false)
}

/// The backend of all processes, in process 0.
struct Leader {
    backend: Box<dyn Backend>,
    group: Arc<dyn Group>,
}

impl Leader {
    /// Where a GPU fails, the others wait for it.
    fn alive<T>(&self, result: Result<T, LearnError>) -> Result<T, LearnError> {
        result.inspect_err(|error| {
            if matches!(error, LearnError::Cuda(_)) {
                self.group.abandon();
            }
        })
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        // All destroy the NCCL communicator together.
        if !std::thread::panicking() {
            let _ = Command::Leave.send(&*self.group);
        }
    }
}

impl Backend for Leader {
    fn enqueue_update(&mut self) -> Result<Ticket, LearnError> {
        Command::Update.send(&*self.group)?;
        let enqueued = self.backend.enqueue_update();
        self.alive(enqueued)
    }

    fn poll(&mut self, wait: bool) -> Result<Option<UpdateStats>, LearnError> {
        let polled = self.backend.poll(wait);
        self.alive(polled)
    }

    fn evaluate_until(
        &mut self,
        episodes: Range<usize>,
        round: u64,
        actions: EvalActions,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Evaluation, LearnError> {
        self.backend.evaluate_until(episodes, round, actions, stop)
    }

    fn how(&self) -> Option<String> {
        let (size, members) = (self.group.size(), self.group.members());
        let here = self.group.neighbours().on_machine;
        let own = self.backend.how().map_or_else(String::new, |how| format!("; {how}"));
        Some(format!("{size} {members} share the environments, {here} of them on this machine{own}"))
    }

    fn messages(&mut self) -> Vec<String> {
        self.backend.messages()
    }

    fn env_counters(&self) -> Option<EnvCounters> {
        self.backend.env_counters()
    }

    fn exchange_seconds(&self) -> Option<f64> {
        self.backend.exchange_seconds()
    }

    fn saves_episodes(&self) -> bool {
        self.backend.saves_episodes()
    }

    fn pulse(&self) -> Arc<AtomicU64> {
        self.backend.pulse()
    }

    fn scene(&mut self) -> Option<EpisodeRecording> {
        self.backend.scene()
    }

    fn save(&mut self) -> Result<Snapshot, LearnError> {
        Command::Save.send(&*self.group)?;
        self.backend.save()
    }

    fn load(&mut self, snapshot: &Snapshot) -> Result<(), LearnError> {
        let mut bytes =
            checkpoint::pack(snapshot).map_err(|error| LearnError::Snapshot(error.to_string()))?;
        Command::Load(bytes.len()).send(&*self.group)?;
        self.group.broadcast(&mut bytes)?;
        agreed(&*self.group, self.backend.load(snapshot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Job, Outcome, train};
    use crate::{Resume, checkpoint::load_latest};

    const STEPS: usize = 128 * 32;

    /// Trains for some updates in this number of threads.
    fn trained(dir: &Path, processes: usize, updates: usize, more: &[&str], resume: bool) -> Result<Outcome> {
        let registry = operant_env::builtin();
        let env = device::find(&registry, "cartpole")?;
        let resume = resume.then(|| Resume::open(dir, "run")).transpose()?;
        let steps = format!("total_timesteps={}", updates * STEPS);
        let mut set =
            vec!["num_envs=128", "num_steps=32", "hidden=12", &steps, "eval_episodes=8", "ring=false"];
        set.extend(["threads=1", "num_minibatches=2", "solved_at=1000", "shuffle=blocks", "device=cpu"]);
        set.push("lr_schedule=constant");
        if resume.is_none() {
            set.push("name=run");
        }
        set.extend(more);
        let set = set.into_iter().map(str::to_owned).collect();
        let flags = vec![("run_dir", "--run-dir", dir.display().to_string())];
        let line = CommandLine { set, flags, ..CommandLine::default() };
        let saved = resume.as_ref().map(|resume| (resume.name(), resume.config()));
        let requested = config::requested(EnvFacts::of(&env.spec(), &registry), &line, saved)?;
        let job = Job { resume, ..Job::new(requested) };
        std::thread::scope(|scope| {
            let mut group = threads::group(processes);
            let own = group.remove(0);
            let follow = |group: Arc<dyn Group>| scope.spawn(move || follow(&group, &operant_env::builtin()));
            let others: Vec<_> = group.into_iter().map(follow).collect();
            let leading = Leading::new(Arc::clone(&own));
            let outcome = train(job, |requested, device| lead(&env, requested, device, &own));
            drop(leading);
            for other in others {
                let ended = other.join().expect("no panic");
                assert!(ended.is_ok() || outcome.is_err(), "{ended:?}");
            }
            outcome
        })
    }

    fn snapshot(dir: &Path) -> Snapshot {
        load_latest(&dir.join("run/checkpoints")).expect("loaded").checkpoint.snapshot
    }

    #[test]
    fn several_processes_train_and_resume_a_run_with_the_bits_of_one() {
        let scratch = tempfile::tempdir().expect("a directory");
        let dir = |name: &str| scratch.path().join(name);
        let one = trained(&dir("one"), 1, 4, &[], false).expect("trained");
        for processes in [2, 4] {
            let own = dir(&processes.to_string());
            let outcome = trained(&own, processes, 4, &[], false).expect("trained");
            assert_eq!(outcome.result.eval_return_mean, one.result.eval_return_mean);
            assert_eq!(snapshot(&own), snapshot(&dir("one")), "{processes} processes");
        }
        for (name, first, then) in [("fewer", 4, 2), ("more", 1, 4)] {
            trained(&dir(name), first, 2, &[], false).expect("trained");
            trained(&dir(name), then, 4, &[], true).expect("resumed");
            assert_eq!(snapshot(&dir(name)), snapshot(&dir("one")), "{name}");
        }
    }

    #[test]
    fn several_processes_begin_with_the_weights_of_another_run() {
        let scratch = tempfile::tempdir().expect("a directory");
        let dir = |name: &str| scratch.path().join(name);
        trained(&dir("source"), 1, 1, &["norm_obs=true"], false).expect("trained");
        let source = format!("init_from={}", dir("source/run").display());
        let more = ["seed=7", &source];
        trained(&dir("one"), 1, 1, &more, false).expect("trained");
        trained(&dir("two"), 2, 1, &more, false).expect("trained");
        assert_eq!(snapshot(&dir("two")), snapshot(&dir("one")));
        let begun = checkpoint::load(&dir("two/run/checkpoints/step_000000000000")).expect("loaded").snapshot;
        let params = |snapshot: Snapshot| -> Vec<_> {
            snapshot.tensors.into_iter().filter(|tensor| tensor.name.starts_with("params.")).collect()
        };
        assert_eq!(params(begun), params(snapshot(&dir("source"))));
    }

    #[test]
    fn what_processes_cannot_share_is_refused_before_files_are_written() {
        let scratch = tempfile::tempdir().expect("a directory");
        for (processes, more, text) in
            [(2, &["shuffle=samples"][..], "set shuffle = \"blocks\""), (3, &[], "which 3 GPUs cannot share")]
        {
            let error = trained(scratch.path(), processes, 1, more, false).expect_err("refused");
            assert_eq!(error.exit_code(), 2, "{error}");
            assert!(error.to_string().contains(text), "{error}");
            assert!(!scratch.path().join("run").exists());
        }
    }

    #[test]
    fn a_process_that_cannot_take_part_is_named() {
        let cartpole = device::find(&operant_env::builtin(), "cartpole").expect("built in");
        let facts = EnvFacts::of(&cartpole.spec(), &operant_env::builtin());
        let set = ["num_envs=128", "num_steps=32", "num_minibatches=2", "shuffle=blocks", "device=cpu"];
        let line = CommandLine { set: set.map(str::to_owned).to_vec(), ..CommandLine::default() };
        let requested = config::requested(facts, &line, None).expect("valid");
        std::thread::scope(|scope| {
            let [own, knows, lacks] = <[_; 3]>::try_from(threads::group(3)).expect("three");
            let others = [(knows, operant_env::builtin()), (lacks, Registry::default())]
                .map(|(group, registry)| scope.spawn(move || follow(&group, &registry)));
            let leading = Leading::new(Arc::clone(&own));
            let error =
                lead(&cartpole, &requested, &Device::cpu(), &own).err().expect("one fails").to_string();
            assert!(error.starts_with("GPU 2: there is no environment \"cartpole\""), "{error}");
            drop(leading);
            for other in others {
                other.join().expect("no panic").expect("it ends with process 0");
            }
        });
    }

    #[test]
    fn another_version_is_refused() {
        let group = threads::group(1).remove(0);
        let refused = |setup: &str| {
            prepare(setup.as_bytes(), &operant_env::builtin(), &group).err().expect("refused").to_string()
        };
        let old = r#"{"operant": "0.0.1", "env": "cartpole", "world": null, "config": "", "on_gpu": false}"#;
        assert!(refused(old).contains("process 0 runs 0.0.1"));
        assert!(refused("{}").contains("process 0 runs another version"));
    }

    #[test]
    fn commands_round_trip() {
        let all = [
            Command::End,
            Command::Start(7),
            Command::Update,
            Command::Save,
            Command::Load(1 << 40),
            Command::Leave,
        ];
        for command in all {
            assert_eq!(Command::decode(command.encode()), Some(command));
        }
        assert_eq!(Command::decode([9; 16]), None);
    }

    #[test]
    fn snapshots_round_trip() {
        let scratch = tempfile::tempdir().expect("a directory");
        trained(scratch.path(), 1, 1, &[], false).expect("trained");
        let snapshot = snapshot(scratch.path());
        let bytes = checkpoint::pack(&snapshot).expect("packed");
        assert_eq!(checkpoint::unpack(&bytes), Ok(snapshot));
        for length in [0, 7, 20, bytes.len() - 1] {
            assert!(checkpoint::unpack(&bytes[..length]).is_err(), "{length}");
        }
    }
}
