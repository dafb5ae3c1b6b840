//! The exact expected returns of greedy policies in toy text, compared with the optimal ones:
//! sums over every state, chance and step left.
//!
//! `cargo run --release -p operant-run --example toy_text -- [ENV [SETTING=VALUE]..]` trains on five seeds; without an environment it
//! prints the best returns.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use operant_env::replay::{Arithmetic, Case, CaseError, Outcome};
use operant_env::{ActionSpace, AnyEnv, EnvOptions, ObsSpace, Registry, builtin};
use operant_learn::cpu::inference::{Choice, Inference, ObsRows};
use operant_run::{CommandLine, EnvFacts, Job, SavedPolicy, backend, config, device, train};

/// Seeds that are trained.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=5;

/// A chance and what is drawn then.
type Chances = Vec<(f64, f64)>;

/// What may come of an action: its chance, the next state unless the episode ends, and the reward.
type Outcomes = Vec<(f64, Option<usize>, f64)>;

/// A world as a table.
struct World {
    env: Arc<dyn AnyEnv>,
    chances: Chances,
    states: Vec<Vec<f64>>,
    number: HashMap<String, usize>,
    /// By state and action.
    outcomes: Vec<Vec<Outcomes>>,
    /// Whether an action is legal, by state.
    legal: Vec<Vec<bool>>,
    start: Vec<(f64, usize)>,
}

/// What each draw of a step may be.
fn chances(name: &str, options: &EnvOptions) -> Chances {
    let option = |key: &str, default: f64| options.get(key).map_or(default, |value| value.number());
    // Three ways of a move, in the order of the cumulative chances.
    let ways = |a: f64, b: f64| vec![(a, a / 2.0), (b, a + b / 2.0), (1.0 - a - b, (1.0 + a + b) / 2.0)];
    match name {
        "blackjack" => (0..13).map(|rank| (1.0 / 13.0, f64::from(rank))).collect(),
        "cliff_walking" if option("is_slippery", 0.0) != 0.0 => ways(1.0 / 3.0, 1.0 / 3.0),
        "frozen_lake" | "frozen_lake_8x8" if option("is_slippery", 1.0) != 0.0 => {
            let success = option("success_rate", 1.0 / 3.0);
            ways((1.0 - success) / 2.0, success)
        }
        "taxi" if option("is_rainy", 0.0) != 0.0 => {
            let ahead = option("rainy_probability", 0.8);
            ways(ahead, (1.0 - ahead) / 2.0)
        }
        _ => vec![(1.0, 0.5)],
    }
}

/// First states with their chances.
fn first_states(name: &str) -> Vec<(f64, Vec<f64>)> {
    match name {
        "cliff_walking" => vec![(1.0, vec![36.0])],
        "taxi" => {
            let starts = (0..500).filter(|s| s / 4 % 5 < 4 && s / 4 % 5 != s % 4);
            starts.map(|s| (1.0 / 300.0, vec![f64::from(s), 0.0])).collect()
        }
        "blackjack" => {
            let cards: Vec<f64> = (1..=13).map(|rank| f64::from(rank.min(10))).collect();
            let hands: Vec<[f64; 2]> =
                cards.iter().flat_map(|&a| cards.iter().map(move |&b| [a, b])).collect();
            let ace = |[a, b]: &[f64; 2]| f64::from(u8::from(*a == 1.0 || *b == 1.0));
            let state =
                |p: &[f64; 2], d: &[f64; 2]| vec![p[0] + p[1], ace(p), 2.0, d[0], d[0] + d[1], ace(d), 2.0];
            let chance = 1.0 / (hands.len() * hands.len()) as f64;
            hands.iter().flat_map(|p| hands.iter().map(move |d| (chance, state(p, d)))).collect()
        }
        _ => vec![(1.0, vec![0.0])],
    }
}

impl World {
    fn new(name: &str, options: &EnvOptions) -> Self {
        assert!(
            options.get("fickle_passenger").is_none_or(|value| !value.is_on()),
            "a passenger's mind is not observed: leave fickle_passenger out"
        );
        let env = builtin().make(name, options).expect("a toy-text environment");
        let name = env.spec().name;
        let mut world = World {
            env,
            chances: chances(&name, options),
            states: Vec::new(),
            number: HashMap::new(),
            outcomes: Vec::new(),
            legal: Vec::new(),
            start: Vec::new(),
        };
        world.start =
            first_states(&name).into_iter().map(|(chance, state)| (chance, world.add(state))).collect();
        let ActionSpace::Discrete(choices) = world.env.spec().actions else { panic!("choices") };
        while world.outcomes.len() < world.states.len() {
            let state = world.outcomes.len();
            let outcomes: Vec<Outcomes> = (0..choices[0])
                .map(|action| {
                    let mut all = Vec::new();
                    world.explore(state, action, 1.0, &mut Vec::new(), &mut all);
                    all
                })
                .collect();
            // Taxi's mask allows what changes the state.
            let changes = |all: &Outcomes| all.iter().any(|(_, next, _)| *next != Some(state));
            world.legal.push(outcomes.iter().map(|all| !world.env.masked() || changes(all)).collect());
            world.outcomes.push(outcomes);
        }
        world
    }

