//! H8: what `DELAY.STATS` counts lies between what clients were told and what they may have done besides.

use crate::processes::calls::{Answer, Call, POPS, WORK, What, queue_of};
use crate::support::program::Reply;
use crate::support::seen::Seen;
use std::collections::BTreeMap;

/// Counted at least so often, and as many times more as there were calls without an answer.
type Bounds = BTreeMap<(&'static str, &'static str), (u64, u64)>;

/// The problem.
pub fn check(calls: &[Call], seen: &Seen) -> Vec<String> {
    let mut wrong = Vec::new();
    for ((queue, what), (least, more)) in bounds(calls) {
        let counted = seen.stats[queue].get(what).copied().unwrap_or(0);
        if !(least..=least + more).contains(&counted) {
            wrong.push(format!(
                "H8: {queue} counted {counted} {what}: {least} were told, {more} more may be"
            ));
        }
    }
    wrong
}

fn bounds(calls: &[Call]) -> Bounds {
    let mut bounds = Bounds::new();
    let mut count = |queue, what, told: u64, unknown: u64| {
        let (least, more) = bounds.entry((queue, what)).or_default();
        *least += told;
        *more += unknown;
    };
    for call in calls {
        let (told, unknown) = match &call.answer {
            Answer::Told(reply) => (Some(reply), 0),
            Answer::Unknown => (None, 1),
            Answer::TurnedAway => continue,
        };
        let is_one = u64::from(told == Some(&Reply::Number(1)));
        match &call.what {
            What::Add { label, .. } => {
                let is_added = u64::from(matches!(told, Some(Reply::Bulk(_))));
                count(queue_of(*label), "added", is_added, unknown);
            }
            What::Cancel { label } => {
                let is_left =
                    |reply: &Reply| matches!(reply, Reply::Bulk(state) if state == b"leased");
                let is_bulk =
                    told.is_some_and(|told| matches!(told, Reply::Bulk(_)) && !is_left(told));
                count(queue_of(*label), "deleted", u64::from(is_bulk), unknown);
            }
            What::Ack { label, .. } => count(queue_of(*label), "acked", is_one, unknown),
            What::Nack { label, .. } => count(queue_of(*label), "nacked", is_one, unknown),
            What::Pop => {
                let is_popped = u64::from(matches!(told, Some(Reply::Array(_))));
                count(POPS, "popped", is_popped, unknown);
            }
            // Which queue an unanswered one took from is not known.
            What::Reserve { count: most, .. } => {
                for queue in WORK {
                    count(queue, "delivered", 0, unknown * most);
                }
                for job in told.and_then(|told| told.array()).unwrap_or(&[]) {
                    let from = job.array().expect("a job")[0].text();
                    let queue = WORK.into_iter().find(|queue| *queue == from).expect("one of ours");
                    count(queue, "delivered", 1, 0);
                }
            }
            What::Extend { .. } => {}
        }
    }
    bounds
}

#[test]
fn a_total_that_is_wrong_is_found() {
    use crate::processes::calls::At;
    let at = At { us: 0, ms: 0 };
    let add = |answer| Call {
        begin: at,
        end: at,
        connection: 0,
        what: What::Add { label: 3, due_ms: 0, has_id: true },
        answer,
    };
    let calls = [add(Answer::Told(Reply::Bulk(b"3".to_vec()))), add(Answer::Unknown)];
    let wrong = |added: u64| {
        let stats = [(WORK[0], [("added".to_owned(), added)].into())].into();
        check(&calls, &Seen { stats, ..Seen::default() }).len()
    };
    assert_eq!([0, 1, 2, 3].map(wrong), [1, 0, 0, 1]);
}
