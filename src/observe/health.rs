//! A node's health in words: for the log, probes, INFO and DELAY.CLUSTER.

use crate::cluster::timing::health::{Health, Why};

/// One word: `well`, or what is wrong.
pub fn word(health: &Health) -> &'static str {
    health.sick.map_or("well", |sick| sick.why.word())
}

/// The current problem, with numbers.
pub fn told(why: Why, health: &Health) -> String {
    let (waits_us, still_us) = (health.waits_us, health.stood_still_us);
    match why {
        Why::DiskHangs if waits_us >= 1_000_000 => {
            format!("a write has waited for its disk for {}", seconds(waits_us))
        }
        Why::DiskSlow if health.sync_us > 0 => {
            let ms = health.sync_us / 1_000;
            format!("a write to its disk takes {ms} ms, several times as long as on other nodes")
        }
        Why::StandsStill if still_us > 0 => {
            format!("its process stalled for {} of the last 10 s", seconds(still_us))
        }
        Why::DiskFull if health.is_full => why.text().to_owned(),
        why => format!("{}, now or less than 10 s ago", why.text()),
    }
}

/// What to do about it.
pub fn remedy(why: Why) -> &'static str {
    match why {
        Why::DiskHangs => {
            "check the disk (dmesg, iostat -x 1); if it does not recover, start the node elsewhere with an empty \
             folder"
        }
        Why::DiskFull => {
            "free space: look what else is on that disk (df, du), or let consumers take jobs, or delete jobs"
        }
        Why::DiskSlow => {
            "find what else uses the disk (iostat -x 1, a backup, a neighbour), or give the node a faster one"
        }
        Why::StandsStill => {
            "find what keeps the process off the processor: an overcommitted or migrating machine, swap, SIGSTOP"
        }
    }
}

/// As people write a span.
pub fn seconds(us: u64) -> String {
    format!("{:.1} s", us as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::timing::health::Sick;

    #[test]
    fn each_cause_has_words_of_its_own_with_its_numbers_while_it_is_there() {
        let health = |why| Health {
            sick: Some(Sick { why, for_us: 3_000_000 }),
            waits_us: 3_200_000,
            sync_us: 412_000,
            is_full: true,
            stood_still_us: 2_500_000,
            ..Health::default()
        };
        for (why, part) in [
            (Why::DiskFull, "disk is full"),
            (Why::DiskHangs, "3.2 s"),
            (Why::DiskSlow, "412 ms"),
            (Why::StandsStill, "2.5 s of the last 10 s"),
        ] {
            let (there, over) = (told(why, &health(why)), told(why, &Health::default()));
            assert!(there.contains(part), "{there}");
            assert!(over.contains("less than 10 s ago"), "{over}");
            assert_eq!(word(&health(why)), why.word());
        }
        let mut all: Vec<&str> = Why::ALL.map(remedy).to_vec();
        all.dedup();
        assert_eq!((all.len(), word(&Health::default())), (4, "well"));
    }
}
