//! The layout: a pure function of the screen's size.

use ratatui::layout::{Position, Rect};

/// The panels, in the order of their keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PanelKind {
    /// Episodic return.
    Returns,
    /// Steps per second.
    Speed,
    /// Losses and what belongs to them.
    Losses,
    /// Where the time goes.
    Phases,
    /// How busy the machine is.
    Utilization,
    /// Environment 0, drawn as it acts.
    Scene,
    /// What happened.
    Events,
    /// Every metric of the ring.
    Metrics,
    /// The metrics of the environment's own.
    Environment,
}

impl PanelKind {
    pub const ALL: [PanelKind; 9] = [
        PanelKind::Returns,
        PanelKind::Speed,
        PanelKind::Losses,
        PanelKind::Phases,
        PanelKind::Utilization,
        PanelKind::Scene,
        PanelKind::Events,
        PanelKind::Metrics,
        PanelKind::Environment,
    ];

    /// The key that leads to it: a number, which is its place, or a letter.
    pub const fn key(self) -> char {
        match self {
            PanelKind::Environment => 'e',
            panel => (b'1' + panel as u8) as char,
        }
    }

    /// Its name in the user's configuration.
    pub const fn name(self) -> &'static str {
        match self {
            PanelKind::Returns => "returns",
            PanelKind::Speed => "speed",
            PanelKind::Losses => "losses",
            PanelKind::Phases => "phases",
            PanelKind::Utilization => "utilization",
            PanelKind::Scene => "scene",
            PanelKind::Events => "events",
            PanelKind::Metrics => "metrics",
            PanelKind::Environment => "environment",
        }
    }

    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|panel| panel.name() == name)
    }

    pub fn of_key(key: char) -> Option<Self> {
        Self::ALL.into_iter().find(|panel| panel.key() == key)
    }

    /// Whether its horizontal axis is time, so that it can be zoomed.
    pub const fn is_chart(self) -> bool {
        matches!(self, PanelKind::Returns | PanelKind::Speed | PanelKind::Losses)
    }
}

/// The areas of the screen. A part that does not fit has an empty area or is absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layout {
    /// Who, what, how far.
    pub header: Rect,
    /// What went wrong; empty where all is well.
    pub banner: Rect,
    /// Everything between banner and footer.
    pub body: Rect,
    /// The panels on the screen.
    pub panels: Vec<(PanelKind, Rect)>,
    /// State of the view and key hints.
    pub footer: Rect,
}

impl Layout {
    /// The layout of a screen with `banner` lines of banner. An expanded panel fills the body. `columns` are those of the user, which are
    /// taken where the screen has room for them.
    pub fn new(screen: Rect, banner: u16, expanded: Option<PanelKind>, columns: &[Vec<PanelKind>]) -> Self {
        let mut rest = screen;
        let footer = take_bottom(&mut rest, u16::from(screen.height >= 5));
        let header = match (screen.width, screen.height) {
            (_, height) if height < 8 => 1,
            (width, height) if width >= 72 && height >= 20 => 5,
            (_, height) if height < 12 => 2,
            _ => 3,
        };
        let header = take_top(&mut rest, header);
        // The banner may take all but a few of the charts' rows, and fewer if a panel is expanded.
        let kept = match expanded {
            Some(_) => rest.height - rest.height / 4,
            None if rest.height > 8 => 4,
            None => 0,
        };
        let banner = banner.min(rest.height.saturating_sub(kept));
        let banner = take_top(&mut rest, banner);
        let panels = match expanded {
            _ if rest.is_empty() => Vec::new(),
            Some(panel) => vec![(panel, rest)],
            None => in_columns(rest, columns).unwrap_or_else(|| panels(rest)),
        };
        Layout { header, banner, body: rest, panels, footer }
    }

    /// The panel under a position of the screen.
    pub fn panel_at(&self, column: u16, row: u16) -> Option<(PanelKind, Rect)> {
        self.panels.iter().copied().find(|(_, area)| area.contains(Position::new(column, row)))
    }

    /// Where a panel stands, if it is on the screen.
    pub fn area_of(&self, panel: PanelKind) -> Option<Rect> {
        self.panels.iter().find(|(kind, _)| *kind == panel).map(|(_, area)| *area)
    }
}

