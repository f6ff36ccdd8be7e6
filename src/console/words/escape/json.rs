//! JSON in lines of its own. Order, numbers and strings stay as they were written: only the space between them
//! changes. No recursion, so that depth costs nothing but a byte a level.

use super::put_char;
use crate::limits::CONSOLE_TEXT_BYTES_MAX;

/// Levels that are indented; deeper ones go on in the same line.
const INDENTED_MAX: usize = 40;
/// Bytes of HTML after which no more lines are begun: a million commas would else be a million lines of indent.
const BROKEN_BYTES_MAX: usize = CONSOLE_TEXT_BYTES_MAX * 4;
/// Longer bodies are shown in one colour: marks around each word would outweigh them.
const COLOURED_BYTES_MAX: usize = 32 << 10;

/// As HTML, escaped; none if it is not a JSON array or object. If it is `cut`, the end may be missing.
pub fn pretty(bytes: &[u8], cut: bool) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let coloured = text.len() <= COLOURED_BYTES_MAX;
    let html = String::with_capacity(text.len() + text.len() / 2);
    let mut printer = Printer { text, at: 0, html, levels: Vec::new(), coloured };
    match printer.print() {
        Ok(()) => Some(printer.html),
        Err(JsonStop::End) if cut => Some(printer.html),
        Err(_) => None,
    }
}

/// Why it did not go on.
enum JsonStop {
    /// The text ended before its time.
    End,
    Wrong,
}

/// The enclosing levels of a value.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Array,
    Object,
}

struct Printer<'a> {
    text: &'a str,
    at: usize,
    html: String,
    levels: Vec<Level>,
    coloured: bool,
}

