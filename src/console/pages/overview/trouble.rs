//! Troubles and their remedies: the rules of the alerts in `docs/metrics.md`, as far as a single sample shows them.

use super::cluster::of_cluster;
use super::rules::{QUEUE_RULES, QueueRule, of_server};
use crate::console::pages::queues::ListedQueue;
use crate::console::view::chrome::PageFrame;
use crate::console::view::parts::{self, Tone, grouped};
use crate::console::words::escape;

/// Queues that are shown; how many more a rule has found is said.
const SHOWN_MAX: usize = 10;

/// The subject of a trouble.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Subject {
    Queue {
        name: Vec<u8>,
        /// As in [`ListedQueue`].
        paused: String,
    },
    /// The server, or a part of it, in a word.
    Part(&'static str),
}

/// A place to look at: its address and a word for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    pub href: String,
    pub word: &'static str,
}

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trouble {
    /// How bad it is.
    pub tone: Tone,
    /// The problem and the remedy, in words.
    pub text: String,
    /// For how long, ms, if that is known.
    pub for_ms: Option<u64>,
    /// How many, and of what.
    pub count: Option<(u64, &'static str)>,
    pub place: Place,
}

/// All that is wrong with one subject, worst first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TroubleRow {
    pub subject: Subject,
    pub wrongs: Vec<Trouble>,
}

/// All that needs attention.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Troubles {
    /// Each subject once, worst first.
    pub rows: Vec<TroubleRow>,
    /// For each rule that found more queues than are shown: how many it found, and where they are.
    pub more: Vec<(String, String)>,
}

impl Trouble {
    /// A trouble of the server, with a link to one of its cards or pages.
    pub fn at(tone: Tone, href: &str, word: &'static str, text: String) -> Trouble {
        let place = Place { href: href.to_owned(), word };
        Trouble { tone, text, for_ms: None, count: None, place }
    }

    /// How many, for how long, what is wrong, and what to do.
    fn sentence(&self) -> String {
        let text = &self.text;
        let Some((count, word)) = self.count else { return text.clone() };
        let since = self.for_ms.map(|ms| format!(", for {}", parts::duration(ms)));
        format!("{} {word}{}. {text}", grouped(count), since.unwrap_or_default())
    }
}

impl TroubleRow {
    /// How bad the worst of it is.
    pub fn tone(&self) -> Tone {
        self.wrongs.first().map_or(Tone::Plain, |wrong| wrong.tone)
    }

    /// The subject, as a person reads it.
    pub fn name(&self) -> String {
        match &self.subject {
            Subject::Queue { name, .. } => escape::shortened(&escape::text(name), 60),
            Subject::Part(word) => (*word).to_owned(),
        }
    }

    /// All of it in a line, for screens without room.
    pub fn line(&self) -> String {
        match &self.subject {
            Subject::Queue { .. } => {
                let sentences: Vec<String> = self.wrongs.iter().map(Trouble::sentence).collect();
                format!("{}: {}", self.name(), sentences.join(" "))
            }
            Subject::Part(_) => self.wrongs[0].text.clone(),
        }
    }
}

/// All troubles. Queues are those with the most ready, the oldest, and the most dead jobs.
pub fn troubles(
    frame: &PageFrame,
    ready: &[ListedQueue],
    oldest: &[ListedQueue],
    dead: &[ListedQueue],
) -> Troubles {
    let mut found = Troubles::default();
    if let Some(state) = &frame.state {
        let mut wrongs = Vec::new();
        of_server(state, &mut wrongs);
        let part = |word, wrong| TroubleRow { subject: Subject::Part(word), wrongs: vec![wrong] };
        found.rows.extend(wrongs.into_iter().map(|(word, wrong)| part(word, wrong)));
        let mut wrongs = Vec::new();
        of_cluster(state, &mut wrongs);
        found.rows.extend(wrongs.into_iter().map(|wrong| part("cluster", wrong)));
    }
    of_queues(frame, &[ready, oldest, dead], &mut found);
    found.rows.sort_by_key(|row| rank(row.tone()));
    found
}

fn rank(tone: Tone) -> u8 {
    match tone {
        Tone::Bad => 0,
        Tone::Warn => 1,
        Tone::Off => 2,
        _ => 3,
    }
}

fn of_queues(frame: &PageFrame, lists: &[&[ListedQueue]], found: &mut Troubles) {
    let mut queues: Vec<&ListedQueue> = Vec::new();
    for queue in lists.iter().flat_map(|list| list.iter()) {
        if !queues.iter().any(|other| other.name == queue.name) {
            queues.push(queue);
        }
    }
    let mut rows: Vec<(&ListedQueue, TroubleRow)> =
        queues.into_iter().filter_map(|queue| Some((queue, of_queue(frame, queue)?))).collect();
    let most = |row: &TroubleRow| row.wrongs.iter().filter_map(|wrong| wrong.count).max();
    rows.sort_by_key(|(_, row)| (rank(row.tone()), std::cmp::Reverse(most(row))));
    if rows.len() > SHOWN_MAX {
        found.more = QUEUE_RULES.iter().filter_map(|rule| more(frame, rule, &rows)).collect();
    }
    found.rows.extend(rows.into_iter().take(SHOWN_MAX).map(|(_, row)| row));
}

