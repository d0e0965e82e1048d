//! Stock Rust clients under the contract of ../../README.md: rdkafka (librdkafka built from the crate's own source) and rskafka.
//!
//!     clients-rust rdkafka|rskafka PLAN
//!
//! Exit 0 when every step has its line.
mod frame;
mod rd;
mod rs;

use std::process::exit;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let client = match args.get(1).map(String::as_str) {
        Some("rdkafka") if args.len() == 3 => frame::run(&args[2], "rdkafka", rd::version(), rd::Rd::open),
        Some("rskafka") if args.len() == 3 => frame::run(&args[2], "rskafka", env!("RSKAFKA_VERSION").to_string(), rs::Rs::open),
        _ => {
            eprintln!("usage: clients-rust rdkafka|rskafka PLAN");
            exit(2);
        }
    };
    if let Err(e) = client {
        eprintln!("clients-rust: {e}");
        exit(1);
    }
    exit(0);                                         // libraries keep threads; every line is written
}
