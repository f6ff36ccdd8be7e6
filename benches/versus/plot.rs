//! Plots: lines over a logarithmic axis.

use plotters::prelude::*;

/// A plot of lines.
#[derive(Debug)]
pub struct Plot {
    /// The file's name in `docs`, without `.svg`.
    pub file: &'static str,
    pub title: &'static str,
    pub x: &'static str,
    pub y: &'static str,
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

const COLOURS: [RGBColor; 8] = [
    RGBColor(0x1b, 0x6c, 0xa8),
    RGBColor(0xc0, 0x39, 0x2b),
    RGBColor(0x27, 0x8e, 0x4e),
    RGBColor(0x8e, 0x44, 0xad),
    RGBColor(0xd6, 0x8a, 0x10),
    RGBColor(0x16, 0x8a, 0x8a),
    RGBColor(0x7f, 0x8c, 0x8d),
    RGBColor(0x2c, 0x3e, 0x50),
];

/// Writes it as SVG; both axes logarithmic.
pub fn draw(plot: &Plot, path: &str) {
    let points = || plot.lines.iter().flat_map(|(_, points)| points.iter());
    let span = |of: fn(&(f64, f64)) -> f64, room: f64| {
        let least = points().map(of).fold(f64::INFINITY, f64::min);
        let most = points().map(of).fold(f64::MIN_POSITIVE, f64::max);
        least / room..most * room
    };
    let root = SVGBackend::new(path, (860, 480)).into_drawing_area();
    root.fill(&WHITE).expect("a drawing in memory");
    let mut chart = ChartBuilder::on(&root)
        .caption(plot.title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d(
            span(|point| point.0, 1.0).log_scale(),
            span(|point| point.1, 1.4).log_scale(),
        )
        .expect("axes with values");
    chart.configure_mesh().x_desc(plot.x).y_desc(plot.y).draw().expect("a drawing in memory");
    for (at, (label, points)) in plot.lines.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        chart
            .draw_series(
                LineSeries::new(points.iter().copied(), colour.stroke_width(2)).point_size(3),
            )
            .expect("a drawing in memory")
            .label(label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    let labels = chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK)
        .draw();
    labels.expect("a drawing in memory");
    root.present().expect("docs can be written");
}
