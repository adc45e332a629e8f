// Proves R16.10, R16.11: the blocking completion calls need separate completion queues.
// Enforced by `Ep`, which owns its completion queues; `Connection` does not.
use proverbs::cm::*;

fn shared(connection: &mut Connection) {
    let _ = connection.get_send_comp();
}

fn main() {}
