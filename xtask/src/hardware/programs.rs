//! The programs that are run, each within a time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::Machine;
use super::case::{Case, Figures, Whose};
use crate::setup::{self, Group};
use crate::sh::{self, Run, cmd};
use crate::test::FEATURES;
use crate::{cargo, paths};

/// The suite on a slow device.
const SUITE: Duration = Duration::from_secs(2700);
/// A run of a measurement.
const RUN: Duration = Duration::from_secs(120);
/// Until a server listens, and until it ends when its client has.
const SHORT: Duration = Duration::from_secs(20);

/// Where they are.
pub struct Programs {
    conformance: PathBuf,
    perf: PathBuf,
    devinfo: PathBuf,
}

/// What the conformance suite said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suite {
    pub passed: u32,
    /// The names of the tests that failed.
    pub failed: Vec<String>,
    /// The end of what it printed, if it failed.
    pub said: String,
}

impl Programs {
    /// Those in `dir`, or builds them.
    pub fn find(dir: Option<&Path>) -> Result<Programs> {
        let there = |name: &str| cmd!(sh::here(), "{name} --version").capture().is_ok();
        if let Some(dir) = dir {
            ensure!(there("ib_write_lat"), "ib_write_lat is not here.\nNext: install perftest");
            let find = |name: &str| {
                let path = dir.join(name);
                ensure!(path.exists(), "{} is not there", path.display());
                fs::canonicalize(&path).with_context(|| format!("cannot find {}", path.display()))
            };
            return Ok(Programs {
                conformance: find("conformance")?,
                perf: find("perf")?,
                devinfo: find("devinfo")?,
            });
        }
        if !there("gcc") || !there("ib_write_lat") {
            setup::ensure(&[Group::Build, Group::Hardware])?;
        }
        Programs::build()
    }

    pub fn build() -> Result<Programs> {
        let test = ["test", "--no-run", "--features", FEATURES, "--test", "conformance"];
        let tests = cargo::executables("Building the conformance suite", &test)?;
        let examples = cargo::executables(
            "Building perf and devinfo",
            &["build", "--release", "--example", "perf", "--example", "devinfo"],
        )?;
        Ok(Programs {
            conformance: cargo::named(&tests, "conformance")?,
            perf: cargo::named(&examples, "perf")?,
            devinfo: cargo::named(&examples, "devinfo")?,
        })
    }

    /// Links to them in one directory, for `--programs`.
    pub fn gather(&self, dir: &Path) -> Result<()> {
        let all = [("conformance", &self.conformance), ("perf", &self.perf)];
        for (name, path) in all.into_iter().chain([("devinfo", &self.devinfo)]) {
            let to = dir.join(name);
            fs::copy(path, &to).with_context(|| format!("cannot write {}", to.display()))?;
        }
        Ok(())
    }

    /// What devinfo says of the device, but for what names the machine: its GUIDs and GIDs.
    pub fn devinfo(&self, here: &Machine) -> Result<String> {
        let mut command = Command::new(&self.devinfo);
        command.args(["-v", "-d", &here.device]);
        let said = Running::start(&mut command, "devinfo")?.wait(RUN)?;
        let is_name = |line: &str| {
            let line = line.to_ascii_lowercase();
            line.contains("guid") || line.contains("gid[")
        };
        Ok(said.lines().filter(|line| !is_name(line)).flat_map(|line| [line, "\n"]).collect())
    }

    pub fn conformance(&self, here: &Machine, only: Option<&str>) -> Result<Suite> {
        let mut command = Command::new(&self.conformance);
        command.args(only);
        command.env("PROVERBS_DEVICE", &here.device);
        command.env("PROVERBS_GID_INDEX", here.gid_index.to_string());
        let mut running = Running::start(&mut command, "conformance")?;
        let ended = running.end(SUITE)?;
        let said = running.said();
        ensure!(ended.is_some(), "conformance does not end; it said: {}", sh::tail(&said, 20));
        Suite::of(&said)
    }

    /// Starts the server's end of a measurement, and waits until it listens.
    pub fn serve(
        &self,
        here: &Machine,
        case: &Case,
        whose: Whose,
        iterations: u32,
    ) -> Result<Server> {
        let mut command = self.command(here, case, whose, iterations);
        let mut running = Running::start(&mut command, "server")?;
        let start = Instant::now();
        while !is_listening(here.port) {
            if running.child.try_wait()?.is_some() {
                bail!("{}", running.said().trim());
            }
            ensure!(start.elapsed() < SHORT, "nobody listens; it said: {}", running.said().trim());
            thread::sleep(Duration::from_millis(20));
        }
        Ok(Server(running))
    }

