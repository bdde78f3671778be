//! Pods go where their images can run: a real registry, the real scheduler, amd64 nodes and tainted arm64 ones.

mod crashes;
mod gates;
mod ground;
mod load;
mod matrix;
mod outages;
mod placement;
mod strict;
mod tenants;
