//! The runs: which there are, which are shown, which are waited for.

mod board;
mod run;
mod stage;

use std::path::{Path, PathBuf};
use std::time::Duration;

use operant_metrics::{Found, RingError};

pub(crate) use board::Board;
pub use run::RunView;
pub(crate) use stage::Playing;
pub use stage::Stage;

/// How often the directory of rings is looked at.
const SCAN_PERIOD: Duration = Duration::from_millis(500);

/// Where rings are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Where trainers put them on this machine.
    Default,
    /// A directory of one's own.
    Directory(PathBuf),
}

impl Place {
    /// The rings there, by name.
    fn rings(&self) -> Vec<Found> {
        match self {
            Place::Default => operant_metrics::rings(),
            Place::Directory(dir) => operant_metrics::rings_in(dir),
        }
    }

    fn find(&self, run: &str) -> Result<Found, RingError> {
        match self {
            Place::Default => operant_metrics::find(run),
            Place::Directory(dir) => operant_metrics::find_in(dir, run),
        }
    }
}

/// All runs that the monitor knows of.
pub struct Runs {
    place: Place,
    /// Named on the command line and not seen yet.
    wanted: Vec<String>,
    open: Vec<RunView>,
    /// Path of the run that the panels show.
    shown: Option<PathBuf>,
    /// Paths of the runs that are drawn with it, in the order of their colours.
    overlaid: Vec<PathBuf>,
    /// Rings that cannot be read, by name, and why.
    pub broken: Vec<(String, String)>,
    /// Why the first of those that are waited for is not there.
    pub why: String,
    scanned: Option<Duration>,
    frozen: bool,
}

impl Runs {
    /// The runs in `place`. The first of `wanted` is shown, the others are drawn with it, each as soon as it is there;
    /// with none wanted, the newest is shown.
    pub fn new(place: Place, wanted: &[String]) -> Self {
        Runs {
            place,
            wanted: wanted.to_vec(),
            open: Vec::new(),
            shown: None,
            overlaid: Vec::new(),
            broken: Vec::new(),
            why: String::new(),
            scanned: None,
            frozen: false,
        }
    }

    /// Runs that are open already, the first of which is shown.
    pub fn of_views(views: Vec<RunView>) -> Self {
        let mut runs = Self::new(Place::Directory(PathBuf::new()), &[]);
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
            self.scan();
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

    /// Opens what is new, and forgets what is gone and not on the screen.
    fn scan(&mut self) {
        let found = self.place.rings();
        self.broken.clear();
        let kept = |path: &Path| {
            self.shown.as_deref() == Some(path) || self.overlaid.iter().any(|other| other == path)
        };
        self.open.retain(|run| kept(run.path()) || found.iter().any(|ring| ring.path == run.path()));
        for ring in &found {
            if !self.open.iter().any(|run| run.path() == ring.path) {
                match RunView::open(&ring.name, &ring.path) {
                    Ok(run) => self.open.push(run),
                    Err(error) => self.broken.push((ring.name.clone(), error.to_string())),
                }
            }
        }
        self.open.sort_by(|a, b| a.name().cmp(b.name()));
        for name in std::mem::take(&mut self.wanted) {
            let why = match self.place.find(&name) {
                Ok(ring) if self.open_at(&ring) => continue,
                Ok(_) => String::new(),
                Err(error) => error.to_string(),
            };
            if self.wanted.is_empty() {
                self.why = why;
            }
            self.wanted.push(name);
        }
        if self.shown.is_none() && self.wanted.is_empty() {
            // Newest first, the living before the dead.
            let newest = self.open.iter().max_by_key(|run| {
                (run.status.health.is_alive(), run.identity().started_unix_ns, run.name().to_string())
            });
            self.shown = newest.map(|run| run.path().to_path_buf());
        }
    }

    /// Puts a ring that was asked for on the screen.
    fn open_at(&mut self, ring: &Found) -> bool {
        if !self.open.iter().any(|run| run.path() == ring.path) {
            match RunView::open(&ring.name, &ring.path) {
                Ok(run) => self.open.push(run),
                Err(error) => {
                    self.broken.push((ring.name.clone(), error.to_string()));
                    return false;
                }
            }
        }
        match &self.shown {
            None => self.shown = Some(ring.path.clone()),
            Some(shown) if *shown != ring.path && !self.overlaid.contains(&ring.path) => {
                self.overlaid.push(ring.path.clone());
            }
            Some(_) => {}
        }
        true
    }

    /// All runs, by name.
    pub fn all(&self) -> &[RunView] {
        &self.open
    }

    /// Names that were asked for and are not there yet.
    pub fn wanted(&self) -> &[String] {
        &self.wanted
    }

    /// The run that the panels show.
    pub fn shown(&self) -> Option<&RunView> {
        self.shown.as_deref().and_then(|path| self.open.iter().find(|run| run.path() == path))
    }

    /// The same, to be changed.
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

    /// Draws the run at `index` of [`Runs::all`] with the one shown, or no longer.
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

    /// Holds everything as it is, runs that end or vanish included.
    pub fn freeze(&mut self) {
        self.frozen = true;
        let (shown, overlaid) = (&self.shown, &self.overlaid);
        for run in &mut self.open {
            if shown.as_deref() == Some(run.path()) || overlaid.iter().any(|path| path == run.path()) {
                run.freeze();
            }
        }
    }

    /// Lets everything go on.
    pub fn thaw(&mut self) {
        self.frozen = false;
        self.open.iter_mut().for_each(RunView::thaw);
    }

    /// Whether everything is held.
    pub fn is_frozen(&self) -> bool {
        self.frozen
    }
}
