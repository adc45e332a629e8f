//! Entries of GID tables with their type: `ibv_query_gid_ex` and `ibv_query_gid_table`.
//!
//! libibverbs has had both since rdma-core 32, as functions that C's inlines call. They are looked
//! up on first use. Without them, the kernel's files in `/sys` have the same data.

use std::ffi::{CStr, c_int};
use std::fs;
use std::mem::size_of;
use std::path::PathBuf;

use super::control::{Answer, done};
use super::symbols::symbols;
use super::types::*;
use crate::terms::gid::Gid;

/// C's struct. The functions receive its size.
#[repr(C)]
#[allow(non_camel_case_types)] // C's name
#[derive(Clone, Copy)]
pub struct ibv_gid_entry {
    pub gid: ibv_gid,
    pub gid_index: u32,
    pub port_num: u32,
    pub gid_type: u32,
    pub ndev_ifindex: u32,
}

impl From<ibv_gid> for Gid {
    fn from(gid: ibv_gid) -> Gid {
        // SAFETY: both fields of the union are integers, and every bit pattern is a GID.
        Gid(unsafe { gid.raw })
    }
}

/// `gid_type`.
pub const IB: u32 = 0;
pub const ROCE_V1: u32 = 1;
pub const ROCE_V2: u32 = 2;

type QueryEx =
    unsafe extern "C" fn(*mut ibv_context, u32, u32, *mut ibv_gid_entry, u32, usize) -> c_int;
type QueryTable =
    unsafe extern "C" fn(*mut ibv_context, *mut ibv_gid_entry, usize, u32, usize) -> isize;

symbols! {
    // SAFETY: the functions have had these types since rdma-core 32 (IBVERBS_1.11).
    unsafe struct Symbols of VERBS {
        query_ex: QueryEx = c"_ibv_query_gid_ex",
        query_table: QueryTable = c"_ibv_query_gid_table",
    }
}

/// An entry of a port's table: ENODATA if it is empty.
///
/// # Safety
/// `context` is live and belongs to libibverbs.
pub(crate) unsafe fn query_gid_ex(
    context: *mut ibv_context,
    port: u8,
    index: u32,
) -> Answer<ibv_gid_entry> {
    let Some(query) = symbols().query_ex else {
        // SAFETY: the context is live (the verb's contract).
        return unsafe { Files::of(context) }.entry(port, index);
    };
    let mut entry = zeroed();
    let size = size_of::<ibv_gid_entry>();
    // SAFETY: the context is live (the verb's contract), and the entry is a local of this size.
    let code = unsafe { query(context, port.into(), index, &mut entry, 0, size) };
    // Some versions of the library return -1 and set errno; others return the errno.
    done(code).map(|()| entry)
}

/// The filled entries of all ports, at most `most`.
///
/// # Safety
/// `context` is live and belongs to libibverbs.
pub(crate) unsafe fn query_gid_table(
    context: *mut ibv_context,
    ports: &[(u8, u32)],
) -> Answer<Vec<ibv_gid_entry>> {
    let most: usize = ports.iter().map(|(_, len)| *len as usize).sum();
    let mut entries = vec![zeroed(); most];
    if let Some(query) = symbols().query_table {
        // SAFETY: the context is live (the verb's contract), and there is room for `most` entries
        // of this size.
        let found =
            unsafe { query(context, entries.as_mut_ptr(), most, 0, size_of::<ibv_gid_entry>()) };
        let Ok(found) = usize::try_from(found) else { return Err((-found) as c_int) };
        entries.truncate(found);
        return Ok(entries);
    }
    // SAFETY: the context is live (the verb's contract).
    unsafe { Files::of(context) }.table(ports)
}

/// The files of a device, such as `/sys/class/infiniband/mlx5_0`.
struct Files(PathBuf);

impl Files {
    /// # Safety
    /// `context` is live and belongs to libibverbs.
    unsafe fn of(context: *mut ibv_context) -> Files {
        // SAFETY: the device lives as long as its context, and the path is a C string inside it.
        let path = unsafe { CStr::from_ptr((&raw const (*(*context).device).ibdev_path).cast()) };
        Files(PathBuf::from(path.to_string_lossy().into_owned()))
    }

