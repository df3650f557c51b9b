//! Mixed criticality told in words and walked nanosecond by nanosecond.

use giusto_policy::{Back, Mixed};

#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// None: unlimited.
    pub(crate) vm: Option<Mixed>,
    pub(crate) ready: bool,
    pub(crate) left: i64,
    /// What its job has in HI beyond the optimistic budget; in HI it is part of `left`.
    extra: i64,
    pub(crate) deadline: u64,
    forgive: i64,
    heated: bool,
    pending: Option<Mixed>,
    boosted: Option<u64>,
    pub(crate) boost_ns: u64,
    slot: usize,
    pub(crate) gone: bool,
}

fn more(vm: &Mixed) -> i64 {
    vm.worst.map_or(0, |worst| (worst - vm.optimistic) as i64)
}

impl Server {
    fn high(&self) -> bool {
        self.vm.is_some_and(|vm| vm.worst.is_some())
    }

    fn full(&self, hi: bool) -> i64 {
        self.vm.map_or(0, |vm| vm.optimistic as i64 + if hi { more(&vm) } else { 0 })
    }

    /// Used its optimistic budget, ready, with more to come.
    fn asks(&self, hi: bool) -> bool {
        self.ready && self.boosted.is_none() && self.extra > 0 && self.left <= if hi { self.extra } else { 0 }
    }

    fn book(&mut self, hi: bool, now: u64) {
        while self.vm.is_some() && self.deadline <= now && (self.left <= 0 || self.pending.is_some()) {
            self.release(hi);
            while self.deadline <= now {
                self.release(hi);
            }
        }
    }

    /// The next job at the deadline of this one.
    fn release(&mut self, hi: bool) {
        self.vm = self.pending.take().or(self.vm);
        let Some(vm) = self.vm else { return };
        self.left = (self.left + self.forgive + self.full(hi)).min(self.full(hi));
        (self.forgive, self.extra, self.heated) = (0, more(&vm), false);
        self.deadline += vm.period;
    }

    fn begin(&mut self, hi: bool, now: u64) {
        let Some(vm) = self.vm else { return };
        self.left = self.full(hi);
        (self.forgive, self.extra, self.heated, self.deadline) = (0, more(&vm), false, now + vm.period);
    }

    fn resize(&mut self, by: i64) {
        self.left += by;
        if by < 0 {
            self.forgive += (-by).min((-self.left).max(0));
        } else {
            self.forgive -= self.forgive.min(by);
        }
    }

    fn wake(&mut self, hi: bool, now: u64) {
        let Some(vm) = self.vm else { return };
        let all = self.left + if hi { 0 } else { self.extra };
        if all <= 0 {
            return;
        }
        if self.deadline <= now {
            return self.begin(hi, now);
        }
        let (time, period) = (i128::from(self.deadline - now), i128::from(vm.period));
        let worst = i128::from(vm.worst.unwrap_or(vm.optimistic));
        // As if all that is used of it, the job's share in what is left until its deadline.
        let has_more_than_its_share = i128::from(all) * period > time * worst;
        let has_its_share = i128::from(all) * period >= time * worst;
        if hi || !self.high() {
            if has_more_than_its_share {
                self.begin(hi, now);
            }
            return;
        }
        let (v, to_virtual) = (i128::from(vm.virtual_deadline), time - i128::from(vm.period - vm.virtual_deadline));
        let is_late =
            self.left > 0 && (to_virtual <= 0 || i128::from(self.left) * v > to_virtual * i128::from(vm.optimistic));
        if is_late && has_its_share {
            self.begin(hi, now);
        } else if is_late {
            let then = i128::from(all) * period / worst;
            (self.left, self.extra, self.deadline) = (0, 0, self.deadline - then as u64);
        } else if has_more_than_its_share {
            let share = (time * worst / period) as i64;
            self.extra = self.extra.min(share - self.left).max(0);
        }
    }

    fn rank(&self, hi: bool) -> u64 {
        match self.vm {
            Some(vm) if self.high() && !hi => self.deadline.saturating_sub(vm.period - vm.virtual_deadline),
            _ => self.deadline,
        }
    }
}

/// How often what occurred.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Cases {
    pub(crate) to_hi: u64,
    pub(crate) to_lo: u64,
    pub(crate) heated_in_hi: u64,
    pub(crate) debt: u64,
    pub(crate) boosted_beyond: u64,
    pub(crate) high_leftovers: u64,
    pub(crate) low_leftovers: u64,
    pub(crate) low_pays_in_hi: u64,
    pub(crate) unlimited: u64,
    pub(crate) shares_cut: u64,
    pub(crate) deferred: u64,
    pub(crate) forgiven: u64,
    pub(crate) taken_later: u64,
    pub(crate) removed_in_hi: u64,
    pub(crate) begun_later: u64,
}

pub(crate) struct Oracle {
    pub(crate) servers: Vec<Server>,
    pub(crate) hi: bool,
    degrees: u64,
    back: Back,
    hot_until: u64,
    charged_at: u64,
    pub(crate) now: u64,
    /// Who runs and whether it pays.
    pub(crate) runs: Option<(usize, bool)>,
    /// The slot that was freed last comes last.
    free: Vec<usize>,
    pub(crate) cases: Cases,
}

