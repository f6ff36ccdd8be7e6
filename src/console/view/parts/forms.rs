//! Forms that change something, and filters: they work without the script.

use super::Tone;
use crate::console::view::chrome::PageFrame;
use crate::console::view::node;
use crate::console::words::escape;
use crate::console::words::params::ENCODED;
use maud::{Markup, html};

/// The confirmation between a button and its action.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Confirm {
    /// Nothing: it can be undone.
    None,
    /// A dialog that says how much is lost.
    Count {
        /// All of it: `Remove 1,204 dead jobs of payments.`
        words: String,
    },
    /// A dialog in which a name must be typed; it is sent as `typed`, and holds [`escape::text`] of the name.
    TypeName {
        /// The text to type.
        name: Vec<u8>,
        /// What would be lost.
        words: String,
    },
    /// As [`Confirm::TypeName`], with boxes for what it concerns.
    Choose {
        name: Vec<u8>,
        words: String,
        /// The field of each, its words, and whether it is chosen at first.
        choices: Vec<(&'static str, String, bool)>,
    },
}

/// The choices of [`select`]: value, words, chosen.
pub type Choice<'a> = (&'a str, &'a str, bool);

/// Whether the user may run a command here, so that a button for it makes sense.
pub fn offered(frame: &PageFrame, command: &str) -> bool {
    !frame.readonly && frame.may.run(command)
}

/// A button that does something: a form with hidden fields and nothing else.
pub fn action(
    frame: &PageFrame,
    path: &str,
    fields: &[(&str, &[u8])],
    label: &str,
    confirm: Confirm,
) -> Markup {
    let tone = if confirm == Confirm::None { Tone::Plain } else { Tone::Bad };
    action_toned(frame, path, fields, label, confirm, tone)
}

/// As [`action`], in another tone than plain for what can be undone and bad for what cannot.
pub fn action_toned(
    frame: &PageFrame,
    path: &str,
    fields: &[(&str, &[u8])],
    label: &str,
    confirm: Confirm,
    tone: Tone,
) -> Markup {
    let class = class(tone);
    if let Some(why) = node::refusal(frame, path) {
        return html! { button type="button" class=(class) disabled title=(why) { (label) } };
    }
    match confirm {
        Confirm::None => html! {
            form class="action" method="post" action=(target(frame, path, fields)) data-quiet {
                (hidden(frame))
                button class=(class) { (label) }
            }
        },
        Confirm::Count { words } => dialog(frame, path, fields, label, &words, class, html! {}),
        Confirm::TypeName { name, words } => {
            dialog(frame, path, fields, label, &words, class, typed(&name))
        }
        Confirm::Choose { name, words, choices } => {
            let chosen = html! {
                @for (field, words, is_chosen) in &choices {
                    label class="check" { input type="checkbox" name=(field) value="1" checked[*is_chosen]; " " (words) }
                }
                (typed(&name))
            };
            dialog(frame, path, fields, label, &words, class, chosen)
        }
    }
}

/// The field in which a name is typed.
fn typed(name: &[u8]) -> Markup {
    let name = escape::text(name);
    html! {
        label class="field" {
            span { "Type " b { bdi { (name) } } " to confirm" }
            input name="typed" required autocomplete="off" spellcheck="false" autocapitalize="off"
                pattern=(pattern(&name)) title="The name, as shown above";
        }
    }
}

/// A form of a page's own fields that changes something. A form with an id takes boxes of a table with it; `quiet`
/// ones are sent by the script and leave the page as it is. Where this node would refuse it, it cannot be filled in.
pub fn form(
    frame: &PageFrame,
    id: &str,
    path: &str,
    fields: &[(&str, &[u8])],
    quiet: bool,
    body: Markup,
) -> Markup {
    let id = (!id.is_empty()).then_some(id);
    if let Some(why) = node::refusal(frame, path) {
        return html! {
            div id=[id] class="form" title=(why) { fieldset class="off" disabled { (body) } }
        };
    }
    html! {
        form id=[id] class="form" method="post" action=(target(frame, path, fields)) data-quiet[quiet] {
            (hidden(frame))
            (body)
        }
    }
}

/// A form that changes nothing but what is shown: GET, with hidden fields that stay.
pub fn filter(path: &str, kept: &[(&str, &[u8])], body: Markup) -> Markup {
    html! {
        form class="filter" method="get" action=(path) role="search" aria-label="Filter" {
            @for (name, value) in kept { (kept_field(name, value)) }
            (body)
            button { "Show" }
        }
    }
}

/// A hidden field. A browser sends text with line breaks of its own, so what is not plain is encoded once more; see
/// [`Params`](crate::console::words::params::Params).
pub fn kept_field(name: &str, value: &[u8]) -> Markup {
    let encoded = escape::query(value);
    let prefix = if encoded.as_bytes() == value { "" } else { ENCODED };
    html! { input type="hidden" name={ (prefix) (name) } value=(encoded); }
}

pub fn text_input(label: &str, name: &str, value: &str, hint: &str) -> Markup {
    html! {
        label class="field" {
            span { (label) }
            input name=(name) value=(value) placeholder=[(!hint.is_empty()).then_some(hint)] autocomplete="off"
                autocapitalize="off" spellcheck="false";
        }
    }
}

