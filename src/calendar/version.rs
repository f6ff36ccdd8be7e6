//! Versions of the database of zones: which of two is the newer one.

/// Whether tables of version `one` are newer than those of `other`. Versions are a year of four digits and
/// letters, `2026e`; the letters go from `a` to `z`, then on with two of them. What follows a hyphen, as in
/// `2026e-rearguard`, says how tables were made and not when.
///
/// A version that cannot be read, such as `unknown`, is never newer, and every version is newer
/// than it.
///
/// ```
/// use delayd::calendar::is_newer;
/// assert!(is_newer("2026e", "2025b"));
/// assert!(is_newer("2026za", "2026z"));
/// assert!(!is_newer("2026e", "2026e"));
/// assert!(!is_newer("unknown", "2025b"));
/// ```
pub fn is_newer(one: &str, other: &str) -> bool {
    // None is less than any.
    place(one) > place(other)
}

/// The sort key of a version: its year, the number of its letters, and the letters.
fn place(version: &str) -> Option<(&str, usize, &str)> {
    let (year, rest) = version.split_at_checked(4)?;
    let letters = rest.split_once('-').map_or(rest, |(letters, _)| letters);
    let is_version = year.bytes().all(|byte| byte.is_ascii_digit())
        && !letters.is_empty()
        && letters.bytes().all(|byte| byte.is_ascii_lowercase());
    is_version.then_some((year, letters.len(), letters))
}

#[cfg(test)]
mod tests {
    use super::is_newer;

    #[test]
    fn each_version_is_newer_than_those_before_it() {
        let versions = [
            "unknown", "1999z", "2000a", "2025b", "2025c", "2026a", "2026e", "2026z", "2026aa",
            "2026za", "2026zz", "2026zza", "2027a", "9999z",
        ];
        for (at, one) in versions.iter().enumerate() {
            for (before, other) in versions.iter().enumerate() {
                assert_eq!(is_newer(one, other), at > before, "{one} {other}");
            }
        }
    }

    #[test]
    fn what_is_no_version_is_never_newer() {
        for none in
            ["", "unknown", "2026", "26e", "2026E", "2026e1", "2026é", "202é", "٢٠٢٦e", "-2026e"]
        {
            assert!(!is_newer(none, "2025b") && !is_newer(none, "unknown"), "{none}");
            assert!(is_newer("2025b", none), "{none}");
        }
    }

    #[test]
    fn how_tables_were_made_makes_them_no_newer() {
        assert!(!is_newer("2026e-rearguard", "2026e") && !is_newer("2026e", "2026e-rearguard"));
        assert!(is_newer("2026f-12-gabcdef0", "2026e"));
    }
}
