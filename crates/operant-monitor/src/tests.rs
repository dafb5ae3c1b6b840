//! Tests of the whole: every panel and screen as text, and every key.

#[path = "../examples/synthetic/mod.rs"]
mod synthetic;

mod environment;
mod list;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use operant_metrics::{Health, Identity, Level, Ring, RunState, create_in};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::app::{App, Overlay};
use crate::data::{RunLocations, RunView, Runs};
use crate::headless::fixture::screen as text_of;
use crate::input::Event;
use crate::layout::PanelKind;
use crate::ui;
use crate::ui::panel::Context;
use crate::view::{Axis, Smoothing};
use operant_draw::symbols::{ASCII, Marker};
use operant_draw::theme::{Depth, Detected, Theme, ThemeName};

const DETECTED: Detected = Detected { depth: Depth::True, light: false };
const UPDATES: u64 = 2000;

/// A run of `updates` out of [`UPDATES`], with its ring kept alive.
fn ring(dir: &Path, name: &str, updates: u64, seed: u64) -> Ring {
    let identity =
        Identity { started_unix_ns: 1_700_000_000_000_000_000, ..synthetic::identity(name, UPDATES) };
    let mut ring = create_in(dir, &identity, &synthetic::options()).unwrap();
    for i in 1..=updates {
        ring.writer.refill(&synthetic::record(i, UPDATES, seed));
    }
    ring.writer.set_state(RunState::Running, "");
    ring.writer.set_checkpoint(30_000_000, Path::new("/nowhere/runs/checkpoints/30000000"));
    ring.writer.show(&synthetic::episode(200));
    let record = synthetic::record(updates, UPDATES, seed);
    ring.side.sample(&synthetic::sampled(&record), &synthetic::cores(updates), updates);
    ring.side.event(Level::Info, "cpu: 16 threads, pinned");
    ring
}

/// Clocks out of the picture: what depends on when the test runs is put to fixed values.
fn settle(run: &mut RunView, health: Health) {
    run.status.health = health;
    run.status.since_update = Some(Duration::from_millis(14));
    run.status.since_progress = Duration::from_millis(3100);
    run.status.since_alive = Duration::from_millis(400);
    run.status.uptime = Duration::from_secs(83);
    for (i, event) in run.events.iter_mut().enumerate() {
        event.unix_ns = 1_700_000_000_000_000_000 + i as u64 * 1_000_000_000;
    }
    if let Some(sample) = &mut run.sample {
        sample.age = Duration::from_millis(100);
    }
}

/// The rings of a directory, and no directory of runs.
fn rings_in(dir: &Path) -> RunLocations {
    RunLocations { rings: Some(dir.to_path_buf()), run_dir: None }
}

struct Fixture {
    _dir: tempfile::TempDir,
    rings: Vec<Ring>,
    app: App,
}

/// A monitor of runs called `synthetic`, `synthetic-1`..., the first of which is shown and in this health.
fn fixture(runs: usize, updates: u64, health: Health) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let mut rings = Vec::new();
    let mut views = Vec::new();
    for i in 0..runs {
        let name = if i == 0 { "synthetic".to_string() } else { format!("synthetic-{i}") };
        rings.push(ring(dir.path(), &name, updates, i as u64));
        let mut view = RunView::open(&name, rings[i].writer.path()).unwrap();
        view.play(Duration::ZERO);
        view.play(Duration::from_secs(1));
        settle(&mut view, health);
        views.push(view);
    }
    let app = App::of_runs(Runs::of_views(views), DETECTED);
    Fixture { _dir: dir, rings, app }
}

fn running() -> Health {
    Health::Reported(RunState::Running)
}

fn buffer(app: &mut App, width: u16, height: u16) -> Buffer {
    let screen = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(screen);
    app.resize(screen);
    ui::draw(app, &mut buffer);
    buffer
}

fn screen(app: &mut App, width: u16, height: u16) -> String {
    let buffer = buffer(app, width, height);
    let row = |y: u16| -> String { (0..width).map(|x| buffer[(x, y)].symbol()).collect() };
    (0..height).map(|y| row(y).trim_end().to_string() + "\n").collect()
}

