//! Searches: which settings a sweep tries, and for how long.
//!
//! A search is a function of the specification and of the trials so far. A sweep writes each decision into its table before it acts on
//! it, so a sweep that was killed continues with the same trials.

use toml::Value;

use crate::gaussian::{GaussianProcess, expected_improvement};
use crate::plan::MAX_GENERATIONS;
use crate::random::Random;
use crate::space::{self, Axis, Point};
use crate::spec::{Halving, Method, Search};

/// Steps of a trial that trains to its end.
pub const WHOLE: u64 = i64::MAX as u64;

/// Minimum random trials before the first that a model proposes.
const BAYES_START: usize = 4;
/// Points among which a model's proposal is chosen: at random, and near the best so far.
const CANDIDATES: (usize, usize) = (1024, 256);
/// Maximum redraws of a point that was already tried.
const REDRAWS: usize = 1000;
/// Maximum trials that the model is fitted to, the latest ones.
const BAYES_MEMORY: usize = 200;
/// The share of a population that is replaced, equal to the share that replaces it.
const PBT_SHARE: f64 = 0.25;

/// Settings that a sweep tries with every seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Its number in the sweep.
    pub id: usize,
    /// The environment's number in the specification.
    pub env: usize,
    /// Its values.
    pub point: Point,
    /// The trial whose checkpoints it began with, if any.
    pub parent: Option<usize>,
    /// Environment steps to train for.
    pub until: u64,
    /// Results in ascending order of steps.
    pub results: Vec<TrialResult>,
}

/// Means over the seeds of a trial after some steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialResult {
    /// Steps, as decided.
    pub until: u64,
    /// What the search maximises; minus infinity where a run failed.
    pub objective: f64,
    /// Seconds of training.
    pub seconds: f64,
}

impl Trial {
    fn result(&self, until: u64) -> Option<&TrialResult> {
        self.results.iter().find(|result| result.until == until)
    }
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Begin a trial.
    Begin {
        /// Its values.
        point: Point,
        /// The trial whose checkpoints it begins with.
        parent: Option<usize>,
        /// Steps to train for, those of the parent included.
        until: u64,
        /// Why these values, in one line.
        reason: String,
    },
    /// Continue a trial.
    Continue {
        /// Its number in the sweep.
        trial: usize,
        /// Steps to train for.
        until: u64,
    },
    /// Nothing until a run ends.
    Wait,
    /// Nothing more.
    End,
}

/// Decides, given the trials of one environment and the steps of a whole run.
pub fn decide(search: &Search, axes: &[Axis], trials: &[&Trial], steps: u64) -> Decision {
    match &search.method {
        Method::Pbt { interval } => return pbt(search, axes, trials, *interval, steps),
        _ if trials.len() < search.trials => {
            let until = search.halving.as_ref().map_or(WHOLE, |halving| halving.rungs(steps)[0]);
            let nth = trials.len();
            let (point, reason) = match &search.method {
                Method::Grid => (space::grid_point(axes, nth), String::from("grid")),
                Method::Random => {
                    let mut random = Random::new(search.seed, nth as u64);
                    (fresh(trials, || space::sample(axes, &mut random)), "random".to_owned())
                }
                Method::Bayes | Method::Pbt { .. } => bayes(search, axes, trials),
            };
            return Decision::Begin { point, parent: None, until, reason };
        }
        _ => {}
    }
    match &search.halving {
        Some(halving) => halve(halving, trials, steps),
        None => Decision::End,
    }
}

impl Halving {
    /// Steps of each rung, ascending; the last is the whole run.
    pub fn rungs(&self, steps: u64) -> Vec<u64> {
        let mut rungs = Vec::new();
        let mut next = self.first_steps;
        while next < steps {
            rungs.push(next);
            next = next.saturating_mul(self.factor);
        }
        rungs.push(WHOLE);
        rungs
    }
}

/// Environment steps after which a trial gets a result, ascending; the last is the end of the run.
pub fn rungs(search: &Search, steps: u64) -> Vec<u64> {
    let mut rungs = match (&search.method, &search.halving) {
        (Method::Pbt { interval }, _) => {
            // A stranger's table may have any interval.
            let count = steps.div_ceil(*interval).min(MAX_GENERATIONS + 1);
            (1..count).map(|generation| generation * interval).collect()
        }
        (_, Some(halving)) => halving.rungs(steps),
        _ => Vec::new(),
    };
    rungs.retain(|rung| *rung < steps);
    rungs.push(steps);
    rungs
}