    /// Runs the client's end.
    pub fn measure(
        &self,
        here: &Machine,
        peer: &str,
        case: &Case,
        whose: Whose,
        iterations: u32,
    ) -> Result<Figures> {
        let mut command = self.command(here, case, whose, iterations);
        command.arg(peer);
        let said = Running::start(&mut command, "client")?.wait(RUN)?;
        case.figures(whose, &said)
    }

    fn command(&self, here: &Machine, case: &Case, whose: Whose, iterations: u32) -> Command {
        let (program, options) = case.words(whose, iterations);
        let mut command = match whose {
            Whose::Perftest => Command::new(program),
            Whose::Ours => Command::new(&self.perf),
        };
        let (gid_index, port) = (here.gid_index.to_string(), here.port.to_string());
        command.args(["-d", &here.device, "-x", &gid_index, "-p", &port]).args(options);
        command
    }
}

impl Suite {
    /// From what libtest prints.
    fn of(said: &str) -> Result<Suite> {
        let failed: Vec<String> = said
            .lines()
            .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
            .map(str::to_owned)
            .collect();
        let result = said.lines().find_map(|line| line.strip_prefix("test result: "));
        let passed = result.and_then(|line| line.split_once(" passed")?.0.rsplit(' ').next());
        // A suite that dies has no result, and what it said last tells why.
        let died = || format!("conformance died: {}", sh::tail(said, 20));
        let passed = passed.and_then(|count| count.parse().ok()).with_context(died)?;
        let end = if failed.is_empty() { String::new() } else { sh::tail(said, 40) };
        Ok(Suite { passed, failed, said: end })
    }
}

/// The server's end of a measurement.
pub struct Server(Running);

impl Server {
    /// Its client has ended.
    pub fn finish(self) -> Result<()> {
        self.0.wait(SHORT).map(drop)
    }
}

/// A program at work, which is killed if nobody waits for it.
struct Running {
    child: Child,
    /// What it prints goes to a file, which never is full.
    output: PathBuf,
    program: String,
}

impl Running {
    fn start(command: &mut Command, name: &str) -> Result<Running> {
        let output = paths::directory(env::temp_dir().join("proverbs-hardware"))?;
        let output = output.join(format!("{name}.{}", std::process::id()));
        let file = File::create(&output).context("cannot write what it prints")?;
        let program = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("cannot run {program}"))?;
        Ok(Running { child, output, program })
    }

    /// Waits until it has ended; `None` if it does not end in time.
    fn end(&mut self, most: Duration) -> Result<Option<bool>> {
        let start = Instant::now();
        while start.elapsed() < most {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status.success()));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(None)
    }

    /// Waits until it has ended well, and gives what it said.
    fn wait(mut self, most: Duration) -> Result<String> {
        let ended = self.end(most)?;
        let said = self.said();
        match ended {
            Some(true) => Ok(said),
            Some(false) => bail!("{} failed: {}", self.program, said.trim()),
            None => bail!("{} did not end in {} s", self.program, most.as_secs()),
        }
    }

    fn said(&self) -> String {
        fs::read(&self.output).map_or_else(
            |error| format!("({error})"),
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Where it has ended, nothing is killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.output);
    }
}

/// Whether somebody on this machine listens on the TCP port: perftest does not say when it does.
fn is_listening(port: u16) -> bool {
    let listens = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let here = words.next().and_then(|address| address.rsplit_once(':'));
        here.is_some_and(|(_, of)| of == format!("{port:04X}")) && words.nth(1) == Some("0A")
    };
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .any(|file| fs::read_to_string(file).is_ok_and(|text| text.lines().any(listens)))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_suite_tells_what_failed() {
        let said = "test a::b ... ok\ntest c ... FAILED\nfailures: c\n\
                    test result: FAILED. 207 passed; 1 failed; 0 ignored\n";
        let suite = Suite::of(said).expect("a result");
        assert_eq!((suite.passed, &suite.failed[..]), (207, &["c".to_owned()][..]));
        assert!(suite.said.contains("failures: c"));
        let suite = Suite::of("test result: ok. 3 passed; 0 failed; 0 ignored\n").expect("ok");
        assert_eq!((suite.passed, suite.failed.len(), &suite.said[..]), (3, 0, ""));
        let died = Suite::of("test a ... thread panicked\n").expect_err("no result");
        assert!(died.to_string().contains("thread panicked"), "{died}");
    }

    #[test]
    fn who_listens_is_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        assert!(is_listening(port));
        drop(listener);
        assert!(!is_listening(port));
    }
}