fn press(app: &mut App, code: KeyCode) {
    app.handle(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
}

fn type_text(app: &mut App, text: &str) {
    text.chars().for_each(|c| press(app, KeyCode::Char(c)));
}

#[test]
fn whole_screens() {
    let mut it = fixture(1, 1200, running());
    for (width, height) in [(40, 12), (80, 24), (120, 40), (250, 80)] {
        insta::assert_snapshot!(format!("screen_{width}x{height}"), screen(&mut it.app, width, height));
    }
}

#[test]
fn every_panel_expanded() {
    let mut it = fixture(1, 1200, running());
    for panel in PanelKind::ALL {
        it.app.focus = panel;
        it.app.expanded = Some(panel);
        insta::assert_snapshot!(format!("panel_{panel:?}"), screen(&mut it.app, 100, 30));
    }
}

/// The directory of a run that has ended: the rows of `updates` with the seed of `config`, and a last one that is cut.
fn ended_run(parent: &Path, name: &str, updates: u64, config: &str) -> PathBuf {
    let dir = parent.join(name);
    std::fs::create_dir_all(dir.join("checkpoints/step_000039321600")).unwrap();
    let names: Vec<&str> = operant_metrics::METRICS.iter().map(|metric| metric.name).collect();
    let mut rows = names.join(",") + ",novelty\n";
    let seed = config.lines().find_map(|line| line.strip_prefix("seed = ")?.parse().ok()).unwrap_or(0);
    for i in 1..=updates {
        let cell = |value: &f64| if value.is_nan() { String::new() } else { value.to_string() };
        let cells: Vec<_> = synthetic::record(i, UPDATES, seed).values().iter().map(cell).collect();
        rows += &format!("{},{}\n", cells.join(","), i % 7);
    }
    std::fs::write(dir.join("metrics.csv"), rows + "0.5,12").unwrap();
    let run = format!(
        r#"{{"run":"{name}","env":"cartpole","device":"cpu","state":"finished","reason":"took every step",
        "seed":1,"started":"2026-11-21T14:02:06.250Z","total_steps":65536000}}"#
    );
    std::fs::write(dir.join("run.json"), run).unwrap();
    std::fs::write(dir.join("config.toml"), config).unwrap();
    std::fs::write(dir.join("operant.log"), "2026-11-21T14:02:07.5Z  INFO solved\n").unwrap();
    dir
}

/// A monitor of the runs in a directory, none of which has a ring.
fn monitor_of(parent: &Path, wanted: &[&str]) -> App {
    let locations = RunLocations { rings: Some(parent.join("rings")), run_dir: Some(parent.to_path_buf()) };
    let wanted: Vec<String> = wanted.iter().map(ToString::to_string).collect();
    let mut app = App::of_runs(Runs::new(locations, &wanted), DETECTED);
    app.advance(Duration::ZERO, 0);
    app
}

