//! What a machine is: as much as a reader needs to judge its numbers, and nothing that names it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::paths;
use crate::sh::{self, Next, Run, cmd};

const CLASS: &str = "/sys/class/infiniband";

/// Names and values, in the order of the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Facts(pub Vec<(String, String)>);

impl Facts {
    pub fn of(device: &str, port: &Port, gid_index: u8) -> Result<Facts> {
        let at = Path::new(CLASS).join(device);
        let read = |file: &str| {
            let line = first_line(&at.join(file)).filter(|line| !line.is_empty());
            line.unwrap_or_else(|| "?".to_owned())
        };
        let driver = fs::read_link(at.join("device/driver"))
            .ok()
            .and_then(|link| Some(link.file_name()?.to_str()?.to_owned()));
        let facts = [
            ("proverbs", version()?),
            ("device", device.to_owned()),
            ("driver", driver.unwrap_or_else(|| "none (software)".to_owned())),
            ("board", read("board_id")),
            ("firmware", read("fw_ver")),
            ("link", format!("{}, {}", port.link_layer, read("ports/1/rate"))),
            ("GID index", format!("{gid_index} ({})", port.kind(gid_index))),
            ("processor", processor()),
            ("Linux", first_line("/proc/sys/kernel/osrelease".as_ref()).unwrap_or_default()),
            ("libibverbs", library().unwrap_or_else(|| "?".to_owned())),
            ("perftest", perftest().unwrap_or_else(|| "?".to_owned())),
        ];
        Ok(Facts(facts.map(|(name, value)| (name.to_owned(), value)).into()))
    }

    /// The version of this repository.
    pub fn version(&self) -> &str {
        self.0.first().map_or("", |(_, version)| version)
    }
}

/// The first port of a device.
pub struct Port {
    at: PathBuf,
    pub link_layer: String,
}

impl Port {
    pub fn of(device: &str) -> Result<Port> {
        let at = Path::new(CLASS).join(device).join("ports/1");
        if let Some(link_layer) = first_line(&at.join("link_layer")) {
            return Ok(Port { at, link_layer });
        }
        let entries = fs::read_dir(CLASS).into_iter().flatten().flatten();
        let mut known: Vec<_> =
            entries.filter_map(|it| it.file_name().into_string().ok()).collect();
        known.sort();
        if known.is_empty() {
            bail!(
                "this machine has no RDMA device.\nNext: cargo xtask hardware --guests, to see it work"
            );
        }
        bail!("this machine has no RDMA device {device}; it has: {}", known.join(", "))
    }

    /// The index asked for, or the one that a RoCE device is reached by.
    pub fn gid_index(&self, asked: Option<u8>) -> Result<u8> {
        if let Some(index) = asked {
            return Ok(index);
        }
        if self.link_layer == "InfiniBand" {
            return Ok(0);
        }
        let is_routed = |index: &u8| {
            let gid = first_line(&self.at.join(format!("gids/{index}"))).unwrap_or_default();
            self.kind(*index) == "RoCE v2" && gid.starts_with("0000:0000:0000:0000:0000:ffff:")
        };
        (0..=u8::MAX)
            .find(is_routed)
            .context("the device has no GID of RoCE v2 with an IPv4 address")
            .next("an address for its network device, or --gid-index")
    }

    fn kind(&self, index: u8) -> String {
        let kind = first_line(&self.at.join(format!("gid_attrs/types/{index}")));
        kind.unwrap_or_else(|| self.link_layer.clone())
    }
}

fn first_line(file: &Path) -> Option<String> {
    // The kernel fails the read of an entry that is empty.
    let text = fs::read_to_string(file).ok()?;
    Some(text.lines().next()?.trim().to_owned())
}

/// The crate's version, and the commit where there is a repository.
fn version() -> Result<String> {
    let manifest = fs::read_to_string(paths::workspace().join("Cargo.toml"))?;
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = "));
    let version = version.context("Cargo.toml names a version")?.trim_matches('"').to_owned();
    let sh = sh::at(paths::workspace());
    let commit = cmd!(sh, "git rev-parse --short=12 HEAD").ignore_stderr().quiet().read();
    Ok(commit.map_or(version.clone(), |commit| format!("{version}, {commit}")))
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let names = text.lines().filter_map(|line| line.strip_prefix("model name"));
    let mut names = names.map(|rest| rest.trim_start_matches([' ', '\t', ':']));
    let Some(first) = names.next() else { return "?".to_owned() };
    format!("{} x {first}", 1 + names.count())
}

/// The version of libibverbs that programs are linked with: of its file's name.
fn library() -> Option<String> {
    let sh = sh::here();
    let cache = cmd!(sh, "ldconfig -p").text().ok()?;
    let line = cache.lines().find(|line| line.trim_start().starts_with("libibverbs.so.1 "))?;
    let file = fs::canonicalize(line.split_once("=> ")?.1).ok()?;
    Some(file.file_name()?.to_str()?.strip_prefix("libibverbs.so.")?.to_owned())
}

fn perftest() -> Option<String> {
    // It exits with 1 or with 0.
    let (_, said) = cmd!(sh::here(), "ib_write_lat --version").capture().ok()?;
    Some(said.lines().find_map(|line| line.strip_prefix("Version: "))?.trim().to_owned())
}
