//! Pages in which an agent plays: the runtime has the bits of the engine.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use operant_env::{AnyEnv, EnvOptions, builtin};
use operant_page::{Player, Side, encode};
use operant_run::SavedPolicy;
use operant_run::config::{self, CommandLine, EnvFacts};
use operant_sweep::player::{self, Packed};

/// Steps of a case, which few worlds end before.
const MOST: u32 = 150;
/// The seed and the number of the episode of a case.
const SEED: u32 = 7;
const NUMBER: u32 = 3;

#[test]
fn the_runtime_is_that_of_these_worlds() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files: Vec<_> = fs::read_dir(root.join("kernels/envs"))
        .expect("the emitted worlds")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    let mut hasher = blake3::Hasher::new();
    for file in files {
        hasher.update(&fs::read(file).expect("a file"));
    }
    let hash = hasher.finalize().to_hex();
    assert_eq!(
        player::WORLDS,
        &*hash,
        "a world has changed since the runtime of pages was made: run cargo xtask page"
    );
}

/// A policy that has learned nothing, with the preset of its world and these settings. Its outputs differ more than at the start of a training.
fn untrained(env: &dyn AnyEnv, settings: &[&str]) -> Result<SavedPolicy, operant_run::Error> {
    let line =
        CommandLine { set: settings.iter().map(ToString::to_string).collect(), ..CommandLine::default() };
    let requested = config::requested(EnvFacts::of(&env.spec(), &builtin()), &line, None)?;
    let mut saved = SavedPolicy::untrained(env, &requested)?;
    saved.policy.params.iter_mut().for_each(|param| *param *= 2.0);
    Ok(saved)
}

/// A case, and what the engine plays.
fn case(dir: &Path, name: &str, saved: &SavedPolicy, is_sampled: bool) -> String {
    let packed = Packed::of(saved).expect("a page can play it");
    let text = serde_json::json!({
        "bundle": packed.bundle, "seed": SEED, "number": NUMBER, "most": MOST, "sampled": is_sampled,
    });
    fs::write(dir.join(format!("{name}.json")), text.to_string()).expect("written");
    fs::write(dir.join(format!("{name}.bin")), &packed.numbers).expect("written");
    let numbers: Vec<f32> = packed.numbers.as_chunks().0.iter().map(|x| f32::from_le_bytes(*x)).collect();
    let mut player = Player::new(&packed.bundle, &numbers, SEED.into()).expect("it is played");
    player.is_sampled = is_sampled;
    player.restart(Side::Agent, SEED.into(), NUMBER).expect("it begins");
    let trace = player.finish(MOST).expect("it is played");
    let mut numbers = Vec::new();
    encode(&player.scene(), &mut numbers);
    // Pictures may use functions of the system, whose last bits differ.
    let picture = numbers.len();
    format!("{name} {} {} {trace} {picture}", player.steps(), player.episodic_return().to_bits())
}

/// Whether a program is there; says what is skipped if not.
fn has(program: &str, skipped: &str) -> bool {
    let version = Command::new(program).arg("--version").output();
    let is_there = version.is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("SKIPPED {skipped}: no {program}");
    }
    is_there
}

/// Plays all cases in Node.js and in the engine.
fn agree(cases: impl IntoIterator<Item = (String, SavedPolicy, bool)>) {
    if !has("node", "the episodes of pages") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mut expected: Vec<String> =
        cases.into_iter().map(|(name, saved, sampled)| case(dir.path(), &name, &saved, sampled)).collect();
    expected.sort();
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (script, player) = (crate_dir.join("tests/page.mjs"), crate_dir.join("src/player"));
    let played = Command::new("node").arg(script).arg(player).arg(dir.path()).output().expect("node");
    let errors = String::from_utf8_lossy(&played.stderr);
    assert!(played.status.success(), "{errors}");
    eprint!("{errors}");
    let played = String::from_utf8(played.stdout).expect("text");
    let (worlds, played) = played.split_once('\n').expect("a first line");
    assert_eq!(
        worlds,
        player::WORLDS,
        "the runtime and runtime.worlds are not of one build: run cargo xtask page"
    );
    let mut played: Vec<&str> = played.lines().collect();
    played.sort_unstable();
    let wrong: Vec<_> = expected.iter().zip(&played).filter(|(a, b)| a != *b).collect();
    assert!(wrong.is_empty() && played.len() == expected.len(), "engine, page: {wrong:#?}");
}

/// A case of each world.
fn of_each(envs: &[Arc<dyn AnyEnv>]) -> impl Iterator<Item = (String, SavedPolicy, bool)> + '_ {
    envs.iter().map(|env| {
        let name = env.spec().name;
        let saved = untrained(&**env, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, saved, true)
    })
}

