//! Charts of numbers over numbers as SVG or PNG: lines, bands, dots and bars.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use crate::pixels::Picture;
use crate::theme::Rgb;

/// An axis of a chart.
#[derive(Clone)]
pub struct Axis<'a> {
    /// The smallest and the largest number.
    pub range: Range<f64>,
    /// Whether it is logarithmic.
    pub log: bool,
    /// The title of the axis; empty for none.
    pub title: &'a str,
    /// The text of a number.
    pub label: &'a dyn Fn(&f64) -> String,
    /// The number of labels, if the axis has names instead of numbers; grid lines are not drawn at names.
    pub names: Option<usize>,
}

/// Something in a chart.
pub enum Mark {
    /// A line through points, of this width, with its name in the legend.
    Line(Vec<(f64, f64)>, u32, Option<String>),
    /// A translucent area.
    Band(Vec<(f64, f64)>),
    /// A disc of this radius in pixels.
    Dot((f64, f64), u32),
    /// A dot at `x`, with a bar from the smallest to the largest of three numbers.
    Bar(f64, [f64; 3]),
}

/// How a chart looks; sizes are in pixels.
pub struct Look {
    /// Width and height.
    pub size: (u32, u32),
    /// Around the chart, and at its right.
    pub margins: (u32, u32),
    /// Room for the numbers below and at the left.
    pub labels: (u32, u32),
    /// Height of the letters.
    pub font: u32,
    /// Whether there are lines between the numbers too.
    pub fine_lines: bool,
    /// The legend: whether it is at the top left and not at the bottom right, length of a sample, opacity of its border.
    pub legend: (bool, i32, f64),
}

pub struct Chart<'a> {
    pub look: Look,
    /// The axes: the horizontal and the vertical one.
    pub axes: [Axis<'a>; 2],
    /// What it shows, in drawing order, with colours.
    pub marks: Vec<(Rgb, Mark)>,
}

/// One of 99 easily distinguished colours.
pub fn colour(number: usize) -> Rgb {
    Palette99::COLORS[number % Palette99::COLORS.len()]
}

impl Chart<'_> {
    /// The chart as SVG, or why it cannot be drawn, which is unlikely in memory.
    pub fn svg(&self) -> Result<String, String> {
        let mut svg = String::new();
        self.draw(&SVGBackend::with_string(&mut svg, self.look.size).into_drawing_area())?;
        Ok(svg)
    }

    /// The chart as PNG, or why it cannot be drawn.
    pub fn png(&self) -> Result<Vec<u8>, String> {
        let mut picture = Picture::new(self.look.size);
        self.draw(&(&mut picture).into_drawing_area())?;
        Ok(picture.png())
    }

    fn draw<B: DrawingBackend>(&self, root: &DrawingArea<B, Shift>) -> Result<(), String> {
        let [x, y] = [0, 1].map(|axis| self.axes[axis].range.clone());
        let drawn = match [0, 1].map(|axis| self.axes[axis].log) {
            [false, false] => self.draw_on(root, x, y),
            [false, true] => self.draw_on(root, x, y.log_scale()),
            [true, false] => self.draw_on(root, x.log_scale(), y),
            [true, true] => self.draw_on(root, x.log_scale(), y.log_scale()),
        };
        drawn.map_err(|error| format!("the plot cannot be drawn: {error}"))
    }

    fn draw_on<B: DrawingBackend, X, Y>(
        &self,
        root: &DrawingArea<B, Shift>,
        x: X,
        y: Y,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>>
    where
        X: AsRangedCoord<Value = f64, CoordDescType: ValueFormatter<f64>>,
        Y: AsRangedCoord<Value = f64, CoordDescType: ValueFormatter<f64>>,
    {
        let (look, [across, up]) = (&self.look, &self.axes);
        let font = ("sans-serif", look.font);
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(root)
            .margin(look.margins.0)
            .margin_right(look.margins.1)
            .x_label_area_size(look.labels.0)
            .y_label_area_size(look.labels.1)
            .build_cartesian_2d(x, y)?;
        let mut mesh = chart.configure_mesh();
        mesh.label_style(font).x_label_formatter(across.label).y_label_formatter(up.label);
        if !look.fine_lines {
            mesh.light_line_style(WHITE);
        }
        if let Some(names) = across.names {
            mesh.disable_x_mesh().x_labels(names);
        }
        if let Some(names) = up.names {
            mesh.disable_y_mesh().y_labels(names);
        }
        if !across.title.is_empty() {
            mesh.x_desc(across.title);
        }
        if !up.title.is_empty() {
            mesh.y_desc(up.title);
        }
        mesh.draw()?;
        let (at_the_top, sample, border) = look.legend;
        for ((r, g, b), mark) in &self.marks {
            let colour = RGBColor(*r, *g, *b);
            match mark {
                Mark::Line(points, width, name) => {
                    let style = colour.stroke_width(*width);
                    let line = chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
                    if let Some(name) = name {
                        let sample = move |(x, y)| PathElement::new([(x, y), (x + sample, y)], style);
                        line.label(name).legend(sample);
                    }
                }
                Mark::Band(points) => {
                    chart.draw_series([Polygon::new(points.as_slice(), colour.mix(0.15))])?;
                }
                Mark::Dot(at, radius) => {
                    chart.draw_series([Circle::new(*at, *radius, colour.filled())])?;
                }
                Mark::Bar(x, [low, middle, high]) => {
                    let bar = ErrorBar::new_vertical(*x, *low, *middle, *high, colour.filled(), 8);
                    chart.draw_series([bar])?;
                }
            }
        }
        if self.marks.iter().any(|(_, mark)| matches!(mark, Mark::Line(_, _, Some(_)))) {
            let corner =
                if at_the_top { SeriesLabelPosition::UpperLeft } else { SeriesLabelPosition::LowerRight };
            let mut legend = chart.configure_series_labels();
            legend.label_font(font).position(corner);
            legend.background_style(WHITE.mix(0.8)).border_style(BLACK.mix(border)).draw()?;
        }
        root.present()
    }
}