fn take_top(rest: &mut Rect, rows: u16) -> Rect {
    let rows = rows.min(rest.height);
    let taken = Rect { height: rows, ..*rest };
    *rest = Rect { y: rest.y + rows, height: rest.height - rows, ..*rest };
    taken
}

fn take_bottom(rest: &mut Rect, rows: u16) -> Rect {
    let rows = rows.min(rest.height);
    rest.height -= rows;
    Rect { y: rest.bottom(), height: rows, ..*rest }
}

fn take_left(rest: &mut Rect, columns: u16) -> Rect {
    let columns = columns.min(rest.width);
    let taken = Rect { width: columns, ..*rest };
    *rest = Rect { x: rest.x + columns, width: rest.width - columns, ..*rest };
    taken
}

/// A share of a length in percent, rounded down.
fn percent(length: u16, share: u32) -> u16 {
    (u32::from(length) * share / 100) as u16
}

/// The least size of a panel in the columns of a user.
const LEAST: (u16, u16) = (24, 6);

/// The columns of a user, equally wide, their panels equally high; none if there are none or they do not fit.
fn in_columns(body: Rect, columns: &[Vec<PanelKind>]) -> Option<Vec<(PanelKind, Rect)>> {
    let highest = columns.iter().map(Vec::len).max()?;
    let fits =
        usize::from(body.width / LEAST.0) >= columns.len() && usize::from(body.height / LEAST.1) >= highest;
    let mut rest = body;
    let panels = columns.iter().enumerate().flat_map(|(i, column)| {
        let width = rest.width / (columns.len() - i) as u16;
        let area = take_left(&mut rest, width);
        let share = 100 / column.len() as u32;
        stack(area, &column.iter().map(|panel| (*panel, share)).collect::<Vec<_>>())
    });
    fits.then(|| panels.collect())
}

/// The panels of a body, depending on its size.
fn panels(body: Rect) -> Vec<(PanelKind, Rect)> {
    use PanelKind::{Events, Losses, Phases, Returns, Scene, Speed, Utilization};
    match (body.width, body.height) {
        (width, height) if width >= 180 && height >= 44 => {
            let mut rest = body;
            let left = take_left(&mut rest, percent(body.width, 43));
            let middle = take_left(&mut rest, percent(body.width, 29));
            let mut panels = stack(left, &[(Returns, 46), (Speed, 24), (Events, 30)]);
            panels.extend(stack(middle, &[(Losses, 100)]));
            panels.extend(stack(rest, &[(Scene, 36), (Phases, 24), (Utilization, 40)]));
            panels
        }
        (width, height) if width >= 100 && height >= 28 => {
            let mut rest = body;
            let left = take_left(&mut rest, percent(body.width, 58));
            let mut panels = stack(left, &[(Returns, 38), (Speed, 22), (Losses, 40)]);
            panels.extend(stack(rest, &[(Scene, 32), (Phases, 22), (Utilization, 29), (Events, 17)]));
            panels
        }
        (width, height) if width >= 64 && height >= 15 => {
            let mut rest = body;
            let left = take_left(&mut rest, percent(body.width, 60));
            let mut panels = stack(left, &[(Returns, 55), (Losses, 45)]);
            let right = if height >= 24 {
                stack(rest, &[(Scene, 36), (Phases, 30), (Utilization, 34)])
            } else {
                stack(rest, &[(Scene, 48), (Utilization, 52)])
            };
            panels.extend(right);
            panels
        }
        // Tall and narrow.
        (width, height) if width >= 36 && height >= 22 => {
            stack(body, &[(Returns, 36), (Losses, 24), (Scene, 22), (Utilization, 18)])
        }
        (width, height) if width >= 90 && height >= 7 => {
            let mut rest = body;
            let left = take_left(&mut rest, percent(body.width, 60));
            vec![(Returns, left), (Scene, rest)]
        }
        _ => vec![(Returns, body)],
    }
}

