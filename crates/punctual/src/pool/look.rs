//! What can be seen of single tasks.

use std::time::SystemTime;

use punctual_engine::Tick;

use super::{Pool, TaskRef};
use crate::failure::FailedRun;
use crate::series::{Now, Plan, Point};
use crate::task::{Header, Task, TaskId, TaskState, TaskView, Turn};

impl Pool {
    /// The instant that a task is planned for, by its turn: what that says may be a look at the wall.
    pub(crate) fn planned(&self, header: &Header, turn: Turn) -> Tick {
        match header.series() {
            None => turn.deadline,
            Some(series) => series.planned(turn.deadline, series.now(&*self.clock)),
        }
    }

    pub(crate) fn view(&self, task: &dyn Task, turn: Turn) -> TaskView {
        TaskView::of(task, turn, self.now_for(task.header()))
    }

    /// All tasks that wait or run.
    pub(crate) fn views(&self) -> Vec<TaskView> {
        let core = self.core.lock();
        let mut tasks: Vec<(TaskRef, Turn)> =
            core.ready.hands(|hands| hands.map(|(task, turn)| (TaskRef::clone(task), *turn)).collect());
        tasks.extend(core.queue.iter().map(|entry| {
            let turn = Turn { deadline: entry.deadline, id: TaskId(entry.number) };
            (entry.value.clone(), entry.value.header().planned().unwrap_or(turn))
        }));
        drop(core);
        let now = Now::of(&*self.clock);
        let mut views: Vec<TaskView> =
            tasks.iter().map(|(task, turn)| TaskView::of(&**task, *turn, now)).collect();
        // The last reference to any of them may be here.
        self.discard_all(tasks);
        views.retain(|view| !view.state().is_done());
        views.sort_by_key(|view| (view.deadline(), view.id()));
        views
    }

    pub(crate) fn recent_failures(&self, task: &dyn Task) -> Vec<FailedRun> {
        task.header().series().map(|series| series.recent_failures()).unwrap_or_default()
    }

    /// The instants of the next runs, as far as they are known.
    pub(crate) fn upcoming(&self, task: &dyn Task, n: usize) -> Vec<Tick> {
        let header = task.header();
        let (state, now) = (task.state(), self.now_for(header));
        if state.is_done() || header.is_paused() {
            return Vec::new();
        }
        // A future between two polls is a run that goes on.
        let running = state == TaskState::Running || header.is_under_way();
        match header.series() {
            Some(series) => series.upcoming(header.deadline(), n, header.runs(), running, now),
            None => {
                let plan = Plan::Schedule(header.schedule());
                let first = Point::Tick(header.deadline());
                let first = if running { plan.after(first) } else { Some(first) };
                let points = std::iter::successors(first, |point| plan.after(*point));
                points.take(n).map(|point| now.tick_of(point)).collect()
            }
        }
    }

    pub(crate) fn upcoming_wall(&self, task: &dyn Task, n: usize) -> Vec<SystemTime> {
        let now = Now::of(&*self.clock);
        self.upcoming(task, n).into_iter().map(|tick| now.wall_of(tick)).collect()
    }
}