pub fn select(label: &str, name: &str, choices: &[Choice<'_>]) -> Markup {
    html! {
        label class="field" {
            span { (label) }
            select name=(name) {
                @for (value, words, chosen) in choices { option value=(value) selected[*chosen] { (words) } }
            }
        }
    }
}

/// How many boxes of a table are checked for a form; the script writes it. Buttons of the form that do nothing
/// without a selection have `data-selection`.
pub fn selected_count(form: &str) -> Markup {
    html! { span class="faint" data-count=(form) aria-live="polite" {} }
}

/// The button opens what is a dialog with the script and a box below without it.
fn dialog(
    frame: &PageFrame,
    path: &str,
    fields: &[(&str, &[u8])],
    label: &str,
    words: &str,
    class: &str,
    typed: Markup,
) -> Markup {
    html! {
        details class="confirm" data-confirm {
            summary class={ "button " (class) } { (label) "…" }
            form method="post" action=(target(frame, path, fields)) data-quiet {
                (hidden(frame))
                p { (words) }
                (typed)
                div class="choices" {
                    button type="button" data-close hidden { "Cancel" }
                    button class=(class) { (label) }
                }
            }
        }
    }
}

fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Bad => "danger",
        Tone::Good => "primary",
        _ => "",
    }
}

/// The session's token and the way back.
fn hidden(frame: &PageFrame) -> Markup {
    html! {
        input type="hidden" name="token" value=(frame.token);
        input type="hidden" name="back" value=(frame.here);
    }
}

/// The target of a form: its subject is in the address, because a browser sends fields as text, and names and ids may
/// be any bytes. The database comes first, unless the form is for the node.
pub fn target(frame: &PageFrame, path: &str, fields: &[(&str, &[u8])]) -> String {
    let db = (!node::OF_THE_NODE.contains(&path)).then(|| format!("db={}", frame.db));
    let fields = fields.iter().map(|(name, value)| format!("{name}={}", escape::query(value)));
    let said: Vec<String> = db.into_iter().chain(fields).collect();
    if said.is_empty() { path.to_owned() } else { format!("{path}?{}", said.join("&")) }
}

/// A pattern that only the name itself matches.
fn pattern(name: &str) -> String {
    let escaped =
        |char: char| ['\\', char].into_iter().skip(usize::from(!r"\^$.*+?()[]{}|/".contains(char)));
    // Form values have no surrounding spaces, which a person would not see.
    name.chars().flat_map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> PageFrame {
        let may = crate::console::view::chrome::May::all();
        PageFrame {
            token: "t0k".into(),
            here: "/queue?db=0&name=q".into(),
            may,
            ..PageFrame::default()
        }
    }

    #[test]
    fn every_form_that_changes_something_carries_the_token_and_the_way_back() {
        let confirms = [
            Confirm::None,
            Confirm::Count { words: "Remove 3 jobs.".into() },
            Confirm::TypeName { name: b"q".to_vec(), words: "All of it.".into() },
        ];
        for confirm in confirms {
            let shown = action(&frame(), "/do/purge", &[("queue", b"\xff<")], "Purge", confirm)
                .into_string();
            assert!(shown.contains(r#"name="token" value="t0k""#), "{shown}");
            assert!(shown.contains(r#"name="back" value="/queue?db=0&amp;name=q""#), "{shown}");
            assert!(
                shown.contains(r#"method="post" action="/do/purge?db=0&amp;queue=%FF%3C""#),
                "{shown}"
            );
        }
        let own = form(&frame(), "bulk", "/do/x", &[], false, html! {}).into_string();
        assert!(
            own.contains("t0k") && own.contains(r#"id="bulk""#) && !own.contains("data-quiet"),
            "{own}"
        );
        let filter =
            filter("/search", &[("db", b"0"), ("queue", b"a\n\xff")], html! {}).into_string();
        assert!(!filter.contains("token") && filter.contains(r#"name="db" value="0""#), "{filter}");
        assert!(filter.contains(r#"name="enc.queue" value="a%0A%FF""#), "{filter}");
    }

    #[test]
    fn what_destroys_asks_first() {
        let count = Confirm::Count { words: "Remove 1,204 dead jobs of payments.".into() };
        let shown = action(&frame(), "/do/purge", &[], "Purge", count).into_string();
        assert!(
            shown.starts_with("<details") && shown.contains("Remove 1,204 dead jobs"),
            "{shown}"
        );
        let name = Confirm::TypeName { name: b"a.b(c)\n".to_vec(), words: String::new() };
        let shown = action(&frame(), "/do/delete", &[], "Delete", name).into_string();
        assert!(
            shown.contains(r#"required"#) && shown.contains(r#"pattern="a\.b\(c\)\\n""#),
            "{shown}"
        );
        let none = action(&frame(), "/do/pause", &[], "Pause", Confirm::None).into_string();
        assert!(none.starts_with("<form") && none.contains("data-quiet"), "{none}");
    }

    #[test]
    fn nothing_is_offered_that_would_be_refused() {
        assert!(offered(&frame(), "DELAY.PURGE"));
        assert!(!offered(&PageFrame { readonly: true, ..frame() }, "DELAY.PURGE"));
        assert!(!offered(&PageFrame::default(), "DELAY.PURGE"));
    }
}