/// Stacked panels, by percentages of the height; the last takes the rest.
fn stack(area: Rect, shares: &[(PanelKind, u32)]) -> Vec<(PanelKind, Rect)> {
    let mut rest = area;
    let mut panels = Vec::with_capacity(shares.len());
    for (i, (panel, share)) in shares.iter().enumerate() {
        let rows = if i + 1 == shares.len() { rest.height } else { percent(area.height, *share) };
        panels.push((*panel, take_top(&mut rest, rows)));
    }
    panels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_layout(mut check: impl FnMut(Rect, &Layout)) {
        for width in (0..=60).chain([64, 72, 80, 100, 120, 180, 250, 400]) {
            for height in (0..=30).chain([40, 50, 80, 120]) {
                for banner in [0, 2] {
                    for expanded in [None, Some(PanelKind::Losses)] {
                        let screen = Rect::new(0, 0, width, height);
                        check(screen, &Layout::new(screen, banner, expanded, &[]));
                    }
                }
            }
        }
    }

    #[test]
    fn everything_is_on_the_screen_and_nothing_overlaps() {
        every_layout(|screen, layout| {
            let mut areas = vec![layout.header, layout.banner, layout.footer];
            areas.extend(layout.panels.iter().map(|(_, area)| *area));
            for (i, area) in areas.iter().enumerate() {
                assert_eq!(area.intersection(screen).area(), area.area(), "{area:?} leaves {screen:?}");
                for other in &areas[i + 1..] {
                    assert_eq!(area.intersection(*other).area(), 0, "{area:?} and {other:?} on {screen:?}");
                }
            }
            let used: u32 = areas.iter().map(|area| area.area()).sum();
            assert_eq!(used, screen.area(), "{screen:?} is not filled: {layout:?}");
        });
    }

    #[test]
    fn the_smallest_promised_screen_has_header_chart_and_hints() {
        let layout = Layout::new(Rect::new(0, 0, 40, 12), 0, None, &[]);
        assert_eq!((layout.header.height, layout.footer.height), (3, 1));
        assert_eq!(layout.panels, [(PanelKind::Returns, Rect::new(0, 3, 40, 8))]);
    }

    #[test]
    fn the_largest_has_every_panel_but_the_list() {
        let layout = Layout::new(Rect::new(0, 0, 250, 80), 0, None, &[]);
        for panel in &PanelKind::ALL[..7] {
            let area = layout.area_of(*panel).expect("on the screen");
            assert!(area.width >= 40 && area.height >= 10, "{panel:?} {area:?}");
        }
    }

    #[test]
    fn the_columns_of_a_user_fill_the_body_where_they_fit() {
        use PanelKind::{Events, Losses, Returns};
        let columns = [vec![Returns, Losses], vec![Events]];
        let wide = Layout::new(Rect::new(0, 0, 101, 40), 0, None, &columns);
        assert_eq!(
            wide.panels.iter().map(|(panel, _)| *panel).collect::<Vec<_>>(),
            [Returns, Losses, Events]
        );
        let areas: u32 = wide.panels.iter().map(|(_, area)| area.area()).sum();
        assert_eq!(areas, wide.body.area(), "{wide:?}");
        let (left, right) = (wide.area_of(Returns).expect("there"), wide.area_of(Events).expect("there"));
        assert_eq!((left.width, right.width, right.height), (50, 51, wide.body.height));
        let small = Rect::new(0, 0, 40, 12);
        assert_eq!(Layout::new(small, 0, None, &columns), Layout::new(small, 0, None, &[]), "too small");
        let expanded = Layout::new(Rect::new(0, 0, 101, 40), 0, Some(Losses), &columns);
        assert_eq!(expanded.panels.len(), 1);
    }

    #[test]
    fn a_position_finds_its_panel() {
        let layout = Layout::new(Rect::new(0, 0, 120, 40), 0, None, &[]);
        for (panel, area) in &layout.panels {
            assert_eq!(layout.panel_at(area.x, area.y).map(|(kind, _)| kind), Some(*panel));
        }
        assert_eq!(layout.panel_at(0, 0), None);
    }

    #[test]
    fn keys_lead_to_panels_and_back() {
        for panel in PanelKind::ALL {
            assert_eq!(PanelKind::of_key(panel.key()), Some(panel));
        }
        assert_eq!(PanelKind::of_key('0'), None);
        assert_eq!(PanelKind::of_key('9'), None);
    }
}
