//! One measurement of ourselves, see `durable-protocol`; or, as `server postgres`, a server for everybody.

mod punctual;
mod server;

use std::process::ExitCode;

fn main() -> ExitCode {
    durable_protocol::main(|args| match (args.workload.as_str(), args.peer.as_str()) {
        ("server", "postgres") => server::run(),
        (_, "punctual" | punctual::FORGETS) => durable_protocol::run::<punctual::Punctual>(args),
        (_, other) => durable_protocol::failed(format!("no peer `{other}`")),
    })
}
