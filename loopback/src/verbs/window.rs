//! Memory windows: their keys, and their binding.

use crate::objects::memory::{
    LOCAL_WRITE, MW_BIND, REMOTE, REMOTE_ATOMIC, REMOTE_TAG, REMOTE_WRITE, number_of,
};
use crate::objects::window::{Opened, Place, Window};
use crate::state::State;
use crate::words::Verb;
use crate::words::contract::broken;
use crate::words::wr::Bind;
use proverbs_sys::memory::ZERO_BASED;

impl State {
    /// Returns the number of the window and its first key, which gives access to nothing.
    pub(crate) fn alloc_mw(&mut self, pd: u32, is_type_2: bool) -> Verb<(u32, u32)> {
        self.check_alive_pd(pd)?;
        let number = match self.free_windows.pop() {
            Some(number) => number,
            None => self.number()?,
        };
        let window = Window { pd, is_type_2, tag: 0, opened: None, is_object: true };
        self.windows.insert(number, window);
        Ok((number, number << 8))
    }

    pub(crate) fn dealloc_mw(&mut self, window: u32) -> Verb {
        self.destroy_fault(None)?;
        self.members.remove(&window);
        self.windows.remove(&window).ok_or(libc::EINVAL)?;
        if self.habits.reuses_keys() {
            self.free_windows.push(window);
        }
        Ok(())
    }

    /// Whether a window is bound to the region (R6.11).
    pub(crate) fn has_windows(&self, mr: u32) -> bool {
        self.windows.values().any(|window| window.opened.is_some_and(|opened| opened.mr == mr))
    }

    /// Whether a window is bound through the queue pair.
    pub(crate) fn has_windows_of(&self, qp: u32) -> bool {
        self.windows.values().any(|window| window.opened.is_some_and(|o| o.qp == Some(qp)))
    }

    /// The window that has this key.
    fn by_key(&self, rkey: u32) -> Option<(&Window, &Opened)> {
        let window = self.windows.get(&(rkey >> 8)).filter(|window| window.tag == rkey as u8)?;
        Some((window, window.opened.as_ref()?))
    }

    /// Looks up a window key for a queue pair. `None` if the key does not belong to a window; `Err`
    /// if the window does not cover the range or belongs to another queue pair.
    pub(crate) fn through_window(
        &self,
        rkey: u32,
        qp: u32,
        addr: u64,
        length: usize,
    ) -> Option<Result<Place, ()>> {
        self.windows.get(&(rkey >> 8))?;
        let place = || {
            let (_, opened) = self.by_key(rkey)?;
            let offset = addr.checked_sub(opened.first)?;
            let is_inside = offset.checked_add(length as u64)? <= opened.length;
            let is_through = opened.qp.is_none_or(|through| through == qp);
            (is_inside && is_through).then(|| Place {
                mr: opened.mr,
                addr: opened.addr + offset,
                rights: opened.rights,
            })
        };
        Some(place().ok_or(()))
    }

    /// Executes a bind. Returns whether it succeeded (R1.7).
    pub(crate) fn bind(&mut self, qp: u32, bind: &Bind) -> bool {
        let Some(opened) = self.check_bind(qp, bind) else { return false };
        let Some(window) = self.windows.get_mut(&bind.window) else { return false };
        (window.opened, window.tag) = (opened, bind.rkey as u8);
        true
    }

    /// The range that the window opens after the bind; `None` if the bind is refused.
    fn check_bind(&self, qp: u32, bind: &Bind) -> Option<Option<Opened>> {
        let window = self.windows.get(&bind.window)?;
        if window.is_type_2 && bind.known as u8 != window.tag {
            broken(
                "the program did not store the key of the last bind in the window \
                (ibv_post_send(3))",
            );
        }
        let has_new_key = bind.rkey >> 8 == bind.window && bind.rkey as u8 != window.tag;
        if !has_new_key || self.qps.get(&qp)?.pd != window.pd {
            return None;
        }
        let is_zero_based = bind.rights & ZERO_BASED != 0;
        let is_refused = if window.is_type_2 { window.opened.is_some() } else { is_zero_based };
        if is_refused || bind.rights & !(REMOTE | ZERO_BASED) != 0 {
            return None;
        }
        if !window.is_type_2 && bind.length == 0 {
            return Some(None);
        }
        let mr = bind.mr?;
        let region = self.mrs.get(&mr)?;
        let writes = bind.rights & (REMOTE_WRITE | REMOTE_ATOMIC) != 0;
        let offset = bind.addr.checked_sub(region.iova)?;
        let is_legal = region.pd == window.pd
            && region.access & MW_BIND != 0
            && (!writes || region.access & LOCAL_WRITE != 0)
            && bind.length != 0
            && offset.checked_add(bind.length)? <= region.length as u64;
        is_legal.then_some(Some(Opened {
            mr,
            addr: bind.addr,
            length: bind.length,
            first: if is_zero_based { 0 } else { bind.addr },
            rights: bind.rights & REMOTE,
            qp: window.is_type_2.then_some(qp),
        }))
    }

    /// Whether a key belonged to a window and was invalidated. Invalidating it again crashes the
    /// kernel of Soft-RoCE, which checks the window's state only if the window was never bound.
    pub(crate) fn has_ended(&self, rkey: u32) -> bool {
        let window = self.windows.get(&(rkey >> 8));
        window.is_some_and(|window| window.tag == rkey as u8 && window.tag != 0)
            && self.by_key(rkey).is_none()
    }

    /// Invalidates a key for a queue pair. It must belong to a type 2 window of its domain that was
    /// bound through it. Returns whether it did (R1.6).
    pub(crate) fn invalidate(&mut self, qp: u32, rkey: u32) -> bool {
        let pd = self.qps.get(&qp).map(|qp| qp.pd);
        let is_its = self.by_key(rkey).is_some_and(|(window, opened)| {
            window.is_type_2
                && Some(window.pd) == pd
                && opened.qp.is_none_or(|through| through == qp)
        });
        is_its && self.close_window(rkey)
    }

    /// Binds a window to a range of the region with this `rkey`, and returns the window's key.
    pub(crate) fn open_window(&mut self, rkey: u32, addr: u64, length: u64) -> Verb<u32> {
        let mr = number_of(rkey, REMOTE_TAG).ok_or(libc::EINVAL)?;
        let region = self.mrs.get(&mr).ok_or(libc::EINVAL)?;
        let offset = addr.checked_sub(region.iova).ok_or(libc::EINVAL)?;
        if offset.checked_add(length).is_none_or(|end| end > region.length as u64) {
            return Err(libc::EINVAL);
        }
        let (pd, rights) = (region.pd, region.access & REMOTE);
        let opened = Some(Opened { mr, addr, length, first: addr, rights, qp: None });
        let number = self.number()?;
        let window = Window { pd, is_type_2: true, tag: 1, opened, is_object: false };
        self.windows.insert(number, window);
        Ok(number << 8 | 1)
    }

    /// Invalidates the key of a window. Returns whether it was open.
    pub(crate) fn close_window(&mut self, rkey: u32) -> bool {
        if self.by_key(rkey).is_none() {
            return false;
        }
        let number = rkey >> 8;
        match self.windows.get_mut(&number) {
            Some(window) if window.is_object => window.opened = None,
            _ => drop(self.windows.remove(&number)),
        }
        true
    }
}
