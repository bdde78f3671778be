//! Where decisions' facts come from: a port that whoever knows the cluster fills.

use std::{future::Future, pin::Pin};

use podwright_core::mutate::{Fact, Lookup};

/// Whatever a lookup is going to find.
pub type Finding<'a> = Pin<Box<dyn Future<Output = Result<Option<Fact>, FactError>> + Send + 'a>>;

/// Why a fact could not be had. It says nothing about whether the thing exists, so it is a fault and never a denial.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct FactError(pub String);

/// Answers lookups, from a cache if it can.
pub trait FactSource: Send + Sync + 'static {
    /// The fact, or none if there is no such thing.
    fn find<'a>(&'a self, lookup: &'a Lookup) -> Finding<'a>;
}

/// A source that knows nothing, for features that need no facts.
#[derive(Clone, Copy, Debug)]
pub struct NoFacts;

impl FactSource for NoFacts {
    fn find<'a>(&'a self, lookup: &'a Lookup) -> Finding<'a> {
        let error =
            FactError(format!("this manager is not connected to a cluster, so it knows of no {lookup}"));
        Box::pin(std::future::ready(Err(error)))
    }
}