fn of_queue(frame: &PageFrame, queue: &ListedQueue) -> Option<TroubleRow> {
    let href = parts::queue_href(frame.db, &queue.name);
    let wrong = |rule: &QueueRule| {
        (rule.is_so)(queue, frame.now_ms).then(|| Trouble {
            tone: rule.tone,
            text: (rule.text)(queue),
            for_ms: (rule.for_ms)(queue),
            count: (rule.count)(queue),
            place: Place { href: format!("{href}&tab={}", rule.tab), word: rule.word },
        })
    };
    let wrongs: Vec<Trouble> = QUEUE_RULES.iter().filter_map(wrong).collect();
    let subject = Subject::Queue { name: queue.name.clone(), paused: queue.paused.clone() };
    (!wrongs.is_empty()).then_some(TroubleRow { subject, wrongs })
}

/// How many queues a rule has found if not all of them are shown, with a link to them. The lists end somewhere, so there
/// may be more of them.
fn more(
    frame: &PageFrame,
    rule: &QueueRule,
    rows: &[(&ListedQueue, TroubleRow)],
) -> Option<(String, String)> {
    let count = |rows: &[(&ListedQueue, TroubleRow)]| {
        rows.iter().filter(|(queue, _)| (rule.is_so)(queue, frame.now_ms)).count()
    };
    let (all, shown) = (count(rows), count(&rows[..SHOWN_MAX]));
    let least = if all >= super::LISTED_MAX { "at least " } else { "" };
    let queues = parts::counted(all as u64, "queue", "queues");
    let text = format!("{}: {least}{queues}, {shown} of them above", rule.name);
    (all > shown).then(|| (text, format!("/queues?db={}&by={}", frame.db, rule.by)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::view::node::tests::state;

    const NOW_MS: u64 = 1_893_456_000_000;

    fn queue(name: &str) -> ListedQueue {
        ListedQueue { name: name.into(), paused: "no".into(), ..ListedQueue::default() }
    }

    fn found(queues: &[ListedQueue], info: &[(&str, &str)]) -> Troubles {
        let frame = PageFrame { state: Some(state(info)), now_ms: NOW_MS, ..PageFrame::default() };
        troubles(&frame, queues, queues, queues)
    }

    fn texts(queues: &[ListedQueue], info: &[(&str, &str)]) -> Vec<String> {
        found(queues, info).rows.iter().map(TroubleRow::line).collect()
    }

    #[test]
    fn each_rule_says_what_to_do() {
        assert!(texts(&[queue("calm")], &[]).is_empty());
        let alone =
            ListedQueue { ready: 3_400, oldest_ready_age_ms: Some(20_000), ..queue("imports") };
        assert_eq!(
            texts(std::slice::from_ref(&alone), &[]),
            ["imports: 3,400 ready, for 20 s. No consumer takes its jobs: start a worker."]
        );
        assert!(texts(&[ListedQueue { waiters: 1, ..alone.clone() }], &[]).is_empty());
        // A worker that takes a job at a time and acknowledges it at once has none most of the time.
        let taken =
            |ago_ms| ListedQueue { last_reserve_at: Some(NOW_MS - ago_ms), ..alone.clone() };
        assert!(texts(&[taken(59_000)], &[]).is_empty());
        assert_eq!(texts(&[taken(61_000)], &[]).len(), 1);
        let behind = ListedQueue { oldest_ready_age_ms: Some(70_000), ..taken(1_000) };
        assert!(texts(&[behind], &[])[0].contains("Workers do not keep up"));
        let closed = texts(&[ListedQueue { paused: "out".into(), ..alone }], &[]);
        assert_eq!(closed, ["imports: It is paused and hands out no jobs."]);
        let dead = ListedQueue { dead: 12, ..queue("payments") };
        assert_eq!(
            texts(&[dead], &[]),
            ["payments: 12 dead. Jobs died: check the reasons, then redrive or remove them."]
        );
        assert!(texts(&[], &[("journal_state", "failed")])[0].contains("journal failed"));
        assert!(texts(&[], &[("used_memory", "95"), ("maxmemory", "100")])[0].contains("95 %"));
        assert!(texts(&[], &[("lateness_minute_p99_us", "200000")])[0].contains("late"));
    }

    #[test]
    fn a_queue_is_there_once_with_all_that_is_wrong_since_when_and_how_many() {
        let queue = ListedQueue {
            ready: 40,
            dead: 12,
            oldest_ready_age_ms: Some(70_000),
            paused: "in".into(),
            ..queue("q")
        };
        let found = found(&[queue], &[]);
        let [row] = &found.rows[..] else { panic!("{found:?}") };
        let wrongs: Vec<_> =
            row.wrongs.iter().map(|wrong| (wrong.tone, wrong.count, wrong.for_ms)).collect();
        assert_eq!(
            wrongs,
            [
                (Tone::Bad, Some((12, "dead")), None),
                (Tone::Warn, Some((40, "ready")), Some(70_000)),
                (Tone::Off, None, None)
            ]
        );
    }

    #[test]
    fn what_is_worst_comes_first_and_what_is_left_out_is_counted() {
        let dead = |count: u64| ListedQueue { dead: count, ..queue(&format!("q{count}")) };
        let mut all: Vec<ListedQueue> = (1..=25).map(dead).collect();
        all.push(ListedQueue { ready: 1, oldest_ready_age_ms: Some(70_000), ..queue("slow") });
        let all = found(&all, &[]);
        assert_eq!((all.rows.len(), all.rows[0].name().as_str()), (SHOWN_MAX, "q25"));
        let said: Vec<&str> = all.more.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(
            said,
            ["dead letters: 25 queues, 10 of them above", "no consumer: 1 queue, 0 of them above"]
        );
        let many: Vec<ListedQueue> = (1..=super::super::LISTED_MAX as u64).map(dead).collect();
        assert!(found(&many, &[]).more[0].0.contains("at least 100 queues"));
    }
}
