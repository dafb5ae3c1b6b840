//! Environments for the tests of the package: one for each kind of observation that Python has, with what every item must be
//! known from the state alone.

use operant_env::lane::{Draws, Float, Lane, Mask, Uint, bundle};
use operant_env::{
    ActionSpace, Env, EnvOption, EnvSpec, ObsSpace, OptionError, OptionValue, Registry, Scene, Step,
};

use crate::batch::obs::is_small;

bundle! {
    /// A number from which all items of an observation are made.
    pub struct State {
        number: Uint,
    }
}

/// A random number that each step scrambles, shown in W words of any space. An action that names its lowest two bits earns 1, and
/// one of 16 numbers ends the episode. With MASKED, the action that names the highest two bits is illegal.
#[derive(Clone)]
struct Scramble<const W: usize, const MASKED: bool> {
    name: &'static str,
    obs: ObsSpace,
    options: Vec<EnvOption>,
}

/// The registry with one environment of each kind.
pub fn all(registry: Registry) -> Registry {
    let index =
        |shape: &[usize], below: &[u32]| ObsSpace::Index { shape: shape.to_vec(), below: below.to_vec() };
    let parts = |parts: &[(&str, ObsSpace)]| {
        ObsSpace::Parts(parts.iter().map(|(name, part)| ((*name).to_owned(), part.clone())).collect())
    };
    let (cells, flags) = (index(&[3, 3, 3], &[11, 6, 3]), ObsSpace::Binary { shape: vec![5, 7] });
    let (bytes, speed) = (ObsSpace::Bytes { shape: vec![2, 3] }, ObsSpace::symmetric(&[2.0; 2]));
    let position = ("position", ObsSpace::symmetric(&[2.0; 3]));
    let mixed = [
        ("image", cells.clone()),
        ("direction", index(&[], &[4])),
        ("mission", index(&[2], &[300, 7])),
        ("flags", flags.clone()),
        ("speed", speed.clone()),
        ("picture", bytes),
    ];
    let view = EnvOption::word("view", "indices", &["indices", "bits"], "what is seen of the cells");
    registry
        .with(Scramble::<1, false>::new("test_index", index(&[], &[500])))
        .with(Scramble::<1, false>::new("test_hand", index(&[3], &[32, 11, 2])))
        .with(Scramble::<9, false> { options: vec![view], ..Scramble::new("test_cells", view_of("indices")) })
        .with(Scramble::<5, false>::new("test_vocabulary", index(&[2, 5], &[1000])))
        .with(Scramble::<23, false>::new("test_image", ObsSpace::Bytes { shape: vec![5, 6, 3] }))
        .with(Scramble::<5, false>::new("test_numbers", parts(&[("speed", speed), position])))
        .with(Scramble::<9, false>::new("test_symbols", parts(&[("image", cells), ("flags", flags)])))
        .with(Scramble::<15, false>::new("test_parts", parts(&mixed)))
        .with(Scramble::<2, true>::new("test_masked", ObsSpace::Binary { shape: vec![8, 5] }))
}

/// The observations of `test_cells`.
fn view_of(view: &str) -> ObsSpace {
    match view {
        "bits" => ObsSpace::Binary { shape: vec![3, 4, 24] },
        _ => ObsSpace::Index { shape: vec![3, 4, 3], below: vec![11, 6, 3] },
    }
}

impl<const W: usize, const MASKED: bool> Scramble<W, MASKED> {
    fn new(name: &'static str, obs: ObsSpace) -> Self {
        assert_eq!(obs.words(), W, "words of {name}");
        Scramble { name, obs, options: Vec::new() }
    }
}

impl<const W: usize, const MASKED: bool> Env for Scramble<W, MASKED> {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Uint; W];
    type Action<L: Lane> = L::Uint;

    const MASKED: bool = MASKED;

    fn spec(&self) -> EnvSpec {
        let words: Vec<String> =
            self.name.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect();
        EnvSpec {
            name: self.name.into(),
            aliases: vec![format!("{}-v0", words.concat())],
            summary: "guess a random number".into(),
            obs: self.obs.clone(),
            actions: ActionSpace::Discrete(vec![4]),
            time_limit: 30,
            options: self.options.clone(),
            ..EnvSpec::default()
        }
    }

    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        State { number: draws.bits() }
    }

    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, _: &mut Draws<L>) -> Step<L, State<L>> {
        let (u, f) = (L::Uint::splat, L::Float::splat);
        let reward = (s.number & u(3)).eq(*action).select(f(1.0), f(0.0));
        let number = s.number * u(1_664_525) + *action + u(1_013_904_223);
        Step { state: State { number }, reward, terminated: number.shr(28).eq(u(0)) }
    }

    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Uint; W] {
        let u = L::Uint::splat;
        let mut words = [u(0); W];
        let (mut first, mut item) = (0, 0u32);
        for (_, part) in self.obs.parts() {
            let (per_word, bounds) = match part {
                ObsSpace::Binary { .. } => (32, vec![2; part.size()]),
                ObsSpace::Index { below, .. } => {
                    (if is_small(below) { 4 } else { 2 }, part.bounds().collect())
                }
                ObsSpace::Bytes { .. } => (4, vec![256; part.size()]),
                _ => (1, vec![0; part.size()]),
            };
            for (k, bound) in bounds.into_iter().enumerate() {
                let mixed = (s.number ^ u(item.wrapping_mul(0x9E37_79B9))) * u(0x85EB_CA6B);
                let mixed = mixed ^ mixed.shr(13);
                let value = match bound {
                    // A number from 1 to 2.
                    0 => u(0x3f80_0000) | mixed.shr(9),
                    bound => mixed.mul_wide(u(bound)).0.shl((k % per_word * 32 / per_word) as u32),
                };
                words[first + k / per_word] = words[first + k / per_word] | value;
                item += 1;
            }
            first += part.words();
        }
        words
    }

    fn legal<L: Lane>(&self, s: &State<L>, _: usize, choice: usize) -> L::Mask {
        s.number.shr(30).ne(L::Uint::splat(choice as u32))
    }

    fn draw(&self, _: &State<f32>) -> Scene {
        Scene { low: [0.0, 0.0], high: [1.0, 1.0], shapes: Vec::new() }
    }

    fn set_option(&mut self, name: &str, value: &OptionValue) -> Result<(), OptionError> {
        self.spec().check_option(name, value)?;
        self.obs = view_of(value.text());
        Ok(())
    }
}
