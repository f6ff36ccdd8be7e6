//! Groups: which there are, one of them, and what is set for it.

use crate::engine::model::fact::Fact;
use crate::engine::model::group::{GroupOrder, GroupSettings, GroupView, Grouping, ListGroups};
use crate::engine::model::queue_settings::{Pause, QueueSettings, Setting};
use crate::engine::model::reply::Reply;
use crate::engine::model::request::{JobState, QueueName};
use crate::engine::model::turn::Outcome;
use crate::engine::step::Step;
use crate::engine::step::across::{Ranking, Share};
use crate::engine::step::slice::{GroupsProgress, Unfinished, resumed};
use crate::engine::store::Located;
use crate::engine::store::groups::group_bytes;
use crate::error::{Error, Shown};
use crate::ids::QueueNo;
use crate::limits::{GROUPS_SET_MAX, LEVEL_GROUPS};

impl Step<'_, '_> {
    pub fn groups(&mut self, of: &Grouping<'_>) -> Result<Outcome, Error> {
        match *of {
            Grouping::List(ref of) => Ok(self.list_groups(of)),
            Grouping::Stats { queue, group } => Ok(self.group_stats(queue, group)),
            Grouping::Settings { queue, group, only } => {
                Ok(self.group_settings(queue, group, only))
            }
            Grouping::Configure { queue, group, changes } => {
                let read = self.check_group_limits(changes.rate, changes.max_jobs);
                self.change_group(queue, group, |own| read.map(|()| own.merged(changes)))
            }
            Grouping::Unconfigure { queue, group } => {
                self.change_group(queue, group, |own| Ok(GroupSettings::paused(own.pause)))
            }
            Grouping::Pause { queue, group, for_ms } => {
                let pause = self.pause_for(for_ms);
                self.change_group(queue, group, |own| Ok(GroupSettings { pause: pause?, ..own }))
            }
            Grouping::Purge { queue, group, states } => Ok(self.purge_group(queue, group, states)),
            Grouping::Resume { queue, group } => {
                let pause = Pause::None;
                self.change_group(queue, group, |own| Ok(GroupSettings { pause, ..own }))
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
        let begun = resumed!(self, Groups);
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
                    return self.again(Unfinished::Groups(walk));
                };
                let mut steps = left;
                let found = groups.next_from(walk.from, &mut steps);
                share.look(left - steps);
                walk.from += (left - steps) as u32;
                let Some(number) = found else { continue };
                let name = groups.name(number);
                let skipped = of.after.is_some_and(|after| name <= after);
                if skipped || of.closed && !groups.is_held(number) {
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
                let is_admitted = walk.ranking.admits(key, name, |row| &row.name);
                if is_admitted && share.shows(name, of.pattern, None) {
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
            let of_queue = self.store.queue(queue);
            let groups = of_queue.groups.as_ref()?;
            let is_set = groups.is_paced(number) || self.is_set(queue, number);
            let known = is_set || row.counts != [0; 4];
            known.then(|| GroupView {
                row,
                weight: of_queue.stint(number),
                max_leased: of_queue.group_max_leased(number),
                retry: of_queue.group_retry(number),
                rate: of_queue.group_rate(number),
                max_jobs: of_queue.group_max_jobs(number),
                waiting_retries: groups.begun(number)[0],
                opens: of_queue.group_opens(groups, number),
            })
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
        let own: QueueSettings = own.unwrap_or_default().into();
        let queue = self.queue(name).map(|number| self.store.queue(number));
        let set = queue.and_then(|queue| queue.settings.as_deref()).cloned().unwrap_or_default();
        let holds = self.defaults().merged(&set).merged(&own);
        self.reply_settings(&holds, &own, only, Setting::is_of_groups)
    }

    fn change_group(
        &mut self,
        name: QueueName<'_>,
        group: &[u8],
        change: impl FnOnce(GroupSettings) -> Result<GroupSettings, Error>,
    ) -> Result<Outcome, Error> {
        self.check_level(LEVEL_GROUPS, "groups")?;
        let queue = self.queue(name);
        let groups = queue.and_then(|queue| self.store.queue(queue).groups.as_deref());
        let number = queue.and_then(|queue| self.store.find_group(queue, group));
        let own = groups.zip(number).map(|(groups, number)| groups.settings(number));
        let own = own.unwrap_or_default();
        let settings = change(own)?;
        if settings == own {
            return Ok(self.reply(Reply::Ok));
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
        self.commit(&Fact::GroupSet { queue, group, settings }, Located::NOTHING);
        // It may be open now, or have more room: serve waiting clients.
        self.touch(queue, None);
        Ok(self.reply(Reply::Ok))
    }
}
