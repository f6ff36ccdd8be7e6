//! Where a user and a password are asked for.

use crate::console::view::chrome::PageFrame;
use crate::console::view::layout;
use maud::{Markup, html};

/// The form; `back` is where it leads, `text` why it is shown again. Where the default user has no password it is
/// `by_link` that it gets in.
pub fn show(
    _frame: &PageFrame,
    back: &str,
    user: &str,
    text: Option<&str>,
    by_link: bool,
) -> Markup {
    layout::bare(
        "Log in",
        html! {
            @if let Some(text) = text { p class="refused" role="alert" { (text) } }
            form method="post" action="/login" class="form" {
                input type="hidden" name="back" value=(back);
                label class="field" { span { "User" } input name="user" value=(user) autocomplete="username" autocapitalize="off" spellcheck="false"; }
                label class="field" { span { "Password" } input name="password" type="password" autocomplete="current-password" autofocus; }
                button class="primary" { "Log in" }
            }
            @if by_link {
                p { "The default user has no password. Its link is among the first lines of the server's log; on the server's machine " code { "delayd console" } " prints it. The token in it is taken here as a password." }
            }
            p class="faint" { "The users are those of the server: log in as with AUTH." }
        },
    )
}