/// Environment steps between a result after `until` steps and the one before it, for a run of `steps`.
pub fn work(search: &Search, steps: u64, until: u64) -> u64 {
    let rungs = rungs(search, steps);
    let place = rungs.partition_point(|rung| *rung < until.min(steps));
    rungs[place] - place.checked_sub(1).map_or(0, |before| rungs[before])
}

/// How many trials of an environment train up to each of [`rungs`].
pub fn members(search: &Search, steps: u64) -> Vec<usize> {
    let factor = search.halving.map_or(1, |halving| halving.factor as usize);
    let each = |members: &mut usize, _| Some(std::mem::replace(members, members.div_ceil(factor)));
    rungs(search, steps).into_iter().scan(search.trials, each).collect()
}

/// Environment steps of one seed of all trials of an environment.
pub fn total(search: &Search, steps: u64) -> u64 {
    let each = rungs(search, steps).into_iter().zip(members(search, steps));
    each.map(|(rung, members)| work(search, steps, rung).saturating_mul(members as u64))
        .fold(0, u64::saturating_add)
}

/// Trials of an environment that are chosen before any result is known; later ones depend on results.
pub fn known(search: &Search, axes: &[Axis]) -> usize {
    match search.method {
        Method::Bayes => search.trials.min(BAYES_START.max(2 * axes.len())),
        _ => search.trials,
    }
}

/// A point that no trial has, if one is found soon: lists have few.
fn fresh(trials: &[&Trial], mut draw: impl FnMut() -> Point) -> Point {
    let is_new = |point: &Point| trials.iter().all(|trial| trial.point != *point);
    (0..REDRAWS).map(|_| draw()).find(is_new).unwrap_or_else(draw)
}

/// Sorts trials by their objective after some steps, the best first. False if one has not come so far.
fn rank(trials: &mut [&Trial], until: u64) -> bool {
    let objective = |trial: &Trial| trial.result(until).map(|result| result.objective);
    let worst = f64::NEG_INFINITY;
    trials.sort_by(|a, b| {
        let (a_is, b_is) = (objective(a).unwrap_or(worst), objective(b).unwrap_or(worst));
        b_is.total_cmp(&a_is).then(a.id.cmp(&b.id))
    });
    trials.iter().all(|trial| objective(trial).is_some())
}

/// Synchronous successive halving: once all trials of a rung have ended, the best continue to the next.
fn halve(halving: &Halving, trials: &[&Trial], steps: u64) -> Decision {
    let mut members: Vec<&Trial> = trials.to_vec();
    for pair in halving.rungs(steps).windows(2) {
        let [rung, next] = pair else { continue };
        if !rank(&mut members, *rung) {
            return Decision::Wait;
        }
        members.truncate(members.len().div_ceil(halving.factor as usize));
        if let Some(trial) = members.iter().find(|trial| trial.until <= *rung) {
            return Decision::Continue { trial: trial.id, until: *next };
        }
    }
    Decision::End
}