    fn add(&mut self, mut state: Vec<f64>) -> usize {
        if state.len() == 7 {
            // In Blackjack only hands of two cards differ from others.
            state[2] = state[2].min(3.0);
        }
        *self.number.entry(format!("{state:?}")).or_insert_with(|| {
            self.states.push(state);
            self.states.len() - 1
        })
    }

    /// Adds every outcome of an action after the draws made so far, which have this chance.
    fn explore(
        &mut self,
        state: usize,
        action: usize,
        chance: f64,
        drawn: &mut Vec<f64>,
        all: &mut Outcomes,
    ) {
        let actions = vec![vec![action as f64]];
        let case = Case { state: self.states[state].clone(), actions, draws: Some(vec![drawn.clone()]) };
        match self.env.replay(Arithmetic::F64, &case) {
            Ok(Outcome { reward, terminated, state, .. }) => {
                let next = (!terminated[0]).then(|| self.add(state[0].clone()));
                match all.iter_mut().find(|known| (known.1, known.2) == (next, reward[0])) {
                    Some(known) => known.0 += chance,
                    None => all.push((chance, next, reward[0])),
                }
            }
            // The step draws more.
            Err(CaseError::Draws { .. }) if drawn.len() < 12 => {
                for (own, draw) in self.chances.clone() {
                    drawn.push(draw);
                    self.explore(state, action, chance * own, drawn, all);
                    drawn.pop();
                }
            }
            Err(error) => panic!("{error}: {}", error.remedy()),
        }
    }

    /// The expected return of an action with these values of the next states.
    fn value(&self, state: usize, action: usize, values: &[f64]) -> f64 {
        let outcome = |(chance, next, reward): &(f64, Option<usize>, f64)| {
            chance * (reward + next.map_or(0.0, |next| values[next]))
        };
        self.outcomes[state][action].iter().map(outcome).sum()
    }

    /// The expected return over the time limit, and the actions with all steps left; `choose` gives an action for each state from the
    /// values of the actions. Later rewards count less by `discount`.
    fn expected(&self, discount: f64, choose: impl Fn(&[Vec<f64>]) -> Vec<usize>) -> (f64, Vec<usize>) {
        let (mut values, mut actions) = (vec![0.0; self.states.len()], Vec::new());
        for _ in 0..self.env.spec().time_limit {
            values.iter_mut().for_each(|value| *value *= discount);
            let of_state = |state: usize| -> Vec<f64> {
                (0..self.outcomes[state].len()).map(|action| self.value(state, action, &values)).collect()
            };
            let of_actions: Vec<Vec<f64>> = (0..self.states.len()).map(of_state).collect();
            actions = choose(&of_actions);
            values = actions.iter().zip(&of_actions).map(|(&action, of)| of[action]).collect();
        }
        (self.start.iter().map(|&(chance, state)| chance * values[state]).sum(), actions)
    }

    /// The expected return of a policy that gives every state an action.
    fn of_policy(&self, actions: &[usize]) -> f64 {
        self.expected(1.0, |_| actions.to_vec()).0
    }

    /// The state as the player knows it, and the weight of what it does not know: the dealer's second card.
    fn known(&self, state: usize) -> (String, f64) {
        let state = &self.states[state];
        if state.len() < 7 {
            return (format!("{state:?}"), 1.0);
        }
        (format!("{:?}", &state[..4]), if state[4] - state[3] == 10.0 { 4.0 } else { 1.0 })
    }