#[test]
fn an_episode_of_each_kind_of_world_has_the_bits_of_the_engine() {
    agree(of_each(builtin().of_each_kind().envs()));
}

#[test]
#[ignore = "cargo xtask test --all"]
fn an_episode_of_every_world_has_the_bits_of_the_engine() {
    agree(of_each(builtin().envs()));
}

/// A kind of policy: a name, a world, settings, and whether actions are drawn.
type Kind = (&'static str, &'static str, &'static [&'static str], bool);

const KINDS: &[Kind] = &[
    ("greedy", "cartpole", &[], false),
    ("relu", "acrobot", &["activation=\"relu\"", "hidden=[33, 80, 17]", "shared_trunk=true"], true),
    ("normalised layers", "pendulum", &["layer_norm=true"], true),
    ("residual blocks", "pendulum", &["residual_blocks=2", "hidden=[24]", "activation=\"relu\""], false),
    ("gru", "t_maze", &["core=\"gru\"", "core_layers=2"], true),
    ("lstm", "cartpole_no_velocity", &["core=\"lstm\"", "core_width=24"], true),
    ("mingru", "repeat_previous", &["core=\"mingru\""], false),
    ("convolutions", "minatar_breakout", &["conv=[[16, 3, 1]]", "hidden=[64]"], true),
    ("embeddings", "minigrid_empty_8x8", &["encoder=\"embed\"", "hidden=[64]"], true),
    ("sums of embeddings", "minigrid_empty_8x8", &["encoder=\"embed_sum\"", "hidden=[64]"], true),
    ("means of embeddings", "minigrid_empty_8x8", &["encoder=\"embed_mean\"", "hidden=[64]"], true),
    ("beta", "pendulum", &["action_distribution=\"beta\""], true),
    ("tanh", "pendulum", &["action_distribution=\"tanh\""], true),
    ("deviations", "pendulum", &["log_std=\"network\""], true),
    ("sac", "pendulum", &["algorithm=\"sac\""], true),
    ("td3", "pendulum", &["algorithm=\"td3\""], true),
    ("dqn", "cartpole", &["algorithm=\"dqn\"", "dueling=true"], true),
    ("distributions of values", "cartpole", &["algorithm=\"dqn\"", "value_bins=51", "dueling=false"], false),
    ("two values", "minigrid_empty_8x8", &["intrinsic=\"rnd\"", "intrinsic_gamma=0.9"], true),
    ("pqn", "cartpole", &["algorithm=\"pqn\""], true),
    ("pointer", "prover", &["pointer=true"], true),
];

#[test]
fn every_kind_of_policy_has_the_bits_of_the_engine() {
    agree(KINDS.iter().map(|(name, env, settings, is_sampled)| {
        let env = builtin().make(env, &EnvOptions::new()).unwrap_or_else(|error| panic!("{error}"));
        let saved = untrained(&*env, settings).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name.replace(' ', "-"), saved, *is_sampled)
    }));
}

#[test]
fn recorded_worlds_games_and_statistics_too() {
    let make =
        |name: &str| builtin().make(name, &EnvOptions::new()).unwrap_or_else(|error| panic!("{error}"));
    let game = |opponent: &str| {
        let saved = untrained(&*make("connect_four"), &[]).expect("a policy");
        SavedPolicy { opponent: Some(opponent.to_owned()), ..saved }
    };
    let recorded = |name: &str| {
        let world = operant_env::world::WorldEnv::new(make(name).world().expect("it is recorded"));
        let saved = untrained(&*make(name), &[]).expect("a policy");
        SavedPolicy { env: Arc::new(world), ..saved }
    };
    let mut normalised = untrained(&*make("pendulum"), &["norm_obs=true"]).expect("a policy");
    normalised.policy.obs_norm =
        Some(operant_learn::ObsNorm { shift: vec![0.1, -0.2, 0.3], scale: vec![1.5, 0.7, 0.2], clip: 1.25 });
    agree([
        ("random".to_owned(), game("random"), false),
        ("minimax".to_owned(), game("minimax:2"), true),
        ("tree-search".to_owned(), game("mcts:20"), true),
        ("recorded".to_owned(), recorded("cartpole"), true),
        ("recorded-game".to_owned(), recorded("minatar_asterix"), true),
        ("statistics".to_owned(), normalised, true),
    ]);
}

