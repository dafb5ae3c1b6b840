//! Tests of the list, the filters and the page of one environment, with a family that has variants and an environment
//! that draws every shape.

use operant_env::lane::{Draws, Float, Lane, Mask, Uint, bundle};
use operant_env::{
    ActionSpace, Env, EnvOption, EnvSpec, ObsSpace, OptionError, OptionValue, RED, Registry, Scene, Shape,
    Step, grid,
};

use super::*;

bundle! {
    /// The position of the frog.
    pub struct State {
        /// Its column.
        x: Uint,
    }
}

/// A frog on a row of lily pads.
#[derive(Clone)]
struct Pond {
    size: usize,
}

impl Env for Pond {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Float; 1];
    type Action<L: Lane> = L::Uint;

    fn spec(&self) -> EnvSpec {
        let name = |size: usize| format!("pond_{size}x{size}");
        let is_base = self.size == 5;
        EnvSpec {
            name: name(self.size),
            aliases: vec![format!("Pond-{}-v0", self.size)],
            family: "Ponds".into(),
            summary: "jump from pad to pad".into(),
            rules: "Jump right; the last pad ends the episode.".into(),
            reference: "Nothing else.".into(),
            variant_of: (!is_base).then(|| name(5)),
            obs: ObsSpace::symmetric(&[1.0]),
            actions: ActionSpace::Discrete(vec![2]),
            time_limit: 20,
            options: vec![EnvOption::word("water", "calm", &["calm", "rough"], "how the water is")],
            preset: is_base
                .then(|| "solved_at = 3.5\ngamma = 0.5\nnum_envs = 16\n[gpu]\nnum_envs = 64\n".into()),
            ..EnvSpec::default()
        }
    }

    fn reset<L: Lane>(&self, _: &mut Draws<L>) -> State<L> {
        State { x: L::Uint::splat(0) }
    }

    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, _: &mut Draws<L>) -> Step<L, State<L>> {
        let x = s.x + *action;
        let terminated = x.ge(L::Uint::splat(self.size as u32 - 1));
        Step {
            state: State { x },
            reward: terminated.select(L::Float::splat(1.0), L::Float::splat(0.0)),
            terminated,
        }
    }

    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Float; 1] {
        [L::Float::from_uint(s.x)]
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        let side = self.size as f32;
        let at = s.x.0 as f32;
        let mut shapes: Vec<Shape> =
            (0..self.size).map(|x| grid::square(self.size as u32, x as f32, side - 1.0, 6)).collect();
        shapes.extend([
            Shape::polygon([[at + 0.2, 0.2], [at + 0.8, 0.5], [at + 0.2, 0.8]], RED),
            Shape::circle([1.5, 1.5], 0.3, 9),
            Shape::line([[2.2, 1.2], [2.8, 1.8]], 7),
            Shape::rectangle([3.5, 1.5], 0.4, 0.8, 8),
            Shape::text([2.5, 3.5], "pond", 2),
        ]);
        Scene { low: [0.0, 0.0], high: [side, side], shapes }
    }

    fn set_option(&mut self, name: &str, value: &OptionValue) -> Result<(), OptionError> {
        self.spec().check_option(name, value).map(drop)
    }
}

fn registry() -> Registry {
    [5, 7, 12].into_iter().fold(operant_env::builtin(), |registry, size| registry.with(Pond { size }))
}

fn listed(what: Option<&str>) -> Vec<Listed> {
    let (specs, _) = chosen(what, &registry()).expect("some fit");
    specs.into_iter().map(|spec| Listed::of(spec, &registry()).expect("a configuration")).collect()
}

fn names(what: &str) -> Vec<String> {
    listed(Some(what)).into_iter().map(|env| env.spec.name).collect()
}

#[test]
fn a_word_filters_and_a_name_shows_one() {
    assert_eq!(names("ponds"), ["pond_5x5", "pond_7x7", "pond_12x12"]);
    assert_eq!(names("POND_"), names("ponds"));
    assert_eq!(names("12x"), ["pond_12x12"]);
    assert_eq!(names("jump from"), names("ponds"));
    assert!(names("classic control").contains(&"cartpole".to_owned()));
    let is_one = |what| chosen(Some(what), &registry()).expect("one").1;
    assert!(is_one("pond_7x7").is_some() && is_one("Pond-12-v0").is_some() && is_one("pond_").is_none());
    let error = chosen(Some("pond_7x8"), &registry()).expect_err("none").to_string();
    assert!(error.contains("did you mean \"pond_7x7\""), "{error}");
    assert!(chosen(Some(""), &registry()).is_err());
}

#[test]
fn the_list_fits_80_columns_and_has_variants_under_their_base() {
    let text = by_family(&listed(None), 80);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    // The longest name determines where the second column starts.
    let words: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let pond = "Ponds\npond_5x5 jump from pad to pad\nvariants: pond_7x7, pond_12x12";
    assert!(words.join("\n").contains(pond), "{text}");
    assert!(text.contains("\nclassic control\n") || text.starts_with("classic control\n"), "{text}");
    // A variant whose base is not listed is listed on its own line.
    assert!(by_family(&listed(Some("12x")), 80).contains("  pond_12x12  jump"), "{text}");
    let narrow = by_family(&listed(None), 40);
    assert!(
        registry()
            .specs()
            .iter()
            .filter(|spec| spec.variant_of.is_none())
            .all(|spec| narrow.contains(&spec.name))
    );
}

#[test]
fn one_environment_is_shown_in_full() {
    let registry = registry();
    let page = |name: &str| {
        let env = registry.find(name).expect("there");
        one::text(&**env, &Listed::of(env.spec(), &registry).expect("built"), &registry.specs(), 80, name)
    };
    let text = page("pond_5x5");
    for part in [
        "  also          Pond-5-v0",
        "  variants      pond_7x7, pond_12x12",
        "  rules         Jump right; the last pad ends the episode.",
        "  reference     Nothing else.",
        "  observations  1 real",
        "  actions       2 choices",
        "  time limit    20 steps",
        "  solved at     3.5",
        "  options       env.water = \"calm\" (\"calm\" or \"rough\"): how the water is",
        "  preset        gamma=0.5, solved_at=3.5\n",
        "  on a GPU      num_envs=64",
        "operant train pond_5x5",
        // The picture: the agent on a lily pad, and the text.
        "pond",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    // A variant uses the preset of its base.
    let text = page("pond_12x12");
    assert!(text.contains("variant of    pond_5x5") && text.contains("gamma=0.5"), "{text}");
}

#[test]
fn json_has_what_the_pages_have() {
    let envs: Vec<Value> = listed(Some("ponds")).iter().map(to_json).collect();
    assert_eq!(envs[0]["family"], "Ponds");
    assert_eq!(envs[0]["rules"], "Jump right; the last pad ends the episode.");
    assert_eq!((&envs[0]["reference"], &envs[0]["variant_of"]), (&json!("Nothing else."), &Value::Null));
    assert_eq!((&envs[1]["variant_of"], &envs[1]["preset"]), (&json!("pond_5x5"), &json!(true)));
    assert_eq!(envs[1]["options"][0]["words"], json!(["calm", "rough"]));
}
