//! All runs: runs that were found, runs on the screen, and runs named on the command line that do not exist yet.

mod locations;
mod order;
mod recorded;
mod run;
mod source;
mod stage;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use locations::RunLocations;
pub use order::{Order, SortBy};
pub use recorded::{Recorded, settings};
pub use run::RunView;
pub use source::Source;
pub(crate) use stage::Playing;
pub use stage::Stage;

/// Time between two scans of the directories of rings and of runs.
const SCAN_PERIOD: Duration = Duration::from_millis(500);
/// Maximum directories of runs that one scan opens; the next scans open the rest.
const NEW_DIRS: usize = 100;

/// All runs that the monitor knows of.
pub struct Runs {
    locations: RunLocations,
    /// Named on the command line and not seen yet.
    wanted: Vec<String>,
    open: Vec<RunView>,
    /// Path of the run that the panels show.
    shown: Option<PathBuf>,
    /// Paths of the runs that are drawn with it, in the order of their colours.
    overlaid: Vec<PathBuf>,
    /// Rings that cannot be read, by name, and why.
    pub broken: Vec<(String, String)>,
    /// Why the first of the wanted runs cannot be opened.
    pub why: String,
    scanned: Option<Duration>,
    frozen: bool,
    order: Order,
}

impl Runs {
    /// The runs in `locations`. The first of `wanted` is shown and the others are drawn in its charts, each as soon as it exists;
    /// if `wanted` is empty, the newest run is shown.
    pub fn new(locations: RunLocations, wanted: &[String]) -> Self {
        Runs {
            locations,
            wanted: wanted.to_vec(),
            open: Vec::new(),
            shown: None,
            overlaid: Vec::new(),
            broken: Vec::new(),
            why: String::new(),
            scanned: None,
            frozen: false,
            order: Order::default(),
        }
    }

    /// Runs that are open already, the first of which is shown.
    pub fn of_views(views: Vec<RunView>) -> Self {
        let mut runs = Self::new(RunLocations { rings: Some(PathBuf::new()), run_dir: None }, &[]);
        runs.shown = views.first().map(|run| run.path().to_path_buf());
        runs.scanned = Some(Duration::MAX);
        runs.open = views;
        runs
    }

    /// Reads what this frame shows: the shown runs, and all of them where `list` is on the screen.
    pub fn refresh(&mut self, now: Duration, list: bool) {
        if self.frozen {
            return;
        }
        let due = self.scanned.is_none_or(|at| now.checked_sub(at).is_some_and(|since| since >= SCAN_PERIOD));
        if due {
            self.scanned = Some(now);
            self.scan(list);
        }
        let (shown, overlaid) = (&self.shown, &self.overlaid);
        for run in &mut self.open {
            let on_screen =
                shown.as_deref() == Some(run.path()) || overlaid.iter().any(|path| path == run.path());
            if on_screen || list {
                run.refresh(now);
            }
        }
    }

    /// Opens new runs, and drops runs that are gone and not on the screen. Directories are scanned if `list` requests
    /// all runs; without, those that are open stay.
    fn scan(&mut self, list: bool) {
        let found = self.locations.rings();
        let dirs = if list { self.locations.run_dirs() } else { Vec::new() };
        self.broken.clear();
        let kept = |path: &Path| {
            self.shown.as_deref() == Some(path) || self.overlaid.iter().any(|other| other == path)
        };
        self.open.retain(|run| {
            let is_there = match run.is_recorded() {
                true => !list || dirs.iter().any(|dir| dir == run.path()),
                false => found.iter().any(|ring| ring.path == run.path()),
            };
            is_there || kept(run.path())
        });
        for ring in &found {
            if !self.is_open(&ring.path) {
                match locations::open_ring(ring) {
                    Ok(source) => self.add(RunView::of_source(&ring.name, source)),
                    Err(error) => self.broken.push((ring.name.clone(), error.to_string())),
                }
            }
        }
        let is_new = |dir: &&PathBuf| {
            !self.open.iter().any(|run| run.path() == dir.as_path() || run.identity().dir == **dir)
        };
        let new: Vec<&PathBuf> = dirs.iter().filter(is_new).take(NEW_DIRS).collect();
        for recorded in new.into_iter().filter_map(|dir| Recorded::open(dir)) {
            let name = recorded.identity().run.clone();
            self.add(RunView::of_source(&name, recorded));
        }
        self.open_wanted();
        if self.shown.is_none() && self.wanted.is_empty() {
            // Newest first, the living before the dead.
            let newest = self.open.iter().filter(|run| !run.is_sweep()).max_by_key(|run| {
                (run.status.health.is_alive(), run.identity().started_unix_ns, run.name().to_string())
            });
            self.shown = newest.map(|run| run.path().to_path_buf());
        }
        self.order.sort(&mut self.open);
    }