/// What a page shows in headless Chromium, on a screen of this size.
fn shown(page: &Path, width: u32, height: u32) -> serde_json::Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser.mjs");
    let size = [width, height].map(|pixels| pixels.to_string());
    let shown = Command::new("node").arg(script).arg(page).args(size).output().expect("node");
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    serde_json::from_slice(&shown.stdout).expect("JSON")
}

#[test]
#[ignore = "cargo xtask test --all"]
fn a_page_plays_in_a_browser_with_the_bits_of_the_engine() {
    if !(has("node", "pages in a browser") && has("chromium", "pages in a browser")) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let page = dir.path().join("page.html");
    let make =
        |name: &str| builtin().make(name, &EnvOptions::new()).unwrap_or_else(|error| panic!("{error}"));
    for (name, width, height) in [("cartpole", 1280, 900), ("minatar_breakout", 390, 844)] {
        let saved =
            SavedPolicy { run: "<b>&\"'</script>".into(), ..untrained(&*make(name), &[]).expect("a policy") };
        player::write(&player::page(&saved).expect("a page"), &page).expect("written");
        let found = shown(&page, width, height);
        assert_eq!(found["problems"], serde_json::json!([]), "{found}");
        // A failure is among the problems, as an error of the console.
        assert_eq!(found["overflows"], false, "{found}");
        assert!(found["frames"].as_f64() >= Some(20.0) && found["steps"].as_f64() > Some(0.0), "{found}");
        let packed = Packed::of(&saved).expect("a page can play it");
        let numbers: Vec<f32> = packed.numbers.as_chunks().0.iter().map(|x| f32::from_le_bytes(*x)).collect();
        let mut player = Player::new(&packed.bundle, &numbers, saved.seed).expect("it is played");
        for number in 0..3 {
            player.restart(Side::Agent, saved.seed, number).expect("it begins");
            let trace = player.finish(u32::MAX).expect("it is played").to_string();
            let outcome = &found["outcomes"][number as usize];
            // The hash tells more than the return.
            assert_eq!(outcome["return"].as_f64(), Some(f64::from(player.episodic_return())), "{name}");
            let expected = serde_json::json!([player.steps(), trace]);
            assert_eq!(serde_json::json!([outcome["length"], outcome["trace"]]), expected, "{name}");
        }
    }
}

#[test]
fn a_page_has_only_its_own_markup() {
    let env = builtin().make("cartpole", &EnvOptions::new()).unwrap_or_else(|error| panic!("{error}"));
    let saved = SavedPolicy {
        run: "</title><script>alert(1)</script>".into(),
        ..untrained(&*env, &[]).expect("a policy")
    };
    let page = player::page(&saved).expect("a page");
    assert_eq!(page.matches("<script").count(), page.matches("</script>").count());
    assert_eq!(page.matches("<script").count(), 4, "data, weights, runtime, script");
    assert!(!page.contains("http:") && !page.contains("https:"), "nothing is loaded");
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt; plays cartpole</title>"));
}

#[test]
fn what_a_page_cannot_play_is_refused_by_name() {
    let env = builtin().make("cartpole", &EnvOptions::new()).unwrap_or_else(|error| panic!("{error}"));
    let mut saved = untrained(&*env, &[]).expect("a policy");
    saved.policy.params[3] = f32::NAN;
    let error = player::page(&saved).expect_err("refused");
    assert!(error.exit_code() == 2 && error.what.contains("not finite"), "{error}");
}

#[test]
fn a_page_names_what_plays_the_same_episodes() {
    let of = |name: &str, change: fn(&mut SavedPolicy)| {
        let env = builtin().make(name, &EnvOptions::new()).unwrap_or_else(|error| panic!("{error}"));
        let mut saved = untrained(&*env, &[]).expect("a policy");
        (saved.run, saved.env_steps) = ("mine".to_owned(), 4096);
        change(&mut saved);
        player::page(&saved).expect("a page")
    };
    assert!(of("cartpole", |_| ()).contains("episode k of <code>operant play mine@4096 --seed S</code>"));
    assert!(!of("cartpole", |saved| saved.is_changed = true).contains("operant play mine"));
    let against = |who: &'static str| move |saved: &mut SavedPolicy| saved.opponent = Some(who.to_owned());
    let (scripted, other) = (against("mcts:10"), against("other"));
    let game = |change: &dyn Fn(&mut SavedPolicy)| {
        let env =
            builtin().make("connect_four", &EnvOptions::new()).unwrap_or_else(|error| panic!("{error}"));
        let mut saved = untrained(&*env, &[]).expect("a policy");
        change(&mut saved);
        player::page(&saved).expect("a page")
    };
    assert!(!game(&scripted).contains("the agent itself here"));
    assert!(game(&other).contains("which other plays there and the agent itself here"));
}
