//! What `ibv_devinfo -v` tells of the devices here, and what this crate can do on each.
//!
//! ```text
//! devinfo                 every device, or the loopback device if there is none
//! devinfo -d mlx5_0       one
//! ```

#![forbid(unsafe_code)]

mod abilities;
mod attributes;

use std::error::Error;
use std::process::ExitCode;

use bpaf::Bpaf;
use proverbs::device::fork_status;
use proverbs::loopback::Fabric;
use proverbs::{Context, devices};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// RDMA devices, and what can be done on them
#[derive(Bpaf)]
#[bpaf(options)]
struct Options {
    /// One device only; "loopback" is the one inside this program
    #[bpaf(short('d'), long("ib-dev"), env("PROVERBS_DEVICE"), argument("DEVICE"))]
    device: Option<String>,
    /// The names alone
    #[bpaf(short, long)]
    list: bool,
    /// As ibv_devinfo has it; all is always told here
    #[bpaf(short('v'), long("verbose"))]
    _verbose: bool,
}

fn main() -> ExitCode {
    match run(&options().run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("devinfo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let names = match &options.device {
        Some(name) => vec![name.clone()],
        None => devices()?,
    };
    if options.list {
        let count = names.len();
        println!("{count} RDMA device{} found:", if count == 1 { "" } else { "s" });
        names.iter().for_each(|name| println!("    {name}"));
        return Ok(());
    }
    println!("memory after a fork: {:?} (R17.4)", fork_status());
    if names.is_empty() {
        println!("no RDMA device on this machine; the loopback device:");
        return show(&Fabric::new().open_device());
    }
    for name in names {
        let context = match &*name {
            "loopback" => Fabric::new().open_device(),
            name => Context::open(name)?,
        };
        show(&context)?;
    }
    Ok(())
}

fn show(context: &Context) -> Result<()> {
    println!("hca_id:\t{}", context.name());
    let attr = attributes::device(context)?;
    for port in 1..=attr.device.phys_port_cnt {
        attributes::port(context, port)?;
    }
    abilities::show(context, &attr.device)?;
    println!();
    Ok(())
}
