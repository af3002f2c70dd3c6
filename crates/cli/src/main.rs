//! The command `rgroups`.
//!
//! Data goes to standard output, talk to standard error. Exit codes: 0 done; 1 failed at run time;
//! 2 wrong usage; 3 configuration invalid; 4 could not join; 5 partial; 6 a check found something;
//! 130 and 143 by signal, after a clean leave.

mod args;
mod bench;
mod chat;
mod config;
mod counter;
mod decode;
mod doctor;
mod failure;
mod join;
mod manual;
mod map;
mod output;
mod probe;
mod recv;
mod request;
mod send;
mod serve;
mod signals;
mod simulate;
mod state;
mod up;
mod values;
mod view;

use args::{Cli, Command};
use clap::Parser;
use failure::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse().spread();
    cli.global.color.apply();
    start_log(cli.global.log.as_deref().unwrap_or(default_log(&cli.command)));
    let outcome = run(&cli);
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(f) => {
            f.report(cli.global.json);
            ExitCode::from(f.exit_code())
        }
    }
}

/// Runs a command; the number is the exit code.
fn run(cli: &Cli) -> Result<u8, Failure> {
    let json = cli.global.json;
    match &cli.command {
        Command::Decode(a) => decode::run(a, json),
        Command::Probe(a) => probe::run(a, json),
        Command::Doctor(a) => doctor::run(a, json),
        Command::Sim(a) => simulate::run(a, json),
        Command::Config(a) => config::run(a, &cli.global.stack, json),
        Command::Version => {
            output::version(json);
            Ok(0)
        }
        Command::Completions { shell } => manual::completions(*shell),
        Command::Man { dir } => manual::pages(dir, json),
        Command::Chat(a) => block_on(chat::run(a, json)),
        Command::Send(a) => block_on(send::run(a, json)),
        Command::Recv(a) => block_on(recv::run(a, json)),
        Command::Request(a) => block_on(request::run(a, json)),
        Command::Serve(a) => block_on(serve::run(a, json)),
        Command::Map(a) => block_on(map::run(a, json)),
        Command::Counter(a) => block_on(counter::run(a, json)),
        Command::State(a) => block_on(state::run(a, json)),
        Command::View(a) => block_on(view::run(a, json)),
        Command::Up(a) => block_on(up::parent::run(a, json)),
        Command::UpCtl(a) => block_on(up::control::send(a, json)),
        Command::UpMember(a) => block_on(up::member::run(a)),
        Command::Bench(a) => block_on(bench::run(a, json)),
        // Its callers need each other's company more than a second thread.
        Command::BenchMember(a) if a.peer == args::Peer::Invoker => {
            run_on(tokio::runtime::Builder::new_current_thread(), bench::process(a))
        }
        Command::BenchMember(a) => block_on(bench::process(a)),
    }
}

fn block_on(command: impl Future<Output = Result<u8, Failure>>) -> Result<u8, Failure> {
    let mut threads = tokio::runtime::Builder::new_multi_thread();
    threads.worker_threads(2);
    run_on(threads, command)
}

fn run_on(
    mut runtime: tokio::runtime::Builder,
    command: impl Future<Output = Result<u8, Failure>>,
) -> Result<u8, Failure> {
    let runtime = runtime
        .enable_all()
        .build()
        .map_err(|e| Failure::run(format!("cannot start the runtime: {e}")))?;
    let outcome = runtime.block_on(command);
    // A thread that still reads standard input cannot be stopped; the program must not wait for
    // the next line before it ends.
    runtime.shutdown_background();
    outcome
}

/// Whoever joins by hand wants to know that nobody else was found.
fn default_log(command: &Command) -> &'static str {
    match command {
        Command::Chat(_)
        | Command::Send(_)
        | Command::Recv(_)
        | Command::Request(_)
        | Command::Serve(_)
        | Command::Map(_)
        | Command::View(_)
        | Command::Counter(_)
        | Command::State(_) => "warn,rgroups::founded=info",
        Command::Up(_)
        | Command::UpCtl(_)
        | Command::UpMember(_)
        | Command::Bench(_)
        | Command::BenchMember(_)
        | Command::Config(_)
        | Command::Decode(_)
        | Command::Doctor(_)
        | Command::Probe(_)
        | Command::Sim(_)
        | Command::Completions { .. }
        | Command::Man { .. }
        | Command::Version => "warn",
    }
}

fn start_log(filter: &str) {
    let filter = tracing_subscriber::EnvFilter::new(filter);
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .init();
}