impl Oracle {
    pub(crate) fn new(degrees: u32, back: Back) -> Oracle {
        Oracle {
            servers: vec![],
            hi: false,
            degrees: u64::from(degrees),
            back,
            hot_until: 0,
            charged_at: 0,
            now: 0,
            runs: None,
            free: vec![],
            cases: Cases::default(),
        }
    }

    /// Its first job is released now, or at `first` if that is later.
    pub(crate) fn add(&mut self, vm: Option<Mixed>, first: u64, now: u64) {
        self.charge(u64::MAX, now);
        let used = self.servers.iter().map(|s| s.slot + 1).max().unwrap_or(0);
        let slot = self.free.pop().unwrap_or(used);
        self.cases.begun_later += u64::from(vm.is_some() && first > now);
        let mut s = Server {
            vm,
            ready: false,
            left: 0,
            extra: 0,
            deadline: vm.map_or(u64::MAX, |_| now.max(first)),
            forgive: 0,
            heated: false,
            pending: None,
            boosted: None,
            boost_ns: 0,
            slot,
            gone: false,
        };
        s.book(self.hi, now);
        self.servers.push(s);
    }

    /// Who runs did so in the last `ran` ns of the time since it was charged.
    pub(crate) fn charge(&mut self, ran: u64, now: u64) {
        let begin = now - ran.min(now - self.charged_at);
        (self.charged_at, self.now) = (now, now);
        let Some((i, true)) = self.runs else { return };
        let (hi, s) = (self.hi, &mut self.servers[i]);
        if s.vm.is_none() {
            return;
        }
        for t in begin..now {
            s.book(hi, t);
            if s.boosted.is_some() && s.left <= 0 {
                s.boost_ns += 1;
                self.cases.boosted_beyond += 1;
            } else {
                s.left -= 1;
                self.cases.debt += u64::from(s.left < 0);
            }
        }
        if begin < now && (hi || !s.asks(hi)) {
            s.book(hi, now);
        }
    }

    pub(crate) fn ready(&mut self, i: usize, is_ready: bool, now: u64) {
        self.charge(u64::MAX, now);
        let (hi, s) = (self.hi, &mut self.servers[i]);
        if s.ready == is_ready {
            return;
        }
        s.ready = is_ready;
        if is_ready {
            s.book(hi, now);
            let (extra, left) = (s.extra, s.left);
            s.wake(hi, now);
            self.cases.shares_cut += u64::from(s.extra < extra && s.left == left);
            self.cases.deferred += u64::from(left > 0 && s.left == 0);
        }
    }

    pub(crate) fn set(&mut self, i: usize, new: Mixed, at_once: bool, now: u64) {
        self.charge(u64::MAX, now);
        let (hi, s) = (self.hi, &mut self.servers[i]);
        let Some(old) = s.vm else { return };
        if old == new && s.pending.is_none() {
            return;
        }
        s.book(hi, now);
        s.pending = None;
        let old = s.vm.unwrap_or(old);
        if !at_once {
            s.pending = Some(new).filter(|&new| new != old);
            return;
        }
        let lost = more(&old) - s.extra;
        let before = s.full(hi) - if hi { lost } else { 0 };
        s.extra = more(&new) - lost.min(more(&new));
        s.vm = Some(new);
        let after = s.full(hi) - if hi { more(&new) - s.extra } else { 0 };
        s.resize(after - before);
        self.cases.forgiven += u64::from(s.forgive > 0);
        if s.ready {
            s.wake(hi, now);
        }
    }

    /// Whether there was room.
    pub(crate) fn boost(&mut self, i: usize, until: u64, now: u64) -> bool {
        self.charge(u64::MAX, now);
        if until > now && self.servers.iter().enumerate().any(|(j, s)| j != i && s.boosted.is_some()) {
            return false;
        }
        self.servers[i].book(self.hi, now);
        self.servers[i].boosted = Some(until).filter(|&until| until > now);
        true
    }

    /// From when on its bandwidth is free.
    pub(crate) fn remove(&mut self, i: usize, now: u64) -> u64 {
        self.charge(u64::MAX, now);
        self.cases.removed_in_hi += u64::from(self.hi);
        self.runs = self.runs.filter(|&(runs, _)| runs != i);
        let (hi, s) = (self.hi, &mut self.servers[i]);
        s.book(hi, now);
        let (mut debt, mut free, budget) = (-(s.left + s.forgive), s.deadline, s.full(hi));
        let period = s.vm.map_or(0, |vm| vm.period);
        (s.ready, s.boosted, s.pending, s.gone) = (false, None, None, true);
        self.free.push(s.slot);
        if s.vm.take().is_none() {
            return now;
        }
        while debt > 0 {
            (debt, free) = (debt - budget, free + period);
        }
        free.max(now)
    }

