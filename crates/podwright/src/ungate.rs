//! `podwright ungate`: lets all pods go that wait for us.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use podwright_api::keys;
use podwright_controllers::architecture::drain;

use crate::manager;

/// Flags of `podwright ungate`.
#[derive(Debug, Args)]
pub struct UngateArgs {
    /// Only pods of this namespace [default: of all]
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Of all namespaces, which is the default
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Only say which pods would come free
    #[arg(long)]
    dry_run: bool,
    /// Talk to the cluster of this kubeconfig. Default: $KUBECONFIG, ~/.kube/config, or the cluster that this runs in
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

pub(crate) fn run(arguments: &UngateArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let drained = runtime.block_on(async {
        let client = manager::connect(arguments.kubeconfig.as_deref()).await?;
        drain(client, arguments.namespace.as_deref(), arguments.dry_run)
            .await
            .context("failed to list the pods")
    })?;
    let mut failed = 0;
    for one in &drained {
        match &one.outcome {
            Ok(()) if arguments.dry_run => println!("{} would come free", one.pod),
            Ok(()) => println!("{} came free", one.pod),
            Err(error) => {
                failed += 1;
                eprintln!("{} still waits: {error}", one.pod);
            }
        }
    }
    if failed > 0 {
        bail!(
            "{failed} of {} pods still have the scheduling gate {}; try again",
            drained.len(),
            keys::ARCHITECTURE
        );
    }
    if drained.is_empty() {
        println!("no pod has the scheduling gate {}", keys::ARCHITECTURE);
    }
    Ok(())
}
