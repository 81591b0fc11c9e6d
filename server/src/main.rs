//! The binary: flags to a node, signals to its end.

use std::process::ExitCode;

use alluvium::config::{Config, ConfigError, SETTINGS};
use alluvium::{node, telemetry};
use clap::{Arg, ArgAction, ArgMatches, Command};
use tokio::signal::unix::{Signal, SignalKind, signal};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let matches = command().get_matches();
    let result = match matches.subcommand() {
        Some(("start", matches)) => start(matches),
        _ => Ok(()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("alluvium: {message}");
            ExitCode::FAILURE
        }
    }
}

fn command() -> Command {
    let settings = SETTINGS.iter().map(|setting| {
        let default = setting.default.map_or(String::new(), |d| format!(" [default: {d}]"));
        let variable = format!("ALLUVIUM_{}", setting.name.to_ascii_uppercase().replace('-', "_"));
        Arg::new(setting.name)
            .long(setting.name)
            .value_name(setting.value)
            .action(if setting.repeatable { ArgAction::Append } else { ArgAction::Set })
            .help(format!("{}{default} [env: {variable}]", setting.doc))
    });
    Command::new("alluvium")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Streaming log and columnar history behind the PostgreSQL protocol")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(Command::new("start").about("Start a node").args(settings))
}

fn flags(matches: &ArgMatches) -> Vec<(String, String)> {
    let given = |name: &'static str| matches.get_many::<String>(name).into_iter().flatten().cloned();
    SETTINGS.iter().flat_map(|s| given(s.name).map(|value| (s.name.to_owned(), value))).collect()
}

fn start(matches: &ArgMatches) -> Result<(), String> {
    let environment = std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
    let config = Config::load(flags(matches), environment).map_err(|e: ConfigError| e.to_string())?;
    telemetry::start_logging(&config.log).map_err(|e| e.to_string())?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| format!("no runtime: {e}"))?;
    runtime.block_on(async move {
        // Before the node starts, so that no signal is missed.
        let mut signals = Signals::new().map_err(|e| format!("cannot watch signals: {e}"))?;
        let node = node::start(config).map_err(|e| e.to_string())?;
        signals.next().await;
        node.stop(async { signals.next().await }).await;
        Ok(())
    })
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
