//! The body of a job: as JSON, as text, or as hex.

use super::{hex, json, kind, lines};
use crate::limits::{CONSOLE_HEX_BYTES_MAX, CONSOLE_TEXT_BYTES_MAX};
use maud::{Markup, PreEscaped, Render, html};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// As JSON in lines of its own; as text if it is not JSON.
    Json,
    /// Unchanged.
    Text,
    /// In bytes.
    Hex,
}

impl Way {
    /// As in a URL: `json`, `text`, `hex`.
    pub fn word(self) -> &'static str {
        match self {
            Way::Json => "json",
            Way::Text => "text",
            Way::Hex => "hex",
        }
    }

    /// From a URL.
    pub fn read(word: &[u8]) -> Option<Way> {
        [Way::Json, Way::Text, Way::Hex].into_iter().find(|way| way.word().as_bytes() == word)
    }
}

/// A body, or its beginning, as it is shown.
#[derive(Clone, Debug)]
pub struct ShownBody {
    /// The type from its first bytes: `JSON`, `text`, `gzip`.
    pub kind: &'static str,
    /// The actual form: invalid JSON is shown as text.
    pub way: Way,
    pub bytes: usize,
    /// Bytes of it that are shown, from its beginning.
    pub shown: usize,
    html: String,
}

impl ShownBody {
    /// More of it is there than is shown.
    pub fn is_cut(&self) -> bool {
        self.shown < self.bytes
    }
}

impl Render for ShownBody {
    fn render(&self) -> Markup {
        html! {
            @if self.bytes == 0 { p class="faint" { "Empty: 0 bytes." } }
            @else {
                // Long lines scroll in it: the keyboard has to reach it.
                pre class={ "body " (self.way.word()) } tabindex="0" aria-label="Body" dir="ltr" {
                    code { (PreEscaped(&self.html)) }
                }
            }
        }
    }
}

/// As it is most readable.
pub fn body(bytes: &[u8]) -> ShownBody {
    let start = cut(bytes, CONSOLE_TEXT_BYTES_MAX);
    if let Some(html) = json::pretty(start, start.len() < bytes.len()) {
        return ShownBody {
            kind: "JSON",
            way: Way::Json,
            bytes: bytes.len(),
            shown: start.len(),
            html,
        };
    }
    match kind::named(bytes) {
        None => as_text("text", bytes),
        Some(kind) => as_hex(kind, bytes),
    }
}

/// In the requested form.
pub fn body_as(bytes: &[u8], way: Way) -> ShownBody {
    match way {
        Way::Json => {
            let best = body(bytes);
            if best.way == Way::Json { best } else { as_text(best.kind, bytes) }
        }
        Way::Text => as_text(body(bytes).kind, bytes),
        Way::Hex => as_hex(body(bytes).kind, bytes),
    }
}

fn as_text(kind: &'static str, bytes: &[u8]) -> ShownBody {
    let start = cut(bytes, CONSOLE_TEXT_BYTES_MAX);
    let text = lines(start);
    let html = html! { (text) }.into_string();
    ShownBody { kind, way: Way::Text, bytes: bytes.len(), shown: start.len(), html }
}

fn as_hex(kind: &'static str, bytes: &[u8]) -> ShownBody {
    let start = &bytes[..bytes.len().min(CONSOLE_HEX_BYTES_MAX)];
    let html = hex::dump(start);
    ShownBody { kind, way: Way::Hex, bytes: bytes.len(), shown: start.len(), html }
}