impl Printer<'_> {
    fn print(&mut self) -> Result<(), JsonStop> {
        if !matches!(self.next()?, b'{' | b'[') {
            return Err(JsonStop::Wrong);
        }
        loop {
            // Opened, and not at once closed: its first value is next.
            if self.value()? {
                continue;
            }
            if self.after_value()? {
                break;
            }
        }
        self.skip_space();
        if self.at == self.text.len() { Ok(()) } else { Err(JsonStop::Wrong) }
    }

    /// One value; or the beginning of one, if true.
    fn value(&mut self) -> Result<bool, JsonStop> {
        let opened = match self.next()? {
            b'{' => Level::Object,
            b'[' => Level::Array,
            b'"' => return self.string("s").map(|()| false),
            b'-' | b'0'..=b'9' => return self.number().map(|()| false),
            _ => return self.word().map(|()| false),
        };
        self.open(opened)
    }

    fn open(&mut self, opened: Level) -> Result<bool, JsonStop> {
        let (start, end) = match opened {
            Level::Object => ('{', b'}'),
            Level::Array => ('[', b']'),
        };
        self.at += 1;
        self.html.push(start);
        if self.next()? == end {
            self.at += 1;
            self.html.push(char::from(end));
            return Ok(false);
        }
        self.levels.push(opened);
        self.line();
        if opened == Level::Object {
            self.key()?;
        }
        Ok(true)
    }

    /// The text after a value: a comma, or the ends of the enclosing levels. True when all are
    /// closed.
    fn after_value(&mut self) -> Result<bool, JsonStop> {
        while let Some(&level) = self.levels.last() {
            match (self.next()?, level) {
                (b',', _) => {
                    self.at += 1;
                    self.html.push(',');
                    self.line();
                    if level == Level::Object {
                        self.key()?;
                    } else {
                        self.next()?;
                    }
                    return Ok(false);
                }
                (end @ b'}', Level::Object) | (end @ b']', Level::Array) => {
                    self.at += 1;
                    self.line_before_end();
                    self.html.push(char::from(end));
                }
                _ => return Err(JsonStop::Wrong),
            }
        }
        Ok(true)
    }

    fn key(&mut self) -> Result<(), JsonStop> {
        if self.next()? != b'"' {
            return Err(JsonStop::Wrong);
        }
        self.string("k")?;
        if self.next()? != b':' {
            return Err(JsonStop::Wrong);
        }
        self.at += 1;
        self.html.push_str(": ");
        Ok(())
    }

    fn string(&mut self, class: &str) -> Result<(), JsonStop> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut at = start + 1;
        loop {
            match bytes.get(at) {
                None => return self.unfinished(start, class),
                Some(b'"') => break,
                Some(b'\\') => at += escape(&bytes[at..])?,
                Some(..=0x1f) => return Err(JsonStop::Wrong),
                Some(_) => at += 1,
            }
        }
        self.at = at + 1;
        self.put(start, class);
        Ok(())
    }

    /// A string that is cut: what is there of it is shown.
    fn unfinished(&mut self, start: usize, class: &str) -> Result<(), JsonStop> {
        self.at = self.text.len();
        self.put(start, class);
        Err(JsonStop::End)
    }

    fn number(&mut self) -> Result<(), JsonStop> {
        let start = self.at;
        let rest = &self.text[start..];
        let is_part = |char: char| char.is_ascii_digit() || "+-.eE".contains(char);
        let end = rest.find(|char| !is_part(char)).unwrap_or(rest.len());
        self.at += end;
        if !is_number(&rest.as_bytes()[..end]) {
            let is_cut = self.at == self.text.len();
            return Err(if is_cut { JsonStop::End } else { JsonStop::Wrong });
        }
        self.put(start, "n");
        Ok(())
    }

    fn word(&mut self) -> Result<(), JsonStop> {
        let start = self.at;
        let rest = &self.text[start..];
        let found = ["true", "false", "null"].into_iter().find(|word| rest.starts_with(word));
        let Some(word) = found else {
            let is_begun = ["true", "false", "null"].iter().any(|word| word.starts_with(rest));
            return Err(if is_begun { JsonStop::End } else { JsonStop::Wrong });
        };
        self.at += word.len();
        self.put(start, "n");
        Ok(())
    }

    /// The byte at which something begins.
    fn next(&mut self) -> Result<u8, JsonStop> {
        self.skip_space();
        self.text.as_bytes().get(self.at).copied().ok_or(JsonStop::End)
    }

    fn skip_space(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|byte| b" \t\n\r".contains(byte)).count();
    }

    /// The text from `start` up to here, escaped.
    fn put(&mut self, start: usize, class: &str) {
        if self.coloured {
            self.html.extend(["<span class=\"", class, "\">"]);
        }
        for char in self.text[start..self.at].chars() {
            match char {
                '<' => self.html.push_str("&lt;"),
                '>' => self.html.push_str("&gt;"),
                '&' => self.html.push_str("&amp;"),
                _ => put_char(&mut self.html, char, false),
            }
        }
        if self.coloured {
            self.html.push_str("</span>");
        }
    }

    fn line(&mut self) {
        self.begin(self.levels.len());
    }

    /// The end of the innermost level is below its beginning, if its values have lines of their own.
    fn line_before_end(&mut self) {
        let level = self.levels.len();
        self.levels.pop();
        if level <= INDENTED_MAX {
            self.begin(level - 1);
        }
    }

    fn begin(&mut self, level: usize) {
        if level > INDENTED_MAX || self.html.len() > BROKEN_BYTES_MAX {
            return;
        }
        self.html.push('\n');
        self.html.extend(std::iter::repeat_n("  ", level));
    }
}

/// Length of an escape such as `\n` or `\u00e9`.
fn escape(bytes: &[u8]) -> Result<usize, JsonStop> {
    match bytes.get(1) {
        None => Err(JsonStop::End),
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(2),
        Some(b'u') => match bytes.get(2..6) {
            None => Err(JsonStop::End),
            Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => Ok(6),
            Some(_) => Err(JsonStop::Wrong),
        },
        Some(_) => Err(JsonStop::Wrong),
    }
}

