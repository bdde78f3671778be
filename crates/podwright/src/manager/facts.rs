//! Admission's facts, from the controllers' caches.

use podwright_admission::{FactError, FactSource, Finding};
use podwright_controllers::lookups::Lookups;
use podwright_core::mutate::Lookup;

/// The caches as admission asks them.
pub(super) struct CachedFacts(pub(super) Lookups);

impl FactSource for CachedFacts {
    fn find<'a>(&'a self, lookup: &'a Lookup) -> Finding<'a> {
        Box::pin(async move { self.0.find(lookup).await.map_err(|error| FactError(error.to_string())) })
    }
}
