//! What Podwright writes, from the API server's audit log.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::PathBuf,
    sync::Mutex,
};

use jiff::Timestamp;
use podwright_lab::Lab;
use serde_json::Value;

/// Who Podwright is in the log.
const ACCOUNT: &str = r#""username":"system:serviceaccount:podwright-system:podwright""#;
const LEASES: &str = r#""resource":"leases""#;

/// One request that was meant to change something.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    /// `verb resource`, with the subresource: `patch pods/resize`.
    pub(crate) deed: String,
    /// When the API server got it.
    pub(crate) at: Timestamp,
    /// What it answered.
    pub(crate) code: u16,
}

/// The log from some moment on. Each look reads only what has been added since the last one, and of that only Podwright's own lines.
pub(crate) struct Audit {
    path: PathBuf,
    /// What a line must hold to count; renewals of leases count anyway.
    part: String,
    read: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    until: u64,
    writes: Vec<Write>,
    renewed: Vec<String>,
}

impl Audit {
    /// What is written in one namespace from now on.
    pub(crate) fn of_namespace(lab: &Lab, namespace: &str) -> anyhow::Result<Self> {
        Self::of(lab, format!(r#""namespace":"{namespace}""#))
    }

    /// What is written anywhere from now on.
    pub(crate) fn of_lab(lab: &Lab) -> anyhow::Result<Self> {
        Self::of(lab, String::new())
    }

    fn of(lab: &Lab, part: String) -> anyhow::Result<Self> {
        let path = lab.log("audit");
        let read = Entries { until: path.metadata()?.len(), ..Entries::default() };
        Ok(Self { path, part, read: Mutex::new(read) })
    }

    /// All writes so far, but those of leases.
    pub(crate) fn writes(&self) -> anyhow::Result<Vec<Write>> {
        self.look(|read| read.writes.clone())
    }

    /// How often a lease has been renewed so far.
    pub(crate) fn renewals(&self, lease: &str) -> anyhow::Result<usize> {
        self.look(|read| read.renewed.iter().filter(|name| *name == lease).count())
    }

    fn look<T>(&self, take: impl FnOnce(&Entries) -> T) -> anyhow::Result<T> {
        let mut read = self.read.lock().unwrap();
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(read.until))?;
        let mut added = Vec::new();
        file.read_to_end(&mut added)?;
        // The last line may be half written.
        let whole = added.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        for line in String::from_utf8_lossy(&added[..whole]).lines() {
            if line.contains(ACCOUNT) && (line.contains(LEASES) || line.contains(&self.part)) {
                read.note(&serde_json::from_str(line)?)?;
            }
        }
        read.until += u64::try_from(whole)?;
        Ok(take(&read))
    }
}

impl Entries {
    fn note(&mut self, entry: &Value) -> anyhow::Result<()> {
        let (verb, object) = (entry["verb"].as_str().unwrap_or_default(), &entry["objectRef"]);
        if matches!(verb, "get" | "list" | "watch") {
            return Ok(());
        }
        if object["resource"] == "leases" {
            self.renewed.push(object["name"].as_str().unwrap_or_default().to_owned());
            return Ok(());
        }
        let kind = [object["resource"].as_str(), object["subresource"].as_str()];
        let kind = kind.into_iter().flatten().collect::<Vec<_>>().join("/");
        self.writes.push(Write {
            deed: format!("{verb} {kind}"),
            at: entry["requestReceivedTimestamp"].as_str().unwrap_or_default().parse()?,
            code: serde_json::from_value(entry["responseStatus"]["code"].clone())?,
        });
        Ok(())
    }
}