/// The beginning, not within a character.
fn cut(bytes: &[u8], max: usize) -> &[u8] {
    if bytes.len() <= max {
        return bytes;
    }
    let is_within = |at: &usize| bytes.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    // A character has four bytes at most: a longer sequence is invalid.
    let end = (max - 3..=max).rev().find(|at| !is_within(at));
    &bytes[..end.unwrap_or(max)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn html(body: &ShownBody) -> String {
        body.render().into_string()
    }

    #[test]
    fn each_body_is_shown_the_way_that_suits_it() {
        for (bytes, kind, way) in [
            (&br#"{"a": [1, 2.50]}"#[..], "JSON", Way::Json),
            (b"  [] ", "JSON", Way::Json),
            (br#"{"a": }"#, "text", Way::Text),
            (b"", "text", Way::Text),
            (b"hello\nworld", "text", Way::Text),
            (b"mostly text \xff here and there", "text", Way::Text),
            (b"\x1f\x8b\x08\x00\x00\x00\x00\x00", "gzip", Way::Hex),
            (b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94.", "pickle", Way::Hex),
            (&[0x00, 0xff, 0x01, 0xfe, 0x02], "bytes", Way::Hex),
        ] {
            let shown = body(bytes);
            assert_eq!((shown.kind, shown.way), (kind, way), "{bytes:?}");
            assert_eq!((shown.bytes, shown.is_cut()), (bytes.len(), false));
        }
        assert_eq!(body_as(b"[1]", Way::Hex).kind, "JSON");
        assert_eq!(body_as(b"plain", Way::Json).way, Way::Text);
        assert_eq!(Way::read(b"hex"), Some(Way::Hex));
        assert_eq!(Way::read(b"HEX "), None);
    }

    #[test]
    fn what_a_body_holds_does_nothing() {
        for bytes in [
            &br#"{"x": "<script>alert(1)</script>", "<b>": "\u202e"}"#[..],
            "<script>\u{202e}</script>\u{200f}\u{1b}".as_bytes(),
            b"\xff\xfe\x00<script>alert(1)</script>\x00\x01\x02\x03\x04\x05\x06\x07",
        ] {
            for way in [Way::Json, Way::Text, Way::Hex] {
                let shown = html(&body_as(bytes, way));
                assert!(!shown.contains("<script") && !shown.contains("<b>"), "{shown}");
                let hidden =
                    |char| char != '\n' && (super::super::is_unseen(char) || char.is_control());
                assert!(!shown.chars().any(hidden), "{shown}");
            }
        }
    }

    #[test]
    fn long_bodies_are_cut_between_characters() {
        let long = "é".repeat(CONSOLE_TEXT_BYTES_MAX);
        let shown = body(format!("x{long}").as_bytes());
        assert_eq!(shown.shown, CONSOLE_TEXT_BYTES_MAX - 1);
        assert!(shown.is_cut() && !html(&shown).contains("\\x"));
        let hex = body_as(long.as_bytes(), Way::Hex);
        assert_eq!(hex.shown, CONSOLE_HEX_BYTES_MAX);
        let json = format!("[\"{}\"", "a".repeat(CONSOLE_TEXT_BYTES_MAX));
        assert_eq!(body(json.as_bytes()).way, Way::Json, "so far it is JSON");
    }

    /// Not the limit itself, which is for a release build: growth with the size of the body would be far above it.
    #[test]
    fn no_body_is_so_large_or_so_deep_that_a_page_waits_for_it() {
        let mib = 16 << 20;
        let worst = [
            b"[".repeat(mib),
            b"[1,".repeat(mib / 3),
            b"\xff".repeat(mib),
            b"a\xff".repeat(mib / 2),
            "\u{202e}".repeat(mib / 3).into_bytes(),
            b"<".repeat(mib),
            [&b"[".repeat(39)[..], &b"1,".repeat(mib / 2)].concat(),
            [&b"[".repeat(10_000)[..], &b"]".repeat(10_000)].concat(),
        ];
        for bytes in worst {
            let (shown, took) = crate::patience::cpu(|| html(&body(&bytes)));
            assert!(took < Duration::from_secs(1), "{took:?} for {:?}", &bytes[..8]);
            assert!(shown.len() < 5 << 20, "{} of {:?}", shown.len(), &bytes[..8]);
        }
    }
}
