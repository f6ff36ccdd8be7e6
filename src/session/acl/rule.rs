//! Why a rule was refused; the texts are Redis's.

use std::fmt;

/// A rule that was refused. Nothing of the user was changed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "what has no words here is what its name says")]
pub struct Refused {
    /// The rule; what may be a password is hidden.
    pub rule: String,
    pub why: Why,
}

/// What is wrong with a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "what has no words here is what its name says")]
pub enum Why {
    /// It is no rule.
    Syntax,
    /// It names no command or category.
    Unknown,
    /// `+config|get|x`.
    FirstWordOfSubcommand,
    /// A key pattern where all keys are allowed.
    AllKeys,
    /// A channel pattern where all channels are allowed.
    AllChannels,
    /// Not a SHA-256 in hexadecimal.
    Hash,
    NoSuchPassword,
    Unmatched,
    /// The user's name has a blank or a zero byte.
    Name,
    /// The rules of one user would be longer than `ACL_USER_BYTES_MAX`.
    TooLong,
    /// A password is longer than `PASSWORD_BYTES_MAX`.
    LongPassword,
    /// A user's name is longer than `NAME_BYTES_MAX`.
    LongName,
    /// There would be more users than `ACL_USERS_MAX`.
    TooMany,
}

impl Refused {
    /// `rule` was refused; a password in it, or what was meant to be one, is not repeated.
    pub fn new(rule: &[u8], why: Why) -> Refused {
        let rule = match rule.first() {
            Some(kind @ (b'>' | b'<' | b'#' | b'!')) => format!("{}(redacted)", char::from(*kind)),
            _ => String::from_utf8_lossy(&rule[..rule.len().min(128)]).into_owned(),
        };
        Refused { rule, why }
    }

    /// The error of ACL SETUSER, without its class.
    pub fn of_setuser(&self) -> String {
        match self.why {
            why if why.is_of_user() => self.to_string(),
            why => format!("Error in ACL SETUSER modifier '{}': {why}", self.rule),
        }
    }
}

impl Why {
    /// It is not about one rule.
    fn is_of_user(self) -> bool {
        matches!(self, Why::Unmatched | Why::Name | Why::LongName | Why::TooMany | Why::TooLong)
    }
}

impl fmt::Display for Refused {
    /// As it stands in the error of a line of a file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why {
            Why::Unmatched => {
                write!(f, "Unmatched parenthesis in acl selector starting at '{}'.", self.rule)
            }
            why if why.is_of_user() => write!(f, "{why}"),
            why => write!(f, "Error in applying operation '{}': {why}", self.rule),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use crate::limits::{
            ACL_USER_BYTES_MAX, ACL_USERS_MAX, NAME_BYTES_MAX, PASSWORD_BYTES_MAX,
        };
        f.write_str(match self {
            Why::Syntax => "Syntax error",
            Why::Unknown => "Unknown command or category name in ACL",
            Why::FirstWordOfSubcommand => "Allowing first-arg of a subcommand is not supported",
            Why::AllKeys => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and \
                 does not have any effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            Why::AllChannels => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid \
                 and does not have any effect. Try 'resetchannels' to start with an empty list \
                 of channels"
            }
            Why::Hash => {
                "The password hash must be exactly 64 characters and contain only lowercase \
                 hexadecimal characters"
            }
            Why::NoSuchPassword => {
                "The password you are trying to remove from the user does not exist"
            }
            Why::Unmatched => "Unmatched parenthesis in selector definition.",
            Why::Name => "Usernames can't contain spaces or null characters",
            Why::TooLong => {
                return write!(f, "the rules of a user have at most {ACL_USER_BYTES_MAX} bytes");
            }
            Why::LongPassword => {
                return write!(f, "a password has at most {PASSWORD_BYTES_MAX} bytes");
            }
            Why::LongName => return write!(f, "a username has at most {NAME_BYTES_MAX} bytes"),
            Why::TooMany => return write!(f, "there are at most {ACL_USERS_MAX} users"),
        })
    }
}
