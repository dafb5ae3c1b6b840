//! Applies the plan for this machine: the number of worker threads, their CPUs, how they wait, and how many
//! environments each steps together. It affects the speed of a run and never its result.

use operant_env::AnyEnv;
use operant_host::{Plan, PlanRequest, Topology, Waiting, Workload};
use operant_learn::Group;
use operant_learn::cpu::{self, CpuOptions, Footprint, isa};

use crate::config::{RunConfig, Settings, WaitingRequest};
use crate::device::{learn_error, with_options};
use crate::error::{Error, Result};

/// Environments per tile, and a thread's time per tile relative to the smallest: CartPole with networks of 64-64,
/// measured with `operant bench rollout --set rollout_tile=..`. Vectors of half the width have registers for the
/// smaller tiles only.
const ROLLOUT_TILES: [(usize, f64); 3] =
    if isa::HOLDS_BLOCKS { [(16, 1.0), (32, 1.75), (64, 3.4)] } else { [(16, 1.0), (32, 2.0), (64, 4.3)] };

/// The applied part of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedPlan {
    /// Worker threads.
    pub threads: usize,
    /// Each setting with its reason, in one line.
    pub note: String,
    /// Why threads are not bound to CPUs although that was requested.
    pub unbound: Option<String>,
    /// Why there are fewer threads than requested.
    pub clamped: Option<String>,
}

/// Maximum number of worker threads on a machine with `usable` hardware threads: more would only wait for each other.
fn max_threads(usable: usize) -> usize {
    (4 * usable).max(64)
}

/// The plan of this machine for a run with this configuration, with this number of environments if it is fixed, on the
/// CPU or a GPU.
pub fn plan(run: &RunConfig, num_envs: Option<usize>, gpu: bool) -> Plan {
    let topology = Topology::read();
    Plan::new(&topology, &request(run, topology.parallelism, gpu), &workload(num_envs, None))
}

/// The plan for a run on the CPU, for one of several processes that use the same CPUs; `num_envs` counts this process only, and `chunks`
/// are the parts of a minibatch where they are known.
pub fn shared_plan(run: &RunConfig, num_envs: usize, chunks: Option<usize>, processes: usize) -> Plan {
    let topology = Topology::read();
    let request = PlanRequest { processes, ..request(run, topology.parallelism, false) };
    Plan::new(&topology, &request, &workload(Some(num_envs), chunks))
}

/// The plan for training on the CPU with nothing requested.
pub fn default_plan() -> Plan {
    Plan::new(&Topology::read(), &PlanRequest::default(), &workload(None, None))
}

/// The configuration's requests, given the number of usable hardware threads; the rest is left to the plan.
fn request(run: &RunConfig, usable: usize, gpu: bool) -> PlanRequest {
    PlanRequest {
        optimize: run.optimize_perf,
        threads: (run.threads > 0).then_some(run.threads.min(max_threads(usable))),
        // The plan never binds threads by itself, so false overrides nothing.
        pin: run.pin.then_some(true),
        waiting: match run.waiting {
            WaitingRequest::Auto => None,
            WaitingRequest::Spin => Some(Waiting::Spin),
            WaitingRequest::Yield => Some(Waiting::Yield),
            WaitingRequest::Sleep => Some(Waiting::Sleep),
        },
        rollout_tile: (run.rollout_tile > 0).then_some(run.rollout_tile),
        gpu,
        ..PlanRequest::default()
    }
}

/// The workload as far as it is known without an environment.
fn workload(num_envs: Option<usize>, chunks: Option<usize>) -> Workload {
    Workload {
        tile: cpu::network::tile::TILE,
        num_envs,
        chunks,
        rollout_tiles: &ROLLOUT_TILES,
        lane_widths: &cpu::LANE_WIDTHS,
        vector: (isa::SET.lanes, isa::SET.name),
    }
}

/// Bytes of memory that a run on the CPU needs.
///
/// # Errors
/// When the settings do not fit the environment.
pub fn memory_needed(env: &dyn AnyEnv, settings: &Settings, threads: usize) -> Result<u64> {
    let env = with_options(env, settings)?;
    let footprint = Footprint::of(&*env, &settings.learner, threads)
        .map_err(|error| learn_error(error, |key| settings.origin(key).cloned()))?;
    Ok(footprint.bytes(settings.learner.num_envs))
}

