//! Bars in groups, as SVG, on a light and on a dark page.

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// What is drawn: panels of groups of bars, all on one scale.
pub struct Chart {
    pub title: String,
    pub subtitle: String,
    pub panels: Vec<Panel>,
}

/// A heading, what its bars mean, and the groups.
pub struct Panel {
    pub heading: String,
    pub legend: Vec<(Role, String)>,
    pub groups: Vec<Group>,
}

/// Bars that belong together.
pub struct Group {
    pub label: String,
    pub bars: Vec<Bar>,
}

pub struct Bar {
    pub role: Role,
    pub value: f64,
    /// Behind the bar, after its value.
    pub note: String,
}

/// Whose bar it is, which is its colour.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    C,
    OtherC,
    Rust,
    Peer,
}

/// The page that the chart is seen on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Page {
    Light,
    Dark,
}

impl Page {
    pub const ALL: [Page; 2] = [Page::Light, Page::Dark];

    pub fn name(self) -> &'static str {
        if self == Page::Light { "light" } else { "dark" }
    }

    fn pick(self, light: u32, dark: u32) -> RGBColor {
        let [_, r, g, b] = if self == Page::Light { light } else { dark }.to_be_bytes();
        RGBColor(r, g, b)
    }

    fn background(self) -> RGBColor {
        self.pick(0xffffff, 0x0d1117)
    }

    fn text(self) -> RGBColor {
        self.pick(0x1f2328, 0xf0f6fc)
    }

    fn muted(self) -> RGBColor {
        self.pick(0x59636e, 0x9198a1)
    }

    fn grid(self) -> RGBColor {
        self.pick(0xdde3e9, 0x2a313a)
    }

    fn bar(self, role: Role) -> RGBColor {
        match role {
            Role::C => self.pick(0x57606a, 0x8b949e),
            Role::OtherC => self.pick(0xafb8c1, 0x484f58),
            Role::Rust => self.pick(0xc8501e, 0xf0883e),
            Role::Peer => self.pick(0x5f8fc0, 0x4f83b8),
        }
    }
}

const FONT: &str = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";
const WIDTH: i32 = 820;
const MARGIN: i32 = 24;
/// Where bars begin.
const LEFT: i32 = 214;
/// What is kept behind the longest bar: for its number, and for notes.
const NUMBER: i32 = 64;
const NOTES: i32 = 260;
const BAR: i32 = 12;
const BETWEEN_BARS: i32 = 2;
const BETWEEN_GROUPS: i32 = 11;
const TITLE: i32 = 62;
const HEADING: i32 = 54;
const AXIS: i32 = 26;

/// The chart as the text of an SVG file.
pub fn draw(chart: &Chart, page: Page) -> Result<String> {
    let mut text = String::new();
    let height = TITLE + chart.panels.iter().map(panel_height).sum::<i32>() + 10;
    {
        let size = (WIDTH as u32, height as u32);
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        let bars =
            || chart.panels.iter().flat_map(|panel| panel.groups.iter().flat_map(|it| &it.bars));
        let most = bars().map(|bar| bar.value).fold(1.0, f64::max);
        let has_notes = bars().any(|bar| !bar.note.is_empty());
        let pen = Pen { area: &area, page, most, has_notes };
        area.fill(&page.background()).map_err(drawing)?;
        pen.heading(&chart.title, (MARGIN, 26), 18)?;
        pen.text(&chart.subtitle, (MARGIN, 47), 13, page.muted(), HPos::Left)?;
        let mut top = TITLE;
        for panel in &chart.panels {
            pen.panel(panel, top)?;
            top += panel_height(panel);
        }
        area.present().map_err(drawing)?;
    }
    text.push('\n');
    Ok(text)
}

fn drawing(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("drawing: {error}")
}

fn group_height(group: &Group) -> i32 {
    group.bars.len() as i32 * (BAR + BETWEEN_BARS) + BETWEEN_GROUPS
}

fn panel_height(panel: &Panel) -> i32 {
    HEADING + panel.groups.iter().map(group_height).sum::<i32>() + AXIS
}

