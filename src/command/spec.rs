//! What is known of a command: [`CommandSpec`], the type of the one table.

/// A command, or a subcommand of one.
#[derive(Debug)]
pub struct CommandSpec {
    /// Full name, lower case; a subcommand's with its container: `client|kill`.
    pub name: &'static str,
}