/// Refuses a run on the CPU that needs more memory than is available, together with the other processes of `group` on this machine.
///
/// # Errors
/// With the needed and the available memory, and the largest number of environments that fits.
pub fn check_memory(env: &dyn AnyEnv, settings: &Settings, threads: usize, group: &dyn Group) -> Result<()> {
    let learner = &settings.learner;
    let footprint = Footprint::of(env, learner, threads)
        .map_err(|error| learn_error(error, |key| settings.origin(key).cloned()))?;
    let (processes, here) = (group.size(), group.neighbours().on_machine as u64);
    let needed = here * footprint.bytes(learner.num_envs / processes);
    let Some(memory) = operant_host::machine::memory().filter(|memory| needed > memory.available) else {
        return Ok(());
    };
    let (n, t) = (learner.num_envs, learner.num_steps);
    let available = gib(memory.available);
    let of_network = footprint.network > memory.available / 2;
    let of_sequences = footprint.sequences > footprint.network / 2;
    let (what, key) = if footprint.replay > memory.available / 2 {
        let assigned = settings.assignment("buffer_size");
        (format!("{assigned} needs {} of memory, and {available} are available", gib(needed)), "buffer_size")
    } else if of_network {
        let key = match learner.core {
            _ if of_sequences && learner.sequence_length > 0 => "sequence_length",
            _ if of_sequences => "num_steps",
            _ if !learner.conv.is_empty() => "conv",
            _ if learner.core_width > 0 => "core_width",
            _ => "hidden",
        };
        let layers = settings.assignment(key);
        (format!("{layers} needs {} of memory, and {available} are available", gib(needed)), key)
    } else {
        let need = gib(needed);
        (
            format!("num_envs x num_steps = {n} x {t} needs {need} of memory, and {available} are available"),
            "num_envs",
        )
    };
    let of_transition = (footprint.replay / (learner.buffer_size as u64).max(1)).max(1);
    let rest = footprint.bytes(n / processes).saturating_sub(footprint.replay);
    let remedy = match (of_network, processes as u64 * footprint.most_envs(memory.available / here)) {
        _ if key == "buffer_size" => {
            let most = memory.available.saturating_sub(rest) / of_transition;
            format!("use a buffer_size of at most {most}")
        }
        (true, _) if of_sequences => "set a shorter sequence_length, or fewer threads".to_string(),
        (true, _) => "use narrower or fewer layers".to_string(),
        (false, 0) => "lower num_steps".to_string(),
        (false, most) => format!("use at most {most} environments, or lower num_steps"),
    };
    let error = Error::usage(what).remedy(remedy);
    Err(match settings.origin(key) {
        Some(origin) => error.at(origin.to_string()),
        None => error,
    })
}

fn gib(bytes: u64) -> String {
    #[allow(clippy::cast_precision_loss)] // shown to a tenth
    let gib = bytes as f64 / f64::from(1 << 30);
    format!("{gib:.1} GiB")
}

/// The plan as options of the CPU backend.
pub fn cpu_options(plan: &Plan) -> CpuOptions {
    let waiting = match plan.waiting {
        Waiting::Spin => cpu::WaitStrategy::Spin,
        Waiting::Yield => cpu::WaitStrategy::Yield,
        Waiting::Sleep => cpu::WaitStrategy::Sleep,
    };
    CpuOptions {
        threads: plan.threads,
        pin: plan.pin.clone(),
        waiting,
        rollout_tile: plan.rollout_tile.unwrap_or(0),
        lane_width: plan.lane_width,
        bf16: None,
    }
}

