use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use podwright_api::Feature;

/// Our own manager, optimised, on the first core. Its certificate comes from a directory, nothing is registered and nothing
/// elected, so that with peer pods alone it needs no cluster.
pub(super) struct Server {
    process: Child,
    port: u16,
    _directory: tempfile::TempDir,
}

impl Server {
    /// Starts it with these features and further settings. With a cluster, returns once its caches are filled.
    pub(super) fn start(features: &str, settings: &str, kubeconfig: Option<&Path>) -> anyhow::Result<Self> {
        let binary = build()?;
        let directory = tempfile::tempdir()?;
        let certs = directory.path().to_str().context("the temporary directory has an odd name")?;
        let made = Command::new(&binary)
            .args(["certs", "--dir", certs, "--ip", "127.0.0.1"])
            .stdout(Stdio::null())
            .status()?;
        ensure!(made.success(), "podwright certs failed");
        let config = directory.path().join("podwright.yaml");
        fs::write(&config, format!("webhook: {{register: false}}\n{settings}\n"))?;
        let (port, probes) = (free_port()?, free_port()?);
        let mut command = Command::new("taskset");
        command
            .args(["-c", "0"])
            .arg(&binary)
            .args(["manager", "--features", features, "--leader-elect=false", "--metrics-bind-address=0"])
            .args([&format!("--health-probe-bind-address=127.0.0.1:{probes}"), "--webhook-host=127.0.0.1"])
            .args(["--log-level=warn", "--cert-dir", certs, "--webhook-port", &port.to_string()])
            .arg("--config")
            .arg(&config);
        if let Some(kubeconfig) = kubeconfig {
            command.arg("--kubeconfig").arg(kubeconfig);
        }
        let process =
            command.spawn().context("cannot start the manager; taskset (util-linux) must be installed")?;
        let mut server = Self { process, port, _directory: directory };
        server.await_ready(probes)?;
        Ok(server)
    }

    fn await_ready(&mut self, probes: u16) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_mins(2);
        while !is_ready(probes) {
            if let Some(status) = self.process.try_wait()? {
                bail!("the manager ended with {status}");
            }
            ensure!(Instant::now() < deadline, "the manager does not become ready");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    pub(super) fn url(&self, feature: Feature) -> String {
        format!("https://127.0.0.1:{}{}", self.port, feature.path())
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn is_ready(probes: u16) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect(("127.0.0.1", probes))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"GET /readyz HTTP/1.0\r\nhost: localhost\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    ask().is_ok_and(|answer| answer.contains(" 200 "))
}

/// Builds our own manager, optimised; or takes the one that `PODWRIGHT_BIN` names.
pub(super) fn build() -> anyhow::Result<PathBuf> {
    if let Some(binary) = std::env::var_os("PODWRIGHT_BIN") {
        return Ok(binary.into());
    }
    let built = Command::new(env!("CARGO"))
        .args([
            "build",
            "--release",
            "--package",
            "podwright",
            "--bin",
            "podwright",
            "--message-format=json-render-diagnostics",
        ])
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(built.status.success(), "the release build failed");
    let mut executables = built.stdout.split(|byte| *byte == b'\n').filter_map(|line| {
        let message: serde_json::Value = serde_json::from_slice(line).ok()?;
        message.get("executable")?.as_str().map(PathBuf::from)
    });
    executables.next_back().context("cargo did not say where the binary is")
}

/// The processor time that the process has used so far.
pub(super) fn cpu_time(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before the bracket may contain anything; user and system time are the 12th and 13th field after it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks: u64 = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    Some(Duration::from_secs(ticks) / u32::try_from(rustix::param::clock_ticks_per_second()).ok()?)
}

/// What the process holds in memory.
pub(super) fn resident_mib(pid: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024.0)
}