    /// The best expected return of a player who knows how many steps are left, and of one who does not, as policies do. The second
    /// is found by search: from the best actions under a discount, one state's action at a time where that raises the return.
    fn best(&self) -> [f64; 2] {
        let mut groups: HashMap<String, Vec<(f64, usize)>> = HashMap::new();
        for state in 0..self.states.len() {
            let (known, weight) = self.known(state);
            groups.entry(known).or_default().push((weight, state));
        }
        let choose = |of_actions: &[Vec<f64>]| {
            let mut chosen = vec![0; of_actions.len()];
            for group in groups.values() {
                let value = |action: &usize| -> f64 {
                    group.iter().map(|&(weight, state)| weight * of_actions[state][*action]).sum()
                };
                let legal = (0..of_actions[0].len()).filter(|&action| self.legal[group[0].1][action]);
                let best = legal.max_by(|a, b| value(a).total_cmp(&value(b))).expect("a legal action");
                group.iter().for_each(|&(_, state)| chosen[state] = best);
            }
            chosen
        };
        let with_clock = self.expected(1.0, choose).0;
        let mut actions = self.expected(0.999, choose).1;
        let mut best = self.of_policy(&actions);
        let mut improves = best < with_clock - 1e-9;
        while improves {
            improves = false;
            for state in 0..self.states.len() {
                for action in 0..self.outcomes[state].len() {
                    let before = std::mem::replace(&mut actions[state], action);
                    let value = self.of_policy(&actions);
                    if value > best + 1e-12 {
                        (best, improves) = (value, true);
                    } else {
                        actions[state] = before;
                    }
                }
            }
        }
        [with_clock, best]
    }

    fn observation(&self, state: &[f64]) -> u32 {
        let number = |place: usize| state[place] as u32;
        if state.len() < 7 {
            return number(0);
        }
        let soft = state[1] == 1.0 && state[0] <= 11.0;
        (number(0) + 10 * u32::from(soft)) | number(3) << 8 | u32::from(soft) << 16
    }

    /// The expected return of a policy's likeliest actions.
    fn greedy(&self, policy: &Inference) -> f64 {
        assert!(matches!(self.env.spec().obs, ObsSpace::Index { .. }), "an observation of indices");
        let obs: Vec<u32> = self.states.iter().map(|state| self.observation(state)).collect();
        let legal: Vec<i8> = self.legal.iter().flatten().map(|&legal| i8::from(legal)).collect();
        let mut actions = vec![0.0; obs.len()];
        let legal = self.env.masked().then_some(&legal[..]);
        policy.act(ObsRows::Words(&obs), legal, Choice::Greedy, &mut [], &mut actions);
        let actions: Vec<usize> = actions.iter().map(|&action| action as usize).collect();
        self.of_policy(&actions)
    }
}

/// Trains by the preset and further settings; returns the run's last policy.
fn trained(
    registry: &Registry,
    name: &str,
    seed: u64,
    settings: &[String],
) -> operant_run::Result<SavedPolicy> {
    let set = std::iter::once(format!("seed={seed}")).chain(settings.iter().cloned()).collect();
    let line = CommandLine { set, ..CommandLine::default() };
    let env = device::find(registry, name)?;
    let requested = config::requested(EnvFacts::of(&env.spec(), registry), &line, None)?;
    let result = train(Job::new(requested), |requested, device| backend(&env, requested, device))?.result;
    let checkpoint = result.checkpoint.expect("a finished run has a checkpoint");
    SavedPolicy::load(registry, Path::new("runs"), &checkpoint)
}

fn main() -> operant_run::Result<()> {
    let registry = builtin();
    let mut arguments = std::env::args().skip(1);
    let Some(name) = arguments.next() else {
        for spec in registry.specs().iter().filter(|spec| spec.family == "toy text") {
            let world = World::new(&spec.name, &EnvOptions::new());
            let [with_clock, best] = world.best();
            let states = world.states.len();
            println!("{}: {states} states, best {best:.4}, with a clock {with_clock:.4}", spec.name);
        }
        return Ok(());
    };
    let settings: Vec<String> = arguments.collect();
    let mut world: Option<(World, [f64; 2])> = None;
    let mut returns = Vec::new();
    for seed in SEEDS {
        let saved = trained(&registry, &name, seed, &settings)?;
        let (world, _) = world.get_or_insert_with(|| {
            let world = World::new(&name, &saved.env_options);
            let best = world.best();
            (world, best)
        });
        let greedy = world.greedy(&Inference::new(saved.policy));
        println!("{name}, seed {seed}, {} steps: {greedy:.4}", saved.env_steps);
        returns.push(greedy);
    }
    returns.sort_by(f64::total_cmp);
    let [with_clock, best] = world.expect("a seed").1;
    let (worst, median) = (returns[0], returns[returns.len() / 2]);
    println!("{name}: median {median:.4}, worst {worst:.4}, best {best:.4}, with a clock {with_clock:.4}");
    Ok(())
}