/// The applied part of a plan, as the log shows it. `waiting` does not apply to a GPU's host threads, and pinning is
/// shown only if it was requested.
pub(crate) fn applied(plan: &Plan, run: &RunConfig, gpu: bool, unbound: Option<String>) -> AppliedPlan {
    let is_shown = |name: &str| match name {
        "threads" => true,
        "pinning" => run.pin,
        "waiting" => !gpu,
        "rollout_tile" | "lane_width" => !gpu,
        _ => false,
    };
    let settings: Vec<String> = plan
        .settings
        .iter()
        .filter(|setting| is_shown(setting.name))
        .map(|setting| match (setting.name, setting.value.as_str()) {
            ("threads", "1") => format!("1 thread ({})", setting.reason),
            ("threads", count) => format!("{count} threads ({})", setting.reason),
            (name, value) => format!("{name}: {value} ({})", setting.reason),
        })
        .collect();
    let clamped = (run.threads > plan.threads).then(|| {
        format!("threads = {} is more than this machine can use: {} are started", run.threads, plan.threads)
    });
    AppliedPlan { threads: plan.threads, note: format!("plan: {}", settings.join("; ")), unbound, clamped }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{CommandLine, EnvFacts, Settings, requested};

    fn with(assignments: &[&str]) -> Settings {
        let set = assignments.iter().map(ToString::to_string).collect();
        let facts = EnvFacts::registered(&operant_env::builtin(), "cartpole").expect("registered");
        requested(facts, &CommandLine { set, ..CommandLine::default() }, None).expect("valid").settings
    }

    fn planned(settings: &Settings, gpu: bool) -> (Plan, AppliedPlan) {
        let work = workload(Some(1024), None);
        let plan = Plan::new(&Topology::of_parallelism(4), &request(&settings.run, 4, gpu), &work);
        let applied = applied(&plan, &settings.run, gpu, None);
        (plan, applied)
    }

    #[test]
    fn no_more_threads_than_useful_are_started() {
        let many = with(&["threads=4096"]);
        let (plan, applied) = planned(&many, false);
        assert_eq!(plan.threads, 64);
        assert!(applied.clamped.is_some_and(|why| why.contains("4096") && why.contains("64 are started")));
        assert_eq!(planned(&with(&["threads=5"]), false).1.clamped, None);
        assert_eq!(planned(&with(&[]), false).1.clamped, None);
    }

    #[test]
    fn every_tile_has_a_time() {
        assert_eq!(ROLLOUT_TILES.map(|(tile, _)| tile), cpu::ROLLOUT_TILES);
    }

    #[test]
    fn the_log_has_one_line_with_settings_and_reasons() {
        let base = ["optimize_perf=true", "threads=0", "pin=false", "waiting=auto"];
        let (plan, applied) = planned(&with(&base), false);
        assert_eq!((plan.threads, plan.waiting, applied.threads), (4, Waiting::Spin, 4));
        assert_eq!(
            applied.note.split("; lane_width: ").next(),
            Some("plan: 4 threads (one per usable core); waiting: spin (every thread has a CPU)")
        );
        // With fewer registers a tile of 64 takes more than twice the time of one of 32.
        let (tile, tiles) = if isa::HOLDS_BLOCKS { (64, 16) } else { (32, 32) };
        let tile = format!("; rollout_tile: {tile} (1024 environments take {tiles} tiles for 4 threads)");
        assert!(applied.note.ends_with(&tile), "{}", applied.note);
        // With a GPU the plan sets neither waiting nor pinning.
        let (_, on_gpu) = planned(&with(&base), true);
        assert_eq!(on_gpu.note, "plan: 4 threads (the GPU trains; these play evaluations)");
    }

    #[test]
    fn keys_override_the_plan_with_and_without_optimization() {
        for optimize in ["optimize_perf=true", "optimize_perf=false"] {
            let requested = ["threads=3", "waiting=sleep", "pin=true", "rollout_tile=32"];
            let settings = with(&[&[optimize], &requested[..]].concat());
            let (plan, applied) = planned(&settings, false);
            assert_eq!((plan.threads, plan.waiting), (3, Waiting::Sleep));
            let CpuOptions { waiting, rollout_tile, .. } = cpu_options(&plan);
            assert_eq!((waiting, rollout_tile), (cpu::WaitStrategy::Sleep, 32));
            assert!(applied.note.contains("3 threads (requested)"), "{}", applied.note);
            assert!(applied.note.contains("waiting: sleep (requested)"), "{}", applied.note);
            assert!(applied.note.contains("pinning: off (this system"), "{}", applied.note);
        }
        let (plan, applied) =
            planned(&with(&["optimize_perf=false", "threads=0", "waiting=auto", "pin=false"]), false);
        assert_eq!(CpuOptions { lane_width: 0, ..cpu_options(&plan) }, CpuOptions::new(4));
        // A build has one width of vectors; the log never claims another.
        for requested in ["lane_width=8", "lane_width=16"] {
            assert_eq!(planned(&with(&[requested]), false).0.lane_width, plan.lane_width, "{requested}");
        }
        assert!(
            applied.note.contains("not adapted to the machine (optimize_perf = false)"),
            "{}",
            applied.note
        );
        assert!(!applied.note.contains("pinning"), "{}", applied.note);
    }
}
