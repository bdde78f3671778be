//! Listening addresses as Go programs write them.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::TcpListener;

/// The address that means "do not listen".
const DISABLED: &str = "0";

/// Why there is no listener.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Not an address.
    #[error(
        "{address:?} is not an address to listen on: write \":8080\", \"127.0.0.1:8080\", or \"0\" to switch it off"
    )]
    Syntax {
        /// What was given.
        address: String,
    },
    /// The name before the port leads nowhere.
    #[error("cannot listen on {address}: its host name cannot be resolved: {source}")]
    Resolve {
        /// What was given.
        address: String,
        /// Why not.
        source: io::Error,
    },
    /// Somebody else listens there.
    #[error(
        "cannot listen on {address}: the port is taken; stop the process that has it (`ss -ltnp 'sport = :{port}'` \
         shows which) or choose another address"
    )]
    Taken {
        /// What was given.
        address: String,
        /// Its port.
        port: u16,
    },
    /// The system does not let us.
    #[error(
        "cannot listen on {address}: permission denied; ports under 1024 need the capability NET_BIND_SERVICE, so \
         choose a higher one"
    )]
    Denied {
        /// What was given.
        address: String,
    },
    /// Anything else.
    #[error("cannot listen on {address}: {source}; check that the address is one of this machine's")]
    Listen {
        /// What was given.
        address: String,
        /// Why not.
        source: io::Error,
    },
}

/// Starts listening, or not at all for `"0"`. Without a host, as in `":8080"`, it is every address of the machine.
pub async fn bind(address: &str) -> Result<Option<TcpListener>, BindError> {
    let address = address.trim();
    if address == DISABLED {
        return Ok(None);
    }
    let syntax = || BindError::Syntax { address: address.to_owned() };
    let (host, port) = address.rsplit_once(':').ok_or_else(syntax)?;
    let port: u16 = port.parse().map_err(|_| syntax())?;
    let candidates = match host {
        // IPv6 first: on Linux that listens on IPv4 too, and where there is no IPv6 it fails and IPv4 is next.
        "" => vec![
            SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
            SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
        ],
        _ => tokio::net::lookup_host(address)
            .await
            .map_err(|source| BindError::Resolve { address: address.to_owned(), source })?
            .collect(),
    };
    let listener = TcpListener::bind(candidates.as_slice()).await;
    listener.map(Some).map_err(|error| explain(address, port, error))
}

fn explain(address: &str, port: u16, source: io::Error) -> BindError {
    let address = address.to_owned();
    match source.kind() {
        io::ErrorKind::AddrInUse => BindError::Taken { address, port },
        io::ErrorKind::PermissionDenied => BindError::Denied { address },
        _ => BindError::Listen { address, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn zero_means_no_listener() {
        assert!(bind("0").await.unwrap().is_none());
        assert!(bind(" 0 ").await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_port_alone_listens_on_every_address() {
        let listener = bind(":0").await.unwrap().unwrap();
        assert!(listener.local_addr().unwrap().ip().is_unspecified());
        let port = listener.local_addr().unwrap().port();
        tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
    }

    #[tokio::test]
    async fn a_host_and_port_listen_there() {
        let listener = bind("127.0.0.1:0").await.unwrap().unwrap();
        assert!(listener.local_addr().unwrap().ip().is_loopback());
        assert!(bind("localhost:0").await.unwrap().unwrap().local_addr().unwrap().ip().is_loopback());
    }

    #[tokio::test]
    async fn a_taken_port_is_named_with_what_to_do() {
        let first = bind("127.0.0.1:0").await.unwrap().unwrap();
        let address = first.local_addr().unwrap().to_string();
        let message = bind(&address).await.unwrap_err().to_string();
        assert!(
            message.contains(&address) && message.contains("taken") && message.contains("another"),
            "{message}"
        );
    }

    #[tokio::test]
    async fn a_port_taken_on_one_family_is_taken_for_all() {
        let first = bind(":0").await.unwrap().unwrap();
        let address = format!(":{}", first.local_addr().unwrap().port());
        assert!(matches!(bind(&address).await, Err(BindError::Taken { .. })));
    }

    #[tokio::test]
    async fn what_is_no_address_is_refused_with_examples() {
        for address in ["", "8080", ":http", "1.2.3.4:99999", "::"] {
            let error = bind(address).await.unwrap_err();
            assert!(matches!(error, BindError::Syntax { .. }), "{address}: {error}");
        }
        let error = bind("no-such-host.invalid:80").await.unwrap_err();
        assert!(matches!(error, BindError::Resolve { .. }), "{error}");
        let error = bind("192.0.2.1:0").await.unwrap_err();
        assert!(matches!(error, BindError::Listen { .. }), "{error}");
    }
}
