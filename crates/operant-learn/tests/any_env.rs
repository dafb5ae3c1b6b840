//! An environment that does not implement [`operant_env::Env`]: its state is sized at run time, and a separate thread answers
//! every step late, as a worker process would. It trains, resumes, is evaluated and drawn like any other.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use operant_env::{
    ActionSpace, AnyEnv, Autoreset, EnvOption, EnvOptions, EnvSpec, ObsSpace, OptionError, Scene, Seen,
    Shape, StepError, Stepped, Stepper, TileSpec,
};
use operant_lane::{Draws, Kind, Leaf, Purpose};
use operant_learn::algorithms::Algorithm;
use operant_learn::cpu::{CpuOptions, backend, backend_with};
use operant_learn::{Config, EvalActions, LearnError, Snapshot};

use crate::support::{self, update};

/// Copy a word bit by bit: the policy sees the bit under the cursor, 1 for each bit that it repeats.
#[derive(Debug, Clone)]
struct Copyist {
    /// Bits of a word, a number known only at run time.
    length: usize,
    /// The step at which the thread dies.
    dies_at: Option<u64>,
    /// How often it says of a step that it is under way, whatever the thread has done.
    looks: usize,
}

/// One environment: the word, the cursor, and the length and return of the episode.
#[derive(Debug, Clone)]
struct Desk {
    word: Vec<u32>,
    cursor: u32,
    length: u32,
    sum: f32,
}

/// A tile's environments, given to the thread with a step and taken back when it answers.
struct Job {
    desks: Vec<Desk>,
    /// `(R)`.
    actions: Vec<f32>,
    step: u64,
}

/// What the thread gives back: the environments, and of each its reward, and the episode that ended: return and length.
struct Answer {
    desks: Vec<Desk>,
    rewards: Vec<f32>,
    ended: Vec<Option<(f32, u32)>>,
}

struct Thread {
    tile: TileSpec,
    length: usize,
    /// None while a step is under way.
    desks: Option<Vec<Desk>>,
    /// Of each step, and those that are left of this one.
    looks: [usize; 2],
    jobs: Sender<Job>,
    answers: Receiver<Answer>,
}

fn fresh(
    tile: &TileSpec,
    length: usize,
    row: usize,
    step: u64,
    [training, evaluation]: [Purpose; 2],
) -> Desk {
    let purpose = if tile.evaluation { evaluation } else { training };
    let number = std::num::Wrapping(tile.first + row as u32);
    let mut draws = Draws::<f32>::at(tile.seed, number, step, purpose);
    let word = (0..length).map(|_| draws.below(2).0).collect();
    Desk { word, cursor: 0, length: 0, sum: 0.0 }
}

fn work(tile: TileSpec, length: usize, job: Job) -> Answer {
    let Job { mut desks, actions, step } = job;
    let (mut rewards, mut ended) = (Vec::new(), Vec::new());
    for (row, (desk, action)) in desks.iter_mut().zip(actions).enumerate() {
        let right = desk.word[desk.cursor as usize] == action as u32;
        let reward = if right { 1.0 } else { 0.0 };
        desk.cursor += 1;
        desk.length += 1;
        desk.sum += reward;
        rewards.push(reward);
        let over = desk.cursor as usize == length;
        ended.push(over.then_some((desk.sum, desk.length)));
        if over {
            *desk = fresh(&tile, length, row, step, [Purpose::Reset, Purpose::EvalReset]);
        }
    }
    Answer { desks, rewards, ended }
}

impl Thread {
    fn start(env: &Copyist, tile: TileSpec) -> Self {
        let (jobs, inbox) = channel::<Job>();
        let (outbox, answers) = channel();
        let (length, dies_at) = (env.length, env.dies_at);
        thread::spawn(move || {
            for job in inbox {
                if dies_at.is_some_and(|step| job.step >= step)
                    || outbox.send(work(tile, length, job)).is_err()
                {
                    return;
                }
            }
        });
        let start = |row| fresh(&tile, length, row, tile.step, [Purpose::Init, Purpose::EvalInit]);
        let desks = Some((0..tile.rows).map(start).collect());
        Self { tile, length, desks, looks: [env.looks, 0], jobs, answers }
    }

    fn desks(&self) -> &[Desk] {
        self.desks.as_deref().expect("no step is under way")
    }

    fn dead(&self) -> StepError {
        StepError { env: "copyist".into(), what: "its thread has died".into(), remedy: "" }
    }

    /// The bit under the cursor as 1 or -1, and the share of the word that is done.
    fn see(&self, seen: Seen<'_>) {
        let (bits, done) = seen.obs.split_at_mut(self.tile.rows);
        for ((desk, bit), done) in self.desks().iter().zip(bits).zip(done) {
            *bit = (desk.word[desk.cursor as usize] as f32 * 2.0 - 1.0).to_bits();
            *done = (desk.cursor as f32 / self.length as f32).to_bits();
        }
    }
}

impl Stepper for Thread {
    fn observe(&mut self, seen: Seen<'_>) -> Result<(), StepError> {
        self.see(seen);
        Ok(())
    }