/// The point with the largest expected improvement per expected second.
fn bayes(search: &Search, axes: &[Axis], trials: &[&Trial]) -> (Point, String) {
    let mut random = Random::new(search.seed, trials.len() as u64);
    let known: Vec<(&Trial, TrialResult)> =
        trials.iter().filter_map(|trial| Some((*trial, *trial.results.last()?))).collect();
    let at_random = |random: &mut Random| {
        (fresh(trials, || space::sample(axes, random)), "random (initial design)".to_owned())
    };
    if trials.len() < BAYES_START.max(2 * axes.len()) || known.len() < 2 {
        return at_random(&mut random);
    }
    let leader = known.iter().max_by(|a, b| a.1.objective.total_cmp(&b.1.objective)).map(|(trial, _)| *trial);
    // The latest, and the best of all.
    let recent = known.len().saturating_sub(BAYES_MEMORY);
    let is_leader = |trial: &Trial| leader.is_some_and(|leader| leader.id == trial.id);
    let remembered =
        known.iter().enumerate().filter(|(place, (trial, _))| *place >= recent || is_leader(trial));
    let known: Vec<(&Trial, TrialResult)> = remembered.map(|(_, known)| *known).collect();
    let finite = known.iter().map(|(_, result)| result.objective).filter(|objective| objective.is_finite());
    let worst = finite.clone().fold(f64::INFINITY, f64::min);
    let best = finite.fold(f64::NEG_INFINITY, f64::max);
    if !best.is_finite() {
        return at_random(&mut random);
    }
    let points: Vec<Vec<f64>> =
        known.iter().map(|(trial, _)| space::coordinates(axes, &trial.point)).collect();
    // A trial that failed counts as the worst that did not.
    let objectives: Vec<f64> = known.iter().map(|(_, result)| result.objective.max(worst)).collect();
    let seconds: Vec<f64> = known.iter().map(|(_, result)| result.seconds.max(1e-6).ln()).collect();
    let cost = GaussianProcess::fit(points.clone(), &seconds, &mut random);
    let mut score = GaussianProcess::fit(points.clone(), &objectives, &mut random);
    // Trials that still run count with the value that the model expects, so that the next one goes elsewhere.
    let running: Vec<&&Trial> = trials.iter().filter(|trial| trial.results.is_empty()).collect();
    if !running.is_empty() {
        let (mut points, mut objectives) = (points, objectives);
        for trial in running {
            let point = space::coordinates(axes, &trial.point);
            objectives.push(score.at(&point).0);
            points.push(point);
        }
        score = GaussianProcess::fit(points, &objectives, &mut random);
    }
    let mut candidates: Vec<Point> = (0..CANDIDATES.0).map(|_| space::sample(axes, &mut random)).collect();
    if let Some(leader) = leader {
        candidates.extend((0..CANDIDATES.1).map(|_| space::explore(axes, &leader.point, &mut random)));
    }
    let value = |point: &Point| {
        let at = space::coordinates(axes, point);
        expected_improvement(score.at(&at), best) / cost.at(&at).0.exp()
    };
    candidates.retain(|point| trials.iter().all(|trial| trial.point != *point));
    if candidates.is_empty() {
        return at_random(&mut random);
    }
    let valued = candidates.into_iter().map(|point| (value(&point), point));
    let (_, point) = valued.max_by(|a, b| a.0.total_cmp(&b.0)).expect("there are candidates");
    let at = space::coordinates(axes, &point);
    let (mean, deviation) = score.at(&at);
    let reason =
        format!("expected improvement: objective {mean:.4} ± {deviation:.2}, {:.2} s", cost.at(&at).0.exp());
    (point, reason)
}

/// Population-based training, in generations of `interval` steps: the worst quarter is replaced by copies of the best quarter with
/// other values.
fn pbt(search: &Search, axes: &[Axis], trials: &[&Trial], interval: u64, steps: u64) -> Decision {
    // The number of generations is checked when the sweep begins.
    let before_end = (1..steps.div_ceil(interval)).map(|generation| generation * interval);
    let rungs: Vec<u64> = before_end.chain([WHOLE]).collect();
    if trials.len() < search.trials {
        let point = space::sample(axes, &mut Random::new(search.seed, trials.len() as u64));
        return Decision::Begin {
            point,
            parent: None,
            until: rungs[0],
            reason: "first generation".to_owned(),
        };
    }
    let mut members: Vec<&Trial> = trials[..search.trials].to_vec();
    let mut begun = search.trials;
    for pair in rungs.windows(2) {
        let [rung, next] = pair else { continue };
        if !rank(&mut members, *rung) {
            return Decision::Wait;
        }
        let replaced = (members.len() as f64 * PBT_SHARE) as usize;
        let kept = members.len() - replaced;
        // Copies are made before the copied trials continue to train.
        for place in 0..replaced {
            let Some(copy) = trials.get(begun) else {
                let from = members[place];
                let point = space::explore(axes, &from.point, &mut Random::new(search.seed, begun as u64));
                let reason = format!("trial {}, perturbed", from.id);
                return Decision::Begin { point, parent: Some(from.id), until: *next, reason };
            };
            members[kept + place] = copy;
            begun += 1;
        }
        if let Some(trial) = members[..kept].iter().find(|trial| trial.until <= *rung) {
            return Decision::Continue { trial: trial.id, until: *next };
        }
    }
    Decision::End
}

/// Values as a person would write them: `learning_rate=0.001 gamma=0.99`.
pub fn shown(axes: &[Axis], point: &[Value]) -> String {
    let each = axes.iter().zip(point).map(|(axis, value)| format!("{}={}", axis.key, plain(value)));
    each.collect::<Vec<_>>().join(" ")
}

/// A value as a person would write it: without quotes, and without a decimal point for integers.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Float(x) if x.abs() >= 1e15 || (*x != 0.0 && x.abs() < 1e-4) => format!("{x:e}"),
        Value::Float(x) => x.to_string(),
        other => other.to_string(),
    }
}
