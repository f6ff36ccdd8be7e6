//! Pages of a list whose command has no cursor: as many rows as are skipped are asked for again, up to a limit.

use crate::console::view::parts;
use crate::console::words::params::Params;
use maud::Markup;

/// A page of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListPage {
    /// Rows before it.
    skip: usize,
    /// Rows on it.
    size: usize,
    /// Rows that the command gives at most.
    most: usize,
}

impl ListPage {
    /// The first page.
    pub fn first(size: usize, most: usize) -> ListPage {
        ListPage { skip: 0, size, most }
    }

    /// The page of an address.
    pub fn of(params: &Params, size: usize, most: usize) -> ListPage {
        let skip = params.number("skip").and_then(|skip| usize::try_from(skip).ok()).unwrap_or(0);
        ListPage { skip: skip.min(most - size), size, most }
    }

    /// Rows to ask for: one more than is shown, to know whether there is another page.
    pub fn count(self) -> usize {
        (self.skip + self.size + 1).min(self.most)
    }

    /// Those that are on this page.
    pub fn shown<T>(self, rows: &[T]) -> &[T] {
        let from = self.skip.min(rows.len());
        &rows[from..rows.len().min(self.skip + self.size)]
    }

    /// Which rows they are, and the ways to others. `rows` came; there are `all`, if that is known.
    pub fn pager(self, rows: usize, all: Option<u64>, href: &str) -> Markup {
        let shown = rows.saturating_sub(self.skip).min(self.size);
        let mut text = match shown {
            0 => "No more of them".to_owned(),
            _ => format!(
                "{} to {}",
                parts::grouped(self.skip as u64 + 1),
                parts::grouped((self.skip + shown) as u64)
            ),
        };
        if let Some(all) = all.filter(|all| *all >= (self.skip + shown) as u64) {
            text.push_str(&format!(" of {}", parts::grouped(all)));
        }
        let next = self.skip + self.size;
        let is_end = next + self.size > self.most;
        if is_end && all.map_or(rows >= self.most, |all| all > next as u64) {
            text.push_str("; search finds others");
        }
        let at = |skip: usize| format!("{href}&skip={skip}");
        let next = (rows > next && !is_end).then(|| at(next));
        parts::pager(&text, (self.skip > 0).then_some(href), next.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(query: &str) -> ListPage {
        ListPage::of(&Params::read(query.as_bytes()), 50, 1_000)
    }

    /// From one page to the next each row is there once, up to what the command gives.
    #[test]
    fn pages_have_each_row_once_up_to_the_limit() {
        for there in [0, 1, 49, 50, 51, 100, 120, 1_000, 5_000] {
            let all: Vec<usize> = (0..there).collect();
            let (mut seen, mut query) = (Vec::new(), String::new());
            loop {
                let page = page(&query);
                let rows = &all[..page.count().min(there)];
                seen.extend_from_slice(page.shown(rows));
                let shown = page.pager(rows.len(), Some(there as u64), "/l?a=1").into_string();
                let next = shown.split("skip=").nth(1).and_then(|rest| rest.split('"').next());
                match next {
                    Some(skip) => query = format!("skip={skip}"),
                    None => break,
                }
            }
            assert_eq!(seen, all[..there.min(1_000)], "{there}");
        }
    }

    #[test]
    fn it_says_which_rows_are_shown_and_where_the_others_are() {
        let first = page("").pager(51, Some(2_500), "/l?a=1").into_string();
        assert!(first.contains("1 to 50 of 2,500") && !first.contains("First"), "{first}");
        let second = page("skip=50").pager(70, Some(70), "/l?a=1").into_string();
        assert!(second.contains("51 to 70 of 70") && !second.contains("Next"), "{second}");
        let last = page("skip=950").pager(1_000, Some(2_500), "/l?a=1").into_string();
        assert!(last.contains("951 to 1,000 of 2,500; search"), "{last}");
        assert_eq!(page("skip=99999999999999").skip, 950);
    }
}
