//! A store in memory that fails when told.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual_durable::{
    Error, Exchange, Exchanged, MemoryStore, NodeId, Peek, Peeked, Renewal, Rescued, Result, Store,
};

use crate::bench::Gate;
use crate::delegate::delegate;

/// A store that fails when told.
#[derive(Debug)]
pub(crate) struct Flaky {
    store: Arc<MemoryStore>,
    mood: Mutex<Mood>,
}

#[derive(Debug, Default)]
struct Mood {
    fail: Option<fn() -> Error>,
    lose_answer: bool,
    refuse: Option<&'static str>,
    stall: Option<&'static str>,
    renewals: Option<Sender<()>>,
    no_renewals: bool,
    /// The next renewal hangs until something comes.
    hang: Option<Receiver<()>>,
    /// So does the next exchange, which says that it does.
    hang_exchange: Option<(Sender<()>, Receiver<()>)>,
    no_exchanges: bool,
    /// Exchanges that carry reports are refused for good.
    no_reports: bool,
    no_rescues: bool,
    /// Exchanges that asked for jobs, and all.
    claims: u32,
    exchanges: u32,
}

impl Flaky {
    pub(crate) fn new(store: Arc<MemoryStore>) -> Self {
        Self { store, mood: Mutex::default() }
    }

    pub(crate) fn fail_with(&self, fail: Option<fn() -> Error>) {
        self.mood.lock().unwrap().fail = fail;
    }

    pub(crate) fn lose_next_answer(&self) {
        self.mood.lock().unwrap().lose_answer = true;
    }

    pub(crate) fn refuse_renewals(&self, refuse: bool) {
        self.mood.lock().unwrap().no_renewals = refuse;
    }

    /// The next renewal does not return until told.
    pub(crate) fn hang_renewal(&self) -> Sender<()> {
        let (sender, receiver) = channel();
        self.mood.lock().unwrap().hang = Some(receiver);
        sender
    }

    /// The next exchange says that it has come, and does not return until told.
    pub(crate) fn hang_exchange(&self) -> Gate {
        let ((begin, begun), (go_on, wait)) = (channel(), channel());
        self.mood.lock().unwrap().hang_exchange = Some((begin, wait));
        Gate { begun, go_on }
    }

    pub(crate) fn refuse_exchanges(&self, refuse: bool) {
        self.mood.lock().unwrap().no_exchanges = refuse;
    }

    pub(crate) fn refuse_reports(&self, refuse: bool) {
        self.mood.lock().unwrap().no_reports = refuse;
    }

    pub(crate) fn refuse_rescues(&self, refuse: bool) {
        self.mood.lock().unwrap().no_rescues = refuse;
    }

    pub(crate) fn claims(&self) -> u32 {
        self.mood.lock().unwrap().claims
    }

    pub(crate) fn exchanges(&self) -> u32 {
        self.mood.lock().unwrap().exchanges
    }

    pub(crate) fn tell_renewals(&self) -> Receiver<()> {
        let (sender, receiver) = channel();
        self.mood.lock().unwrap().renewals = Some(sender);
        receiver
    }

    pub(crate) fn refuse_what_says(&self, text: &'static str) {
        self.mood.lock().unwrap().refuse = Some(text);
    }

    /// What says this cannot be recorded for the time being.
    pub(crate) fn stall_what_says(&self, text: Option<&'static str>) {
        self.mood.lock().unwrap().stall = text;
    }

    fn mood(&self) -> Result<()> {
        let fail = self.mood.lock().unwrap().fail;
        fail.map_or(Ok(()), |fail| Err(fail()))
    }
}

impl Store for Flaky {
    delegate! { now on_news tell_news enqueue cancel reschedule retry purge trim set_queue save_schedule set_schedule schedules due_schedules fire job find failures log queues lines upcoming tallies errors check identity import leave }

    fn renew(&self, node: NodeId, lease: Duration) -> Result<Renewal> {
        self.mood()?;
        let hang = self.mood.lock().unwrap().hang.take();
        if let Some(hang) = hang {
            let _ = hang.recv();
        }
        if self.mood.lock().unwrap().no_renewals {
            return Err(Error::transient("not now"));
        }
        let renewal = self.store.renew(node, lease);
        if let Some(renewals) = &self.mood.lock().unwrap().renewals {
            let _ = renewals.send(());
        }
        renewal
    }

    fn peek(&self, peek: &Peek) -> Result<Peeked> {
        self.mood()?;
        self.store.peek(peek)
    }

    fn exchange(&self, node: NodeId, exchange: Exchange) -> Result<Exchanged> {
        self.mood()?;
        let hang = self.mood.lock().unwrap().hang_exchange.take();
        if let Some((begin, wait)) = hang {
            let _ = begin.send(());
            let _ = wait.recv();
        }
        if self.mood.lock().unwrap().no_exchanges {
            return Err(Error::transient("not now"));
        }
        self.mood.lock().unwrap().exchanges += 1;
        if exchange.sweep > 0 || !exchange.claims.is_empty() {
            self.mood.lock().unwrap().claims += 1;
        }
        let (refused, stalled, no_reports) = {
            let mood = self.mood.lock().unwrap();
            (mood.refuse, mood.stall, mood.no_reports)
        };
        if no_reports && !exchange.reports.is_empty() {
            return Err(Error::broken("no such table"));
        }
        let said = format!("{:?} {:?}", exchange.reports, exchange.updates);
        if refused.is_some_and(|text| said.contains(text)) {
            return Err(Error::broken("there is something in this batch"));
        }
        if stalled.is_some_and(|text| said.contains(text)) {
            return Err(Error::transient("somebody holds something that this batch needs"));
        }
        let answer = self.store.exchange(node, exchange);
        if std::mem::take(&mut self.mood.lock().unwrap().lose_answer) {
            return Err(Error::transient("the line went dead"));
        }
        answer
    }

    fn rescue(&self, node: NodeId, most: usize) -> Result<Vec<Rescued>> {
        self.mood()?;
        if self.mood.lock().unwrap().no_rescues {
            return Err(Error::transient("not now"));
        }
        self.store.rescue(node, most)
    }
}
