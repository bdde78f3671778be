use std::{
    fs,
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};

/// Our own manager, optimised, on the first core. It needs no cluster: its certificate comes from a directory, nothing is
/// registered and nothing elected.
pub(super) struct Server {
    process: Child,
    port: u16,
    _directory: tempfile::TempDir,
}

impl Server {
    pub(super) fn start() -> anyhow::Result<Self> {
        let binary = build()?;
        let directory = tempfile::tempdir()?;
        let certs = directory.path().to_str().context("the temporary directory has an odd name")?;
        let made = Command::new(&binary)
            .args(["certs", "--dir", certs, "--ip", "127.0.0.1"])
            .stdout(Stdio::null())
            .status()?;
        ensure!(made.success(), "podwright certs failed");
        let config = directory.path().join("podwright.yaml");
        fs::write(&config, "webhook: {register: false}\n")?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let process = Command::new("taskset")
            .args(["-c", "0"])
            .arg(&binary)
            .args(["manager", "--features=peer-pods", "--leader-elect=false", "--metrics-bind-address=0"])
            .args(["--health-probe-bind-address=0", "--webhook-host=127.0.0.1", "--log-level=warn"])
            .args(["--cert-dir", certs, "--webhook-port", &port.to_string()])
            .arg("--config")
            .arg(&config)
            .spawn()
            .context("cannot start the manager; taskset (util-linux) must be installed")?;
        let mut server = Self { process, port, _directory: directory };
        server.await_listening()?;
        Ok(server)
    }

    fn await_listening(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(20);
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if let Some(status) = self.process.try_wait()? {
                bail!("the manager ended with {status}");
            }
            ensure!(Instant::now() < deadline, "the manager does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    pub(super) fn url(&self) -> String {
        format!("https://127.0.0.1:{}/mutate/peer-pods", self.port)
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

fn build() -> anyhow::Result<PathBuf> {
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