    /// The filled entries of these ports, given as port and table length.
    fn table(&self, ports: &[(u8, u32)]) -> Answer<Vec<ibv_gid_entry>> {
        let all = ports.iter().flat_map(|&(port, len)| (0..len).map(move |index| (port, index)));
        let entries = all.map(|(port, index)| self.entry(port, index));
        entries.filter(|entry| !matches!(entry, Err(libc::ENODATA))).collect()
    }

    fn entry(&self, port: u8, index: u32) -> Answer<ibv_gid_entry> {
        let port_dir = self.0.join(format!("ports/{port}"));
        let read = |path: String| fs::read_to_string(port_dir.join(path));
        let gid: std::net::Ipv6Addr = match read(format!("gids/{index}")) {
            Ok(text) => text.trim().parse().map_err(|_| libc::EIO)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(libc::EINVAL),
            Err(error) => return Err(error.raw_os_error().unwrap_or(libc::EIO)),
        };
        if gid.is_unspecified() {
            return Err(libc::ENODATA);
        }
        // The kernel has one name for the first two types; the link layer distinguishes them.
        let gid_type = match read(format!("gid_attrs/types/{index}")).as_deref().map(str::trim) {
            Ok("RoCE v2") => ROCE_V2,
            _ if read("link_layer".into()).is_ok_and(|layer| layer.trim() == "Ethernet") => ROCE_V1,
            _ => IB,
        };
        let device = read(format!("gid_attrs/ndevs/{index}")).unwrap_or_default();
        let name = std::ffi::CString::new(device.trim()).unwrap_or_default();
        // SAFETY: the name is a C string.
        let ndev_ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) };
        let gid = ibv_gid { raw: gid.octets() };
        Ok(ibv_gid_entry { gid, gid_index: index, port_num: port.into(), gid_type, ndev_ifindex })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{ANSWER, answered, context, seen};

    #[test]
    #[cfg_attr(miri, ignore = "makes files")]
    fn the_kernels_files_have_the_same_data() {
        let root = std::env::temp_dir().join(format!("proverbs-gids-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join("ports/1").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("link_layer", "Ethernet\n");
        write("gids/0", "fe80:0000:0000:0000:0000:00ff:fe00:0001\n");
        write("gid_attrs/types/0", "IB/RoCE v1\n");
        write("gid_attrs/ndevs/0", "lo\n");
        write("gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0001\n");
        write("gid_attrs/types/1", "RoCE v2\n");
        write("gids/2", "0000:0000:0000:0000:0000:0000:0000:0000\n");
        let files = Files(root.clone());
        let told = |index| {
            files.entry(1, index).map(|entry| {
                let gid = std::net::Ipv6Addr::from(Gid::from(entry.gid).0).to_string();
                (gid, entry.gid_index, entry.port_num, entry.gid_type, entry.ndev_ifindex)
            })
        };
        // SAFETY: the name is a C string.
        let lo = unsafe { libc::if_nametoindex(c"lo".as_ptr()) };
        assert_eq!(told(0), Ok(("fe80::ff:fe00:1".into(), 0, 1, ROCE_V1, lo)));
        assert_eq!(told(1), Ok(("::ffff:10.0.0.1".into(), 1, 1, ROCE_V2, 0)));
        assert_eq!((told(2), told(3)), (Err(libc::ENODATA), Err(libc::EINVAL)));
        let table = |ports: &[(u8, u32)]| {
            let entries = files.table(ports)?;
            Ok(entries.iter().map(|entry| entry.gid_index).collect::<Vec<_>>())
        };
        assert_eq!((table(&[(1, 3)]), table(&[(1, 1)])), (Ok(vec![0, 1]), Ok(vec![0])));
        assert_eq!((table(&[]), table(&[(1, 4)])), (Ok(vec![]), Err(libc::EINVAL)));
        // (A directory cannot be read as a file.)
        fs::create_dir(root.join("ports/1/gids/4")).unwrap();
        write("gids/5", "no GID\n");
        assert_eq!((told(4), told(5)), (Err(libc::EISDIR), Err(libc::EIO)));
        write("link_layer", "InfiniBand\n");
        assert_eq!(told(0).unwrap().3, IB);
        fs::remove_dir_all(root).unwrap();
    }

    fn told(port: u32, index: u32) -> ibv_gid_entry {
        let gid = ibv_gid { raw: [7; 16] };
        ibv_gid_entry { gid, gid_index: index, port_num: port, gid_type: ROCE_V2, ndev_ifindex: 3 }
    }

    unsafe extern "C" fn ex(
        _: *mut ibv_context,
        port: u32,
        index: u32,
        entry: *mut ibv_gid_entry,
        flags: u32,
        size: usize,
    ) -> c_int {
        // SAFETY: the caller passes a writable entry.
        unsafe { entry.write(told(port, index)) };
        answered(format!("port {port}, index {index}, {flags}, {size}"))
    }

    unsafe extern "C" fn table(
        _: *mut ibv_context,
        entries: *mut ibv_gid_entry,
        most: usize,
        flags: u32,
        size: usize,
    ) -> isize {
        // SAFETY: there is room for the number of entries that the caller gives, more than one.
        unsafe { entries.write(told(1, 5)) };
        answered(format!("most {most}, {flags}, {size}")) as isize
    }

    /// The library reports an errno by -1 or directly, and the number of entries of a table.
    #[test]
    fn the_librarys_results_are_returned() {
        REPLACED.set(Some(Symbols { query_ex: Some(ex), query_table: Some(table) }));
        let context = context::<1>(0, &[]);
        let ask = |answer| {
            ANSWER.set(answer);
            // SAFETY: the stub does not use the context.
            let entry = unsafe { query_gid_ex(context, 2, 9) };
            entry.map(|entry| (entry.port_num, entry.gid_index, entry.ndev_ifindex))
        };
        let expected = [Ok((2, 9, 3)), Err(libc::ENODATA), Err(libc::EPERM)];
        assert_eq!([0, libc::ENODATA, -1].map(ask), expected);
        assert_eq!(seen(), ["port 2, index 9, 0, 32"; 3]);

        let ask = |answer| {
            ANSWER.set(answer);
            // SAFETY: the stub does not use the context.
            let found = unsafe { query_gid_table(context, &[(1, 3), (2, 4)]) };
            found.map(|found| found.iter().map(|entry| entry.gid_index).collect::<Vec<_>>())
        };
        assert_eq!((ask(1), ask(0)), (Ok(vec![5]), Ok(vec![])));
        assert_eq!(ask(-libc::EIO), Err(libc::EIO));
        assert_eq!(seen(), ["most 7, 0, 32"; 3]);
    }

    /// If the library lacks the functions, the GIDs are read from the device's files in sysfs.
    #[test]
    #[cfg_attr(miri, ignore = "makes files")]
    fn an_older_library_falls_back_to_files() {
        let root = std::env::temp_dir().join(format!("proverbs-gid-{}", std::process::id()));
        fs::create_dir_all(root.join("ports/1/gids")).unwrap();
        fs::write(root.join("ports/1/gids/0"), "fe80::1\n").unwrap();
        REPLACED.set(Some(Symbols::default()));
        let context = context::<1>(0, &[]);
        // SAFETY: the context and its device belong to this test.
        let path = unsafe { &mut (*(*context).device).ibdev_path };
        for (to, from) in path.iter_mut().zip(root.to_str().unwrap().bytes()) {
            *to = from as _;
        }
        // SAFETY: the context has a device.
        let answers = [0, 7].map(|index| unsafe { query_gid_ex(context, 1, index) });
        assert_eq!(answers.map(|it| it.map(|it| it.port_num)), [Ok(1), Err(libc::EINVAL)]);
        // SAFETY: the context has a device.
        assert_eq!(unsafe { query_gid_table(context, &[(1, 1)]) }.unwrap().len(), 1);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "uses the dynamic linker")]
    fn the_installed_library_has_both_functions() {
        let symbols = symbols();
        assert!(symbols.query_ex.is_some() && symbols.query_table.is_some());
    }
}
