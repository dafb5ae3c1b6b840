//! The list of runs: its order, its filter, and the sweeps in it.

use std::sync::Arc;

use operant_metrics::SweepState;

use super::*;
use crate::app::Way;
use crate::list::RunList;
use crate::sweep::SweepSource;

fn names(app: &App) -> Vec<String> {
    app.runs.all().iter().map(|run| run.name().to_string()).collect()
}

#[test]
fn the_list_is_sorted_by_the_column_that_the_key_chose() {
    let dir = tempfile::tempdir().unwrap();
    let rings: Vec<_> = [("run-10", 30), ("run-2", 90), ("run-1", 60)]
        .map(|(name, updates)| ring(dir.path(), name, updates, 0))
        .into_iter()
        .collect();
    let mut app = App::of_runs(Runs::new(rings_in(dir.path()), &["run-2".to_string()]), DETECTED);
    app.advance(Duration::ZERO, 0);
    assert_eq!(names(&app), ["run-1", "run-2", "run-10"]);
    press(&mut app, KeyCode::Char('r'));
    app.advance(Duration::from_secs(1), 0);
    // Over state, environment and share to the steps, of which the largest come first.
    (0..4).for_each(|_| press(&mut app, KeyCode::Char('s')));
    assert_eq!(names(&app), ["run-2", "run-1", "run-10"]);
    press(&mut app, KeyCode::Char('S'));
    assert_eq!(names(&app), ["run-10", "run-1", "run-2"]);
    // The same run stays selected, and a new one does not change that.
    let selected = |app: &App| app.runs.all()[app.list.row].name().to_string();
    assert_eq!(selected(&app), "run-2");
    let _new = ring(dir.path(), "run-0", 45, 0);
    app.advance(Duration::from_secs(2), 0);
    assert_eq!((selected(&app).as_str(), names(&app).len()), ("run-2", 4));
    drop(rings);
}

#[test]
fn live_runs_come_first_and_then_the_others_by_name() {
    let parent = tempfile::tempdir().unwrap();
    let rings = parent.path().join("rings");
    std::fs::create_dir(&rings).unwrap();
    let _live = [ring(&rings, "live-2", 60, 0), ring(&rings, "live-1", 60, 0)];
    ended_run(parent.path(), "also", 30, "");
    ended_run(parent.path(), "before", 30, "");
    let mut app = monitor_of(parent.path(), &["live-1"]);
    press(&mut app, KeyCode::Char('r'));
    app.advance(Duration::from_secs(1), 0);
    assert_eq!(names(&app), ["live-1", "live-2", "also", "before"]);
    press(&mut app, KeyCode::Char('S'));
    assert_eq!(names(&app), ["live-2", "live-1", "before", "also"]);
}

#[test]
fn a_filter_leaves_the_runs_that_have_its_words() {
    let mut it = fixture(3, 60, running());
    let listed = |app: &App| app.list.rows(&app.runs);
    press(&mut it.app, KeyCode::Char('r'));
    press(&mut it.app, KeyCode::Char('/'));
    // Keys with a meaning of their own are letters here.
    type_text(&mut it.app, "-2 RUNNING");
    assert_eq!(listed(&it.app), [2]);
    let text = screen(&mut it.app, 100, 20);
    assert!(text.contains("1 of 3 runs") && text.contains("/-2 RUNNING"), "{text}");
    press(&mut it.app, KeyCode::Enter);
    press(&mut it.app, KeyCode::Enter);
    assert_eq!(it.app.runs.shown().map(|run| run.name()), Some("synthetic-2"), "the one that is left");

    press(&mut it.app, KeyCode::Char('r'));
    press(&mut it.app, KeyCode::Char('/'));
    type_text(&mut it.app, "nowhere");
    assert_eq!(listed(&it.app), [0; 0]);
    assert!(screen(&mut it.app, 100, 20).contains("no run has these words"));
    // Nothing can be done to a run that is not listed.
    press(&mut it.app, KeyCode::Enter);
    press(&mut it.app, KeyCode::Char('X'));
    assert!(it.app.list.asked.is_none() && it.app.list.message.is_empty(), "{}", it.app.list.message);
    press(&mut it.app, KeyCode::Esc);
    assert_eq!((listed(&it.app).len(), it.app.overlay), (3, Overlay::Runs), "Esc clears the filter first");
    press(&mut it.app, KeyCode::End);
    assert_eq!(it.app.list.row, 2);
    press(&mut it.app, KeyCode::Esc);
    assert_eq!(it.app.overlay, Overlay::None);
}

/// Reads no sweep.
pub(super) struct NoSweep;

impl SweepSource for NoSweep {
    fn read(&mut self) -> Result<SweepState, String> {
        Err("not here".to_string())
    }
}

