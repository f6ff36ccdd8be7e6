//! Names of queues as values of labels.

use std::fmt::Write;

/// Any bytes as text that Prometheus takes: `\` becomes `\\`, and what is no printable text `\xNN`.
/// Two names never give the same text.
///
/// Within quotes Prometheus reads `\` as the beginning of an escape itself, so that each stands
/// there twice as often.
pub fn escape_into(out: &mut String, name: &[u8]) {
    let byte = |out: &mut String, byte: u8| {
        write!(out, "\\\\x{byte:02x}").expect("a String takes all");
    };
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\\\\\"),
                '"' => out.push_str("\\\""),
                c if c.is_ascii_control() => byte(out, c as u8),
                c => out.push(c),
            }
        }
        chunk.invalid().iter().for_each(|b| byte(out, *b));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(name: &[u8]) -> String {
        let mut out = String::new();
        escape_into(&mut out, name);
        out
    }

    #[test]
    fn any_bytes_become_text_and_no_two_names_the_same() {
        assert_eq!(escaped("mail:größe 5".as_bytes()), "mail:größe 5");
        assert_eq!(escaped(b"a\"b\nc"), r#"a\"b\\x0ac"#);
        assert_eq!(escaped(b"\xff\xfe\xc3"), r"\\xff\\xfe\\xc3");
        assert_eq!(escaped(br"\xff"), r"\\\\xff");
        assert_ne!(escaped(br"\xff"), escaped(b"\xff"));
    }
}