    fn is_open(&self, path: &Path) -> bool {
        self.open.iter().any(|run| run.path() == path)
    }

    /// Adds a run. A ring replaces the directory of the same run, also on the screen: the run was resumed.
    fn add(&mut self, run: RunView) {
        let dir = &run.identity().dir;
        let same = self.open.iter().position(|other| other.is_recorded() && other.path() == dir);
        if let Some(at) = same.filter(|_| !run.is_recorded()) {
            let (before, after) = (self.open.remove(at), run.path().to_path_buf());
            let on_screen = self.shown.iter_mut().chain(&mut self.overlaid);
            on_screen.filter(|path| *path == before.path()).for_each(|path| path.clone_from(&after));
        }
        self.open.push(run);
    }

    /// Opens those runs of `wanted` that exist by now, and shows them.
    fn open_wanted(&mut self) {
        for name in std::mem::take(&mut self.wanted) {
            match self.locations.open(&name) {
                Ok((name, source)) => {
                    let path = source.path().to_path_buf();
                    if !self.is_open(&path) {
                        self.add(RunView::of_source(&name, source));
                    }
                    match &self.shown {
                        None => self.shown = Some(path),
                        Some(shown) if *shown != path && !self.overlaid.contains(&path) => {
                            self.overlaid.push(path);
                        }
                        Some(_) => {}
                    }
                }
                Err(error) => {
                    if self.wanted.is_empty() {
                        self.why = error.to_string();
                    }
                    self.wanted.push(name);
                }
            }
        }
    }

    pub fn order(&self) -> Order {
        self.order
    }

    /// Puts the runs into another order.
    pub fn sort(&mut self, order: Order) {
        self.order = order;
        order.sort(&mut self.open);
    }

    /// All runs, in their order.
    pub fn all(&self) -> &[RunView] {
        &self.open
    }

    /// Names from the command line whose runs do not exist yet.
    pub fn wanted(&self) -> &[String] {
        &self.wanted
    }

    /// The run that the panels show.
    pub fn shown(&self) -> Option<&RunView> {
        self.shown.as_deref().and_then(|path| self.open.iter().find(|run| run.path() == path))
    }

    /// Mutable access to the run that the panels show.
    pub fn shown_mut(&mut self) -> Option<&mut RunView> {
        let path = self.shown.as_deref()?;
        self.open.iter_mut().find(|run| run.path() == path)
    }

    /// The runs that are drawn with it, in the order of their colours.
    pub fn others(&self) -> Vec<&RunView> {
        self.overlaid.iter().filter_map(|path| self.open.iter().find(|run| run.path() == path)).collect()
    }

    /// The number of the curve that draws the run at `index` of [`Runs::all`]: 0 for the one shown, none for those
    /// that are not drawn.
    pub fn curve(&self, index: usize) -> Option<usize> {
        let path = self.open.get(index)?.path();
        match self.shown.as_deref() == Some(path) {
            true => Some(0),
            false => self.overlaid.iter().position(|other| other == path).map(|i| i + 1),
        }
    }

    /// Shows the run at `index` of [`Runs::all`].
    pub fn show(&mut self, index: usize) {
        if let Some(run) = self.open.get(index) {
            let path = run.path().to_path_buf();
            self.overlaid.retain(|other| *other != path);
            self.shown = Some(path);
        }
    }

    /// Toggles whether the run at `index` of [`Runs::all`] is drawn with the one shown.
    pub fn overlay(&mut self, index: usize) {
        let Some(path) = self.open.get(index).map(|run| run.path().to_path_buf()) else { return };
        if self.shown.as_deref() == Some(&path) {
            return;
        }
        match self.overlaid.iter().position(|other| *other == path) {
            Some(i) => {
                self.overlaid.remove(i);
            }
            None => self.overlaid.push(path),
        }
    }

    /// Freezes the screen: runs that end or disappear remain as they are.
    pub fn freeze(&mut self) {
        self.frozen = true;
        let (shown, overlaid) = (&self.shown, &self.overlaid);
        for run in &mut self.open {
            if shown.as_deref() == Some(run.path()) || overlaid.iter().any(|path| path == run.path()) {
                run.freeze();
            }
        }
    }

    /// Continues everything.
    pub fn thaw(&mut self) {
        self.frozen = false;
        self.open.iter_mut().for_each(RunView::thaw);
    }

    /// Whether the screen is frozen.
    pub fn is_frozen(&self) -> bool {
        self.frozen
    }
}
