//! The list of runs: its order and its filter.

use super::*;

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
