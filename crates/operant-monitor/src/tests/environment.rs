//! The metrics of the environment's own: 22 rates and their score.

use operant_metrics::{MAX_ENV_METRICS, Record, RunMetrics};

use super::*;
use crate::data::Source;
use crate::headless::{Reading, snapshot};
use operant_draw::style::Style;

const RATES: [&str; 22] = [
    "collect_coal",
    "collect_diamond",
    "collect_drink",
    "collect_iron",
    "collect_sapling",
    "collect_stone",
    "collect_wood",
    "defeat_skeleton",
    "defeat_zombie",
    "eat_cow",
    "eat_plant",
    "make_iron_pickaxe",
    "make_iron_sword",
    "make_stone_pickaxe",
    "make_stone_sword",
    "make_wood_pickaxe",
    "make_wood_sword",
    "place_furnace",
    "place_plant",
    "place_stone",
    "place_table",
    "wake_up",
];

/// A run whose every rate rises, the later ones to less; in every other update no episode ends.
fn crafting(dir: &Path) -> Ring {
    let rates = RATES.map(|name| (name, "Whether it was done.", vec![]));
    let score = ("score", "Score of all.", (0..RATES.len()).collect());
    let metrics = RunMetrics::with_scores(rates.into_iter().chain([score]));
    let mut ring = create_in(
        dir,
        &synthetic::identity("crafting", UPDATES),
        &operant_metrics::RingOptions { metrics, ..synthetic::options() },
    )
    .unwrap();
    for update in 1..=600 {
        let mut env = [f64::NAN; MAX_ENV_METRICS];
        if update % 2 == 1 {
            let rate = |k: usize| (update as f64 / 600.0).powi(1 + k as i32 / 2);
            env[..RATES.len()]
                .iter_mut()
                .enumerate()
                .for_each(|(k, to)| *to = rate(k) * 0.9f64.powi(k as i32));
            env[1] *= 1e-4;
            metrics.add_scores(&mut env);
        }
        ring.writer.refill(&Record { env, ..synthetic::record(update, UPDATES, 0) });
    }
    ring.writer.set_state(RunState::Running, "");
    ring
}

fn app(ring: &Ring) -> App {
    let mut view = RunView::open("crafting", ring.writer.path()).unwrap();
    settle(&mut view, running());
    App::of_runs(Runs::of_views(vec![view]), DETECTED)
}

#[test]
fn many_metrics_of_an_environment_have_a_table_of_bars() {
    let dir = tempfile::tempdir().unwrap();
    let ring = crafting(dir.path());
    let mut app = app(&ring);
    press(&mut app, KeyCode::Char('e'));
    for (width, height) in [(40, 12), (80, 24), (120, 40)] {
        insta::assert_snapshot!(format!("environment_{width}x{height}"), screen(&mut app, width, height));
    }
    app.symbols = &ASCII;
    let shown = screen(&mut app, 80, 24);
    assert!(RATES.iter().all(|name| shown.contains(name)) && shown.is_ascii(), "{shown}");
    // The selected one, its neighbour, and back.
    (0..22).for_each(|_| press(&mut app, KeyCode::Down));
    press(&mut app, KeyCode::Enter);
    assert_eq!(app.metric.as_deref(), Some("score"));
    press(&mut app, KeyCode::Up);
    assert_eq!(app.metric.as_deref(), Some("wake_up"));
    press(&mut app, KeyCode::Esc);
    press(&mut app, KeyCode::Char('e'));
    assert_eq!(app.expanded, None);
    // Of many only the score is among the losses, which are on the screen.
    let shown = screen(&mut app, 80, 24);
    assert!(shown.contains("score") && !shown.contains("wake_up") && shown.contains("e env"), "{shown}");
}

#[test]
fn the_text_has_the_bars_too() {
    let dir = tempfile::tempdir().unwrap();
    let ring = crafting(dir.path());
    let source = Source::from(operant_metrics::RingReader::open(ring.writer.path()).unwrap());
    let text = snapshot(&Reading::of(&source).unwrap(), &Style { width: 80, ascii: false, colour: false });
    let group = text.split("\nenv\n").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("the group");
    insta::assert_snapshot!("environment_text", group);
}