    fn heat(&mut self, i: usize) {
        let s = &mut self.servers[i];
        s.heated = true;
        let period = s.vm.map_or(0, |vm| vm.period);
        self.hot_until = self.hot_until.max(self.now + self.degrees * period);
    }

    fn may_return(&self) -> bool {
        let all = |idle: &dyn Fn(&Server) -> bool| self.servers.iter().all(idle);
        self.hi
            && match self.back {
                Back::Idle => all(&|s| !(s.high() && s.ready)),
                Back::Temperature => all(&|s| !s.asks(true)),
            }
    }

    fn switch(&mut self) {
        let asking: Vec<usize> = (0..self.servers.len()).filter(|&i| self.servers[i].asks(self.hi)).collect();
        if !self.hi && !asking.is_empty() {
            self.hi = true;
            self.cases.to_hi += 1;
            for s in &mut self.servers {
                s.resize(s.extra);
            }
            for i in asking {
                self.heat(i);
            }
        } else if self.may_return() && self.hot_until <= self.now {
            self.hi = false;
            self.cases.to_lo += 1;
            for s in self.servers.iter_mut().filter(|s| s.vm.is_some()) {
                s.resize(-s.extra);
                if !s.high() {
                    s.deadline = self.now;
                    s.release(false);
                }
            }
        }
    }

    /// Until when.
    pub(crate) fn decide(&mut self, now: u64) -> Option<u64> {
        self.charge(u64::MAX, now);
        let hi = self.hi;
        for s in &mut self.servers {
            s.boosted = s.boosted.filter(|&until| until > now);
            if s.pending.is_some() || (s.ready && (hi || !s.asks(hi))) {
                let waited = s.pending.is_some();
                s.book(hi, now);
                self.cases.taken_later += u64::from(waited && s.pending.is_none());
            }
        }
        self.switch();
        self.choose();
        self.until()
    }

    /// Who may run, highest first, and whether only on what is left over; as one who looks now sees those that idle.
    pub(crate) fn order(&self) -> Vec<(usize, bool)> {
        let seen: Vec<Server> = self
            .servers
            .iter()
            .cloned()
            .map(|mut s| {
                if !s.ready {
                    s.book(self.hi, self.now);
                }
                s
            })
            .collect();
        let class = |s: &Server| match (s.ready && s.boosted.is_some(), s.vm.is_some()) {
            (true, _) => 0,
            (_, true) if s.left > 0 => 1 + 2 * u8::from(self.hi && !s.high()),
            (_, true) if s.high() => 2,
            (_, true) => 4,
            (_, false) => 5,
        };
        let mut all: Vec<usize> = (0..seen.len()).filter(|&i| !seen[i].gone).collect();
        all.sort_by_key(|&i| (class(&seen[i]), seen[i].rank(self.hi), seen[i].slot));
        all.into_iter().map(|i| (i, class(&seen[i]) >= 4)).collect()
    }

    fn choose(&mut self) {
        let hi = self.hi;
        if let Some(i) = self.servers.iter().position(|s| s.ready && s.boosted.is_some()) {
            self.runs = Some((i, true));
            return;
        }
        let class = |s: &Server| match (s.vm.is_some(), s.high(), s.left > 0) {
            (false, ..) => 5,
            (_, true, true) => 0,
            (_, true, false) => 2,
            (_, false, true) => 3 * u8::from(hi),
            (_, false, false) => 4,
        };
        let ready = (0..self.servers.len()).filter(|&i| self.servers[i].ready);
        let first = ready.min_by_key(|&i| (class(&self.servers[i]), self.servers[i].rank(hi), self.servers[i].slot));
        self.runs = first.map(|i| (i, self.servers[i].left > 0 || self.servers[i].vm.is_none()));
        let Some(i) = first else { return };
        let (class, s) = (class(&self.servers[i]), &self.servers[i]);
        self.cases.high_leftovers += u64::from(class == 2);
        self.cases.low_pays_in_hi += u64::from(class == 3);
        self.cases.low_leftovers += u64::from(class == 4);
        self.cases.unlimited += u64::from(class == 5);
        if hi && s.left > 0 && s.asks(true) && !s.heated {
            self.cases.heated_in_hi += 1;
            self.heat(i);
        }
    }

    fn until(&self) -> Option<u64> {
        let mut events = vec![];
        for (i, s) in self.servers.iter().enumerate() {
            events.extend(s.boosted);
            if s.vm.is_none() {
                continue;
            }
            if s.pending.is_some() || (s.ready && s.left <= 0) {
                events.push(s.deadline.max(self.now));
            }
            if self.runs == Some((i, true)) && s.boosted.is_none() {
                events.push(self.now + s.left as u64);
                if self.hi && s.left > s.extra {
                    events.push(self.now + (s.left - s.extra) as u64);
                }
            }
        }
        if self.may_return() {
            events.push(self.hot_until);
        }
        events.into_iter().min()
    }

    /// (left, deadline) as a look at the present time returns them.
    pub(crate) fn look(&self, i: usize) -> (i64, u64) {
        let mut s = self.servers[i].clone();
        s.book(self.hi, self.now);
        (s.left, s.deadline)
    }
}
