//! The in-cluster process.

mod arguments;
mod certificate;
mod cluster;
mod control;
mod facts;
mod images;
mod registry_metrics;
mod tasks;
mod wiring;

pub(crate) use arguments::ManagerArgs;
pub(crate) use cluster::connect;

/// Runs the manager until it is told to stop.
pub(crate) fn run(arguments: ManagerArgs) -> anyhow::Result<()> {
    let settings = arguments.settings(|name| std::env::var(name).ok())?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(wiring::run(settings))
}
