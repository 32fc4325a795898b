//! Every command a person or CI runs: `cargo xtask <command>`.

fn main() {
    println!("commands: ci");
}
