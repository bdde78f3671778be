//! One address in front of the replicas, as a Service would be: connections go in turn to those that are ready.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::net::{TcpListener, TcpStream};

use crate::probe;

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A replica as the balancer sees it.
#[derive(Debug)]
struct Backend {
    serving: u16,
    health: u16,
    ready: AtomicBool,
}

#[derive(Debug)]
struct Backends {
    all: Vec<Backend>,
    turn: AtomicUsize,
}

/// The balancer's address. It works for as long as the runtime that it was started on.
#[derive(Debug)]
pub(crate) struct Balancer {
    pub(crate) port: u16,
}

impl Balancer {
    /// Listens, and forwards to the replicas given by their serving and health ports.
    pub(crate) async fn start(replicas: &[(u16, u16)]) -> Result<Self> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("no free port for the balancer")?;
        let port = listener.local_addr().context("the balancer has no address")?.port();
        let all = replicas
            .iter()
            .map(|&(serving, health)| Backend { serving, health, ready: AtomicBool::new(false) })
            .collect();
        let backends = Arc::new(Backends { all, turn: AtomicUsize::new(0) });
        for index in 0..backends.all.len() {
            tokio::spawn(watch(Arc::clone(&backends), index));
        }
        tokio::spawn(accept(listener, backends));
        Ok(Self { port })
    }
}

async fn watch(backends: Arc<Backends>, index: usize) {
    let Some(backend) = backends.all.get(index) else {
        return;
    };
    loop {
        backend.ready.store(probe::is_ok(backend.health, "/readyz").await, Ordering::Relaxed);
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn accept(listener: TcpListener, backends: Arc<Backends>) {
    loop {
        match listener.accept().await {
            Ok((incoming, _)) => {
                let backends = Arc::clone(&backends);
                tokio::spawn(async move { forward(incoming, &backends).await });
            }
            // Out of file descriptors, most likely: some connection will end.
            Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}

/// Copies both ways until one side is done. Where no replica is ready the connection is closed at once.
async fn forward(mut incoming: TcpStream, backends: &Backends) {
    for port in backends.in_turn() {
        let Ok(mut outgoing) = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await else {
            continue;
        };
        for stream in [&incoming, &outgoing] {
            // Worth a few milliseconds of each answer; without it things still work.
            drop(stream.set_nodelay(true));
        }
        // How a connection ends is between its two ends, which both see it.
        drop(tokio::io::copy_bidirectional(&mut incoming, &mut outgoing).await);
        return;
    }
}

impl Backends {
    /// The serving ports of the ready replicas, another one first each time.
    fn in_turn(&self) -> Vec<u16> {
        let mut ports: Vec<u16> = self
            .all
            .iter()
            .filter(|backend| backend.ready.load(Ordering::Relaxed))
            .map(|backend| backend.serving)
            .collect();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        if !ports.is_empty() {
            let first = turn % ports.len();
            ports.rotate_left(first);
        }
        ports
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn backends(ready: &[bool]) -> Backends {
        let all = ready
            .iter()
            .zip(1..)
            .map(|(&ready, port)| Backend { serving: port, health: 0, ready: AtomicBool::new(ready) })
            .collect();
        Backends { all, turn: AtomicUsize::new(0) }
    }

    #[test]
    fn ready_replicas_take_turns() {
        let backends = backends(&[true, false, true]);
        assert_eq!(backends.in_turn(), [1, 3]);
        assert_eq!(backends.in_turn(), [3, 1]);
        assert_eq!(backends.in_turn(), [1, 3]);
    }

    #[test]
    fn without_a_ready_replica_there_is_nowhere_to_go() {
        assert!(backends(&[false]).in_turn().is_empty());
    }

    /// Answers every connection with `body`.
    async fn server(body: &'static str) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                stream.write_all(body.as_bytes()).await.unwrap();
            }
        });
        port
    }

    async fn ask(port: u16) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        let mut answer = String::new();
        // A connection that is reset has no answer either.
        drop(stream.read_to_string(&mut answer).await);
        answer
    }

    #[tokio::test]
    async fn connections_reach_only_replicas_that_say_they_are_ready() {
        let healthy = server("HTTP/1.1 200 OK\r\n\r\n").await;
        let draining = server("HTTP/1.1 503 Unavailable\r\n\r\n").await;
        let refused = crate::ports::free(1).unwrap()[0];
        let good = server("good").await;
        let bad = server("bad").await;
        let replicas = [(refused, healthy), (bad, draining), (good, healthy)];
        let balancer = Balancer::start(&replicas).await.unwrap();
        crate::eventually(Duration::from_secs(5), || async {
            anyhow::ensure!(ask(balancer.port).await == "good", "not ready yet");
            Ok(())
        })
        .await
        .unwrap();
        for _ in 0..6 {
            assert_eq!(ask(balancer.port).await, "good");
        }
    }
}
