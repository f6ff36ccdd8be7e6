//! `notify-keyspace-events`: Redis's letters and one of our own.

/// Every class that `A` includes, in the order in which Redis shows them.
const ALL: &str = "g$lshzxetd";

/// All letters, in the order in which they are shown.
const SHOWN: &str = "g$lshzxetdnKEJm";

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Notify {
    /// `K`: on `__keyspace@<db>__:<queue>`, the message is the event.
    pub keyspace: bool,
    /// `E`: on `__keyevent@<db>__:<event>`, the message is the queue.
    pub keyevent: bool,
    /// `J`: on `__jobevent@<db>__:<event>:<queue>`, the message is the job's id.
    pub jobevent: bool,
    /// `d`: what happens to jobs.
    pub jobs: bool,
    /// `g`: queues are removed or renamed.
    pub queues: bool,
    /// `n`: a queue begins to be.
    pub begun: bool,
}

impl Notify {
    /// From a value that [`canonical`] has made.
    pub fn of(letters: &str) -> Notify {
        let has = |letter: char| letters.contains(letter);
        Notify {
            keyspace: has('K'),
            keyevent: has('E'),
            jobevent: has('J'),
            jobs: has('d') || has('A'),
            queues: has('g') || has('A'),
            begun: has('n'),
        }
    }

    /// Whether anything is published.
    pub fn is_on(&self) -> bool {
        (self.keyspace || self.keyevent || self.jobevent)
            && (self.jobs || self.queues || self.begun)
    }
}

/// The letters as CONFIG GET shows them: each once, all classes as `A`.
///
/// # Errors
/// There is a letter without meaning.
pub fn canonical(letters: &str) -> Result<String, String> {
    if letters.chars().any(|letter| letter != 'A' && !SHOWN.contains(letter)) {
        return Err(
            "Invalid event class character. Use 'Ag$lshzxeKEtmdn', or J for jobs".to_owned()
        );
    }
    let all = letters.contains('A') || ALL.chars().all(|class| letters.contains(class));
    let shown = SHOWN.chars().filter(|letter| letters.contains(*letter));
    let shown = shown.filter(|letter| !(all && ALL.contains(*letter)));
    Ok(all.then_some('A').into_iter().chain(shown).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Redis 7.0 shows them.
    #[test]
    fn letters_are_shown_as_redis_shows_them() {
        for (given, shown) in [
            ("", ""),
            ("KEA", "AKE"),
            ("Kd", "dK"),
            ("KEn", "nKE"),
            ("KEg$", "g$KE"),
            ("EKm", "KEm"),
            ("Jdd", "dJ"),
            ("dtexzhsl$gE", "AE"),
            ("KAnJ", "AnKJ"),
        ] {
            assert_eq!(canonical(given).as_deref(), Ok(shown), "{given}");
            assert_eq!(canonical(shown).as_deref(), Ok(shown));
        }
        assert!(canonical("KEQ").is_err());
    }

    #[test]
    fn a_place_and_a_class_are_needed() {
        for (letters, on) in [
            ("", false),
            ("KEJ", false),
            ("Ad", false),
            ("dJ", true),
            ("AE", true),
            ("Kn", true),
            ("lK", false),
        ] {
            assert_eq!(Notify::of(letters).is_on(), on, "{letters}");
        }
    }
}