/// `-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?`
fn is_number(text: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(rest);
    if whole == 0 || (whole > 1 && rest[0] == b'0') {
        return false;
    }
    let mut rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let count = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = &fraction[count..];
    }
    if let [b'e' | b'E', power @ ..] = rest {
        let power = power.strip_prefix(b"+").or(power.strip_prefix(b"-")).unwrap_or(power);
        return !power.is_empty() && digits(power) == power.len();
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without colours.
    fn plain(text: &str) -> Option<String> {
        let html = pretty(text.as_bytes(), false)?;
        let classes = ["<span class=\"k\">", "<span class=\"s\">", "<span class=\"n\">", "</span>"];
        Some(classes.iter().fold(html, |html, tag| html.replace(tag, "")))
    }

    #[test]
    fn only_the_space_between_words_changes() {
        let text = r#"{"b":1.0,"a":[1e5,-0,{"x":"\u00e9\"/"},[],{}], "b":null}"#;
        let lines = [
            "{", r#"  "b": 1.0,"#, r#"  "a": ["#, "    1e5,", "    -0,", "    {",
            r#"      "x": "\u00e9\"/""#, "    },", "    [],", "    {}", "  ],", r#"  "b": null"#,
            "}",
        ];
        assert_eq!(plain(text), Some(lines.join("\n")));
        assert_eq!(plain(" [ ] "), Some("[]".to_owned()));
        assert_eq!(
            plain("[12345678901234567890123.000]"),
            Some("[\n  12345678901234567890123.000\n]".to_owned())
        );
    }

    #[test]
    fn it_agrees_with_others_on_what_json_is() {
        for text in [
            "[1,]", "[,1]", "{\"a\":1,}", "{a:1}", "[01]", "[1.]", "[.5]", "[1e]", "[-]", "[+1]",
            "[tru]", "[\"\\x\"]", "[\"\\u12g4\"]", "[\"a\nb\"]", "[1 2]", "[1]]", "{\"a\" 1}", "[",
            "[1", "{\"a\"", "{\"a\":", "[\"a", "[}", "{]", "1", "\"a\"", "", "  ", "nul", "[nan]",
            "{\"a\":1 \"b\":2}", "[1][2]", "[\u{a0}1]", "{1:2}",
        ] {
            let is_json = serde_json::from_str::<serde_json::Value>(text).is_ok();
            let is_nested = text.trim_start().starts_with(['[', '{']);
            assert_eq!(plain(text).is_some(), is_json && is_nested, "{text}");
        }
        for text in
            ["[0,-0.5e+10,1E9]", "{\"\":\"\\\\\"}", "[true,false,null]", "\t\r\n[ 1 , 2 ]\n"]
        {
            let shown = plain(text).expect(text);
            let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
            assert_eq!(value(&shown), value(text));
        }
    }

    #[test]
    fn of_what_is_cut_the_beginning_is_shown() {
        for text in
            ["[1, \"ab", "{\"a", "{\"a\":", "[tr", "[1, -", "[[[", "[\"\\", "[\"\\u1", "[1,"]
        {
            assert!(pretty(text.as_bytes(), true).is_some(), "{text}");
            assert!(pretty(text.as_bytes(), false).is_none(), "{text}");
        }
        assert!(pretty(b"[1 2", true).is_none());
    }

    #[test]
    fn ten_thousand_levels_are_neither_lost_nor_indented() {
        let deep = "[".repeat(10_000) + &"]".repeat(10_000);
        let shown = plain(&deep).expect("JSON");
        assert_eq!(shown.matches('[').count(), 10_000);
        assert_eq!(shown.matches(']').count(), 10_000);
        let longest = shown.lines().map(|line| line.len() - line.trim_start().len()).max();
        assert_eq!(longest, Some(2 * INDENTED_MAX));
        assert!(shown.len() < 30_000, "{}", shown.len());
    }

    #[test]
    fn many_commas_deep_inside_stay_within_bounds() {
        let wide = "[".repeat(39) + &"1,".repeat(100_000) + "1" + &"]".repeat(39);
        let shown = pretty(wide.as_bytes(), false).expect("JSON");
        assert!(shown.len() < BROKEN_BYTES_MAX + wide.len() * 2, "{}", shown.len());
    }
}
