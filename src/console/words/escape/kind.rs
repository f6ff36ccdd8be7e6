//! Types of bodies by their first bytes.

/// First bytes, and what begins with them.
const BEGINNINGS: [(&[u8], &str); 21] = [
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x04\x22\x4d\x18", "LZ4"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\xff\x06\0\0sNaPpY", "snappy"),
    (b"\x78\x01", "zlib"),
    (b"\x78\x9c", "zlib"),
    (b"\x78\xda", "zlib"),
    (b"PK\x03\x04", "zip"),
    (b"%PDF-", "PDF"),
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"GIF8", "GIF"),
    (b"\xac\xed\0\x05", "Java object"),
    (b"\x04\x08", "Ruby Marshal"),
    (b"Obj\x01", "Avro"),
    (b"PAR1", "Parquet"),
    (b"\x7fELF", "ELF"),
    (b"SQLite format 3\0", "SQLite"),
    (b"\xd9\xd9\xf7", "CBOR"),
];

/// Bytes that are checked to recognise text.
const LOOKED_AT: usize = 4 << 10;

/// Its name, if it is not text: `gzip`, `pickle`, or `bytes` if unknown.
pub fn named(bytes: &[u8]) -> Option<&'static str> {
    let begun = BEGINNINGS.iter().find(|(beginning, _)| bytes.starts_with(beginning));
    if let Some((_, kind)) = begun {
        return Some(kind);
    }
    if is_pickle(bytes) {
        return Some("pickle");
    }
    if is_text(bytes) {
        return None;
    }
    Some(if is_msgpack(bytes) { "msgpack" } else { "bytes" })
}

/// Python's, protocol 2 and later; what came before is text.
fn is_pickle(bytes: &[u8]) -> bool {
    matches!(bytes, [0x80, 2..=5, .., b'.'])
}

/// A map or an array of msgpack at its top, and in it a string or a small number first.
fn is_msgpack(bytes: &[u8]) -> bool {
    let inner = match bytes {
        [0x80..=0x9f, inner @ ..] => inner,
        [0xdc | 0xde, _, _, inner @ ..] => inner,
        [0xdd | 0xdf, _, _, _, _, inner @ ..] => inner,
        _ => return false,
    };
    matches!(inner, [0x00..=0x7f | 0xa0..=0xbf | 0xcc | 0xcd | 0xce | 0xcf | 0xd9, ..])
}

/// Whether a person could read it: at most a tenth of its beginning is no text.
fn is_text(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(LOOKED_AT)];
    let mut strange = 0;
    for chunk in start.utf8_chunks() {
        let is_strange = |char: &char| char.is_control() && !"\n\r\t".contains(*char);
        strange += chunk.valid().chars().filter(is_strange).count() + chunk.invalid().len();
    }
    strange * 10 <= start.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_their_first_bytes() {
        for (bytes, kind) in [
            (&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], Some("PNG")),
            (b"\x28\xb5\x2f\xfd\x04", Some("zstd")),
            (b"\x82\xa2id\x01\xa1n\xff\x80\x81\xff\x80", Some("msgpack")),
            (b"\x80\x02K\x01.", Some("pickle")),
            (b"\x08\x96\x01\x12\x07testing", Some("bytes")),
            (b"plain words", None),
            ("\u{1f600} größer".as_bytes(), None),
            (b"", None),
        ] {
            assert_eq!(named(bytes), kind, "{bytes:?}");
        }
    }
}
