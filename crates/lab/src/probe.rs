//! Asking a process on this machine how it is, over plain HTTP.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const TIMEOUT: Duration = Duration::from_secs(2);

/// Does `GET path` on 127.0.0.1 answer 200 within two seconds?
pub(crate) async fn is_ok(port: u16, path: &str) -> bool {
    matches!(tokio::time::timeout(TIMEOUT, status(port, path)).await, Ok(Ok(200)))
}

async fn status(port: u16, path: &str) -> std::io::Result<u16> {
    let mut stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::with_capacity(64);
    // `HTTP/1.1 200 ` is 13 bytes; there is no need for more.
    while head.len() < 13 {
        if stream.read_buf(&mut head).await? == 0 {
            break;
        }
    }
    Ok(parse_status(&head).unwrap_or(0))
}

fn parse_status(head: &[u8]) -> Option<u16> {
    std::str::from_utf8(head.get(..12)?).ok()?.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_read_from_the_first_line() {
        assert_eq!(parse_status(b"HTTP/1.1 200 OK\r\n"), Some(200));
        assert_eq!(parse_status(b"HTTP/1.0 503 Service"), Some(503));
        assert_eq!(parse_status(b"SSH-2.0-OpenSSH"), None);
        assert_eq!(parse_status(b"HTTP"), None);
    }

    #[tokio::test]
    async fn nobody_listening_is_not_ok() {
        let port = crate::ports::free(1).unwrap()[0];
        assert!(!is_ok(port, "/readyz").await);
    }
}