#[test]
fn a_run_whose_ring_is_gone_is_shown_from_its_directory() {
    let parent = tempfile::tempdir().unwrap();
    ended_run(parent.path(), "night", 1200, "environment = \"cartpole\"\nsolved_at = 475.0\n");
    for wanted in ["night", parent.path().join("night").to_str().unwrap()] {
        let mut app = monitor_of(parent.path(), &[wanted]);
        let text = screen(&mut app, 120, 40);
        for part in [
            "finished  night",
            "60.0% 39.3 M / 65.5 M steps",
            "solved at 475",
            "return 421",
            "took every step",
            "14:02:07 solved",
            "no picture is kept of this run",
            "CPU ",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        // A column that the table does not know is a metric like any other.
        press(&mut app, KeyCode::Char('/'));
        type_text(&mut app, "novelty");
        press(&mut app, KeyCode::Enter);
        press(&mut app, KeyCode::Enter);
        let text = screen(&mut app, 120, 40);
        assert!(text.contains("novelty") && text.contains("over 1 200 updates"), "{text}");
    }
    // Nothing was requested: the newest.
    assert_eq!(monitor_of(parent.path(), &[]).runs.shown().map(RunView::name), Some("night"));
}

#[test]
fn a_copied_directory_is_a_run_of_its_own() {
    let parent = tempfile::tempdir().unwrap();
    let rings = parent.path().join("rings");
    std::fs::create_dir(&rings).unwrap();
    let dir = std::fs::canonicalize(ended_run(parent.path(), "night", 600, "")).unwrap();
    let identity = Identity { dir: dir.clone(), pid: 7, ..synthetic::identity("night", UPDATES) };
    let mut live = create_in(&rings, &identity, &synthetic::options()).unwrap();
    live.writer.publish(&synthetic::record(700, UPDATES, 0));
    let copy = ended_run(parent.path(), "copy", 600, "");
    for dir in [&dir, &copy] {
        let run = format!(
            r#"{{"state":"finished","pid":7,"process_start":{},"boot_id":"{}","ring":"{}"}}"#,
            identity.process_start,
            identity.boot_id,
            live.writer.path().display()
        );
        std::fs::write(dir.join("run.json"), run).unwrap();
    }
    let last = |name: &str| monitor_of(parent.path(), &[name]).runs.shown().map(|run| run.last_update);
    assert_eq!((last("night"), last("copy")), (Some(700), Some(600)));
}

#[test]
fn live_and_ended_runs_are_drawn_into_one_chart() {
    let parent = tempfile::tempdir().unwrap();
    let rings = parent.path().join("rings");
    ended_run(parent.path(), "night", 600, "");
    std::fs::create_dir(&rings).unwrap();
    let _live = ring(&rings, "live", 1200, 1);
    let mut app = monitor_of(parent.path(), &["live", "night"]);
    assert_eq!(app.runs.others().iter().map(|run| run.name()).collect::<Vec<_>>(), ["night"]);
    let text = screen(&mut app, 80, 24);
    assert!(text.contains("live") && text.contains("━━ night"), "{text}");
    // All of them are in the list, though nothing but the live one was requested.
    let mut app = monitor_of(parent.path(), &["live"]);
    press(&mut app, KeyCode::Char('r'));
    app.advance(Duration::from_secs(1), 0);
    let text = screen(&mut app, 80, 24);
    assert!(text.contains("2 runs") && text.contains("night  finished"), "{text}");
}

#[test]
fn runs_that_differ_in_their_seed_only_are_one_curve_with_a_band() {
    let parent = tempfile::tempdir().unwrap();
    for (name, updates, rate, seed) in [
        ("low-1", 1200, 0.001, 0),
        ("low-2", 1000, 0.001, 2),
        ("high-1", 1200, 0.01, 4),
        ("low-3", 1200, 0.001, 3),
    ] {
        let config = format!("environment = \"cartpole\"\nlearning_rate = {rate}\nseed = {seed}\n");
        ended_run(parent.path(), name, updates, &config);
    }
    ended_run(parent.path(), "other", 1200, "");
    let mut app = monitor_of(parent.path(), &["low-1", "low-2", "high-1", "low-3", "other"]);
    let draw = |app: &App| {
        let others = app.runs.others();
        let context = Context {
            others: &others,
            expanded: true,
            ..Context::still(app.runs.shown().unwrap(), &app.view, &app.theme)
        };
        let mut buffer = Buffer::empty(Rect::new(0, 0, 80, 18));
        ui::returns::draw(&context, buffer.area, &mut buffer);
        buffer
    };
    let single = draw(&app);
    assert!(text_of(&single).contains("low-2"));
    press(&mut app, KeyCode::Char('g'));
    let grouped = draw(&app);
    insta::assert_snapshot!("grouped_seeds", text_of(&grouped));
    // The band of the group, whose lowest run is far from its highest.
    let tint = app.theme.tint(0);
    let tinted = |buffer: &Buffer| buffer.content.iter().filter(|cell| Some(cell.bg) == tint).count();
    assert!(tinted(&grouped) > 80, "{} cells", tinted(&grouped));
    // The curve of a group ends with the first of its runs, at 1000 of 1200 updates.
    app.view.toggle_cursor();
    let missing = format!("low-1 (3 runs) {:>8}", app.symbols.missing);
    assert!(text_of(&draw(&app)).contains(&missing), "{}", text_of(&draw(&app)));
    press(&mut app, KeyCode::Char('g'));
    assert!(text_of(&draw(&app)).contains("low-2"));
}

#[test]
fn a_run_that_is_resumed_goes_on_from_its_new_ring() {
    let parent = tempfile::tempdir().unwrap();
    let rings = parent.path().join("rings");
    std::fs::create_dir(&rings).unwrap();
    let dir = std::fs::canonicalize(ended_run(parent.path(), "night", 600, "")).unwrap();
    let mut app = monitor_of(parent.path(), &["night"]);
    assert!(app.runs.shown().is_some_and(|run| run.is_recorded() && run.last_update == 600));
    let identity = Identity { dir, ..synthetic::identity("night", UPDATES) };
    let mut resumed = create_in(&rings, &identity, &synthetic::options()).unwrap();
    resumed.writer.set_state(RunState::Running, "");
    resumed.writer.publish(&synthetic::record(601, UPDATES, 0));
    app.advance(Duration::from_secs(1), 0);
    let shown = app.runs.shown().unwrap();
    assert_eq!((shown.is_recorded(), shown.last_update, app.runs.all().len()), (false, 601, 1));
}

#[test]
fn a_speed_that_is_not_known_is_not_printed() {
    let mut it = fixture(1, 300, running());
    let unknown = operant_metrics::Record {
        sps: f64::NAN,
        sps_average: f64::NAN,
        ..synthetic::record(301, UPDATES, 0)
    };
    it.rings[0].writer.publish(&unknown);
    it.app.advance(Duration::from_secs(1), 0);
    assert!(screen(&mut it.app, 120, 40).contains("sps –"), "{}", screen(&mut it.app, 120, 40));
    for expanded in std::iter::once(None).chain(PanelKind::ALL.map(Some)) {
        it.app.expanded = expanded;
        let text = screen(&mut it.app, 120, 40);
        assert!(!text.contains("NaN"), "{text}");
    }
}

#[test]
fn overlays_and_a_metric_alone() {
    let mut it = fixture(2, 1200, running());
    press(&mut it.app, KeyCode::Char('?'));
    insta::assert_snapshot!("help", screen(&mut it.app, 100, 40));
    press(&mut it.app, KeyCode::Esc);
    press(&mut it.app, KeyCode::Char('r'));
    press(&mut it.app, KeyCode::Down);
    press(&mut it.app, KeyCode::Char(' '));
    insta::assert_snapshot!("runs", screen(&mut it.app, 100, 20));
    for width in [40, 60, 80] {
        insta::assert_snapshot!(format!("runs_{width}"), screen(&mut it.app, width, 12));
    }
    press(&mut it.app, KeyCode::Esc);
    insta::assert_snapshot!("two_runs_in_one_chart", screen(&mut it.app, 80, 24));
    press(&mut it.app, KeyCode::Char('3'));
    press(&mut it.app, KeyCode::Enter);
    insta::assert_snapshot!("one_metric", screen(&mut it.app, 80, 24));
}

#[test]
fn the_list_marks_the_mean_of_training_until_there_is_an_evaluation() {
    // The first evaluation is after update 50.
    for (updates, is_marked) in [(49, true), (51, false)] {
        let mut it = fixture(1, updates, running());
        press(&mut it.app, KeyCode::Char('r'));
        let text = screen(&mut it.app, 100, 20);
        assert_eq!(text.contains('~'), is_marked, "{text}");
    }
}

#[test]
fn three_runs_in_one_chart_are_told_apart() {
    let mut it = fixture(3, 1200, running());
    (1..3).for_each(|i| it.app.runs.overlay(i));
    for (width, height) in [(40, 12), (80, 24), (120, 40)] {
        insta::assert_snapshot!(format!("three_runs_{width}x{height}"), screen(&mut it.app, width, height));
    }
    let buffer = buffer(&mut it.app, 120, 40);
    let colours: std::collections::HashSet<_> = buffer
        .content()
        .iter()
        .filter(|cell| cell.symbol() == "━" && cell.modifier.is_empty())
        .map(|cell| cell.fg)
        .collect();
    assert!((0..3).all(|number| colours.contains(&it.app.theme.curve(number).fg.unwrap())), "{colours:?}");
}

#[test]
fn a_killed_run_says_so_and_how_to_go_on() {
    let mut it = fixture(1, 1200, Health::Killed);
    for (width, height) in [(40, 12), (80, 24)] {
        insta::assert_snapshot!(format!("killed_{width}x{height}"), screen(&mut it.app, width, height));
    }
    press(&mut it.app, KeyCode::Char('6'));
    press(&mut it.app, KeyCode::Enter);
    insta::assert_snapshot!("killed_scene_40x12", screen(&mut it.app, 40, 12));
    press(&mut it.app, KeyCode::Esc);
    let text = screen(&mut it.app, 160, 24);
    assert!(
        text.contains(
            "daemon killed 0.4 s ago at step 39.3 M; last checkpoint at step 30.0 M; \
             resume with: operant train --resume synthetic"
        ),
        "{text}"
    );
}

#[test]
fn a_run_before_its_first_update_is_drawn_without_a_figure_made_up() {
    let mut it = fixture(1, 0, Health::Reported(RunState::Starting));
    let text = screen(&mut it.app, 120, 40);
    assert!(text.contains("starting") && text.contains("no data yet"), "{text}");
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
}

#[test]
fn without_a_run_it_waits_and_says_for_what() {
    let dir = tempfile::tempdir().unwrap();
    let locations = rings_in(dir.path());
    let mut app = App::of_runs(Runs::new(locations.clone(), &["late".to_string()]), DETECTED);
    let _other = ring(dir.path(), "early", 10, 0);
    app.advance(Duration::ZERO, 0);
    let text = screen(&mut app, 80, 24);
    assert!(text.contains("waiting for run late") && text.contains("early (running)"), "{text}");
    let late = ring(dir.path(), "late", 10, 0);
    app.advance(Duration::from_secs(1), 0);
    assert_eq!(app.runs.shown().map(RunView::name), Some("late"));
    drop(late);

    let mut app = App::of_runs(Runs::new(locations, &[]), DETECTED);
    app.advance(Duration::ZERO, 0);
    assert!(app.runs.shown().is_some());
    let empty = tempfile::tempdir().unwrap();
    let mut app = App::of_runs(Runs::new(rings_in(empty.path()), &[]), DETECTED);
    app.advance(Duration::ZERO, 0);
    let text = screen(&mut app, 80, 24);
    assert!(text.contains("waiting for a run") && text.contains("operant train cartpole --detach"), "{text}");
}

#[test]
fn no_size_panics() {
    for health in [running(), Health::Killed] {
        let mut it = fixture(2, 130, health);
        it.app.runs.overlay(1);
        for width in 0..60 {
            for height in 0..30 {
                buffer(&mut it.app, width, height);
            }
        }
        for (overlay, expanded, metric) in [
            (Overlay::Help, None, None),
            (Overlay::Runs, None, None),
            (Overlay::None, Some(PanelKind::Metrics), None),
            (Overlay::None, Some(PanelKind::Losses), None),
            (Overlay::None, Some(PanelKind::Scene), None),
            (Overlay::None, Some(PanelKind::Utilization), None),
            (Overlay::None, Some(PanelKind::Phases), None),
            (Overlay::None, Some(PanelKind::Events), None),
            (Overlay::None, None, Some("value_loss".to_string())),
        ] {
            (it.app.overlay, it.app.expanded, it.app.metric) = (overlay, expanded, metric);
            for width in (0..60).step_by(3) {
                for height in 0..30 {
                    buffer(&mut it.app, width, height);
                }
            }
        }
        let empty = tempfile::tempdir().unwrap();
        let mut app = App::of_runs(Runs::new(rings_in(empty.path()), &[]), DETECTED);
        for width in 0..60 {
            for height in 0..30 {
                buffer(&mut app, width, height);
            }
        }
    }
}

#[test]
fn the_theme_without_colour_paints_none_on_any_panel() {
    let mut it = fixture(2, 600, Health::Killed);
    it.app.runs.overlay(1);
    it.app.theme = Theme::none();
    for expanded in std::iter::once(None).chain(PanelKind::ALL.map(Some)) {
        it.app.expanded = expanded;
        let buffer = buffer(&mut it.app, 120, 40);
        for cell in buffer.content() {
            use ratatui::style::Color::Reset;
            assert_eq!((cell.fg, cell.bg), (Reset, Reset), "{expanded:?}: {:?}", cell.symbol());
        }
    }
}

#[test]
fn a_locale_without_utf8_gets_ascii_alone() {
    let mut it = fixture(2, 600, Health::Killed);
    it.app.runs.overlay(1);
    it.app.symbols = &ASCII;
    it.app.marker = Marker::Ascii;
    for overlay in [Overlay::None, Overlay::Help, Overlay::Runs] {
        for expanded in std::iter::once(None).chain(PanelKind::ALL.map(Some)) {
            (it.app.overlay, it.app.expanded) = (overlay, expanded);
            let text = screen(&mut it.app, 120, 40);
            assert!(text.is_ascii(), "{expanded:?}: {:?}", text.chars().find(|c| !c.is_ascii()));
        }
    }
    press(&mut it.app, KeyCode::Esc);
    press(&mut it.app, KeyCode::Char('m'));
    assert_eq!(it.app.marker, Marker::Ascii);
}

#[test]
fn keys_that_leave() {
    let mut it = fixture(1, 10, running());
    press(&mut it.app, KeyCode::Char('q'));
    assert_eq!(it.app.leave.take(), Some(0));
    it.app.handle(Event::Key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
    assert_eq!(it.app.leave, Some(0));
    it.app.handle(Event::Signal(15));
    assert_eq!(it.app.leave, Some(143));
}

#[test]
fn keys_that_change_the_view() {
    let mut it = fixture(1, 1200, running());
    let app = &mut it.app;
    press(app, KeyCode::Char('y'));
    press(app, KeyCode::Char('s'));
    press(app, KeyCode::Char('x'));
    press(app, KeyCode::Char('m'));
    press(app, KeyCode::Char('t'));
    assert!(app.view.log);
    assert_eq!((app.view.smoothing, app.view.axis), (Smoothing::Light, Axis::Time));
    assert_eq!((app.marker, app.theme.name), (Marker::Block, ThemeName::Light));
    press(app, KeyCode::Char('+'));
    assert_eq!(app.view.window.updates(1200), 600..=1200);
    press(app, KeyCode::Char('<'));
    assert_eq!(app.view.window.updates(1200), 450..=1050);
    press(app, KeyCode::End);
    assert_eq!(app.view.window.updates(1200), 600..=1200);
    let text = screen(app, 120, 40);
    assert!(text.contains("last 600 updates  log  smooth 1%  by time"), "{text}");
    press(app, KeyCode::Char('-'));
    assert!(app.view.window.is_whole());
}

#[test]
fn keys_that_move_the_focus() {
    let mut it = fixture(1, 100, running());
    let app = &mut it.app;
    screen(app, 120, 40);
    press(app, KeyCode::Tab);
    assert_eq!(app.focus, PanelKind::Speed);
    press(app, KeyCode::BackTab);
    press(app, KeyCode::BackTab);
    assert_eq!(app.focus, PanelKind::Events);
    press(app, KeyCode::Char('6'));
    assert_eq!((app.focus, app.expanded), (PanelKind::Scene, None));
    press(app, KeyCode::Char('6'));
    assert_eq!(app.expanded, Some(PanelKind::Scene));
    press(app, KeyCode::Tab);
    assert_eq!(app.expanded, Some(PanelKind::Events));
    press(app, KeyCode::Esc);
    assert_eq!(app.expanded, None);
    press(app, KeyCode::Char('8'));
    assert_eq!(app.expanded, Some(PanelKind::Metrics));
    // On a small screen a panel that is not there has to be expanded to be seen.
    press(app, KeyCode::Esc);
    screen(app, 40, 12);
    press(app, KeyCode::Char('3'));
    assert_eq!(app.expanded, Some(PanelKind::Losses));
}

#[test]
fn a_number_focuses_first_and_expands_when_pressed_again() {
    let mut it = fixture(1, 100, running());
    let app = &mut it.app;
    screen(app, 120, 40);
    // The panel has the focus from the start.
    press(app, KeyCode::Char('1'));
    assert_eq!((app.focus, app.expanded), (PanelKind::Returns, None));
    press(app, KeyCode::Char('1'));
    assert_eq!(app.expanded, Some(PanelKind::Returns));
    press(app, KeyCode::Esc);
    press(app, KeyCode::Char('2'));
    press(app, KeyCode::Tab);
    press(app, KeyCode::BackTab);
    press(app, KeyCode::Char('2'));
    assert_eq!((app.focus, app.expanded), (PanelKind::Speed, None));
}

#[test]
fn the_cursor_of_an_expanded_chart() {
    let mut it = fixture(2, 1200, running());
    let app = &mut it.app;
    press(app, KeyCode::Char('c'));
    assert_eq!(app.view.cursor.get(), None, "there is no single chart yet");
    press(app, KeyCode::Enter);
    press(app, KeyCode::Char('c'));
    (0..40).for_each(|_| press(app, KeyCode::Left));
    insta::assert_snapshot!("cursor", screen(app, 80, 24));
    press(app, KeyCode::Right);
    assert_eq!(app.view.cursor.get(), Some(39));
    assert!(app.view.window.is_whole(), "arrows move the cursor alone");
    app.runs.overlay(1);
    insta::assert_snapshot!("cursor_of_two_runs", screen(app, 80, 24));
    press(app, KeyCode::Esc);
    assert_eq!((app.view.cursor.get(), app.expanded), (None, Some(PanelKind::Returns)));
}

#[test]
fn two_runs_are_compared_by_their_settings() {
    let parent = tempfile::tempdir().unwrap();
    ended_run(
        parent.path(),
        "a",
        10,
        "environment = \"cartpole\"\nseed = 1\nlearning_rate = 0.001\ngamma = 0.99\n",
    );
    ended_run(
        parent.path(),
        "b",
        10,
        "environment = \"cartpole\"\nseed = 2\ngamma = 0.99\nclip_coef = 0.1\n",
    );
    let mut app = monitor_of(parent.path(), &["a"]);
    press(&mut app, KeyCode::Char('r'));
    app.advance(Duration::from_secs(1), 0);
    press(&mut app, KeyCode::Char('d'));
    assert!(screen(&mut app, 100, 20).contains("mark two runs with c"));
    press(&mut app, KeyCode::Char('c'));
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Char('c'));
    press(&mut app, KeyCode::Char('d'));
    assert_eq!(app.overlay, Overlay::Comparison);
    settle(app.runs.shown_mut().unwrap(), Health::Reported(RunState::Finished));
    insta::assert_snapshot!("comparison", screen(&mut app, 80, 20));
    for (width, height) in (0..40).flat_map(|width| (0..12).map(move |height| (width, height))) {
        buffer(&mut app, width, height);
    }
    press(&mut app, KeyCode::Esc);
    assert_eq!(app.overlay, Overlay::Runs);
}

/// Notes what it was asked.
#[derive(Debug, Default)]
struct Noting(std::sync::Mutex<Vec<String>>);

impl crate::Control for Noting {
    fn stop(&self, dir: &Path) -> Result<String, String> {
        self.0.lock().unwrap().push(format!("stop {}", dir.display()));
        Ok("is stopping".to_string())
    }

    fn pause(&self, dir: &Path) -> Result<String, String> {
        self.0.lock().unwrap().push(format!("pause {}", dir.display()));
        Err("not here".to_string())
    }

    fn sweep(&self, _: &Path) -> Box<dyn crate::sweep::SweepSource> {
        Box::new(list::NoSweep)
    }
}

/// Waits for the answer of an action.
fn answer(app: &mut App) -> String {
    let begun = std::time::Instant::now();
    while app.list.message.ends_with("request sent") {
        assert!(begun.elapsed() < Duration::from_secs(60), "no answer came");
        std::thread::yield_now();
        app.list.listen();
    }
    app.list.message.clone()
}

#[test]
fn a_run_is_stopped_from_the_list_only_when_asked_twice() {
    let mut it = fixture(2, 100, running());
    let control = std::sync::Arc::new(Noting::default());
    it.app.list = crate::list::RunList::new(Some(std::sync::Arc::clone(&control) as _));
    let app = &mut it.app;
    press(app, KeyCode::Char('r'));
    let asked = |control: &Noting| control.0.lock().unwrap().clone();
    press(app, KeyCode::Char('X'));
    assert!(screen(app, 80, 20).contains("stop synthetic? X again or y: yes"), "{}", screen(app, 80, 20));
    press(app, KeyCode::Down);
    assert!(app.list.asked.is_none() && asked(&control).is_empty());
    for (first, second, said) in
        [('X', 'X', "is stopping"), ('X', 'y', "is stopping"), ('p', 'p', "not here")]
    {
        press(app, KeyCode::Char(first));
        press(app, KeyCode::Char(second));
        assert_eq!(answer(app), format!("synthetic: {said}"));
    }
    assert_eq!(asked(&control), ["stop /nowhere/runs", "stop /nowhere/runs", "pause /nowhere/runs"]);
    // A run that has ended cannot be stopped.
    it.rings[1].writer.set_state(RunState::Finished, "");
    app.advance(Duration::from_secs(1), 0);
    press(app, KeyCode::Down);
    press(app, KeyCode::Char('X'));
    assert!(app.list.asked.is_none() && app.list.message.contains("has ended"), "{}", app.list.message);
}

#[test]
fn without_a_control_the_list_names_the_command() {
    let mut it = fixture(1, 100, running());
    press(&mut it.app, KeyCode::Char('r'));
    press(&mut it.app, KeyCode::Char('X'));
    assert!(it.app.list.message.contains("operant stop "), "{}", it.app.list.message);
    press(&mut it.app, KeyCode::Char('p'));
    assert!(it.app.list.message.contains("kill -USR2 "), "{}", it.app.list.message);
    assert!(it.app.list.asked.is_none());
}

#[test]
fn every_metric_can_be_found_by_filter_and_seen_alone() {
    let mut it = fixture(1, 100, running());
    let app = &mut it.app;
    screen(app, 120, 40);
    for metric in operant_metrics::METRICS {
        press(app, KeyCode::Char('/'));
        type_text(app, metric.name);
        assert_eq!(app.view.filter, metric.name);
        press(app, KeyCode::Enter);
        let text = screen(app, 120, 40);
        assert!(text.contains(metric.name), "{text}");
        press(app, KeyCode::Enter);
        let shown = app.metric.clone().expect("a metric");
        assert!(shown.starts_with(metric.name) || shown.contains(metric.name), "{shown} for {}", metric.name);
        screen(app, 120, 40);
        for _ in 0..3 {
            press(app, KeyCode::Esc);
        }
        assert_eq!((app.expanded, app.view.filter.as_str()), (None, ""));
    }
}

#[test]
fn freezing_holds_the_charts_and_the_state() {
    let mut it = fixture(1, 500, running());
    let app = &mut it.app;
    app.advance(Duration::from_secs(1), 0);
    press(app, KeyCode::Char(' '));
    let before = screen(app, 120, 40);
    assert!(before.contains("FROZEN"), "{before}");
    for i in 501..700 {
        it.rings[0].writer.publish(&synthetic::record(i, UPDATES, 0));
    }
    it.rings[0].writer.set_state(RunState::Failed, "made to");
    app.advance(Duration::from_secs(60), 0);
    assert_eq!(screen(app, 120, 40), before);
    press(app, KeyCode::Char(' '));
    app.advance(Duration::from_secs(61), 0);
    let after = screen(app, 120, 40);
    assert!(after.contains("failed") && after.contains("made to") && after.contains("699"), "{after}");
}

#[test]
fn a_ring_that_goes_away_stays_on_the_screen_with_a_word_about_it() {
    let mut it = fixture(1, 500, running());
    let app = &mut it.app;
    app.advance(Duration::from_secs(1), 0);
    let path = it.rings[0].writer.path().to_path_buf();
    drop(it.rings.pop());
    std::fs::remove_file(&path).unwrap();
    app.advance(Duration::from_secs(2), 0);
    let text = screen(app, 120, 40);
    assert!(text.contains("was removed") && text.contains("killed"), "{text}");
    assert!(text.contains("475") && text.contains("update 500"), "{text}");
    // Another run takes the name.
    let dir = path.parent().unwrap();
    let _new = ring(dir, "synthetic", 700, 1);
    app.advance(Duration::from_secs(3), 0);
    let text = screen(app, 120, 40);
    assert!(text.contains("update 700") && text.contains("running"), "{text}");
}

#[test]
fn a_ring_that_is_cut_short_leaves_the_last_figures_on_the_screen() {
    let mut it = fixture(1, 500, running());
    let app = &mut it.app;
    app.advance(Duration::from_secs(1), 0);
    screen(app, 120, 40);
    let path = it.rings[0].writer.path().to_path_buf();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    app.advance(Duration::from_secs(2), 0);
    let text = screen(app, 120, 40);
    assert!(text.contains("was cut short") && text.contains("update 500"), "{text}");
    // The trainer repairs it with its next update.
    it.rings[0].side.check();
    it.rings[0].writer.publish(&synthetic::record(501, UPDATES, 0));
    app.advance(Duration::from_secs(3), 0);
    let text = screen(app, 120, 40);
    assert!(text.contains("update 501") && !text.contains("was cut short"), "{text}");
}

#[test]
fn the_mouse_focuses_expands_and_zooms() {
    let mut it = fixture(1, 1200, running());
    let app = &mut it.app;
    screen(app, 120, 40);
    let at = |kind, area: Rect| {
        let (column, row) = (area.x + area.width / 2, area.y + area.height / 2);
        Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE })
    };
    let scene = app.layout().area_of(PanelKind::Scene).unwrap();
    let returns = app.layout().area_of(PanelKind::Returns).unwrap();
    app.handle(at(MouseEventKind::Down(MouseButton::Left), scene));
    assert_eq!((app.focus, app.expanded), (PanelKind::Scene, None));
    app.handle(at(MouseEventKind::Down(MouseButton::Left), scene));
    assert_eq!(app.expanded, Some(PanelKind::Scene));
    press(app, KeyCode::Esc);
    app.handle(at(MouseEventKind::ScrollUp, returns));
    let shown = app.view.window.updates(1200);
    assert!(!app.view.window.follows() && *shown.end() - *shown.start() == 600, "{shown:?}");
    app.handle(at(MouseEventKind::ScrollDown, returns));
    assert!(app.view.window.is_whole());
}