    fn submit(&mut self, actions: &[f32], step: u64) -> Result<(), StepError> {
        let desks = self.desks.take().expect("no step is under way");
        self.looks[1] = self.looks[0];
        self.jobs.send(Job { desks, actions: actions.to_vec(), step }).map_err(|_| self.dead())
    }

    fn has_stepped(&mut self) -> bool {
        let has = self.looks[1] == 0;
        self.looks[1] = self.looks[1].saturating_sub(1);
        has
    }

    fn collect(&mut self, stepped: Stepped<'_>) -> Result<(), StepError> {
        let answer = self.answers.recv().map_err(|_| self.dead())?;
        self.desks = Some(answer.desks);
        self.see(stepped.seen);
        stepped.rewards.copy_from_slice(&answer.rewards);
        stepped.terminated.fill(0);
        stepped.truncated.fill(0);
        for (row, ended) in answer.ended.into_iter().enumerate() {
            let Some((sum, length)) = ended else { continue };
            stepped.terminated[row / 16] |= 1 << (row % 16);
            (stepped.returns[row], stepped.lengths[row]) = (sum, length);
            stepped.final_obs[row] = 0.0f32.to_bits();
            stepped.final_obs[self.tile.rows + row] = 1.0f32.to_bits();
        }
        Ok(())
    }

    fn save(&self, words: &mut [u32]) {
        let rows = self.tile.rows;
        for (row, desk) in self.desks().iter().enumerate() {
            let all = desk.word.iter().copied().chain([desk.cursor, desk.length, desk.sum.to_bits()]);
            all.enumerate().for_each(|(leaf, word)| words[leaf * rows + row] = word);
        }
    }

    fn load(&mut self, words: &[u32]) -> Result<(), StepError> {
        let (rows, length) = (self.tile.rows, self.length);
        let desk = |row: usize| {
            let at = |leaf: usize| words[leaf * rows + row];
            let word = (0..length).map(at).collect();
            Desk { word, cursor: at(length), length: at(length + 1), sum: f32::from_bits(at(length + 2)) }
        };
        self.desks = Some((0..rows).map(desk).collect());
        Ok(())
    }

    fn restart(&mut self, rows: &[u16], seeds: Option<&[u64]>, step: u64) -> Result<(), StepError> {
        assert_eq!(seeds, None, "all rows share a seed");
        let desks = self.desks.as_mut().expect("no step is under way");
        for (row, desk) in
            desks.iter_mut().enumerate().filter(|(row, _)| rows[row / 16] >> (row % 16) & 1 == 1)
        {
            *desk = fresh(&self.tile, self.length, row, step, [Purpose::Init, Purpose::EvalInit]);
        }
        Ok(())
    }

    fn state(&self, row: usize, words: &mut [u32]) {
        let desk = &self.desks()[row];
        words[..self.length].copy_from_slice(&desk.word);
        words[self.length] = desk.cursor;
    }

    fn leaf(&self, leaf: usize, words: &mut [u32]) {
        let mut state = vec![0; self.length + 1];
        for (row, word) in words.iter_mut().enumerate() {
            self.state(row, &mut state);
            *word = state[leaf];
        }
    }
}

impl AnyEnv for Copyist {
    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: format!("copyist_{}", self.length),
            aliases: Vec::new(),
            summary: "repeat a word bit by bit; 1 a bit".into(),
            obs: ObsSpace::symmetric(&[1.0, 1.0]),
            actions: ActionSpace::Discrete(vec![2]),
            time_limit: 1_000,
            fps: 4.0,
            options: vec![EnvOption::number("length", 6.0, 1.0, 64.0, "bits of a word")],
            ..EnvSpec::default()
        }
    }

    fn steps_elsewhere(&self) -> bool {
        true
    }

    fn leaves(&self) -> Vec<Leaf> {
        let bit = |i| Leaf { name: format!("word[{i}]"), kind: Kind::Uint };
        let cursor = Leaf { name: "cursor".into(), kind: Kind::Uint };
        (0..self.length).map(bit).chain([cursor]).collect()
    }

    fn with_options(&self, options: &EnvOptions) -> Result<Arc<dyn AnyEnv>, OptionError> {
        let mut env = self.clone();
        for (name, value) in options {
            self.spec().check_option(name, value)?;
            env.length = value.number() as usize;
        }
        Ok(Arc::new(env))
    }

    fn stepper(&self, tile: TileSpec) -> Result<Box<dyn Stepper>, StepError> {
        if tile.autoreset != Autoreset::SameStep {
            let what = format!("autoreset {:?} is not supported", tile.autoreset);
            return Err(StepError { env: self.spec().name, what, remedy: "" });
        }
        Ok(Box::new(Thread::start(self, tile)))
    }

    fn picture(&self, state: &[u32]) -> Scene {
        let cell = |(i, bit): (usize, &u32)| Shape::rectangle([i as f32, 0.0], 0.8, 0.8, *bit as u8);
        let shapes = state[..self.length].iter().enumerate().map(cell).collect();
        Scene { low: [-1.0, -1.0], high: [self.length as f32, 1.0], shapes }
    }
}

