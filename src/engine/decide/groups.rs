//! Groups: which there are, one of them, and what is set for it.

use crate::engine::model::fact::Fact;
use crate::engine::model::group::{GroupOrder, GroupSettings, GroupView, Grouping, ListGroups};
use crate::engine::model::queue_settings::Setting;
use crate::engine::model::reply::Reply;
use crate::engine::model::request::{JobState, QueueName};
use crate::engine::model::turn::Outcome;
use crate::engine::step::Step;
use crate::engine::step::across::{Ranking, Share};
use crate::engine::step::slice::{GroupsProgress, Unfinished};
use crate::engine::store::Located;
use crate::engine::store::groups::group_bytes;
use crate::error::{Error, Shown};
use crate::ids::QueueNo;
use crate::limits::{GROUPS_SET_MAX, LEVEL_GROUPS};

impl Step<'_, '_> {
    pub fn groups(&mut self, of: &Grouping<'_>) -> Outcome {
        match *of {
            Grouping::List(ref of) => self.list_groups(of),
            Grouping::Stats { queue, group } => self.group_stats(queue, group),
            Grouping::Settings { queue, group, only } => self.group_settings(queue, group, only),
            Grouping::Configure { queue, group, changes } => {
                match self.configure_group(queue, group, changes) {
                    Ok(()) => self.reply(Reply::Ok),
                    Err(error) => self.refuse(&error),
                }
            }
            Grouping::Unconfigure { queue, group } => {
                if let Some((queue, number)) = self.find_group(queue, group)
                    && self.is_set(queue, number)
                {
                    self.put_group(queue, group, GroupSettings::default());
                }
                self.reply(Reply::Ok)
            }
        }
    }

    fn find_group(&mut self, name: QueueName<'_>, group: &[u8]) -> Option<(QueueNo, u32)> {
        let queue = self.queue(name)?;
        Some((queue, self.store.find_group(queue, group)?))
    }

    /// Whether something is set for a group.
    fn is_set(&self, queue: QueueNo, group: u32) -> bool {
        let groups = self.store.queue(queue).groups.as_ref();
        groups.is_some_and(|groups| !groups.settings(group).is_empty())
    }

    fn list_groups(&mut self, of: &ListGroups<'_>) -> Outcome {
        let begun = match self.live.unfinished.remove(&self.client) {
            Some(Unfinished::Groups(walk)) => Some(walk),
            _ => None,
        };
        let queue = self.queue(of.queue);
        let born = queue.map_or(0, |queue| self.store.queue(queue).born);
        let mut walk = begun.filter(|walk| walk.born == born).unwrap_or_else(|| {
            Box::new(GroupsProgress { born, from: 0, ranking: Ranking::new(of.count) })
        });
        let (now, store) = (self.now, &*self.store);
        let mut share = Share::new(self.alone);
        let groups = queue.and_then(|queue| store.queue(queue).groups.as_deref());
        if let (Some(groups), Some(queue)) = (groups, queue) {
            while walk.from < groups.end() {
                let Some(left) = share.left() else {
                    self.live.unfinished.insert(self.client, Unfinished::Groups(walk));
                    return Outcome::Again;
                };
                let mut steps = left;
                let found = groups.next_from(walk.from, &mut steps);
                share.look(left - steps);
                walk.from += (left - steps) as u32;
                let Some(number) = found else { continue };
                let name = groups.name(number);
                if of.after.is_some_and(|after| name <= after) {
                    continue;
                }
                let key = match of.order {
                    GroupOrder::Name => 0,
                    GroupOrder::Ready => groups.counts(number)[JobState::Ready as usize],
                    GroupOrder::Delayed => groups.counts(number)[JobState::Delayed as usize],
                    GroupOrder::Leased => groups.counts(number)[JobState::Leased as usize],
                    GroupOrder::Dead => groups.counts(number)[JobState::Dead as usize],
                    GroupOrder::Age => store
                        .oldest_ready_due_of(store.queue(queue), number)
                        .map_or(0, |due| u64::MAX - due.0),
                };
                if walk.ranking.admits(key, name) && share.shows(name, of.pattern, None) {
                    share.take_row();
                    let row = store.group_row_of(queue, number, now);
                    row.into_iter().for_each(|row| walk.ranking.insert(key, row));
                }
            }
        }
        self.reply(Reply::Groups(&walk.ranking.finish()))
    }

    fn group_stats(&mut self, name: QueueName<'_>, group: &[u8]) -> Outcome {
        let found = self.find_group(name, group).and_then(|(queue, number)| {
            let row = self.store.group_row_of(queue, number, self.now)?;
            let known = self.is_set(queue, number) || row.counts != [0; 4];
            known.then(|| GroupView { row, weight: self.store.queue(queue).stint(number) })
        });
        match found {
            Some(view) => self.reply(Reply::GroupStats(&view)),
            None => self.reply(Reply::NilArray),
        }
    }

    fn group_settings(
        &mut self,
        name: QueueName<'_>,
        group: &[u8],
        only: Option<Setting>,
    ) -> Outcome {
        let found = self.find_group(name, group);
        let own = found.and_then(|(queue, number)| {
            Some(self.store.queue(queue).groups.as_ref()?.settings(number))
        });
        let own = own.unwrap_or_default();
        let queue = self.queue(name).map(|number| self.store.queue(number));
        let of_queue = queue.and_then(|queue| queue.settings.as_deref());
        let holds = own.weight.or(of_queue.and_then(|set| set.group_weight.0));
        let weight = holds.unwrap_or(crate::limits::GROUP_WEIGHT_DEFAULT).to_string();
        let values = [(Setting::GroupWeight, weight, own.weight.is_some())];
        self.reply(Reply::Settings { values: &values, all: only.is_none() })
    }

    fn configure_group(
        &mut self,
        name: QueueName<'_>,
        group: &[u8],
        changes: GroupSettings,
    ) -> Result<(), Error> {
        self.check_level(LEVEL_GROUPS, "groups")?;
        let queue = self.queue(name);
        let groups = queue.and_then(|queue| self.store.queue(queue).groups.as_deref());
        let number = queue.and_then(|queue| self.store.find_group(queue, group));
        let own = groups
            .zip(number)
            .map_or_else(GroupSettings::default, |(groups, number)| groups.settings(number));
        let settings = own.merged(changes);
        if settings == own {
            return Ok(());
        }
        let set = groups.map_or(0, |groups| groups.set().len());
        if own.is_empty() && set >= GROUPS_SET_MAX {
            let queue = Shown::new(name.name);
            return Err(Error::text(format!(
                "ERR queue {queue} has settings for {GROUPS_SET_MAX} groups, the maximum; RESET one, or set it for \
                 the queue"
            )));
        }
        let bytes = if number.is_none() { group_bytes(group) } else { 0 };
        self.check_own_memory(name, queue, bytes)?;
        let queue = self.bound(name, queue);
        self.put_group(queue, group, settings);
        Ok(())
    }

    fn put_group(&mut self, queue: QueueNo, group: &[u8], settings: GroupSettings) {
        self.commit(&Fact::GroupSet { queue, group, settings }, Located::NOTHING);
    }
}
