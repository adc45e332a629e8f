//! The ratios of ours to perftest's, as SVG: a line from least to greatest, and a dot at the
//! median.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::report::Measured;

const WIDTH: u32 = 900;
const ROW: i32 = 34;
const TOP: i32 = 60;
/// Where the ratios begin and end.
const LEFT: i32 = 330;
const RIGHT: i32 = 870;

pub fn draw(path: &Path, all: &[Measured]) -> Result<()> {
    try_draw(path, all).map_err(|error| anyhow!("cannot write {}: {error}", path.display()))
}

fn try_draw(path: &Path, all: &[Measured]) -> Result<(), Box<dyn std::error::Error>> {
    let spreads: Vec<_> = all.iter().map(|one| (one.case.to_string(), one.ratio())).collect();
    let known = || spreads.iter().filter_map(|(_, spread)| *spread);
    let least = known().fold(0.5_f64, |least, spread| least.min(spread.least));
    let greatest = known().fold(1.5_f64, |greatest, spread| greatest.max(spread.greatest));
    // Twice as fast is as far from 1 as half as fast.
    let edge = greatest.max(1.0 / least).ln() * 1.05;
    let x = |ratio: f64| {
        let part = (ratio.ln() / edge + 1.0) / 2.0;
        LEFT + (part * f64::from(RIGHT - LEFT)).round() as i32
    };
    let bottom = TOP + ROW * i32::try_from(spreads.len())?;
    let area = SVGBackend::new(path, (WIDTH, (bottom + 50) as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    let (font, small) = (("sans-serif", 15), ("sans-serif", 13));
    area.draw(&Text::new(
        "Ours and perftest's in turn: right of 1, ours is better",
        (20, 20),
        font,
    ))?;
    let ticks = [0.1, 0.2, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4, 2.0, 5.0, 10.0];
    for tick in ticks.into_iter().filter(|tick: &f64| tick.ln().abs() < edge) {
        let grey = if tick == 1.0 { RGBColor(90, 90, 90) } else { RGBColor(215, 215, 215) };
        area.draw(&PathElement::new([(x(tick), TOP - 10), (x(tick), bottom)], grey))?;
        area.draw(&Text::new(format!("{tick}"), (x(tick) - 8, bottom + 8), small))?;
    }
    for ((name, spread), y) in spreads.iter().zip((TOP..).step_by(ROW as usize)) {
        area.draw(&Text::new(name.clone(), (20, y), font))?;
        let Some(spread) = spread else {
            area.draw(&Text::new("failed", (LEFT, y), font))?;
            continue;
        };
        let middle = y + 8;
        let line = [(x(spread.least), middle), (x(spread.greatest), middle)];
        area.draw(&PathElement::new(line, BLUE.stroke_width(2)))?;
        area.draw(&Circle::new((x(spread.median), middle), 4, BLUE.filled()))?;
    }
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{env, fs, process};

    use super::super::case::{ALL, Figures, Whose};
    use super::*;

    #[test]
    fn every_measurement_has_a_line() {
        let mut all: Vec<Measured> = ALL.map(Measured::of).into();
        for (one, value) in all[1..].iter_mut().zip(1..) {
            one.add(Whose::Perftest, Figures { value: 3.0, slowest: None });
            one.add(Whose::Ours, Figures { value: f64::from(value), slowest: None });
        }
        let path = env::temp_dir().join(format!("proverbs-ratios.{}.svg", process::id()));
        draw(&path, &all).expect("a file");
        let drawn = fs::read_to_string(&path).expect("the file");
        fs::remove_file(&path).expect("the file");
        assert_eq!(drawn.matches("<circle").count(), ALL.len() - 1);
        assert_eq!(drawn.matches("failed").count(), 1);
        for case in ALL {
            assert!(drawn.contains(&case.to_string()), "{case}");
        }
    }
}