fn copyist(length: usize) -> Arc<dyn AnyEnv> {
    let options = [("length".to_owned(), (length as f64).into())].into();
    Copyist { length: 1, dies_at: None, looks: 0 }.with_options(&options).expect("a known option")
}

fn config() -> Config {
    Config {
        seed: 3,
        num_envs: 40,
        num_steps: 16,
        hidden: vec![16],
        learning_rate: 1e-2,
        total_timesteps: 1 << 20,
        ..Config::default()
    }
}

fn after(env: &Arc<dyn AnyEnv>, threads: usize, updates: usize) -> Snapshot {
    support::after(env, &config(), &CpuOptions::new(threads), updates)
}

#[test]
fn an_environment_that_answers_late_learns_and_threads_change_no_bit() {
    let mut backend = backend(copyist(6), &config(), 2).expect("a good configuration");
    let first = update(&mut *backend);
    // 40 environments, 16 steps, 6 to an episode.
    assert_eq!((first.episodes, first.metrics.episodic_length), (80, 6.0));
    let last = (0..20).map(|_| update(&mut *backend)).last().expect("an update");
    assert!(last.metrics.episodic_return > 5.5, "{last:?}");
    let evaluation = backend.evaluate(0..20, 0, EvalActions::Greedy).expect("an evaluation");
    assert_eq!((evaluation.returns, evaluation.lengths), (vec![6.0; 20], vec![6; 20]));
    assert!(after(&copyist(6), 1, 3) == after(&copyist(6), 5, 3), "threads change bits");
}

#[test]
fn it_resumes_bit_for_bit_and_another_size_is_refused() {
    let (straight, half) = (after(&copyist(5), 2, 6), after(&copyist(5), 1, 3));
    let mut resumed = backend(copyist(5), &config(), 2).expect("a good configuration");
    update(&mut *resumed);
    resumed.load(&half).expect("a snapshot of the same run");
    assert!(resumed.save().expect("a snapshot") == half, "what was loaded");
    (0..3).for_each(|_| {
        update(&mut *resumed);
    });
    assert!(resumed.save().expect("a snapshot") == straight, "bits differ after a resume");
    let mut longer = backend(copyist(7), &config(), 1).expect("a good configuration");
    let error = longer.load(&half).expect_err("another size of state").to_string();
    assert!(error.contains("env.word"), "{error}");
}

#[test]
fn an_episode_of_it_is_drawn() {
    let mut backend = backend(copyist(9), &config(), 1).expect("a good configuration");
    assert!(backend.scene().is_none(), "recording begins when it is requested");
    (0..3).for_each(|_| {
        update(&mut *backend);
    });
    let episode = backend.scene().expect("an episode");
    assert_eq!((episode.frames.len(), episode.frames[0].shapes.len(), episode.fps), (9, 9, 4.0));
}

#[test]
fn random_play_of_it_counts_every_step() {
    let mut play = copyist(4).random_play(1, 0, 300, operant_env::LaneWidth::WIDEST).expect("environments");
    let totals = play.play(8).expect("no failure");
    // 300 are 256 and 44, which is rounded up to 48.
    assert_eq!((totals.steps, totals.episodes), (304 * 8, 304 * 2));
    assert!(totals.reward > 0.0 && totals.reward < totals.steps as f64);
}

#[test]
fn an_environment_that_fails_ends_the_update_with_an_error() {
    let env: Arc<dyn AnyEnv> = Arc::new(Copyist { length: 3, dies_at: Some(20), looks: 0 });
    let mut backend = backend(env, &config(), 2).expect("a good configuration");
    update(&mut *backend);
    let error = backend.enqueue_update().expect_err("its threads have died");
    assert!(matches!(error, LearnError::Environment(_)), "{error}");
    assert!(error.to_string().contains("its thread has died"), "{error}");
}

#[test]
fn a_replay_learns_from_more_minibatches_while_environments_step() {
    let minibatches = |looks, max_updates_per_step| -> Vec<f64> {
        let config = Config {
            algorithm: Algorithm::Dqn,
            num_envs: 16,
            batch_size: 32,
            learning_starts: 10 * 16,
            buffer_size: 1_000,
            updates_per_step: 0.125,
            max_updates_per_step,
            ..config()
        };
        let env = Arc::new(Copyist { length: 6, dies_at: None, looks });
        let mut backend = backend_with(env, &config, &CpuOptions::new(1)).expect("trains").backend;
        (0..2).map(|_| update(&mut *backend).metrics.minibatches).collect()
    };
    // 6 and 16 steps with minibatches.
    assert_eq!(minibatches(3, 0.0), [12.0, 32.0]);
    assert_eq!(minibatches(3, 0.5), [6.0 * 5.0, 16.0 * 5.0]);
    assert_eq!(minibatches(100, 0.5), [6.0 * 8.0, 16.0 * 8.0]);
}
