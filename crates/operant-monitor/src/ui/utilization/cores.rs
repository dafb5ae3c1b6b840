//! Every core: a bar with its number where there is room, a column of a cell where there is less, and several cores to a
//! column where there are very many.

use operant_metrics::{Core, CoreKind};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::format;
use crate::ui::panel::{self, Context};

/// Narrowest bar with its label and number, and the blank to the next one.
const BAR_WIDTH: u16 = 15;

/// The cores of a machine, grouped by kind.
pub(super) struct Cores<'a> {
    /// Performance cores, efficiency cores, or the cores of a machine with one kind; never an empty list.
    kinds: Vec<(CoreKind, Vec<&'a Core>)>,
}

impl<'a> Cores<'a> {
    pub(super) fn of(cores: &'a [Core]) -> Self {
        let of_kind = |kind| (kind, cores.iter().filter(|core| core.kind == kind).collect::<Vec<_>>());
        let kinds = [CoreKind::Performance, CoreKind::Efficiency, CoreKind::Uniform].map(of_kind);
        Cores { kinds: kinds.into_iter().filter(|(_, cores)| !cores.is_empty()).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    pub(super) fn has_two_kinds(&self) -> bool {
        let has = |wanted| self.kinds.iter().any(|(kind, _)| *kind == wanted);
        has(CoreKind::Performance) && has(CoreKind::Efficiency)
    }

    fn count(&self) -> usize {
        self.kinds.iter().map(|(_, cores)| cores.len()).sum()
    }

    pub(super) fn draw(&self, context: &Context, area: Rect, buffer: &mut Buffer) {
        if area.is_empty() {
            return;
        }
        let most = usize::from((area.width + 1) / BAR_WIDTH);
        let fits = |abreast: &usize| self.count().div_ceil(*abreast) <= usize::from(area.height);
        match (1..=most).find(fits) {
            Some(abreast) => self.bars(context, abreast, area, buffer),
            None => self.columns(context, area, buffer),
        }
    }

    /// A bar per core, in several columns, numbered from top to bottom.
    fn bars(&self, context: &Context, abreast: usize, area: Rect, buffer: &mut Buffer) {
        let theme = context.theme;
        let rows = self.count().div_ceil(abreast);
        let width = (area.width + 1) / abreast as u16;
        let all =
            self.kinds.iter().flat_map(|(kind, cores)| cores.iter().map(move |core| (letter(*kind), core)));
        for (i, (letter, core)) in all.enumerate() {
            let place = Rect {
                x: area.x + (i / rows) as u16 * width,
                y: area.y + (i % rows) as u16,
                width: width - 1,
                height: 1,
            };
            let share = f64::from(core.utilization);
            let percent = format::percent(share);
            let head = [
                Span::styled(letter, theme.accent),
                Span::styled(format!("{:<3} ", core.number), theme.muted),
                Span::styled(format!("{percent:>4} "), theme.text),
            ];
            let line = Line::from(head.to_vec());
            let used = line.width() as u16;
            panel::line(&line, place, 0, buffer);
            if place.width > used {
                let bar = Rect { x: place.x + used, width: place.width - used, ..place };
                panel::bar(context, share, theme.heat(share), bar, buffer);
            }
        }
    }

    /// A column of one cell for each, or for several.
    fn columns(&self, context: &Context, area: Rect, buffer: &mut Buffer) {
        let height = usize::from(area.height);
        // The first row of a kind begins with its letter; if there are fewer rows than kinds, the kinds share rows.
        let apart = self.kinds.len() > 1 && height >= self.kinds.len() && area.width > 4;
        let indent = if apart { 2 } else { 0 };
        let width = usize::from(area.width) - indent;
        let groups: Vec<(&str, Vec<&Core>)> = match apart {
            true => self.kinds.iter().map(|(kind, cores)| (letter(*kind), cores.clone())).collect(),
            false => vec![("", self.kinds.iter().flat_map(|(_, cores)| cores.iter().copied()).collect())],
        };
        let rows = |each: usize| -> usize {
            groups.iter().map(|(_, cores)| cores.len().div_ceil(each).div_ceil(width)).sum()
        };
        // A legend for the columns, if a row is free.
        let note = usize::from(height > groups.len());
        let fits = |each: &usize| rows(*each) + if *each > 1 { note } else { 0 } <= height;
        let each = (1..=self.count()).find(fits).unwrap_or(self.count());
        let mut y = area.y;
        for (letter, cores) in groups {
            buffer.set_stringn(area.x, y, letter, indent, context.theme.accent);
            let columns: Vec<f64> = cores.chunks(each).map(mean).collect();
            for row in columns.chunks(width) {
                if y >= area.bottom() {
                    return;
                }
                for (i, share) in row.iter().enumerate() {
                    let at = (area.x + (indent + i) as u16, y);
                    buffer[at].set_symbol(column(context, *share)).set_style(context.theme.heat(*share));
                }
                y += 1;
            }
        }
        if each > 1 && y < area.bottom() {
            let text = format!("{each} cores a column");
            buffer.set_stringn(area.x, y, text, usize::from(area.width), context.theme.muted);
        }
    }
}

/// Mean of the cores that were sampled; 0 where none was.
fn mean(cores: &[&Core]) -> f64 {
    let shares = cores.iter().map(|core| f64::from(core.utilization)).filter(|share| share.is_finite());
    let (sum, count) = shares.fold((0.0, 0u32), |(sum, count), share| (sum + share, count + 1));
    if count > 0 { sum / f64::from(count) } else { 0.0 }
}

/// A column of this height. An idle core has the lowest visible one.
fn column(context: &Context, share: f64) -> &'static str {
    let spark = context.symbols.spark;
    let steps = (spark.len() - 1) as f64;
    let height = (share.clamp(0.0, 1.0) * steps).ceil().max(1.0);
    spark[height as usize]
}

fn letter(kind: CoreKind) -> &'static str {
    match kind {
        CoreKind::Performance => "P",
        CoreKind::Efficiency => "E",
        CoreKind::Uniform => "",
    }
}
