//! What a run found: a table of medians with ratios, and the page that shows it.

use crate::plot::{self, Plot};
use crate::support::machine;
use crate::{rounds, variable};
use std::fmt::Write;
use std::process::Command;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs");

/// What the page begins with: work and unit of a row, and what it means to somebody who has never seen the benchmark.
const FIRST: [[&str; 3]; 8] = [
    [
        "add, client's ids, pipeline 16, 1 M pending, everysec",
        "jobs/s",
        "Jobs added per second, each with an id of its own, while a million are pending.",
    ],
    [
        "life, batches of 100, everysec",
        "jobs/s",
        "Jobs per second through their whole life (added, due, leased, acknowledged), with consumers that take a hundred at a time.",
    ],
    [
        "life, one by one, 50 connections, everysec",
        "jobs/s",
        "The same with fifty plain consumers that take and acknowledge one job at a time.",
    ],
    [
        "lateness, 10 k due a second, everysec",
        "ms p99",
        "p99 of lateness, from the due time to the waiting consumer.",
    ],
    [
        "another client meanwhile",
        "ms p99",
        "p99 of another client's reply time while a million jobs fall due in one millisecond.",
    ],
    [
        "memory a pending job, 20-byte id, 100-byte body",
        "bytes",
        "Memory of a pending job, including id and body.",
    ],
    [
        "cancel of random jobs out of 10 M, pipeline 16, everysec",
        "jobs/s",
        "Jobs cancelled per second by id, among ten million.",
    ],
    [
        "restart after SIGKILL with 1 M jobs, everysec",
        "jobs/s",
        "Jobs loaded per second after a crash.",
    ],
];

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

    fn is(&self, work: &str, unit: &str) -> bool {
        self.work == work && self.unit == unit
    }

    /// Whom it was measured beside, what they did, the ratio, and whether what was asked is met.
    fn beside(&self) -> String {
        let told = self.theirs.as_ref().zip(self.ratio());
        let told =
            told.map(|((name, value), ratio)| format!("{name} {} ({ratio:.2} ×)", shown(*value)));
        let met = self.is_met().map(|met| if met { "met" } else { "**missed**" });
        let asked = met.map(|met| format!("asked {}, {met}", self.asked()));
        told.into_iter().chain(asked).collect::<Vec<_>>().join(", ")
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
        eprintln!("{} | {} {} | {}", row.work, shown(row.ours), row.unit, row.beside());
        self.rows.push(row);
    }

    /// All that was measured.
    pub fn text(&self) -> String {
        self.table(&[])
    }

    /// One line for each work and unit, whoever it was measured beside, but for those named.
    fn table(&self, but: &[[&str; 3]]) -> String {
        let mut text = String::from("| work | unit | delayd | others |\n|---|---|---:|---|\n");
        for (at, row) in self.rows.iter().enumerate() {
            let told = self.rows[..at].iter().any(|other| other.is(&row.work, row.unit));
            if !told && !but.iter().any(|named| row.is(named[0], named[1])) {
                let (figure, beside) = self.figure(&row.work, row.unit);
                let _ = writeln!(text, "| {} | {} | {figure} | {beside} |", row.work, row.unit);
            }
        }
        text
    }

    /// The eight rows that the page begins with, each with its meaning.
    fn first(&self) -> String {
        let mut text = String::from("| meaning | work | delayd | others |\n|---|---|---:|---|\n");
        for [work, unit, meaning] in FIRST {
            let (figure, beside) = self.figure(work, unit);
            let _ = writeln!(text, "| {meaning} | {work} | {figure} {unit} | {beside} |");
        }
        text
    }

    /// What delayd did at this work, and all that it was measured beside.
    fn figure(&self, work: &str, unit: &str) -> (String, String) {
        let rows: Vec<&Row> = self.rows.iter().filter(|row| row.is(work, unit)).collect();
        let beside: Vec<String> = rows.iter().map(|row| row.beside()).collect();
        let told = beside.iter().filter(|beside| !beside.is_empty());
        (shown(rows[0].ours), told.cloned().collect::<Vec<_>>().join("; "))
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
        page = page.replace("{first}", &self.first()).replace("{table}", &self.table(&FIRST));
        std::fs::write(format!("{DOCS}/benchmarks.md"), page).expect("docs can be written");
    }
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
