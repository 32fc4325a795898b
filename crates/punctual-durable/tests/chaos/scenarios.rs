//! What is done to nodes of any store.

use punctual_durable::{JobState, Limits};

use crate::fuse::POINTS;
use crate::node::Node;
use crate::program::Act;
use crate::world::World;
use crate::{cycles, tell};

/// `count` nodes at a time, one of them killed again and again, and now and then all of them; a new one takes the place
/// of each.
pub(crate) fn kills_at_random(mut world: World, count: usize) {
    world.start_series();
    world.start_books();
    let mut nodes: Vec<Node> = (0..count).map(|_| world.spawn()).collect();
    let mut kills = 0;
    for cycle in 0..cycles() {
        world.enqueue_some(20);
        world.await_records(fastrand::u32(0..20));
        let all = cycle % 10 == 9;
        for _ in 0..if all { count } else { 1 } {
            nodes.swap_remove(fastrand::usize(0..nodes.len())).kill();
            kills += 1;
        }
        while nodes.len() < count {
            nodes.push(world.spawn());
        }
    }
    world.await_all();
    nodes.into_iter().for_each(Node::end);
    tell(&format!("{kills} of {count} nodes killed at random"), world.verdict());
}

/// A node that dies at each point, the first, second … time it comes by.
pub(crate) fn deaths_between_steps(mut world: World, times: u32) {
    world.start_series();
    world.start_books();
    for point in POINTS {
        for nth in 1..=times {
            world.enqueue_some(10);
            world.enqueue(vec![World::job(Act::Spawn); 3]);
            world.spawn_fused(point, nth).die();
        }
    }
    let node = world.spawn();
    world.await_all();
    node.end();
    tell(&format!("{} deaths between steps", times as usize * POINTS.len()), world.verdict());
}

/// A job that aborts whoever runs it, among others that do not and may be lost no more often: it dies, and they live.
pub(crate) fn poison(mut world: World) {
    let usual = |act| {
        let mut job = World::job(act);
        job.limits = Limits::default();
        job
    };
    let poison = world.store.enqueue(vec![usual(Act::Abort)]).unwrap()[0].id();
    // Claimed with it, and not begun when it crashes.
    world.enqueue(vec![usual(Act::Plain); 40]);
    let mut node = world.spawn();
    let mut deaths = 0;
    loop {
        node.die();
        deaths += 1;
        node = world.spawn();
        if world.await_line(&format!("job {poison} of the dead")).ends_with("is dead") {
            break;
        }
    }
    world.await_all();
    node.end();
    let record = world.store.job(poison).unwrap().unwrap();
    assert_eq!((record.state, record.crashes), (JobState::Dead, 3));
    assert_eq!(world.store.purge(vec![poison]).unwrap(), 1);
    tell(&format!("a job that killed {deaths} nodes"), world.verdict());
}
