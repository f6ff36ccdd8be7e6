//! Which arguments of a command are secret: they are shown nowhere, neither in the slow log nor by
//! MONITOR.

use crate::command::spec::CommandSpec;

/// Options whose values are secret.
const OPTIONS: [&str; 5] = [
    "requirepass",
    "masterauth",
    "cluster-secret",
    "tls-key-file-pass",
    "tls-client-key-file-pass",
];

/// What stands in the place of a secret.
pub const REDACTED: &[u8] = b"(redacted)";

/// Whether the argument at `at` is secret; `args` begin with the name.
pub fn is_secret(spec: &CommandSpec, args: &[&[u8]], at: usize) -> bool {
    match spec.name {
        "auth" => at >= 1,
        "acl|setuser" => at >= 2,
        "config|set" => {
            let name = args.get(at.wrapping_sub(1)).copied().unwrap_or_default();
            let secret = |option: &&str| name.eq_ignore_ascii_case(option.as_bytes());
            at >= 3 && at % 2 == 1 && OPTIONS.iter().any(secret)
        }
        // HELLO 3 AUTH user password: both behind the first AUTH.
        "hello" => {
            let is_auth = |arg: &&[u8]| arg.eq_ignore_ascii_case(b"auth");
            let auth = args.iter().skip(1).position(is_auth);
            auth.is_some_and(|place| (place + 2..=place + 3).contains(&at))
        }
        _ => false,
    }
}
