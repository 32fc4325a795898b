//! Faults of the server: connections that break in storms, and a stop as by a power cut.

use punctual_testbed::{Postgres, Settings};

use crate::node::Node;
use crate::world::World;
use crate::{cycles, tell};

#[test]
fn connections_that_break_in_storms_lose_nothing() {
    let server = Postgres::shared();
    let mut world = World::postgres(server);
    // Some enqueue others, and cannot just then.
    world.leave.handlers_fail = true;
    world.start_series();
    let nodes = world.spawn_and_await(2);
    let mut broken = 0;
    for _ in 0..cycles() / 3 {
        world.enqueue_some(10);
        world.await_records(fastrand::u32(0..10));
        for _ in 0..3 {
            broken += server.terminate_backends(world.place.url());
        }
    }
    world.await_all();
    nodes.into_iter().for_each(Node::end);
    tell(&format!("{broken} connections broken"), world.verdict());
}

#[test]
fn a_server_stopped_at_once_and_started_again_loses_nothing() {
    let server = Postgres::start(Settings::durable());
    let mut world = World::postgres(&server);
    world.leave.handlers_fail = true;
    world.start_series();
    let nodes = world.spawn_and_await(2);
    let stops = (cycles() / 15).clamp(2, 30);
    for _ in 0..stops {
        world.enqueue_some(20);
        world.await_records(fastrand::u32(0..10));
        server.stop_immediate();
        world.await_line("the store failed");
        server.restart();
    }
    world.await_all();
    nodes.into_iter().for_each(Node::end);
    tell(&format!("a server stopped {stops} times"), world.verdict());
}
