//! What a run found: a table of medians with ratios, and the page that shows it.

use crate::plot::{self, Plot};
use crate::support::machine;
use crate::{rounds, variable};
use std::fmt::Write;
use std::process::Command;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs");

/// What is asked of a figure.
#[derive(Clone, Copy, Debug)]
pub enum Asked {
    /// At least so many times the other's.
    Least(f64),
    /// At most so many times the other's.
    Most(f64),
    /// At most this, in the row's unit.
    Below(f64),
    /// At least this, in the row's unit.
    Above(f64),
    /// It is only told.
    Nothing,
}

/// One line of the table.
#[derive(Debug)]
struct Row {
    work: String,
    unit: &'static str,
    ours: f64,
    /// Against whom, and what they did.
    theirs: Option<(String, f64)>,
    asked: Asked,
}

/// See the module.
#[derive(Debug)]
pub struct Report {
    rows: Vec<Row>,
    pub plots: Vec<Plot>,
}

impl Row {
    fn ratio(&self) -> Option<f64> {
        self.theirs.as_ref().map(|(_, theirs)| self.ours / theirs)
    }

    fn is_met(&self) -> Option<bool> {
        match self.asked {
            Asked::Least(ratio) => Some(self.ratio()? >= ratio),
            Asked::Most(ratio) => Some(self.ratio()? <= ratio),
            Asked::Below(value) => Some(self.ours <= value),
            Asked::Above(value) => Some(self.ours >= value),
            Asked::Nothing => None,
        }
    }

    fn asked(&self) -> String {
        match self.asked {
            Asked::Least(ratio) => format!("≥ {ratio} ×"),
            Asked::Most(ratio) => format!("≤ {ratio} ×"),
            Asked::Below(value) => format!("≤ {}", shown(value)),
            Asked::Above(value) => format!("≥ {}", shown(value)),
            Asked::Nothing => String::new(),
        }
    }
}

impl Report {
    pub fn new() -> Report {
        Report { rows: Vec::new(), plots: Vec::new() }
    }

    /// A figure of ours beside another system's.
    pub fn versus(
        &mut self,
        work: impl Into<String>,
        unit: &'static str,
        ours: f64,
        theirs: (impl Into<String>, f64),
        asked: Asked,
    ) {
        let theirs = Some((theirs.0.into(), theirs.1));
        self.push(Row { work: work.into(), unit, ours, theirs, asked });
    }

    /// A figure of ours.
    pub fn alone(&mut self, work: impl Into<String>, unit: &'static str, ours: f64, asked: Asked) {
        self.push(Row { work: work.into(), unit, ours, theirs: None, asked });
    }

    fn push(&mut self, row: Row) {
        eprintln!("{}", line(&row));
        self.rows.push(row);
    }

    /// The table.
    pub fn text(&self) -> String {
        let mut text = String::from(
            "| work | unit | delayd | beside | | ratio | asked | |\n|---|---|---:|---|---:|---:|---|---|\n",
        );
        for row in &self.rows {
            text.push_str(&line(row));
            text.push('\n');
        }
        text
    }

    /// Draws the plots of the parts that ran, in `docs`.
    pub fn draw(&self) {
        for plot in &self.plots {
            plot::draw(plot, &format!("{DOCS}/{}.svg", plot.file));
        }
    }

    /// Writes `docs/benchmarks.md`.
    pub fn write(&self) {
        let mut page = include_str!("page.md").to_owned();
        let mut machine = machine();
        let _ = write!(machine, "; Linux {}", told(&["uname", "-r"]));
        let versions = ["redis-server --version", "beanstalkd -v"]
            .map(|command| told(&command.split(' ').collect::<Vec<_>>()).trim().to_owned());
        page = page.replace("{machine}", &machine).replace("{versions}", &versions.join("; "));
        page = page.replace("{rounds}", &rounds().to_string());
        page = page.replace("{scale}", &variable("DELAYD_BENCH_SCALE", 1.0).to_string());
        page = page.replace("{table}", &self.text());
        std::fs::write(format!("{DOCS}/benchmarks.md"), page).expect("docs can be written");
    }
}

fn line(row: &Row) -> String {
    let (other, theirs) = row
        .theirs
        .as_ref()
        .map_or((String::new(), String::new()), |(name, value)| (name.clone(), shown(*value)));
    let ratio = row.ratio().map_or(String::new(), |ratio| format!("{ratio:.2}"));
    let met = row.is_met().map_or("", |met| if met { "met" } else { "missed" });
    let (work, unit, ours, asked) = (&row.work, row.unit, shown(row.ours), row.asked());
    format!("| {work} | {unit} | {ours} | {other} | {theirs} | {ratio} | {asked} | {met} |")
}

/// Three digits that count, or whole thousands.
fn shown(value: f64) -> String {
    match value {
        value if value >= 10_000.0 => format!("{:.0} k", value / 1_000.0),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 0.1 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

/// What a program says of itself.
fn told(command: &[&str]) -> String {
    let output = Command::new(command[0]).args(&command[1..]).output();
    output.map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