/// A monitor of a run and a sweep, which is selected in the list. The sweep is not older.
fn with_sweep(parent: &Path) -> (App, PathBuf) {
    ended_run(parent, "before", 30, "");
    let sweep = ended_run(parent, "rates", 0, "");
    std::fs::write(sweep.join("sweep.db"), "").unwrap();
    let mut app = monitor_of(parent, &[]);
    assert_eq!(app.runs.shown().map(|run| run.name().to_string()).as_deref(), Some("before"));
    press(&mut app, KeyCode::Char('r'));
    app.advance(Duration::from_secs(1), 0);
    assert_eq!(names(&app), ["before", "rates"]);
    press(&mut app, KeyCode::Down);
    (app, std::fs::canonicalize(sweep).unwrap())
}

#[test]
fn a_sweep_is_opened_and_not_drawn_as_a_run() {
    let parent = tempfile::tempdir().unwrap();
    let (mut app, sweep) = with_sweep(parent.path());
    assert!(screen(&mut app, 100, 24).contains("sweep, cartpole"));
    for key in [' ', 'c', 'd'] {
        press(&mut app, KeyCode::Char(key));
        assert!(screen(&mut app, 80, 24).contains("Enter opens it"));
    }
    assert!(app.runs.others().is_empty() && app.list.marked.is_empty());
    // The small monitor cannot read it.
    press(&mut app, KeyCode::Enter);
    assert!(app.way.is_none() && app.list.message.contains("operant monitor "), "{}", app.list.message);
    let row = app.list.row;
    app.list = RunList::new(Some(Arc::new(Noting::default())));
    app.list.row = row;
    press(&mut app, KeyCode::Enter);
    assert_eq!(app.way, Some(Way::Sweep(sweep)));
    assert!(app.list.sweep(Path::new("any")).is_some_and(|mut source| source.read().is_err()));
    // By name it is refused, and a filter finds it.
    let mut named = monitor_of(parent.path(), &["rates"]);
    assert!(named.runs.shown().is_none() && named.runs.why.contains("is a sweep"), "{}", named.runs.why);
    assert!(screen(&mut named, 80, 24).contains("rates is a sweep"));
    app.list.filter = "sweep".to_string();
    assert_eq!(app.list.rows(&app.runs), [1]);
}

#[test]
fn keys_of_the_list_act_on_a_sweep_or_say_why_not() {
    let parent = tempfile::tempdir().unwrap();
    let (mut app, sweep) = with_sweep(parent.path());
    let _others = ["x", "y"].map(|name| ended_run(parent.path(), name, 30, ""));
    let control = Arc::new(Noting::default());
    let (row, alive) = (app.list.row, operant_metrics::Identity::of_this_process("rates", "cartpole"));
    app.list = RunList::new(Some(Arc::clone(&control) as _));
    app.list.row = row;
    let hints = screen(&mut app, 100, 24);
    assert!(hints.contains("Enter open  / filter  s sort  X stop  p pause"), "{hints}");
    for key in ['X', 'p'] {
        press(&mut app, KeyCode::Char(key));
        assert!(app.list.asked.is_none() && app.list.message == "rates has ended", "{}", app.list.message);
    }
    // Its trainer lives.
    let run = format!(
        r#"{{"run":"rates","env":"cartpole","state":"running","pid":{},"process_start":{},"boot_id":"{}"}}"#,
        alive.pid, alive.process_start, alive.boot_id
    );
    std::fs::write(sweep.join("run.json"), run).unwrap();
    let log = std::fs::File::create(sweep.join("operant.log")).unwrap();
    log.lock().unwrap();
    app.advance(Duration::from_secs(5), 0);
    for (key, said) in [('X', "is stopping"), ('p', "not here")] {
        press(&mut app, KeyCode::Char(key));
        press(&mut app, KeyCode::Char('y'));
        assert_eq!(answer(&mut app), format!("rates: {said}"));
    }
    let sweep = sweep.display();
    assert_eq!(*control.0.lock().unwrap(), [format!("stop {sweep}"), format!("pause {sweep}")]);
    // Two runs that are marked are compared wherever the cursor is.
    for _ in 0..2 {
        press(&mut app, KeyCode::Down);
        press(&mut app, KeyCode::Char('c'));
    }
    press(&mut app, KeyCode::Home);
    while !app.list.selected(&app.runs).is_some_and(RunView::is_sweep) {
        press(&mut app, KeyCode::Down);
    }
    press(&mut app, KeyCode::Char('d'));
    assert_eq!(app.overlay, Overlay::Comparison);
}

#[test]
fn escape_leads_from_the_runs_of_a_sweep_back_to_it() {
    let mut it = fixture(1, 60, running());
    press(&mut it.app, KeyCode::Esc);
    assert_eq!(it.app.way, None, "these were not opened from a sweep");
    it.app.is_of_sweep = true;
    assert!(screen(&mut it.app, 80, 24).contains("Esc sweep"));
    press(&mut it.app, KeyCode::Enter);
    press(&mut it.app, KeyCode::Esc);
    assert_eq!((it.app.way.clone(), it.app.expanded), (None, None));
    press(&mut it.app, KeyCode::Esc);
    assert_eq!(it.app.way, Some(Way::Back));
}
