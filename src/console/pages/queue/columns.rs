//! What a list shows of bodies: their beginning, or JSON keys as columns, `columns=order_id,customer.name` in the address.

use super::About;
use super::jobs::excerpt;
use crate::console::view::chrome::PageFrame;
use crate::console::view::parts::{self, Column};
use crate::console::words::escape;
use crate::console::words::params::Params;
use crate::console::words::value::Value;
use crate::limits::{CONSOLE_COLUMN_BYTES, CONSOLE_COLUMNS_MAX};
use maud::{Markup, html};
use serde_json::value::RawValue;
use std::collections::HashMap;

/// Characters of a key, and of its value.
const CHARS: usize = 40;

/// The keys, each as a path: `customer.name`. Without any, lists show the beginning of bodies.
pub struct BodyColumns<'a>(Vec<&'a str>);

impl<'a> BodyColumns<'a> {
    pub fn of(params: &'a Params) -> BodyColumns<'a> {
        let keys = params.text("columns").unwrap_or_default().split(',').map(str::trim);
        BodyColumns(keys.filter(|key| !key.is_empty()).take(CONSOLE_COLUMNS_MAX).collect())
    }

    /// For links to lists with the same columns.
    pub fn query(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        format!("&columns={}", escape::query(self.0.join(",").as_bytes()))
    }

    pub fn heads(&self) -> Vec<Column> {
        if self.0.is_empty() {
            return vec![Column::text("body")];
        }
        let label = |key: &&str| escape::shortened(&escape::text(key.as_bytes()), CHARS);
        self.0.iter().map(|key| Column { label: label(key).into(), ..Column::default() }).collect()
    }

    /// One for each of [`heads`](Self::heads). A body that is no JSON, or lacks the key, shows nothing.
    pub fn cells(&self, body: &Value) -> Vec<Markup> {
        if self.0.is_empty() {
            return vec![excerpt(body)];
        }
        let body = body.bytes().unwrap_or_default();
        let cell = |key: &&str| match found(body, key) {
            Some(value) => {
                html! { bdi class="name" { (escape::shortened(&escape::text(&value), CHARS)) } }
            }
            None if body.len() >= CONSOLE_COLUMN_BYTES => {
                html! { span class="faint" title="The body is too long to be looked through" { "…" } }
            }
            None => html! {},
        };
        self.0.iter().map(cell).collect()
    }

    /// In which they are chosen.
    pub fn form(&self, frame: &PageFrame, about: &About<'_>) -> Markup {
        let db = frame.db.to_string();
        let fields = [("db", db.as_bytes()), ("name", about.queue), ("tab", about.tab.as_bytes())];
        let label = "JSON keys as columns";
        let keys = self.0.join(", ");
        parts::filter(
            "/queue",
            &fields,
            html! { (parts::text_input(label, "columns", &keys, "order_id, customer.name")) },
        )
    }
}

/// The value at a path: a string without its quotes and escapes, all else as it is written. Nothing recurses, so depth
/// costs nothing.
fn found(body: &[u8], path: &str) -> Option<Vec<u8>> {
    let mut value: &RawValue = serde_json::from_slice(body).ok()?;
    for key in path.split('.') {
        let fields: HashMap<String, &RawValue> = serde_json::from_str(value.get()).ok()?;
        value = fields.get(key)?;
    }
    let text = serde_json::from_str::<String>(value.get());
    Some(text.unwrap_or_else(|_| value.get().to_owned()).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::words::value::tests::text;

    fn shown(columns: &str, body: &[u8]) -> Vec<String> {
        let params = Params::read(format!("columns={columns}").as_bytes());
        let body = Value::Text(bytes::Bytes::copy_from_slice(body));
        BodyColumns::of(&params).cells(&body).into_iter().map(Markup::into_string).collect()
    }

    #[test]
    fn keys_are_columns_of_their_values() {
        let body =
            br#"{"id": 4711, "to": {"name": "Ann \u00e9\n<b>", "tags": [1, 2]}, "paid": null}"#;
        let cells = shown("id,to.name,+to.tags+,paid,,to.none,id.x,none", body);
        let bdi = |text: &str| format!(r#"<bdi class="name">{text}</bdi>"#);
        let expected = [bdi("4711"), bdi("Ann é\\n&lt;b&gt;"), bdi("[1, 2]"), bdi("null")];
        assert_eq!(cells[..4], expected);
        assert_eq!(cells[4..], ["", "", ""]);
        for other in [&b"hello"[..], b"", b"\xff{}", b"[1]", b"{\"id\":1} x", b"{\"id\":"] {
            assert_eq!(shown("id", other), [""], "{}", other.escape_ascii());
        }
        let plain = BodyColumns(Vec::new());
        assert!(plain.cells(&text("hello"))[0].0.contains("hello") && plain.query().is_empty());
    }

    #[test]
    fn the_address_remembers_so_many_keys_and_no_more() {
        let many = vec!["a%26b.%C3%A9"; 2 * CONSOLE_COLUMNS_MAX].join(",");
        let params = Params::read(format!("columns={many}").as_bytes());
        let columns = BodyColumns::of(&params);
        assert_eq!(columns.heads().len(), CONSOLE_COLUMNS_MAX);
        assert_eq!(columns.heads()[0].label, "a&b.é");
        let again = Params::read(columns.query().as_bytes());
        assert_eq!(BodyColumns::of(&again).0, columns.0);
    }

    /// A body is looked at up to a limit, however deep it is; and what follows from it is short.
    #[test]
    fn hostile_bodies_cost_little_and_show_little() {
        let most = CONSOLE_COLUMN_BYTES;
        let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(most - 8)).into_bytes();
        let half = most / 2 - 3;
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(half), "]".repeat(half)).into_bytes();
        let objects = br#"{"a":"#.repeat(most);
        for body in [&long, &deep] {
            let cell = &shown("a", body)[0];
            assert!(cell.contains('…') && cell.len() < 200, "{cell}");
        }
        assert_eq!(shown("a.a.a", &objects[..most - 1]), [""]);
        assert!(shown("a", &objects[..most])[0].contains("too long"));
    }
}
