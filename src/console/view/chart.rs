//! Charts as SVG: made here, without a style or a script. Their numbers stand in a table, too.

use super::parts::grouped;
use maud::{Markup, html};

/// Height of a chart in its own units; its width is one unit of [`STEP`] a bar. Both are stretched to the page.
const HEIGHT: f64 = 100.0;
const STEP: usize = 10;

/// The text of a bar chart, in addition to its bars.
#[derive(Clone, Debug, Default)]
pub struct BarOptions<'a> {
    /// Its title: `Due in the next hour`.
    pub title: &'a str,
    /// The unit of a bar: `jobs`.
    pub unit: &'a str,
    /// A second series stacked on the first, and its label: `runs of schedules`.
    pub second: Option<(&'a [u64], &'a str)>,
    /// When the first bar begins, and how long each is, ms: with the script the axis is in the viewer's time.
    pub times: Option<(u64, u64)>,
    /// Lower than others.
    pub small: bool,
}

/// Bars side by side, one a value. Labels and links go by the same order; a chart without links has no `hrefs`.
pub fn bars(
    values: &[u64],
    labels: &[String],
    hrefs: &[String],
    options: &BarOptions<'_>,
) -> Markup {
    let second =
        |at: usize| options.second.and_then(|(more, _)| more.get(at)).copied().unwrap_or(0);
    let total = |at: usize| values[at].saturating_add(second(at));
    let greatest = (0..values.len()).map(total).max().unwrap_or(0);
    let width = values.len().max(1) * STEP;
    // A picture for readers of screens, unless there are links in it.
    let role = if hrefs.is_empty() { "img" } else { "group" };
    let label = format!("{}: {}", options.title, said(values.len(), greatest, options.unit));
    html! {
        figure class={ "chart" @if options.small { " small" } } {
            svg role=(role) aria-label=(label) viewBox={ "0 0 " (width) " " (HEIGHT) } preserveAspectRatio="none" {
                title { (label) }
                @for at in 0..values.len() {
                    (bar(at, values[at], second(at), greatest, text_of(labels, at), hrefs.get(at), options))
                }
            }
            (axis(labels, options.times, &if greatest > 0 { grouped(greatest) } else { String::new() }))
            (table(values, labels, hrefs, options))
        }
    }
}

/// A line of past values, the newest at the right. Without a table: the last number is shown next
/// to it.
pub fn spark(values: &[u64], label: &str) -> Markup {
    let greatest = values.iter().copied().max().unwrap_or(0);
    let last = values.last().copied().unwrap_or(0);
    let label = format!("{label}: now {}, max {}", grouped(last), grouped(greatest));
    let width = values.len().max(2) - 1;
    let points = (0..values.len())
        .map(|at| format!("{at},{:.1}", 22.0 - height(values[at], greatest) / 5.0));
    let points = points.collect::<Vec<_>>().join(" ");
    html! {
        svg class="spark" role="img" aria-label=(label) viewBox={ "0 0 " (width) " 24" } preserveAspectRatio="none" {
            title { (label) }
            @if values.len() > 1 {
                polygon class="area" points={ "0,24 " (points) " " (width) ",24" } {}
                polyline class="line" points=(points) vector-effect="non-scaling-stroke" {}
            }
        }
    }
}

/// The text of a line chart.
#[derive(Clone, Copy, Debug)]
pub struct LineOptions<'a> {
    pub title: &'a str,
    /// When the first value begins, and how far the values are apart, ms.
    pub times: (u64, u64),
    /// How a value is written.
    pub shown: fn(u64) -> String,
}

/// Up to two lines of past values with their labels, the newest at the right, of the same height. Their numbers stand in a
/// table next to it.
pub fn lines(series: &[(&str, Vec<u64>)], options: &LineOptions<'_>) -> Markup {
    let &LineOptions { title, times, shown } = options;
    let count = series.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
    let greatest_of = |values: &[u64]| values.iter().copied().max().unwrap_or(0);
    let greatest = series.iter().map(|(_, values)| greatest_of(values)).max().unwrap_or(0);
    let said = series.iter().map(|(label, values)| {
        let last = values.last().copied().unwrap_or(0);
        format!("{label} now {}, max {}", shown(last), shown(greatest_of(values)))
    });
    let label = format!("{title}: {}", said.collect::<Vec<_>>().join("; "));
    let points = |values: &[u64]| {
        // One value is a line, too.
        let values = if values.len() == 1 { &[values[0]; 2] } else { values };
        let point = |(at, value): (usize, &u64)| {
            format!("{at},{}", round(HEIGHT - 1.0 - height(*value, greatest) * 0.98))
        };
        values.iter().enumerate().map(point).collect::<Vec<_>>().join(" ")
    };
    html! {
        p class="legend" aria-hidden="true" {
            @for ((label, _), class) in series.iter().zip(["first", "second"]) {
                span class=(class) { (label) } " "
            }
        }
        figure class="chart small" {
            svg role="img" aria-label=(label) viewBox={ "0 0 " (count.max(2) - 1) " " (HEIGHT) } preserveAspectRatio="none" {
                title { (label) }
                // The first line is drawn last, so that it is on top.
                @for ((_, values), class) in series.iter().zip(["first", "second"]).rev() {
                    polyline class={ "line " (class) } points=(points(values)) vector-effect="non-scaling-stroke" {}
                }
            }
            (axis(&vec![String::new(); count], Some(times), &if greatest > 0 { shown(greatest) } else { String::new() }))
        }
    }
}

