//! Turns a step into a work request that this transport may post.

use proverbs::prelude::*;

use crate::books::*;
use crate::program::*;
use crate::wire::*;
use crate::world::{INLINE, REGION, World};

/// UC writes whole pieces of this many bytes, so that they can be identified.
pub const PIECE: usize = 64;

impl<T: Wire<P>, P: Kind> World<T, P> {
    /// The work of a step, as far as this transport and the remaining buffers allow.
    pub fn describe(&mut self, slot: usize, work: Work) -> Check<Option<(Described, Wr)>> {
        let Work { mut what, mut data, flag, .. } = work;
        if T::DATAGRAM {
            what = if what == What::Send { What::Send } else { What::SendImm };
        } else if !T::RELIABLE {
            what = match what {
                What::Read | What::Swap | What::Add => What::Write,
                other => other,
            };
        }
        if !self.config.bufferless && matches!(data, Carrier::Inline | Carrier::Empty) {
            data = Carrier::Buf;
        }
        let fetches = matches!(what, What::Read | What::Swap | What::Add);
        let atomic = matches!(what, What::Swap | What::Add);
        let writes = matches!(what, What::Write | What::WriteImm);
        match data {
            Carrier::Inline | Carrier::Shared | Carrier::Open if fetches => data = Carrier::Buf,
            Carrier::Open if !T::RELIABLE && writes => data = Carrier::Buf,
            Carrier::Empty | Carrier::Pair if atomic => data = Carrier::Buf,
            _ => {}
        }
        let number = self.next;
        let mut len = usize::from(work.len);
        let piece = if data == Carrier::Open { self.places.free_piece() } else { None };
        if data == Carrier::Open && piece.is_none() {
            data = Carrier::Buf;
        }
        if data == Carrier::Pair && self.config.short {
            // More than one buffer holds.
            len *= 2;
        }
        if let Some((_, i)) = piece {
            len = SHORTEST + i;
        } else if atomic {
            len = 8;
        } else if data == Carrier::Empty {
            len = 0;
        } else if data == Carrier::Inline {
            len = INLINE;
        } else if !T::RELIABLE && writes {
            len = PIECE;
        } else if data == Carrier::Pair || data == Carrier::Shared || !T::RELIABLE {
            // Long enough to distinguish messages.
            len = len.max(8);
        }
        if !T::RELIABLE && writes && len != PIECE {
            (what, len) =
                if data == Carrier::Inline { (What::SendImm, INLINE) } else { (What::SendImm, 0) };
        }
        // Short messages look alike, so not if an earlier one may arrive instead.
        let stream = self.streams.get(&self.qps[slot].peer);
        let doubts =
            stream.is_some_and(|s| s.0.iter().any(|m| m.doubtful || m.failed || m.drained));
        if what == What::Send && (!T::RELIABLE && len == 0 || doubts && len < 8) {
            what = What::SendImm;
        }
        let writes = matches!(what, What::Write | What::WriteImm);
        let mut at = if atomic { 8 * usize::from(work.at % 8) } else { usize::from(work.at) * 6 };
        if !T::RELIABLE && writes {
            at = usize::from(work.at) % (REGION / PIECE) * PIECE;
        }
        let at = at.min(REGION - len);
        let bytes = content(number, len);
        let mut buffers = Vec::new();
        let payload = match data {
            Carrier::Empty => Payload::Empty,
            Carrier::Inline => Payload::Inline,
            Carrier::Open => {
                let (number, i) = piece.expect("a piece was found");
                buffers.push(number);
                self.places.go(number, Place::Home, Place::Program)?;
                self.open.write_at(i * PIECE, &bytes).expect("inside");
                Payload::Open(self.open.piece(i * PIECE, len).expect("inside"))
            }
            Carrier::Buf | Carrier::Shared => {
                let Some(mut buf) = self.take_buffer()? else { return Ok(None) };
                buffers.push(*buf.context());
                if fetches {
                    // The earlier length does not matter: the READ gives its length.
                    buf.set_len(usize::from(work.at));
                } else {
                    buf.copy_from(&bytes).unwrap();
                }
                if data == Carrier::Shared {
                    Payload::Shared(buf.freeze())
                } else {
                    Payload::Buf(buf)
                }
            }
            Carrier::Pair => {
                let Some(mut a) = self.take_buffer()? else { return Ok(None) };
                let Some(mut b) = self.take_buffer()? else {
                    self.held.push(a);
                    return Ok(None);
                };
                buffers.extend([*a.context(), *b.context()]);
                if fetches {
                    a.set_len(usize::from(work.at));
                    b.set_len(usize::from(work.at) / 2);
                } else {
                    let cut = len / 3;
                    a.copy_from(&bytes[..cut]).unwrap();
                    b.copy_from(&bytes[cut..]).unwrap();
                }
                Payload::Pair([a, b])
            }
        };
        let peer = if T::DATAGRAM {
            self.qps[usize::from(work.at) % self.qps.len()].qpn
        } else {
            self.qps[slot].peer
        };
        let to = self.qps[slot].way.map(|address_handle| wr::Destination {
            address_handle,
            qpn: Qpn::new(peer).expect("24 bits"),
            qkey: Qkey::new(crate::support::QKEY).expect("no privileged key"),
        });
        self.next += 1;
        let operands = (number, number.wrapping_mul(3));
        let region = slot ^ 1;
        // Exactly the bytes that the work request transfers.
        let remote = self.regions[region].0.remote().slice(at as u64, len as u64).expect("inside");
        let imm = number as u32;
        let wr = Wr {
            number,
            buffers,
            signaled: !P::SELECTIVE || flag && can_mark(what, &payload),
            what,
            len,
            at,
            region,
            operands,
            to: peer,
            is_shared: data == Carrier::Shared,
            unsure: false,
        };
        let described = Described { number, what, data: payload, imm, remote, operands, flag, to };
        Ok(Some((described, wr)))
    }
}

/// Whether `.signaled()` is written for it (see `wire`).
fn can_mark(what: What, data: &Payload) -> bool {
    matches!(what, What::Send | What::Write) && !matches!(data, Payload::Inline)
}
