//! The histogram of latencies, as SVG.

use std::path::Path;

use plotters::prelude::*;

use crate::Result;
use crate::report::{Measured, Report};
use crate::stats::Latencies;

const BINS: usize = 120;

/// Draws the latencies of the last size.
pub fn draw(path: &Path, report: &Report) -> Result<()> {
    let last = report.rows.last().ok_or("nothing was measured")?;
    let Measured::Latency { all, .. } = &last.result else {
        return Err("a histogram needs latencies".into());
    };
    let title = format!("{}, {} bytes, {} exchanges", report.title(), last.size, all.len());
    let drawn = histogram(path, &title, all);
    drawn.map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}

fn histogram(path: &Path, title: &str, all: &Latencies) -> Result<()> {
    // The few samples beyond would flatten the rest. The caption has their number.
    let start = all.min() * 0.95;
    let end = start + ((all.percentile(99.9) - start) * 1.2).max(f64::MIN_POSITIVE);
    let counts = all.histogram(BINS, start, end);
    let beyond = all.micros().filter(|&micros| micros >= end).count();
    let tallest = counts.iter().copied().max().unwrap_or(0).max(1);

    let area = SVGBackend::new(path, (960, 480)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(start..end, 0..tallest + tallest / 8 + 1)?;
    let unit = format!("µs ({beyond} beyond the right edge, the longest {:.2})", all.max());
    chart
        .configure_mesh()
        .disable_x_mesh()
        // No light lines. For 0 lines, plotters would search for a distance forever.
        .light_line_style(TRANSPARENT)
        .x_desc(unit)
        .y_desc("exchanges")
        .draw()?;
    let width = (end - start) / BINS as f64;
    chart.draw_series(counts.iter().enumerate().map(|(bin, &count)| {
        let from = start + bin as f64 * width;
        Rectangle::new([(from, 0), (from + width, count)], BLUE.mix(0.6).filled())
    }))?;
    let marks = [
        ("median", all.median()),
        ("99 %", all.percentile(99.0)),
        ("99.9 %", all.percentile(99.9)),
    ];
    for (row, (name, at)) in (1..).zip(marks) {
        let height = tallest + tallest / 8 + 1;
        chart.draw_series([PathElement::new([(at, 0), (at, height)], RED.stroke_width(1))])?;
        let label = format!("{name} {at:.2}");
        let below = height - (height / 14).max(1).min(height / 4) * row;
        chart.draw_series([Text::new(label, (at, below), ("sans-serif", 14))])?;
    }
    area.present()?;
    Ok(())
}
