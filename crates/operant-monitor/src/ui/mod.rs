//! The screen: one file per panel, and the function that draws them all.

pub mod banner;
pub mod chart;
mod comparison;
pub mod curves;
pub mod environment;
pub mod events;
pub mod footer;
pub mod header;
pub mod help;
pub mod losses;
pub mod metric;
pub mod metrics;
pub mod panel;
pub mod phases;
pub mod popup;
pub mod returns;
pub mod runs;
pub mod scene;
pub mod speed;
pub(crate) mod table;
pub mod text;
pub mod utilization;
pub mod waiting;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::app::{App, Overlay};
use crate::layout::PanelKind;
use chart::Paint;
use panel::Context;

/// Draws a frame over the whole buffer, whose size is the application's screen size.
pub fn draw(app: &App, buffer: &mut Buffer) {
    let screen = buffer.area;
    if screen.is_empty() {
        return;
    }
    let paint = Paint { theme: &app.theme, symbols: app.symbols, marker: app.marker };
    let layout = app.layout();
    match app.runs.shown() {
        Some(run) => {
            let others = app.runs.others();
            let context = Context {
                run,
                others: &others,
                view: &app.view,
                theme: &app.theme,
                symbols: app.symbols,
                marker: app.marker,
                focused: false,
                expanded: false,
                selected: 0,
                key: None,
                now: app.now,
                unix_ns: app.unix_ns,
            };
            header::draw(&context, layout.header, buffer);
            banner::draw(&banner::lines(run, screen.width), &app.theme, layout.banner, buffer);
            if let Some(metric) = &app.metric {
                metric::draw(
                    &Context { focused: true, expanded: true, ..context },
                    metric,
                    layout.body,
                    buffer,
                );
            } else {
                for (panel, area) in &layout.panels {
                    let context = Context {
                        focused: app.focus == *panel,
                        expanded: app.expanded == Some(*panel),
                        selected: app.selected(*panel),
                        key: Some(panel.key()),
                        ..context
                    };
                    draw_panel(&context, *panel, *area, buffer);
                }
            }
        }
        None => waiting::draw(paint, &app.runs, app.clock, screen, buffer),
    }
    footer::draw(app, layout.footer, buffer);
    let above = Rect { height: screen.height - layout.footer.height, ..screen };
    match app.overlay {
        Overlay::None => {}
        Overlay::Help => help::draw(paint, help::KEYS, &app.scroll, above, buffer),
        Overlay::Runs => runs::draw(paint, &app.runs, &app.list, above, buffer),
        Overlay::Comparison => comparison::draw(paint, &app.comparison, &app.scroll, above, buffer),
    }
}

fn draw_panel(context: &Context, panel: PanelKind, area: Rect, buffer: &mut Buffer) {
    match panel {
        PanelKind::Returns => returns::draw(context, area, buffer),
        PanelKind::Speed => speed::draw(context, area, buffer),
        PanelKind::Losses => losses::draw(context, area, buffer),
        PanelKind::Phases => phases::draw(context, area, buffer),
        PanelKind::Utilization => utilization::draw(context, area, buffer),
        PanelKind::Scene => scene::draw(context, area, buffer),
        PanelKind::Events => events::draw(context, area, buffer),
        PanelKind::Metrics => metrics::draw(context, area, buffer),
        PanelKind::Environment => environment::draw(context, area, buffer),
    }
}