/// Bars below each other, a bucket a row: what it holds, and how many. It is its own table.
pub fn histogram(title: &str, buckets: &[(String, u64)]) -> Markup {
    let greatest = buckets.iter().map(|(_, count)| *count).max().unwrap_or(0);
    html! {
        table class="histogram" {
            caption class="unseen" { (title) }
            tbody {
                @for (label, count) in buckets {
                    tr {
                        th scope="row" { (label) }
                        td class="bar" {
                            svg aria-hidden="true" viewBox="0 0 100 10" preserveAspectRatio="none" {
                                rect class="first" width={ (round(height(*count, greatest))) } height="10" {}
                            }
                        }
                        td class="num" { (super::parts::number(*count)) }
                    }
                }
            }
        }
    }
}

fn bar(
    at: usize,
    first: u64,
    second: u64,
    greatest: u64,
    label: &str,
    href: Option<&String>,
    options: &BarOptions<'_>,
) -> Markup {
    let (low, high) = (height(first, greatest), height(second, greatest));
    let words = words(first, second, label, options);
    let shape = html! {
        rect class="hit" x=(at * STEP) width=(STEP) height=(HEIGHT) {}
        @if first > 0 { rect class="first" x=(at * STEP + 1) y=(round(HEIGHT - low)) width=(STEP - 2) height=(round(low)) {} }
        @if second > 0 {
            rect class="second" x=(at * STEP + 1) y=(round((HEIGHT - low - high).max(0.0))) width=(STEP - 2)
                height=(round(high)) {}
        }
        title { (words) }
    };
    html! {
        // The table has the same links: sixty more for the Tab key would be in its way.
        @if let Some(href) = href { a href=(href) tabindex="-1" aria-label=(words) { (shape) } }
        @else { g { (shape) } }
    }
}

fn words(first: u64, second: u64, label: &str, options: &BarOptions<'_>) -> String {
    let counted = format!("{label}: {}", counted(first, options.unit));
    match options.second {
        Some((_, unit)) => format!("{counted}, {} {unit}", grouped(second)),
        None => counted,
    }
}

/// The first label, the one in the middle, the last; and the greatest number.
fn axis(labels: &[String], times: Option<(u64, u64)>, greatest: &str) -> Markup {
    let label = |at: usize| html! { span { (label_of(labels, times, at)) } };
    html! {
        div class="axis" aria-hidden="true" {
            (label(0))
            @if labels.len() > 4 { (label(labels.len() / 2)) }
            @if labels.len() > 1 { (label(labels.len() - 1)) }
        }
        @if !greatest.is_empty() { div class="top-value" aria-hidden="true" { (greatest) } }
    }
}

fn table(values: &[u64], labels: &[String], hrefs: &[String], options: &BarOptions<'_>) -> Markup {
    html! {
        details class="numbers" {
            summary { "Numbers" }
            div class="scroll" tabindex="0" role="group" aria-label={ (options.title) ", numbers" } { table {
                caption class="unseen" { (options.title) }
                thead { tr {
                    th scope="col" { "when" }
                    th scope="col" class="num" { (options.unit) }
                    @if let Some((_, unit)) = options.second { th scope="col" class="num" { (unit) } }
                } }
                tbody {
                    @for (at, value) in values.iter().enumerate() {
                        tr {
                            th scope="row" {
                                @if let Some(href) = hrefs.get(at) { a href=(href) { (text_of(labels, at)) } }
                                @else { (text_of(labels, at)) }
                            }
                            td class="num" { (super::parts::number(*value)) }
                            @if let Some((more, _)) = options.second {
                                td class="num" { (super::parts::number(more.get(at).copied().unwrap_or(0))) }
                            }
                        }
                    }
                }
            } }
        }
    }
}

fn said(count: usize, greatest: u64, unit: &str) -> String {
    match (count, greatest) {
        (0, _) => "nothing yet".to_owned(),
        (_, 0) => format!("no {unit}"),
        (1, _) => counted(greatest, unit),
        _ => format!("{count} bars, max {}", counted(greatest, unit)),
    }
}

/// `1 job`, `2 jobs`.
fn counted(count: u64, unit: &str) -> String {
    super::parts::counted(count, unit.strip_suffix('s').unwrap_or(unit), unit)
}

