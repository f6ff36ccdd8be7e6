//! Tables that become cards on narrow screens.

use maud::{Markup, Render, html};
use std::borrow::Cow;

/// A column, in order.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// Its title, which is also in each cell of a card.
    pub label: Cow<'static, str>,
    /// Numbers stand to the right.
    pub number: bool,
    pub sort: Option<String>,
    pub sorted: bool,
}

impl Column {
    pub fn text(label: &'static str) -> Column {
        Column { label: label.into(), ..Column::default() }
    }

    pub fn number(label: &'static str) -> Column {
        Column { label: label.into(), number: true, ..Column::default() }
    }

    /// Columns from their titles, with `|` between them; those of numbers begin with `#`.
    pub fn list(titles: &'static str) -> Vec<Column> {
        let column = |title: &'static str| match title.strip_prefix('#') {
            Some(title) => Column::number(title),
            None => Column::text(title),
        };
        titles.split('|').map(column).collect()
    }

    /// Sorted by a link, or already.
    pub fn by(self, href: String, sorted: bool) -> Column {
        Column { sort: Some(href), sorted, ..self }
    }
}

/// A row. Its first cell has the link to what it shows: Enter opens it.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Stays with what the row shows while others come and go, as [`query`](crate::console::words::escape::query) has it.
    pub key: String,
    /// The value of `selected` if its box is checked, and the box's name for screen readers.
    pub select: Option<(String, String)>,
    pub cells: Vec<Markup>,
}

#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Unique on the page, and constant; rows are kept apart by it.
    pub id: &'static str,
    /// The caption, for screen readers.
    pub caption: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
    /// Id of the form that boxes belong to; empty where rows cannot be selected.
    pub form: &'static str,
    /// New rows wait for a button, so that nothing moves under the pointer.
    pub grow: bool,
}

impl Render for Table {
    fn render(&self) -> Markup {
        html! {
            div class="wide" {
                table class="list" id=(self.id) {
                    caption class="unseen" { (self.caption) }
                    thead { tr {
                        @if !self.form.is_empty() { th class="box" scope="col" { (self.all_box()) } }
                        @for column in &self.columns { (head(column)) }
                    } }
                    tbody data-rows data-grow[self.grow] { @for row in &self.rows { (self.row(row)) } }
                }
            }
        }
    }
}

impl Table {
    /// One whose rows cannot be selected, and come and go as they like.
    pub fn plain(id: &'static str, caption: &str, columns: Vec<Column>, rows: Vec<Row>) -> Table {
        Table { id, caption: caption.to_owned(), columns, rows, ..Table::default() }
    }

    /// Checks the boxes of all rows; the script shows it.
    fn all_box(&self) -> Markup {
        html! { input type="checkbox" data-all=(self.form) aria-label="Select all shown" hidden; }
    }

    fn row(&self, row: &Row) -> Markup {
        html! {
            tr data-key=(row.key) {
                @if !self.form.is_empty() { td class="box" {
                    @if let Some((value, name)) = &row.select {
                        input type="checkbox" name="selected" value=(value) form=(self.form)
                            aria-label={ "Select " (name) };
                    }
                } }
                @for (column, cell) in self.columns.iter().zip(&row.cells) {
                    td class=[column.number.then_some("num")] data-label=(column.label) { (cell) }
                }
            }
        }
    }
}

/// A cell with a number that leads somewhere; zero leads nowhere.
pub fn cell_number(number: u64, href: &str) -> Markup {
    html! {
        @if number == 0 || href.is_empty() { (super::number(number)) }
        @else { a href=(href) { (super::number(number)) } }
    }
}

fn head(column: &Column) -> Markup {
    // The servers' orders: names up, numbers down.
    let order = if column.number { "descending" } else { "ascending" };
    html! {
        th scope="col" class=[column.number.then_some("num")] aria-sort=[column.sorted.then_some(order)] {
            @match &column.sort {
                Some(href) => a href=(href) {
                    (column.label)
                    @if column.sorted { i aria-hidden="true" { (if column.number { " ▾" } else { " ▴" }) } }
                },
                None => (column.label),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let row = Row {
            key: "emails".into(),
            select: Some(("emails".into(), "emails".into())),
            cells: vec![html! { a href="/q" { "emails" } }, cell_number(1_204, "/q?x")],
        };
        let ready = Column::number("ready").by("/queues?by=ready".into(), true);
        Table::plain("queues", "Queues", vec![Column::text("name"), ready], vec![row])
    }

    #[test]
    fn cells_carry_the_titles_of_their_columns_and_rows_their_keys() {
        let shown = table().render().into_string();
        assert!(shown.contains(r#"<tr data-key="emails">"#), "{shown}");
        assert!(shown.contains(r#"<td class="num" data-label="ready"><a href="/q?x">"#), "{shown}");
        assert!(
            shown.contains(r#"aria-sort="descending""#) && !shown.contains("checkbox"),
            "{shown}"
        );
        assert!(!shown.contains("data-grow"), "{shown}");
    }

    #[test]
    fn rows_can_be_selected_for_a_form_elsewhere() {
        let shown = Table { form: "bulk", grow: true, ..table() }.render().into_string();
        let checkbox = r#"<input type="checkbox" name="selected" value="emails" form="bulk" aria-label="Select emails">"#;
        assert!(shown.contains(checkbox), "{shown}");
        assert!(shown.contains(r#"data-all="bulk""#) && shown.contains("data-grow"), "{shown}");
    }

    #[test]
    fn zero_leads_nowhere() {
        assert!(!cell_number(0, "/x").into_string().contains("<a"));
        assert!(!cell_number(1, "").into_string().contains("<a"));
    }
}
