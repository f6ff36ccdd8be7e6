//! Why a rule was refused; the texts are Redis's.

use crate::limits::{ACL_USER_BYTES_MAX, ACL_USERS_MAX, NAME_BYTES_MAX, PASSWORD_BYTES_MAX};
use std::fmt;

/// A rule that was refused. Nothing of the user was changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusedRule {
    /// The rule; what may be a password is hidden.
    pub rule: String,
    pub why: Why,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Why {
    #[error("Syntax error")]
    Syntax,
    #[error("Unknown command or category name in ACL")]
    Unknown,
    #[error("Allowing first-arg of a subcommand is not supported")]
    FirstWordOfSubcommand,
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any \
         effect. Try 'resetkeys' to start with an empty list of patterns"
    )]
    AllKeys,
    #[error(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
         effect. Try 'resetchannels' to start with an empty list of channels"
    )]
    AllChannels,
    #[error(
        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
    )]
    Hash,
    #[error("The password you are trying to remove from the user does not exist")]
    NoSuchPassword,
    #[error("Unmatched parenthesis in selector definition.")]
    Unmatched,
    #[error("Usernames can't contain spaces or null characters")]
    Name,
    #[error("the rules of a user have at most {ACL_USER_BYTES_MAX} bytes")]
    TooLong,
    #[error("a password has at most {PASSWORD_BYTES_MAX} bytes")]
    LongPassword,
    #[error("a username has at most {NAME_BYTES_MAX} bytes")]
    LongName,
    #[error("there are at most {ACL_USERS_MAX} users")]
    TooMany,
}

impl RefusedRule {
    /// `rule` was refused; a password in it, or what was meant to be one, is not repeated.
    pub fn new(rule: &[u8], why: Why) -> RefusedRule {
        let rule = match rule.first() {
            Some(kind @ (b'>' | b'<' | b'#' | b'!')) => format!("{}(redacted)", char::from(*kind)),
            _ => String::from_utf8_lossy(&rule[..rule.len().min(128)]).into_owned(),
        };
        RefusedRule { rule, why }
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

impl fmt::Display for RefusedRule {
    /// The rule as the error of a line of a file shows it.
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