fn label_of(labels: &[String], times: Option<(u64, u64)>, at: usize) -> Markup {
    match times {
        Some((first, span_ms)) => super::parts::clock_time(first + at as u64 * span_ms, span_ms),
        None => html! { (text_of(labels, at)) },
    }
}

fn text_of(labels: &[String], at: usize) -> &str {
    labels.get(at).map_or("", String::as_str)
}

/// As a percentage; any value above 0 is visible, however small.
fn height(value: u64, greatest: u64) -> f64 {
    if value == 0 || greatest == 0 {
        return 0.0;
    }
    (value as f64 / greatest as f64 * HEIGHT).max(1.5)
}

fn round(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(count: usize) -> Vec<String> {
        (0..count).map(|at| format!("10:{at:02}")).collect()
    }

    fn shown(values: &[u64], options: &BarOptions<'_>) -> String {
        bars(values, &labels(values.len()), &[], options).into_string()
    }

    #[test]
    fn bars_are_as_high_as_their_share_of_the_greatest() {
        let options = BarOptions { title: "Due", unit: "jobs", ..BarOptions::default() };
        let svg = shown(&[0, 50, 100], &options);
        assert!(
            svg.contains(r#"<rect class="first" x="11" y="50" width="8" height="50">"#),
            "{svg}"
        );
        assert!(
            svg.contains(r#"<rect class="first" x="21" y="0" width="8" height="100">"#),
            "{svg}"
        );
        assert_eq!(svg.matches(r#"class="first""#).count(), 2, "no bar of nothing: {svg}");
        assert!(svg.contains(r#"role="img" aria-label="Due: 3 bars, max 100 jobs""#), "{svg}");
        assert!(
            svg.contains("10:01: 50 jobs") && svg.contains("<details") && !svg.contains("style"),
            "{svg}"
        );
    }

    #[test]
    fn nothing_one_and_huge_values_are_drawn() {
        let options = BarOptions { title: "Due", unit: "jobs", ..BarOptions::default() };
        for (values, said) in [
            (&[][..], "Due: nothing yet"),
            (&[0, 0, 0], "Due: no jobs"),
            (&[7], "Due: 7 jobs"),
            (&[u64::MAX, 1], "Due: 2 bars, max 18,446,744,073,709,551,615 jobs"),
        ] {
            let svg = shown(values, &options);
            assert!(svg.contains(said), "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains("=\"-"), "{svg}");
        }
        let tiny = shown(&[u64::MAX, 1], &options);
        assert!(
            tiny.contains(r#"y="98.5" width="8" height="1.5""#),
            "what is there is seen: {tiny}"
        );
    }

    #[test]
    fn a_second_series_stands_on_the_first() {
        let second = [10, u64::MAX];
        let options = BarOptions {
            title: "Due",
            unit: "jobs",
            second: Some((&second[..1], "runs")),
            ..BarOptions::default()
        };
        let svg = shown(&[30, 40], &options);
        assert!(svg.contains(r#"class="second" x="1" y="0" width="8" height="25""#), "{svg}");
        assert!(
            svg.contains("10:00: 30 jobs, 10 runs") && svg.contains("10:01: 40 jobs, 0 runs"),
            "{svg}"
        );
        let options = BarOptions { second: Some((&second, "runs")), ..options };
        assert!(!shown(&[30, 40], &options).contains("=\"-"));
    }

    #[test]
    fn bars_lead_somewhere_and_so_does_the_table() {
        let hrefs = ["/a?x=1&y=2".to_owned(), "/b".to_owned()];
        let options = BarOptions { title: "Due", unit: "jobs", ..BarOptions::default() };
        let svg = bars(&[1, 2], &labels(2), &hrefs, &options).into_string();
        assert_eq!(svg.matches(r#"href="/a?x=1&amp;y=2""#).count(), 2, "{svg}");
        assert!(svg.contains(r#"role="group""#) && !svg.contains(r#"role="img""#), "{svg}");
    }

    #[test]
    fn lines_and_histograms_take_any_values() {
        for values in [&[][..], &[5], &[0, 0], &[u64::MAX, 0, 1]] {
            let svg = spark(values, "added").into_string();
            assert!(svg.contains(r#"role="img""#) && svg.contains("<title>added: now"), "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains("-0"), "{svg}");
        }
        let two = spark(&[0, 10], "added").into_string();
        assert!(two.contains(r#"points="0,22.0 1,2.0""#), "{two}");
        let buckets = [("≤ 1 ms".to_owned(), 0), ("≤ 5 ms".to_owned(), 8), ("> <b>".to_owned(), 2)];
        let shown = histogram("Lateness", &buckets).into_string();
        assert!(shown.contains(r#"width="100""#) && shown.contains(r#"width="25""#), "{shown}");
        assert!(shown.contains("&gt; &lt;b&gt;"), "{shown}");
        assert!(!histogram("Lateness", &[]).into_string().contains("NaN"));
    }
}
