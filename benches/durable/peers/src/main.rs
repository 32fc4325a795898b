//! One measurement of one peer; see `durable-protocol`.
//!
//! Each is set up as its own documentation says for throughput and promptness; what was chosen is said in its file.

mod apalis;
mod awa;
mod graphile;
mod river;

use std::process::ExitCode;
use std::sync::OnceLock;

use durable_protocol::{Job, OnRun};
use tokio::runtime::Runtime;

/// What handlers call: some peers take functions that cannot capture anything.
static ON_RUN: OnceLock<OnRun> = OnceLock::new();

/// Called by the handler of every peer.
fn ran(job: &Job) {
    if let Some(on_run) = ON_RUN.get() {
        on_run(job);
    }
}

fn runtime() -> Result<Runtime, std::io::Error> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
}

fn main() -> ExitCode {
    durable_protocol::main(|args| match args.peer.as_str() {
        "river" => durable_protocol::run::<river::River>(args),
        "graphile_worker" => durable_protocol::run::<graphile::Graphile>(args),
        "apalis" => durable_protocol::run::<apalis::Apalis>(args),
        "awa" => durable_protocol::run::<awa::Awa>(args),
        other => durable_protocol::failed(format!("no peer `{other}`")),
    })
}
