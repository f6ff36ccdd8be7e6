//! Bytes in lines of sixteen: where they stand, their hex, and what of them is ASCII.

/// As HTML, escaped.
pub fn dump(bytes: &[u8]) -> String {
    let mut dumped = String::with_capacity(bytes.len() / 16 * 80 + 80);
    for (line, row) in bytes.chunks(16).enumerate() {
        put_number(&mut dumped, line * 16);
        dumped.push_str("  ");
        for at in 0..16 {
            match row.get(at) {
                Some(byte) => put_hex(&mut dumped, *byte),
                None => dumped.push_str("  "),
            }
            dumped.push(' ');
            if at == 7 {
                dumped.push(' ');
            }
        }
        dumped.push(' ');
        row.iter().for_each(|byte| put_ascii(&mut dumped, *byte));
        dumped.push('\n');
    }
    dumped
}

fn put_number(dumped: &mut String, number: usize) {
    for byte in (number as u32).to_be_bytes() {
        put_hex(dumped, byte);
    }
}

fn put_hex(dumped: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    dumped.push(char::from(DIGITS[usize::from(byte >> 4)]));
    dumped.push(char::from(DIGITS[usize::from(byte & 15)]));
}

fn put_ascii(dumped: &mut String, byte: u8) {
    match byte {
        b'<' => dumped.push_str("&lt;"),
        b'>' => dumped.push_str("&gt;"),
        b'&' => dumped.push_str("&amp;"),
        b' '..=b'~' => dumped.push(char::from(byte)),
        _ => dumped.push('·'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_bytes_a_line_with_what_is_ascii_of_them() {
        let dumped = dump(b"<a>\x00\xff 0123456789");
        assert_eq!(
            dumped,
            "00000000  3c 61 3e 00 ff 20 30 31  32 33 34 35 36 37 38 39  &lt;a&gt;·· 0123456789\n"
        );
        let second = dump(&[b'x'; 17]);
        let end = "00000010  78                                                x\n";
        assert!(second.ends_with(end), "{second}");
        assert_eq!(dump(b""), "");
    }
}
