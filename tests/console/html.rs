//! Pages as trees: read more strictly than a browser would, and written one tag a line.

use std::fmt::Write as _;

/// Elements without an end.
const VOID: [&str; 6] = ["br", "hr", "img", "input", "link", "meta"];
/// Of more of these in a row only the first and the last are written.
const LIKE_MAX: usize = 2;
const LIKE: [&str; 6] = ["dd", "g", "li", "option", "rect", "tr"];
/// Of a character so often in a row, how often is written.
const RUN_MAX: usize = 16;
/// Characters of a text that are written.
const TEXT_MAX: usize = 400;

/// An element with all that is in it, or text.
#[derive(Debug)]
pub enum Node {
    /// As it is written, with its entities.
    Text(String),
    Element(Element),
}

#[derive(Debug)]
pub struct Element {
    pub name: String,
    /// Values as they are written, with their entities; empty without one.
    pub attributes: Vec<(String, String)>,
    pub children: Vec<Node>,
    /// Of its start, as it came.
    tag: String,
}

impl Element {
    pub fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(attribute, _)| attribute == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn elements(&self) -> impl Iterator<Item = &Element> {
        self.children.iter().filter_map(|node| match node {
            Node::Element(element) => Some(element),
            Node::Text(_) => None,
        })
    }

    /// Itself and all below it.
    pub fn all(&self) -> Vec<&Element> {
        let mut all = vec![self];
        all.extend(self.elements().flat_map(Element::all));
        all
    }

    /// The first below it that is so.
    pub fn find(&self, is_it: impl Fn(&Element) -> bool) -> Option<&Element> {
        self.all().into_iter().find(|element| is_it(element))
    }
}

/// A document: what is in it, as the children of an element without a name.
pub fn read(text: &str) -> Result<Element, String> {
    let mut open = vec![Element {
        name: String::new(),
        attributes: Vec::new(),
        children: Vec::new(),
        tag: String::new(),
    }];
    let mut rest = text.strip_prefix("<!DOCTYPE html>").unwrap_or(text);
    while !rest.is_empty() {
        let inner = open.last_mut().expect("begun with one");
        let at = rest.find('<').unwrap_or(rest.len());
        if at > 0 {
            inner.children.push(Node::Text(rest[..at].to_owned()));
            rest = &rest[at..];
            continue;
        }
        let end = rest.find('>').ok_or_else(|| format!("a tag has no end: {}", excerpt(rest)))?;
        let tag = &rest[..=end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix("</") {
            let name = &name[..name.len() - 1];
            let element = open.pop().expect("begun with one");
            if element.name != name || open.is_empty() {
                return Err(format!("</{name}> ends {}: {}", element.tag, excerpt(rest)));
            }
            open.last_mut().expect("not empty").children.push(Node::Element(element));
            continue;
        }
        let element = start(tag)?;
        if VOID.contains(&element.name.as_str()) {
            inner.children.push(Node::Element(element));
        } else {
            open.push(element);
        }
    }
    let last = open.pop().expect("begun with one");
    if open.is_empty() { Ok(last) } else { Err(format!("{} has no end", last.tag)) }
}

/// The start of an element.
fn start(tag: &str) -> Result<Element, String> {
    let wrong = || format!("no tag: {}", excerpt(tag));
    let inner = &tag[1..tag.len() - 1];
    let named = |char: char| char.is_ascii_alphanumeric() || char == '-';
    let end = inner.find(|char| !named(char)).unwrap_or(inner.len());
    let (name, mut rest) = inner.split_at(end);
    if name.is_empty() {
        return Err(wrong());
    }
    let mut attributes = Vec::new();
    while !rest.is_empty() {
        rest = rest.strip_prefix(' ').ok_or_else(wrong)?;
        let end = rest.find(|char| !named(char)).unwrap_or(rest.len());
        let (attribute, behind) = rest.split_at(end);
        let mut value = "";
        rest = behind;
        if let Some(quoted) = rest.strip_prefix("=\"") {
            (value, rest) = quoted.split_once('"').ok_or_else(wrong)?;
        }
        if attribute.is_empty() || attributes.iter().any(|(other, _)| other == attribute) {
            return Err(wrong());
        }
        attributes.push((attribute.to_owned(), value.to_owned()));
    }
    Ok(Element { name: name.to_owned(), attributes, children: Vec::new(), tag: tag.to_owned() })
}

fn excerpt(text: &str) -> String {
    text.chars().take(200).collect()
}

/// One tag a line; what holds nothing but text stands with it.
pub fn write(element: &Element) -> String {
    let mut lines = String::new();
    write_element(element, 0, &mut lines);
    lines
}

fn write_element(element: &Element, depth: usize, lines: &mut String) {
    let mut tag = short(&element.tag, usize::MAX);
    if let Some(points) = element.attribute("points") {
        let (first, last) = (points.split(' ').next(), points.rsplit(' ').next());
        let ends = [first, last].map(Option::unwrap_or_default).join(" … ");
        tag = tag.replace(points, &ends);
    }
    let indent = " ".repeat(depth);
    let name = &element.name;
    match &element.children[..] {
        [] if VOID.contains(&name.as_str()) => _ = writeln!(lines, "{indent}{tag}"),
        [] => _ = writeln!(lines, "{indent}{tag}</{name}>"),
        [Node::Text(text)] => {
            let text = short(text, TEXT_MAX);
            _ = writeln!(lines, "{indent}{tag}{text}</{name}>");
        }
        children => {
            _ = writeln!(lines, "{indent}{tag}");
            write_children(children, depth + 1, name == "svg", lines);
            _ = writeln!(lines, "{indent}</{name}>");
        }
    }
}

fn write_children(mut children: &[Node], depth: usize, is_chart: bool, lines: &mut String) {
    let indent = " ".repeat(depth);
    while let Some((first, rest)) = children.split_first() {
        let Node::Element(element) = first else {
            if let Node::Text(text) = first {
                _ = writeln!(lines, "{indent}\"{}\"", short(text, TEXT_MAX));
            }
            children = rest;
            continue;
        };
        let name = element.name.as_str();
        let like = |node: &&Node| matches!(node, Node::Element(other) if other.name == name);
        let count = children.iter().take_while(like).count();
        let is_short = count <= LIKE_MAX || !(LIKE.contains(&name) || (name == "a" && is_chart));
        for (at, node) in children[..count].iter().enumerate() {
            match node {
                Node::Element(other) if is_short || at == 0 || at + 1 == count => {
                    write_element(other, depth, lines);
                }
                _ if at == 1 => _ = writeln!(lines, "{indent}… {} × <{name}>", count - 2),
                _ => {}
            }
        }
        children = &children[count..];
    }
}

/// On one line, and no longer than a review can read.
fn short(text: &str, most: usize) -> String {
    let mut short = String::new();
    let mut chars = text.chars().peekable();
    let mut written = 0;
    while let Some(char) = chars.next() {
        let mut count = 1;
        while chars.next_if_eq(&char).is_some() {
            count += 1;
        }
        let shown = match char {
            '\n' => "⏎".to_owned(),
            char => char.to_string(),
        };
        if count > RUN_MAX {
            _ = write!(short, "{shown}{{×{count}}}");
        } else {
            short.push_str(&shown.repeat(count));
        }
        written += 1;
        if written >= most && chars.peek().is_some() {
            _ = write!(short, "… and {} characters more", chars.count());
            break;
        }
    }
    short
}
