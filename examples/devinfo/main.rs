//! Prints the output of `ibv_devinfo -v` for the devices, and the features of this crate on each.
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
use proverbs::device::{Device, fork_status};
use proverbs::loopback::Fabric;
use proverbs::{Context, devices};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// RDMA devices and their features
#[derive(Bpaf)]
#[bpaf(options)]
struct Options {
    /// Only this device; "loopback" is the one inside this program
    #[bpaf(short('d'), long("ib-dev"), env("PROVERBS_DEVICE"), argument("DEVICE"))]
    device: Option<String>,
    /// Print only the names
    #[bpaf(short, long)]
    list: bool,
    /// For compatibility with ibv_devinfo; the output is always verbose
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
        None => devices()?.into_iter().map(|device| device.name).collect(),
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

/// Prints the location of a device, by which programs select it.
fn place(device: &Device) {
    println!("\tpci_address:\t{}", device.pci_address.as_deref().unwrap_or("none"));
    println!("\tnuma_node:\t{}", device.numa_node.map_or("none".into(), |node| node.to_string()));
    for port in &device.ports {
        let addresses: Vec<_> = port.addresses.iter().map(ToString::to_string).collect();
        println!("\tinterfaces of port {}:\t{}", port.number, port.interfaces.join(" "));
        println!("\taddresses of port {}:\t{}", port.number, addresses.join(" "));
        println!("\tMbit/s of port {}:\t{}", port.number, port.speed.unwrap_or_default());
    }
}

fn show(context: &Context) -> Result<()> {
    println!("hca_id:\t{}", context.name());
    devices().unwrap_or_default().iter().filter(|it| it.name == context.name()).for_each(place);
    let attr = attributes::device(context)?;
    for port in 1..=attr.device.phys_port_cnt {
        attributes::port(context, port)?;
    }
    abilities::show(context, &attr.device)?;
    println!();
    Ok(())
}
