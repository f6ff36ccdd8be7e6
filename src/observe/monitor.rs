//! A command as MONITOR shows it.

use crate::command::CommandSpec;
use crate::command::spec::argument::{REDACTED, is_secret};
use crate::ids::Db;
use crate::limits::{MONITOR_ARGUMENT_BYTES_MAX, MONITOR_ARGUMENTS_MAX};
use crate::time::Micros;
use std::fmt::Write;

/// `1800000000.123456 [0 127.0.0.1:50418] "delay.len" "q"`.
pub fn line(at: Micros, db: Db, addr: &str, spec: &CommandSpec, args: &[&[u8]]) -> String {
    let mut line = String::with_capacity(64 + args.len() * 16);
    write!(line, "{}.{:06} [{db} {addr}]", at.0 / 1_000_000, at.0 % 1_000_000)
        .expect("a String takes all");
    for (i, arg) in args.iter().take(MONITOR_ARGUMENTS_MAX).enumerate() {
        line.push(' ');
        if is_secret(spec, args, i) {
            quote(REDACTED, &mut line);
        } else {
            quote(arg, &mut line);
        }
    }
    if args.len() > MONITOR_ARGUMENTS_MAX {
        write!(line, " ... ({} more arguments)", args.len() - MONITOR_ARGUMENTS_MAX)
            .expect("a String takes all");
    }
    line
}

fn quote(arg: &[u8], line: &mut String) {
    line.push('"');
    for byte in arg.iter().take(MONITOR_ARGUMENT_BYTES_MAX) {
        match byte {
            b'\\' | b'"' => line.extend(['\\', char::from(*byte)]),
            b'\n' => line.push_str("\\n"),
            b'\r' => line.push_str("\\r"),
            b'\t' => line.push_str("\\t"),
            0x07 => line.push_str("\\a"),
            0x08 => line.push_str("\\b"),
            b' '..=b'~' => line.push(char::from(*byte)),
            _ => write!(line, "\\x{byte:02x}").expect("a String takes all"),
        }
    }
    line.push('"');
    if arg.len() > MONITOR_ARGUMENT_BYTES_MAX {
        write!(line, "... ({} more bytes)", arg.len() - MONITOR_ARGUMENT_BYTES_MAX)
            .expect("a String takes all");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::table;

    fn shown(args: &[&[u8]]) -> String {
        let spec = table::find(args[0]).expect("a command");
        line(Micros(1_800_000_000_000_042), Db(3), "1.2.3.4:5", spec, args)
    }

    #[test]
    fn bytes_are_quoted_and_passwords_hidden() {
        let head = "1800000000.000042 [3 1.2.3.4:5]";
        assert_eq!(
            shown(&[b"echo", b"a \"\\\r\n\t\x07\x08\x00\xff~"]),
            format!(r#"{head} "echo" "a \"\\\r\n\t\a\b\x00\xff~""#)
        );
        assert_eq!(shown(&[b"AUTH", b"pw"]), format!(r#"{head} "AUTH" "(redacted)""#));
    }

    #[test]
    fn what_is_long_is_cut() {
        let body = vec![b'x'; MONITOR_ARGUMENT_BYTES_MAX + 7];
        assert!(shown(&[b"ECHO", &body]).ends_with("xx\"... (7 more bytes)"));
        let many = vec![&b"del"[..]; MONITOR_ARGUMENTS_MAX + 3];
        assert!(shown(&many).ends_with("\"del\" ... (3 more arguments)"));
    }
}
