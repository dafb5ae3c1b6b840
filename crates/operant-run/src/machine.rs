//! The plan for this machine, applied: how many worker threads a run takes, where they run, how they wait and what each plays side
//! by side. It changes the time that a run takes and never its result.

use operant_host::{Plan, PlanRequest, Topology, Waiting, Workload};
use operant_learn::Config;
use operant_learn::cpu::{self, CpuOptions};

use crate::config::{RunConfig, WaitingRequest};

/// Bytes of a sample of a small environment: a cache line.
const SAMPLE_BYTES: usize = 64;

/// Environments of a tile, and how long it takes a thread beside the smallest: CartPole with networks of 64-64, by
/// `operant bench rollout --set rollout_tile=..`. Vectors of half the width have registers for the smaller ones only.
const ROLLOUT_TILES: [(usize, f64); 3] = if cfg!(target_feature = "avx512f") {
    [(16, 1.0), (32, 1.75), (64, 3.4)]
} else {
    [(16, 1.0), (32, 2.0), (64, 4.3)]
};

/// What was made of the machine for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// Worker threads.
    pub threads: usize,
    /// Each setting with its reason, in one line.
    pub note: String,
    /// Why threads run unbound that were to be bound to CPUs.
    pub unbound: Option<String>,
}

/// What to make of this machine for a run under this configuration, with so many environments if that is settled, on its CPU or
/// on a GPU.
pub fn plan(run: &RunConfig, learner: &Config, num_envs: Option<usize>, gpu: bool) -> Plan {
    Plan::new(&Topology::read(), &wishes(run, gpu), &work(learner, num_envs))
}

/// The same for a CPU where nothing is asked for.
pub fn usual() -> Plan {
    Plan::new(&Topology::read(), &PlanRequest::default(), &work(&Config::default(), None))
}

/// What the configuration asks for, and what it leaves to the plan.
fn wishes(run: &RunConfig, gpu: bool) -> PlanRequest {
    PlanRequest {
        optimize: run.optimize_perf,
        threads: (run.threads > 0).then_some(run.threads),
        // Nothing binds threads by itself, so false has nothing to overrule.
        pin: run.pin.then_some(true),
        waiting: match run.waiting {
            WaitingRequest::Auto => None,
            WaitingRequest::Spin => Some(Waiting::Spin),
            WaitingRequest::Yield => Some(Waiting::Yield),
            WaitingRequest::Sleep => Some(Waiting::Sleep),
        },
        rollout_tile: (run.rollout_tile > 0).then_some(run.rollout_tile),
        lane_width: (run.lane_width > 0).then_some(run.lane_width),
        gpu,
    }
}

/// What is known of the work before there is an environment.
fn work(learner: &Config, num_envs: Option<usize>) -> Workload {
    Workload {
        tile: cpu::network::tile::TILE,
        num_envs,
        rollout_tiles: &ROLLOUT_TILES,
        lane_widths: &cpu::LANE_WIDTHS,
        layers: learner.hidden.len(),
        networks: if learner.shared_trunk { 1 } else { 2 },
        sample_bytes: SAMPLE_BYTES,
        max_chunks: cpu::update::MAX_CHUNKS,
        single_tile_chunks: cpu::update::MIN_CHUNKS,
        tiles_per_chunk: cpu::update::CHUNK_TILES,
    }
}

/// The plan's threads as the CPU backend takes them.
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
    }
}

/// What of a plan was applied, in the words of a log. A GPU's host threads wait in their own way, and pinning is told where
/// it was requested.
pub(crate) fn applied(plan: &Plan, run: &RunConfig, gpu: bool, unbound: Option<String>) -> Applied {
    let told = |name: &str| match name {
        "threads" => true,
        "pinning" => run.pin,
        "waiting" => !gpu,
        "rollout_tile" | "lane_width" => !gpu,
        _ => false,
    };
    let settings: Vec<String> = plan
        .settings
        .iter()
        .filter(|setting| told(setting.name))
        .map(|setting| match (setting.name, setting.value.as_str()) {
            ("threads", "1") => format!("1 thread ({})", setting.reason),
            ("threads", count) => format!("{count} threads ({})", setting.reason),
            (name, value) => format!("{name}: {value} ({})", setting.reason),
        })
        .collect();
    Applied { threads: plan.threads, note: format!("plan: {}", settings.join("; ")), unbound }
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

    fn planned(settings: &Settings, gpu: bool) -> (Plan, Applied) {
        let work = work(&settings.learner, Some(1024));
        let plan = Plan::new(&Topology::of_parallelism(4), &wishes(&settings.run, gpu), &work);
        let applied = applied(&plan, &settings.run, gpu, None);
        (plan, applied)
    }

    #[test]
    fn every_tile_has_its_time() {
        assert_eq!(ROLLOUT_TILES.map(|(tile, _)| tile), cpu::ROLLOUT_TILES);
    }

    #[test]
    fn a_log_has_one_line_with_what_was_applied_and_why() {
        let base = ["optimize_perf=true", "threads=0", "pin=false", "waiting=auto"];
        let (plan, applied) = planned(&with(&base), false);
        assert_eq!((plan.threads, plan.waiting, applied.threads), (4, Waiting::Spin, 4));
        assert_eq!(
            applied.note.split("; lane_width: ").next(),
            Some("plan: 4 threads (one to a usable core); waiting: spin (every thread has a CPU)")
        );
        let tile = "; rollout_tile: 64 (1024 environments are 16 tiles for 4 workers)";
        assert!(applied.note.ends_with(tile), "{}", applied.note);
        // Beside a GPU neither waiting nor pinning is the plan's.
        let (_, beside) = planned(&with(&base), true);
        assert_eq!(beside.note, "plan: 4 threads (the GPU trains; these play evaluations)");
    }

    #[test]
    fn keys_overrule_the_plan_with_and_without_optimisation() {
        for optimize in ["optimize_perf=true", "optimize_perf=false"] {
            let asked = ["threads=3", "waiting=sleep", "pin=true", "rollout_tile=32", "lane_width=8"];
            let settings = with(&[&[optimize], &asked[..]].concat());
            let (plan, applied) = planned(&settings, false);
            assert_eq!((plan.threads, plan.waiting), (3, Waiting::Sleep));
            let CpuOptions { waiting, rollout_tile, lane_width, .. } = cpu_options(&plan);
            assert_eq!((waiting, rollout_tile, lane_width), (cpu::WaitStrategy::Sleep, 32, 8));
            assert!(applied.note.contains("3 threads (requested)"), "{}", applied.note);
            assert!(applied.note.contains("waiting: sleep (requested)"), "{}", applied.note);
            assert!(applied.note.contains("pinning: off (this system"), "{}", applied.note);
        }
        let (plan, applied) =
            planned(&with(&["optimize_perf=false", "threads=0", "waiting=auto", "pin=false"]), false);
        assert_eq!(CpuOptions { lane_width: 0, ..cpu_options(&plan) }, CpuOptions::new(4));
        assert!(
            applied.note.contains("not adapted to the machine (optimize_perf = false)"),
            "{}",
            applied.note
        );
        assert!(!applied.note.contains("pinning"), "{}", applied.note);
    }
}
