//! What is done to nodes of any store.

use punctual_durable::JobState;

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

/// A job that aborts whoever runs it, among others that do not.
pub(crate) fn poison(mut world: World) {
    let mut poison = World::job(Act::Abort);
    poison.limits.max_crashes = 2;
    let poison = world.store.enqueue(vec![poison]).unwrap()[0].id();
    world.enqueue_some(10);
    world.spawn().die();
    world.spawn().die();
    let node = world.spawn();
    world.await_all();
    node.end();
    let record = world.store.job(poison).unwrap().unwrap();
    assert_eq!((record.state, record.crashes), (JobState::Dead, 2));
    assert_eq!(world.store.purge(vec![poison]).unwrap(), 1);
    world.verdict();
}