struct Pen<'a, 'b> {
    area: &'a DrawingArea<SVGBackend<'b>, plotters::coord::Shift>,
    page: Page,
    /// The greatest value of the chart: all panels have one scale.
    most: f64,
    has_notes: bool,
}

impl Pen<'_, '_> {
    fn text(
        &self,
        text: &str,
        at: (i32, i32),
        size: i32,
        colour: RGBColor,
        side: HPos,
    ) -> Result<()> {
        self.draw_text(text, at, FONT.into_font().resize(f64::from(size)), colour, side)
    }

    fn heading(&self, text: &str, at: (i32, i32), size: i32) -> Result<()> {
        let font = FONT.into_font().resize(f64::from(size)).style(FontStyle::Bold);
        self.draw_text(text, at, font, self.page.text(), HPos::Left)
    }

    fn draw_text(
        &self,
        text: &str,
        at: (i32, i32),
        font: FontDesc,
        colour: RGBColor,
        side: HPos,
    ) -> Result<()> {
        let style = TextStyle::from(font).color(&colour).pos(Pos::new(side, VPos::Center));
        self.area.draw(&Text::new(text.to_owned(), at, style)).map_err(drawing)
    }

    fn bar(&self, from: (i32, i32), to: (i32, i32), role: Role) -> Result<()> {
        let bar = Rectangle::new([from, to], self.page.bar(role).filled());
        self.area.draw(&bar).map_err(drawing)
    }

    fn panel(&self, panel: &Panel, top: i32) -> Result<()> {
        let (page, most) = (self.page, self.most);
        let full = WIDTH - LEFT - if self.has_notes { NOTES } else { NUMBER };
        self.heading(&panel.heading, (MARGIN, top + 14), 14)?;
        let mut x = LEFT;
        for (role, what) in &panel.legend {
            self.bar((x, top + 30), (x + 12, top + 42), *role)?;
            self.text(what, (x + 18, top + 36), 12, page.muted(), HPos::Left)?;
            x += 34 + what.chars().count() as i32 * 7;
        }
        let scale = |value: f64| LEFT + (value / most * f64::from(full)).round() as i32;
        if !self.has_notes {
            self.grid((top + HEADING - 4, top + panel_height(panel) - AXIS), scale)?;
        }
        let mut y = top + HEADING;
        for group in &panel.groups {
            let middle = y + (group_height(group) - BETWEEN_GROUPS) / 2;
            self.text(&group.label, (LEFT - 10, middle), 13, page.text(), HPos::Right)?;
            for bar in &group.bars {
                self.bar((LEFT, y), (scale(bar.value), y + BAR), bar.role)?;
                let colour = if bar.role == Role::Rust { page.text() } else { page.muted() };
                let text = format!("{}{}", show(bar.value), bar.note);
                self.text(&text, (scale(bar.value) + 6, y + BAR / 2), 12, colour, HPos::Left)?;
                y += BAR + BETWEEN_BARS;
            }
            y += BETWEEN_GROUPS;
        }
        Ok(())
    }
}

impl Pen<'_, '_> {
    /// Lines at round numbers; where there are notes they would run through them.
    fn grid(&self, (top, bottom): (i32, i32), scale: impl Fn(f64) -> i32) -> Result<()> {
        let step = step(self.most);
        let ticks = (0..).map(|i| f64::from(i) * step).take_while(|tick| *tick <= self.most);
        for tick in ticks {
            let x = scale(tick);
            let line = PathElement::new([(x, top), (x, bottom)], self.page.grid());
            self.area.draw(&line).map_err(drawing)?;
            self.text(&show(tick), (x, bottom + 11), 11, self.page.muted(), HPos::Center)?;
        }
        Ok(())
    }
}

/// A round distance between lines, four to eight of them.
fn step(most: f64) -> f64 {
    let steps = [5.0, 10.0, 20.0, 25.0, 50.0, 100.0, 200.0, 500.0, 1000.0];
    steps.into_iter().find(|step| most / step <= 8.0).unwrap_or(most)
}

/// A count, with a decimal if it has one.
pub fn show(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.1}") }
}
