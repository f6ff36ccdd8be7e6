//! What holds for every page, whatever it shows.

use crate::console::html::{Element, Node};
use std::collections::BTreeSet;

/// What a browser ends a paragraph at.
const BLOCKS: [&str; 21] = [
    "article", "details", "dialog", "div", "dl", "fieldset", "footer", "form", "h1", "h2", "h3",
    "header", "hr", "main", "nav", "ol", "p", "pre", "section", "table", "ul",
];
/// What holds none of its own kind, however deep.
const NEVER_IN_ITSELF: [&str; 4] = ["a", "button", "form", "label"];
/// Before a session there is no token.
const WITHOUT_TOKEN: &str = "/login";

/// All that is wrong with a document.
pub fn broken(document: &Element) -> Vec<String> {
    let mut broken = Vec::new();
    let all = document.all();
    for element in &all {
        of_attributes(element, &mut broken);
        of_forms(element, &mut broken);
        of_nesting(element, &mut broken);
        of_characters(element, &mut broken);
    }
    let scripts =
        |element: &Element| element.all().iter().filter(|inner| inner.name == "script").count();
    let in_head = document.find(|element| element.name == "head").map_or(0, scripts);
    if scripts(document) != 1 || in_head != 1 {
        broken.push(format!("{} scripts, {in_head} of them in the head", scripts(document)));
    }
    if all.iter().any(|element| element.name == "style") {
        broken.push("a <style>".to_owned());
    }
    of_ids(&all, &mut broken);
    broken
}

/// Where something is done: forms and buttons that post to `/do/`.
pub fn deeds(document: &Element) -> Vec<String> {
    let sent = |element: &Element| {
        ["action", "formaction"].iter().find_map(|name| element.attribute(name)).map(str::to_owned)
    };
    document
        .all()
        .into_iter()
        .filter_map(sent)
        .filter(|action| action.starts_with("/do/"))
        .collect()
}

fn of_attributes(element: &Element, broken: &mut Vec<String>) {
    for (name, value) in &element.attributes {
        if name == "style" || name.starts_with("on") {
            broken.push(format!("<{}> has {name}", element.name));
        }
        let leads = matches!(name.as_str(), "href" | "src" | "action" | "formaction");
        if leads && !["/", "#", "https://"].iter().any(|begin| value.starts_with(begin)) {
            broken.push(format!("<{}> leads to {value}", element.name));
        }
        if leads && value.starts_with("//") {
            broken.push(format!("<{}> leads to another server: {value}", element.name));
        }
    }
}

fn of_forms(element: &Element, broken: &mut Vec<String>) {
    let posts = |name| element.attribute(name) == Some("post");
    if element.name == "form" && posts("method") {
        let action = element.attribute("action").unwrap_or_default();
        let is_token = |field: &Element| {
            field.name == "input"
                && field.attribute("type") == Some("hidden")
                && field.attribute("name") == Some("token")
                && field.attribute("value").is_some_and(|value| !value.is_empty())
        };
        if action != WITHOUT_TOKEN && element.find(is_token).is_none() {
            broken.push(format!("the form that posts to {action} has no token"));
        }
    }
    // A form that is not sent by post itself carries it in the button alone, so that no address holds it.
    if posts("formmethod") && element.attribute("name") != Some("token") {
        let action = element.attribute("formaction").unwrap_or_default();
        broken.push(format!("the button that posts to {action} is no token"));
    }
    if element.name == "form" && element.attribute("method") == Some("get") {
        let told =
            |field: &Element| field.name == "input" && field.attribute("name") == Some("token");
        if element.find(told).is_some() {
            broken.push("a form puts the token into an address".to_owned());
        }
    }
}

fn of_nesting(element: &Element, broken: &mut Vec<String>) {
    let name = element.name.as_str();
    for inner in element.all().into_iter().skip(1) {
        let other = inner.name.as_str();
        let within = name == other && NEVER_IN_ITSELF.contains(&name);
        if within || (name == "p" && BLOCKS.contains(&other)) {
            broken.push(format!("<{other}> within <{name}>"));
        }
    }
}

/// What is typed into a field comes back as it was; what is shown shows all there is.
fn of_characters(element: &Element, broken: &mut Vec<String>) {
    let unseen = |char: char| {
        let turns = matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        turns || (char.is_control() && !matches!(char, '\n' | '\t'))
    };
    let texts = element.children.iter().filter_map(|node| match node {
        Node::Text(text) if element.name != "textarea" => Some(text),
        _ => None,
    });
    let values = element.attributes.iter().filter(|(name, _)| name != "value");
    for text in texts.chain(values.map(|(_, value)| value)) {
        if let Some(char) = text.chars().find(|char| unseen(*char)) {
            broken.push(format!("<{}> has {char:?} as it is: {text}", element.name));
        }
    }
}

fn of_ids(all: &[&Element], broken: &mut Vec<String>) {
    let mut ids = BTreeSet::new();
    for id in all.iter().filter_map(|element| element.attribute("id")) {
        if id.is_empty() || !ids.insert(id) {
            broken.push(format!("id \"{id}\" is not unique"));
        }
    }
    let mut keys = BTreeSet::new();
    for table in all.iter().filter(|element| element.name == "table") {
        keys.clear();
        for key in table.all().into_iter().filter_map(|row| row.attribute("data-key")) {
            if !keys.insert(key.to_owned()) {
                broken.push(format!("data-key \"{key}\" is not unique in its table"));
            }
        }
    }
    for element in all {
        for name in ["form", "for", "aria-labelledby", "aria-describedby", "list"] {
            if let Some(to) = element.attribute(name).filter(|to| !ids.contains(to)) {
                broken.push(format!("<{}> names \"{to}\", which is not there", element.name));
            }
        }
    }
}
